// SPDX-License-Identifier: Apache-2.0
// These tests cover the options of `rondo perf`, and the meaning of a size for each collective.
#include <initializer_list>

#include "bench/perf/cases.h"
#include "bench/perf/options.h"
#include "src/base/spelling.h"
#include "tests/catch.h"

using namespace rondo::perf;

namespace {

std::variant<Options, Failure> parse(std::initializer_list<const char *> args) {
  return parse_options(std::span<const char *const>(args.begin(), args.size()));
}

Options accept(std::initializer_list<const char *> args) {
  auto parsed = parse(args);
  if (const auto *failure = std::get_if<Failure>(&parsed)) FAIL(failure->message);
  return std::get<Options>(parsed);
}

std::string refuse(std::initializer_list<const char *> args) {
  const auto parsed = parse(args);
  REQUIRE(std::holds_alternative<Failure>(parsed));
  CHECK(std::get<Failure>(parsed).exit == Exit::usage);
  return std::get<Failure>(parsed).message;
}

}  // namespace

TEST_CASE("perf options: the issue's command line is understood") {
  const Options options = accept({"all_gather", "-b", "8", "-e", "256M", "-f", "4", "-d", "float32", "-o", "sum", "-n",
                                  "20", "-w", "5", "-c", "1", "--json", "out.json"});
  CHECK(options.collective == RONDO_ALL_GATHER);
  CHECK(options.max_bytes == size_t{256} << 20);
  CHECK(options.iteration_count == 20u);
  CHECK(options.warmup_count == 5u);
  CHECK(options.check_count == 1);
  CHECK(options.json_path == "out.json");
  CHECK(options.ranks == 0);
  CHECK(sizes_of(options).size() == 14);
}

TEST_CASE("perf options: without any, numbers of runs are left open and inputs are rewritten") {
  const Options options = accept({"reduce"});
  CHECK_FALSE(options.iteration_count.has_value());
  CHECK_FALSE(options.warmup_count.has_value());
  CHECK(options.rewrite);
  CHECK(options.types == std::vector{RONDO_FLOAT32});
  CHECK(sizes_of(options).front() == 8);
  CHECK(sizes_of(options).back() == size_t{256} << 20);
}

TEST_CASE("perf options: nccl-tests' names of types, and all") {
  CHECK(accept({"all_reduce", "-d", "half"}).types == std::vector{RONDO_FLOAT16});
  CHECK(accept({"all_reduce", "-d", "double"}).types == std::vector{RONDO_FLOAT64});
  CHECK(accept({"all_reduce", "-d", "float"}).types == std::vector{RONDO_FLOAT32});
  CHECK(accept({"all_reduce", "-d", "bfloat16"}).types == std::vector{RONDO_BFLOAT16});
  CHECK(accept({"all_reduce", "-d", "all"}).types.size() == 12);
  CHECK(accept({"all_reduce", "-o", "all"}).ops.size() == 5);
  CHECK(accept({"broadcast", "-o", "all"}).ops.size() == 1);
  CHECK(accept({"sendrecv", "-o", "all"}).ops.size() == 1);
  CHECK_FALSE(accept({"sendrecv"}).in_place);
  CHECK(accept({"HyperCube", "-o", "all"}).ops.size() == 1);
  CHECK(accept({"hypercube", "-t", "4"}).in_place);
}

TEST_CASE("perf options: names are read whatever their case") {
  const Options options = accept({"All_Reduce", "-d", "Float64", "-o", "MAX", "--algorithm", "Ring", "--protocol", "LL",
                                  "--buffers", "Alloc", "--device", "HOST"});
  CHECK(options.types == std::vector{RONDO_FLOAT64});
  CHECK(options.ops == std::vector{RONDO_MAX});
  CHECK(options.config.algorithm == RONDO_ALGORITHM_RING);
  CHECK(options.config.protocol == RONDO_PROTOCOL_LL);
  CHECK(options.buffers == Buffers::alloc);
}

TEST_CASE("perf options: a collective may be spelt as other libraries do") {
  for (const char *name : {"allreduce", "all-reduce", "AllReduce", "ALL_REDUCE"})
    CHECK(accept({name}).collective == RONDO_ALL_REDUCE);
  CHECK(accept({"bcast"}).collective == RONDO_BROADCAST);
  CHECK(accept({"--json", "reducescatter"}).collective == RONDO_REDUCE_SCATTER);  // not the file
}

TEST_CASE("perf options: sizes by step, by factor, and at their ends") {
  CHECK(sizes_of(accept({"all_reduce", "-b", "1K", "-e", "3K", "-i", "1K"})) == std::vector<size_t>{1024, 2048, 3072});
  CHECK(sizes_of(accept({"all_reduce", "-b", "0", "-e", "4", "-f", "2"})) == std::vector<size_t>{0, 1, 2, 4});
  CHECK(sizes_of(accept({"all_reduce", "-b", "7", "-e", "7"})) == std::vector<size_t>{7});
  CHECK(sizes_of(accept({"all_reduce", "-b", "1G"})) == std::vector<size_t>{size_t{1} << 30});
  CHECK(sizes_of(accept({"all_reduce", "-b", "1", "-e", "17179869183G", "-f", "1024"})).size() == 8);
  for (const char *same : {"64K", "64k", "64KB", "64kb", "64KiB", "65536", "65536B", "0.0625M", "64.0K", "65536.0"})
    CHECK(rondo::read_bytes(same) == 65'536);
  CHECK(rondo::read_bytes("0.5G") == uint64_t{1} << 29);
  CHECK(rondo::read_bytes("1.5MiB") == 1'572'864);
  const auto sizes = sizes_of(accept({"all_reduce", "-b", "64KB", "-e", "0.5M", "-f", "8"}));
  CHECK(sizes == std::vector<size_t>{65'536, 524'288});
  CHECK(rondo::read_bytes("17179869183.999999999G") == std::nullopt);  // no whole number of bytes
  for (const char *bad : {"0.3K", "1.5", "1.", ".5K", "1.2.3K", "1.0000000000K", "64iB", "64Ki", "64BK", "64KK", "B",
                          "iB", "1e3K", "17179869184.5G"})
    CHECK(rondo::read_bytes(bad) == std::nullopt);
  CHECK(rondo::read_bytes("17179869184G") == std::nullopt);
  CHECK(rondo::read_bytes("12Q") == std::nullopt);
  CHECK(rondo::read_bytes("") == std::nullopt);
  CHECK(rondo::read_bytes("-1") == std::nullopt);
  CHECK(rondo::read_bytes("K") == std::nullopt);
}

TEST_CASE("perf options: what is wrong is refused, with what would be right") {
  CHECK_THAT(refuse({"all_red"}), Contains("all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all"));
  CHECK(accept({"alltoall"}).collective == RONDO_ALL_TO_ALL);
  CHECK(accept({"Scatter"}).collective == RONDO_SCATTER);
  for (const char *name : {"all_to_all", "gather", "scatter", "sendrecv", "hypercube"}) {
    CHECK(accept({name, "--device", "cuda"}).on_device);
    CHECK_THAT(refuse({name, "--device", "cuda", "--against", "libnccl.so.2"}), Contains("leave --against out"));
    CHECK_THAT(refuse({name, "--device", "cuda", "--ranks", "2", "--graph", "--one-graph"}),
               Contains("leave --one-graph out"));
  }
  CHECK(accept({"all_gather", "--device", "cuda", "--ranks", "2", "--graph", "--one-graph"}).one_graph);
  CHECK_THAT(refuse({"barrier"}), Contains("unknown collective 'barrier'"));
  CHECK_THAT(refuse({"send"}), Contains("gather, scatter, sendrecv, hypercube"));
  CHECK_THAT(refuse({"hypercube", "--ranks", "6"}), Contains("a power of two"));
  CHECK_THAT(refuse({"hypercube", "--protocol", "ll"}), Contains("no plan; leave out --protocol"));
  CHECK_THAT(refuse({"sendrecv", "--in-place-only"}), Contains("no in-place form"));
  CHECK_THAT(refuse({"sendrecv", "--algorithm", "ring"}), Contains("no plan; leave out --algorithm"));
  for (const char *name : {"all_to_all", "gather", "scatter"}) {
    CHECK_THAT(refuse({name, "--algorithm", "ring"}), Contains("leave out --algorithm ring"));
    CHECK_THAT(refuse({name, "--protocol", "ll"}), Contains("leave out --protocol ll"));
    CHECK_THAT(refuse({name, "--kernel", "load_store"}), Contains("no schedule; leave out --kernel"));
    CHECK_THAT(refuse({name, "--channels", "2"}), Contains("leave out --channels"));
    CHECK_THAT(refuse({name, "--max-ctas", "2"}), Contains("leave out --max-ctas"));
    CHECK_THAT(refuse({name, "--chunk-bytes", "4K"}), Contains("leave out --chunk-bytes"));
    CHECK(accept({name, "--algorithm", "one_shot", "--protocol", "simple"}).config.protocol == RONDO_PROTOCOL_SIMPLE);
  }
  CHECK_THAT(refuse({"all_reduce", "-d", "int7"}), Contains("bfloat16"));
  CHECK_THAT(refuse({"all_reduce", "-o", "mul"}), Contains("sum, prod, min, max, avg, mulsum, all"));
  CHECK_THAT(refuse({"all_reduce", "--algorithm", "star"}), Contains("auto, ring, tree"));
  CHECK_THAT(refuse({"all_reduce", "--protocol", "x"}), Contains("auto, simple, ll"));
  CHECK_THAT(refuse({"all_reduce", "--buffers", "x"}), Contains("private, alloc, registered, moved"));
  CHECK_THAT(refuse({"all_reduce", "--device", "3"}), Contains("known are: host"));
  for (const char *device : {"cuda:", "cuda:-1", "cuda:1,", "cuda1", "cuda,1", "cuda:1:2", "cuda:99999999999"})
    CHECK_THAT(refuse({"all_reduce", "--device", device}), Contains("cuda:ORDINAL"));
  CHECK_THAT(refuse({"all_reduce", "--graph"}), Contains("--device cuda"));
  CHECK_THAT(refuse({"all_reduce", "--device", "cuda", "--buffers", "alloc"}), Contains("--buffers alloc"));
  CHECK_THAT(refuse({"all_reduce", "--device", "cuda", "--buffers", "moved"}), Contains("private or registered"));
  CHECK_THAT(refuse({"all_reduce", "-b", "8", "-e", "4"}), Contains("below --minbytes"));
  CHECK_THAT(refuse({"all_reduce", "-e", "3X"}), Contains("'3X' is not a size"));
  CHECK_THAT(refuse({"all_reduce", "-f", "1"}), Contains("at least 2"));
  CHECK_THAT(refuse({"all_reduce", "-i", "0"}), Contains("at least 1"));
  CHECK_THAT(refuse({"all_reduce", "-i", "8", "-f", "2"}), Contains("exclude each other"));
  CHECK_THAT(refuse({"all_reduce", "-i", "1"}), Contains("10,000 sizes"));
  CHECK_THAT(refuse({"all_reduce", "--ranks", "2", "--root", "2"}), Contains("--root"));
  CHECK_THAT(refuse({"all_reduce", "--channels", "9"}), Contains("0 to 8"));
  CHECK_THAT(refuse({"all_reduce", "--device", "cuda", "--channels", "129"}), Contains("0 to 128"));
  CHECK(accept({"all_reduce", "--device", "cuda", "--channels", "64"}).config.channels == 64);
  CHECK_THAT(refuse({"all_reduce", "--chunk-bytes", "63"}), Contains("64 to 1G"));
  CHECK_THAT(refuse({"all_reduce", "--max-ctas", "1025"}), Contains("0 to 1024"));
  CHECK_THAT(refuse({"all_reduce", "-n", "0"}), Contains("--iters"));
  CHECK_THAT(refuse({"all_reduce", "--in-place-only", "--out-of-place-only"}), Contains("exclude each other"));
  CHECK_THAT(refuse({"all_reduce", "--frobnicate"}), Contains("--frobnicate"));
  refuse({});
}

TEST_CASE("perf options: a device is all of them, or those that are listed; a run there has 20 calls") {
  const auto options_of = [](std::vector<const char *> words) { return std::get<Options>(parse_options(words)); };
  const Options all = options_of({"all_reduce", "--device", "cuda", "--graph"});
  CHECK((all.on_device && all.ordinals.empty() && all.graph));
  CHECK(all.aggregate_count == 20);
  const Options some = options_of({"all_reduce", "--device", "cuda:2,0", "-m", "1"});
  CHECK((some.on_device && some.ordinals == std::vector<int>{2, 0} && !some.graph));
  CHECK(some.aggregate_count == 1);
  CHECK_FALSE(options_of({"all_reduce"}).on_device);
  CHECK(options_of({"all_reduce"}).aggregate_count == 1);
}

TEST_CASE("perf options: help is text for standard output, not an error") {
  const auto parsed = parse({"--help"});
  REQUIRE(std::holds_alternative<Failure>(parsed));
  CHECK(std::get<Failure>(parsed).exit == Exit::ok);
  CHECK_THAT(std::get<Failure>(parsed).message, Contains("--minbytes"));
}

TEST_CASE("perf cases: size is that of the whole vector, count the argument of the call") {
  const Shape reduce = shape_of({RONDO_ALL_REDUCE, RONDO_FLOAT32, RONDO_SUM, 0, 4}, 1, 1026);
  CHECK(reduce.count == 256);
  CHECK(reduce.bytes == 1024);
  CHECK(reduce.send.count == 256);
  const Shape exchange = shape_of({RONDO_ALL_TO_ALL, RONDO_FLOAT64, RONDO_SUM, 0, 3}, 2, 1000);
  CHECK(exchange.count == 41);
  CHECK(exchange.bytes == 984);
  CHECK(exchange.send.count == 123);
  CHECK(exchange.recv.count == 123);
  const Shape gather = shape_of({RONDO_ALL_GATHER, RONDO_FLOAT64, RONDO_SUM, 0, 3}, 2, 1000);
  CHECK(gather.count == 41);
  CHECK(gather.bytes == 984);
  CHECK(gather.send.first == 82);
  CHECK(gather.send.count == 41);
  CHECK(gather.recv.count == 123);
  const Shape scatter = shape_of({RONDO_REDUCE_SCATTER, RONDO_INT8, RONDO_SUM, 0, 8}, 7, 4);
  CHECK(scatter.count == 0);
  CHECK(scatter.bytes == 0);
}

TEST_CASE("perf cases: bus bandwidth factors are nccl-tests'") {
  CHECK(bus_factor(RONDO_ALL_REDUCE, 4) == Approx(1.5));
  CHECK(bus_factor(RONDO_ALL_REDUCE, 1) == 0);
  CHECK(bus_factor(RONDO_ALL_GATHER, 8) == Approx(7.0 / 8));
  for (const auto collective : {RONDO_ALL_TO_ALL, RONDO_GATHER, RONDO_SCATTER})
    CHECK(bus_factor(collective, 4) == Approx(3.0 / 4));
  CHECK(bus_factor(RONDO_REDUCE_SCATTER, 2) == Approx(0.5));
  CHECK(bus_factor(RONDO_BROADCAST, 5) == 1);
  CHECK(bus_factor(RONDO_REDUCE, 5) == 1);
  CHECK(bus_factor(sendrecv, 5) == 1);
  CHECK(bus_factor(hypercube, 8) == Approx(7.0 / 8));
}
