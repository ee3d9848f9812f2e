// SPDX-License-Identifier: Apache-2.0
// These tests use nccl-tests' command lines. Each either has the same meaning here, or is refused with an alternative.
// Other cases check which rows count as disturbed.
#include <array>
#include <sstream>

#include "bench/perf/disturbance.h"
#include "bench/perf/options.h"
#include "tests/catch.h"

using namespace rondo::perf;

namespace {

/// Parses `line`, the arguments of all_reduce_perf.
std::variant<Options, Failure> parse(const std::string &line, const char *collective = "all_reduce") {
  std::vector<std::string> words{collective};
  std::istringstream in(line);
  for (std::string word; in >> word;) words.push_back(word);
  std::vector<const char *> args;
  for (const std::string &word : words) args.push_back(word.c_str());
  return parse_options(args);
}

Options accept(const std::string &line, const char *collective = "all_reduce") {
  auto parsed = parse(line, collective);
  if (const auto *failure = std::get_if<Failure>(&parsed)) FAIL(line + ": " + failure->message);
  return std::get<Options>(parsed);
}

std::string refuse(const std::string &line) {
  const auto parsed = parse(line);
  if (!std::holds_alternative<Failure>(parsed)) FAIL(line + " is accepted");
  CHECK(std::get<Failure>(parsed).exit == Exit::usage);
  return std::get<Failure>(parsed).message;
}

constexpr uint64_t second = 1'000'000'000;

}  // namespace

TEST_CASE("perf, nccl-tests' lines: sizes, steps and runs are those that are asked for") {
  const Options sweep = accept("-b 8 -e 128M -f 2");
  CHECK(sizes_of(sweep).size() == 25);
  CHECK(sizes_of(sweep).back() == size_t{128} << 20);
  CHECK(sizes_of(accept("-b 1M -e 4M -i 1M")) == std::vector<size_t>{1 << 20, 2 << 20, 3 << 20, 4 << 20});
  CHECK(sizes_of(accept("-b 8 -e 100 -f 4")) == std::vector<size_t>{8, 32, 100});
  CHECK(sizes_of(accept("-b 10 -e 25 -i 10")) == std::vector<size_t>{10, 20, 25});
  const Options runs = accept("-b 32M -e 32M -n 20 -w 5 -m 3 -c 0 -T 60");
  CHECK(runs.iteration_count == 20u);
  CHECK(runs.warmup_count == 5u);
  CHECK(runs.aggregate_count == 3);
  CHECK(runs.check_count == 0);
  CHECK(timeout_ns(runs) == 60 * second);
}

TEST_CASE("perf, nccl-tests' lines: -t threads, -g GPUs, and both") {
  CHECK(accept("-t 4").ranks == 4);
  CHECK_FALSE(accept("-t 4").on_device);
  CHECK(accept("-t 1").ranks == 0);  // the environment sets the rank
  const Options gpus = accept("-b 8 -e 128M -f 2 -g 8");
  CHECK(gpus.ranks == 8);
  CHECK(gpus.on_device);
  const Options both = accept("--nthreads 2 --ngpus 4");
  CHECK(both.ranks == 8);
  CHECK(both.on_device);
  const Options one = accept("-g 1");
  CHECK(one.ranks == 0);
  CHECK(one.on_device);
  CHECK_THAT(refuse("-g 2 --device host"), Contains("--ranks N"));
  CHECK_THAT(refuse("-t 2 --ranks 2"), Contains("exclude each other"));
}

TEST_CASE("perf, nccl-tests' lines: several ranks of a process are refused where a launcher has started it") {
  ::setenv("OMPI_COMM_WORLD_SIZE", "10", 1);
  const std::string message = refuse("-b 8 -e 128M -f 2 -g 4");
  const int alone = accept("-g 1").ranks;
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  CHECK_THAT(message, Contains("have it start 4 times as many"));
  CHECK(alone == 0);
}

TEST_CASE("perf, nccl-tests' lines: -o, -d and -r") {
  CHECK(accept("-o all").ops.size() == 5);
  CHECK(accept("-o Max -d HALF").types == std::vector{RONDO_FLOAT16});
  CHECK(accept("-d all").types.size() == 12);
  CHECK(accept("-r 2 -t 4", "broadcast").root == 2);
  CHECK_FALSE(accept("-r 2 -t 4", "broadcast").all_roots);
  CHECK(accept("-r all", "reduce").all_roots);
  CHECK_THAT(refuse("-r some"), Contains("give a rank, or all"));
  CHECK_THAT(refuse("-r 4 -t 4"), Contains("--ranks N"));
}

TEST_CASE("perf, nccl-tests' lines: -z waits after each call, or after all of a run") {
  CHECK_FALSE(accept("-z 1 -t 2").use_stream);
  CHECK(accept("-z 1 -t 2").aggregate_count == 1);
  CHECK(accept("-z 0 -t 2").use_stream);
  CHECK(accept("-z 0 -t 2").aggregate_count == 20);
  CHECK(accept("-z 0 -m 3 -t 2").aggregate_count == 3);
  CHECK(accept("-z 1 -g 2").aggregate_count == 1);
  CHECK_THAT(refuse("-z 1 --stream 1"), Contains("exclude each other"));
}

TEST_CASE("perf, nccl-tests' lines: -G captures the iterations and launches the graph so often") {
  const Options graph = accept("-g 2 -n 5 -m 2 -G 7");
  CHECK(graph.graph);
  CHECK(graph.aggregate_count == 10);
  CHECK(graph.iteration_count == 7u);
  CHECK(accept("-g 2 -G 3").aggregate_count == 20);
  CHECK_FALSE(accept("-g 2 -G 0").graph);
  CHECK_THAT(refuse("-t 2 -G 3"), Contains("--device cuda"));
  CHECK_THAT(refuse("-g 2 -n 100000 -m 100 -G 3"), Contains("lower one of them"));
}

TEST_CASE("perf, nccl-tests' lines: files, registration and what is done anyway") {
  CHECK(accept("-J out.json").json_path == "out.json");
  CHECK(accept("--output_file out.json").json_path == "out.json");
  CHECK(accept("-F out.csv").csv_path == "out.csv");
  CHECK(accept("-R 1 -t 2").buffers == Buffers::registered);
  CHECK(accept("-R 0 -p 1 -a 3 -N 1 -C 0 -S 0 -D 0 -M 0 -u 0 -y 0 -I 0 -K 0").buffers == Buffers::private_memory);
}

TEST_CASE("perf, nccl-tests' lines: what there is not is refused by name, with what to use") {
  CHECK_THAT(refuse("-a 1"), Contains("-a 1") && Contains("slowest"));
  CHECK_THAT(refuse("-N 3"), Contains("-N") && Contains("loop"));
  CHECK_THAT(refuse("-C 1"), Contains("-C") && Contains("--stream 1"));
  CHECK_THAT(refuse("-S 1"), Contains("-S") && Contains("--json"));
  CHECK_THAT(refuse("-R 2"), Contains("-R 2") && Contains("--buffers alloc"));
  CHECK_THAT(refuse("-D 1"), Contains("leave -D out"));
  CHECK_THAT(refuse("-V 32"), Contains("-V") && Contains("--max-ctas"));
  CHECK_THAT(refuse("-x 1"), Contains("-x") && Contains("--max-ctas"));
  CHECK_THAT(refuse("-M 1"), Contains("-M") && Contains("rondo info"));
  CHECK_THAT(refuse("-u 1"), Contains("leave -u out"));
  CHECK_THAT(refuse("-y 1"), Contains("-y 1") && Contains("-y 0"));
  CHECK_THAT(refuse("-I 1"), Contains("-I") && Contains("--json"));
  CHECK_THAT(refuse("--per_iter_skip 5"), Contains("-K") && Contains("-w N"));
  CHECK_THAT(refuse("-z 2 -t 2"), Contains("-z 2") && Contains("-m N"));
  CHECK_THAT(refuse("-z 3 -t 2"), Contains("-z 3") && Contains("-z 0"));
}

TEST_CASE("perf: standard output is for one of the files, and then not for the table") {
  CHECK(accept("--json").json_path == "-");
  for (const char *before : {"all_reduce", "All_Reduce"}) {
    const std::array args{"--json", before, "-e", "64"};
    const auto parsed = parse_options(args);
    REQUIRE(std::holds_alternative<Options>(parsed));
    CHECK(std::get<Options>(parsed).json_path == "-");
  }
  CHECK(accept("--json -").table_to_errors);
  CHECK_FALSE(accept("--json out.json").table_to_errors);
  CHECK_THAT(refuse("--json - --csv -"), Contains("cannot share"));
  CHECK_THAT(refuse("--plot out.png"), Contains(".svg"));
}

TEST_CASE("perf: a row is disturbed where ranks waited for processors, and not where they wait for each other") {
  LoadReading before, after;
  after.time_ns = second;
  after.busy_ns = 2 * second;  // the job had both processors for the whole time
  CHECK_FALSE(judge_load(before, after, 2 * second, false).marked);
  after.waited_ns = second / 2;
  CHECK(judge_load(before, after, 2 * second, false).marked);
  CHECK(judge_load(before, after, 2 * second, false).waited == Approx(0.5));
  LoadReading long_ago = after;  // the wait began before the window
  long_ago.waited_ns = before.waited_ns + 10 * (after.time_ns - before.time_ns);
  CHECK(judge_load(before, long_ago, 2 * second, false).waited == Approx(1.0));
  CHECK_FALSE(judge_load(before, after, 2 * second, true).marked);
  after.waited_ns = second / 20;
  CHECK_FALSE(judge_load(before, after, 2 * second, false).marked);
}

TEST_CASE("perf: a row is disturbed by other programs where no processor is free, and by other guests") {
  LoadReading before, after;
  after.time_ns = second;
  after.busy_ns = 2 * second;
  CHECK(judge_load(before, after, second, true).marked);
  CHECK(judge_load(before, after, second, true).others == Approx(1.0));
  after.idle_ns = 2 * second;  // two more processors were idle
  CHECK_FALSE(judge_load(before, after, second, true).marked);
  after.stolen_ns = second / 5;
  CHECK(judge_load(before, after, second, true).marked);
  LoadReading soon = after;
  soon.time_ns = second / 100;  // one tick is too short to judge
  CHECK_FALSE(judge_load(before, soon, 0, true).marked);
}
