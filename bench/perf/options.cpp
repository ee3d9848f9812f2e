// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/options.h"

#include <array>
#include <utility>

#include "bench/perf/cases.h"
#include "bench/perf/nccl_letters.h"
#include "bench/perf/plan_options.h"
#include "bench/perf/product.h"
#include "src/base/spelling.h"
#include "src/console/command_line.h"
#include "src/console/output.h"

namespace rondo::perf {
namespace {

constexpr size_t size_count_max = 10'000;
constexpr int rank_count_max = 1'024;

/// Returns the enumerator with the name `text`, where `name` returns the name of each enumerator.
template <class Enum>
std::optional<Enum> find_name(std::string_view text, const char *(*name)(Enum)) {
  for (int value = 0; const char *known = name(static_cast<Enum>(value)); ++value)
    if (text == known) return static_cast<Enum>(value);
  return std::nullopt;
}

template <class Enum>
std::string names_of(const char *(*name)(Enum)) {
  std::string list;
  for (int value = 0; const char *known = name(static_cast<Enum>(value)); ++value)
    list += (value == 0 ? "" : ", ") + std::string(known);
  return list;
}

template <class Enum>
std::vector<Enum> all_of(const char *(*name)(Enum)) {
  std::vector<Enum> all;
  for (int value = 0; name(static_cast<Enum>(value)) != nullptr; ++value) all.push_back(static_cast<Enum>(value));
  return all;
}

Failure unknown(std::string_view what, std::string_view text, const std::string &known) {
  return {Exit::usage, "unknown " + std::string(what) + " '" + std::string(text) + "'" + known_are(text, known)};
}

/// Returns the type with that name in Rondo or, for some types, in nccl-tests.
std::optional<rondo_type_t> find_type(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, rondo_type_t>, 6> aliases{{{"float", RONDO_FLOAT32},
                                                                              {"double", RONDO_FLOAT64},
                                                                              {"half", RONDO_FLOAT16},
                                                                              {"bf16", RONDO_BFLOAT16},
                                                                              {"f8e4m3", RONDO_FLOAT8_E4M3},
                                                                              {"f8e5m2", RONDO_FLOAT8_E5M2}}};
  for (const auto &[alias, type] : aliases)
    if (text == alias) return type;
  return find_name(text, rondo_type_string);
}

constexpr unsigned host_channel_count_max = 8;
constexpr size_t chunk_bytes_min = 64, chunk_bytes_max = size_t{1} << 30;

constexpr console::Manual manual{
    "rondo perf",
    "Times and verifies a collective, or messages (sendrecv, hypercube), over a range of sizes. It runs under\n"
    "rondo run, torchrun, Open MPI, MPICH or Slurm, also on several hosts; or with --ranks as threads of this\n"
    "process. On a device each result comes with its floor, what moving the bytes alone takes\n"
    "(share/doc/rondo/docs/benchmark.md).",
    "rondo perf COLLECTIVE [OPTIONS]",
    "  rondo perf all_reduce --ranks 4                        4 ranks as threads of this process\n"
    "  rondo run -n 4 -- rondo perf all_reduce -e 64M --json all_reduce.json --plot all_reduce.svg\n"
    "  rondo perf broadcast --ranks 4 -r 2 -d int32 -c 10     from rank 2; each size verified ten times\n"
    "  rondo perf all_reduce --ranks 8 --device cuda --graph  on CUDA devices, calls replayed from a graph\n"};

/// Says whether the word after --json is the collective, and not the file.
bool is_collective(std::string_view word) { return find_collective(collective_spelling(word)).has_value(); }

/// The words of the options, as on the command line.
struct Words {
  std::string collective, min_bytes, max_bytes, step_bytes;
  std::string type = "float32", op = "sum", device = "host", buffers = "private";
  PlanWords plan;
  uint32_t iterations = 0, warmups = 0, timeout_s = 0, stream = 0;
  bool graph = false, one_graph = false, together = false;
  bool no_rewrite = false, only_out_of_place = false, only_in_place = false;
};

void add_choice_options(console::CommandLine &app, Options &options, Words &words) {
  app.add_option("collective", words.collective, known_collectives())
      ->required()
      ->type_name("COLLECTIVE");
  app.begin_group("Sizes and elements");
  app.add_option("-b,--minbytes", words.min_bytes, "smallest size [8]")->type_name("SIZE");
  app.add_option("-e,--maxbytes", words.max_bytes, "largest size, always among them [256M]")->type_name("SIZE");
  app.add_option("-f,--stepfactor", options.step_factor, "factor from size to size, from 2 [4]")->type_name("N");
  app.add_option("-i,--stepbytes", words.step_bytes, "fixed step from size to size, in place of the factor")
      ->type_name("SIZE");
  app.add_option("-d,--datatype", words.type, "element type, or all [float32]")->type_name("TYPE");
  app.add_option("-o,--op", words.op, "sum, prod, min, max, avg, mulsum; all is the first five [sum]")->type_name("OP");
  app.begin_group("Ranks and buffers");
  app.add_option("--ranks", options.ranks, "run N ranks as threads of this process, 1 to 1024")
      ->check(console::InRange(1, rank_count_max))
      ->type_name("N");
  app.add_option("--device", words.device,
                 "host; cuda, which is all CUDA devices, rank by rank in turn; or one or some of them, as cuda:0 or "
                 "cuda:0,2 [host]")
      ->type_name("NAME");
  app.add_option("--buffers", words.buffers, "private, alloc, registered or moved [private]")->type_name("KIND");
  add_plan_options(app, options, words.plan);
}

void add_run_options(console::CommandLine &app, Options &options, Words &words) {
  app.begin_group("Runs");
  app.add_option("-n,--iters", words.iterations, "timed runs for each size, 1 to 1000000 [by size and time]")
      ->check(console::InRange(1u, 1'000'000u))
      ->type_name("N");
  app.add_option("-w,--warmup_iters", words.warmups, "untimed runs before them, 0 to 1000000 [by size]")
      ->check(console::InRange(0u, 1'000'000u))
      ->type_name("N");
  app.add_option("-c,--check", options.check_count, "verified runs for each size, 0 to 1000000; 0: none [1]")
      ->check(console::InRange(0u, 1'000'000u))
      ->type_name("N");
  app.add_option("-m,--agg_iters", options.aggregate_count, "calls in one timed run, 1 to 1000000 [1; on a device 20]")
      ->check(console::InRange(1u, 1'000'000u))
      ->type_name("N");
  app.add_option("--pause", options.pause_ms, "milliseconds without a call before each timed run, 0 to 10000 [0]")
      ->check(console::InRange(0u, 10'000u))
      ->type_name("MS");
  app.add_option("-T,--timeout", words.timeout_s, "seconds that one operation may take, 1 to 86400 [300]")
      ->check(console::InRange(1u, 86'400u))
      ->type_name("S");
  app.add_option("--stream", words.stream, "1: enqueue on a host stream and wait for it [0]")
      ->check(console::InRange(0u, 1u))
      ->type_name("0|1");
  app.add_option("--seed", options.seed, "seed of the inputs [1]")->type_name("N");
  app.add_flag("--no-rewrite", words.no_rewrite, "do not write fresh inputs between timed runs");
  app.add_flag("--out-of-place-only", words.only_out_of_place, "leave out the in-place runs");
  app.add_flag("--in-place-only", words.only_in_place, "leave out the out-of-place runs");
}

void add_device_options(console::CommandLine &app, Options &options, Words &words) {
  app.begin_group("On devices");
  app.add_flag("--graph", words.graph, "capture a run's calls into a graph once, and replay it");
  app.add_flag("--one-graph", words.one_graph, "with --graph and --ranks: the calls of all ranks in one graph");
  app.add_flag(
      "--together", words.together,
      "with --graph and --ranks: begin a run on all ranks' streams at once, so that launches are not measured");
  app.add_option("--against", options.against_path,
                 "also time this library, which has the interface of nccl.h; one rank a device, or two with "
                 "NCCL_MULTI_RANK_GPU_ENABLE=1")
      ->type_name("LIBRARY");
  app.add_option(
         "--beside-product", options.product_size,
         "run N x N matrix products, N from 16 to 32768, beside the calls, and report how much each slows the other")
      ->check(console::InRange(product_size_min, product_size_max))
      ->type_name("N");
  app.add_option("--product-library", options.product_library,
                 "for the products: this library, which has the interface of cuBLAS [libcublas.so.13 or .12]")
      ->type_name("LIBRARY");
}

void add_output_options(console::CommandLine &app, Options &options) {
  app.begin_group("Output");
  app.add_json(options.json_path, "write the results", is_collective);
  app.add_option("--csv", options.csv_path, "write a row for each size to FILE; - is standard output")
      ->type_name("FILE");
  app.add_option("--plot", options.plot_path, "draw time and bandwidth into FILE.svg; - is standard output")
      ->type_name("FILE");
}

Outcome take_size(const std::string &text, std::string_view option, size_t &target) {
  if (text.empty()) return std::nullopt;
  const auto bytes = read_bytes(text);
  if (!bytes) {
    return Failure{Exit::usage, std::string(option) + ": '" + text + "' is not a size; write 4096, 64K, 256M or 1G"};
  }
  target = *bytes;
  return std::nullopt;
}

Outcome take_sizes(const Words &words, bool factor_given, Options &options) {
  size_t chunk_bytes = 0;
  if (auto failure = take_size(words.min_bytes, "--minbytes", options.min_bytes)) return failure;
  if (words.max_bytes.empty() && options.min_bytes > options.max_bytes) options.max_bytes = options.min_bytes;
  if (auto failure = take_size(words.max_bytes, "--maxbytes", options.max_bytes)) return failure;
  if (auto failure = take_size(words.step_bytes, "--stepbytes", options.step_bytes)) return failure;
  if (auto failure = take_size(words.plan.chunk_bytes, "--chunk-bytes", chunk_bytes)) return failure;
  if (chunk_bytes != 0 && (chunk_bytes < chunk_bytes_min || chunk_bytes > chunk_bytes_max))
    return Failure{Exit::usage, "--chunk-bytes: '" + words.plan.chunk_bytes + "' is not 0 or a size from 64 to 1G"};
  options.config.chunk_bytes = chunk_bytes;
  if (options.max_bytes < options.min_bytes)
    return Failure{Exit::usage, "--maxbytes is below --minbytes; give a range that is not empty"};
  if (!words.step_bytes.empty() && options.step_bytes == 0)
    return Failure{Exit::usage, "--stepbytes must be at least 1"};
  if (factor_given && options.step_bytes != 0)
    return Failure{Exit::usage, "--stepfactor and --stepbytes exclude each other; give one of them"};
  if (options.step_factor < 2) return Failure{Exit::usage, "--stepfactor must be at least 2"};
  if (sizes_of(options).size() >= size_count_max)
    return Failure{Exit::usage, "more than 10,000 sizes; give a larger step or a smaller range"};
  return std::nullopt;
}

Outcome take_names(const Words &words, Options &options) {
  const auto collective = find_collective(words.collective);
  if (!collective) return unknown("collective", words.collective, known_collectives());
  options.collective = *collective;
  if (words.type == "all") {
    options.types = all_of(rondo_type_string);
  } else if (const auto type = find_type(words.type)) {
    options.types = {*type};
  } else {
    return unknown("type", words.type, names_of(rondo_type_string) + ", all");
  }
  if (words.op == "all") {
    options.ops = all_of(rondo_op_string);
  } else if (words.op == "mulsum") {
    options.ops = {mulsum};
  } else if (const auto op = find_name(words.op, rondo_op_string)) {
    options.ops = {*op};
  } else {
    return unknown("operation", words.op, names_of(rondo_op_string) + ", mulsum, all");
  }
  if (only_moves(like(*collective))) options.ops = {RONDO_SUM};  // not used
  const auto algorithm = find_name(words.plan.algorithm, rondo_algorithm_string);
  if (!algorithm) return unknown("algorithm", words.plan.algorithm, names_of(rondo_algorithm_string));
  options.config.algorithm = *algorithm;
  const auto protocol = find_name(words.plan.protocol, rondo_protocol_string);
  if (!protocol) return unknown("protocol", words.plan.protocol, names_of(rondo_protocol_string));
  options.config.protocol = *protocol;
  const auto kernel = find_name(words.plan.kernel, rondo_kernel_string);
  if (!kernel) return unknown("kernel", words.plan.kernel, names_of(rondo_kernel_string));
  options.config.kernel = *kernel;
  constexpr std::array<std::pair<std::string_view, Buffers>, 4> kinds{{{"private", Buffers::private_memory},
                                                                       {"alloc", Buffers::alloc},
                                                                       {"registered", Buffers::registered},
                                                                       {"moved", Buffers::moved}}};
  for (const auto &[name, kind] : kinds) {
    if (words.buffers != name) continue;
    options.buffers = kind;
    return std::nullopt;
  }
  return unknown("kind of buffers", words.buffers, "private, alloc, registered, moved");
}

/// Applies the options about threads. With --together, a run must be one entry of the stream. Otherwise the host would
/// wait for work that it must release itself. --one-graph needs a single process, because streams of several processes
/// cannot share a graph. It excludes exchanges of blocks and messages. They have one kernel for each rank, and in
/// branches of one graph these kernels would wait for each other.
Outcome take_threads(const Words &words, Options &options) {
  if (words.together && (!words.graph || options.ranks == 0))
    return Failure{Exit::usage, "--together is for graphs of ranks that are threads; add --graph and --ranks"};
  if (words.one_graph && (!words.graph || options.ranks == 0))
    return Failure{Exit::usage, "--one-graph is for ranks that are threads; add --graph and --ranks"};
  if (words.one_graph && (exchanges_blocks(options.collective) || !has_plan(options.collective)))
    return Failure{Exit::usage, "--one-graph has no " + words.collective + "; leave --one-graph out"};
  options.one_graph = words.one_graph;
  options.together = words.together;
  return std::nullopt;
}

/// Parses "cuda", "cuda:1" or "cuda:0,1".
Outcome take_device(const CLI::App &app, const Words &words, Options &options) {
  if (words.device == "host" && words.graph)
    return Failure{Exit::usage, "--graph needs a device that has graphs; add --device cuda"};
  if (words.device == "host" && !options.against_path.empty())
    return Failure{Exit::usage, "--against needs devices, one for each rank; add --device cuda"};
  if (words.op == "mulsum" && !options.against_path.empty())
    return Failure{Exit::usage, "--against has no mulsum; give one of the other operations"};
  if (words.device == "host" && options.product_size != 0)
    return Failure{Exit::usage, "--beside-product multiplies on devices; add --device cuda"};
  if (words.device == "host" && options.config.channels > host_channel_count_max)
    return Failure{Exit::usage, "--channels takes 0 to 8 on host memory; for more, add --device cuda"};
  if (words.device == "host") return std::nullopt;
  if (!options.against_path.empty() && (exchanges_blocks(options.collective) || !has_plan(options.collective)))
    return Failure{Exit::usage, "--against has no " + words.collective + "; leave --against out"};
  if (options.product_size != 0 && !options.against_path.empty())
    return Failure{Exit::usage, "--beside-product and --against exclude each other; give one of them"};
  const auto ordinals = console::parse_cuda_devices(words.device);
  if (!ordinals) return unknown("device", words.device, "host, cuda, cuda:ORDINAL,...");
  options.ordinals = *ordinals;
  if (options.buffers == Buffers::alloc || options.buffers == Buffers::moved)
    return Failure{Exit::usage, "--buffers " + words.buffers + " is for host memory; with --device " + words.device +
                                    " give private or registered, or leave it out"};
  options.on_device = true;
  options.graph = words.graph;
  if (app.count("--agg_iters") + app.count("--cudagraph") + app.count("--blocking") == 0)
    options.aggregate_count = device_aggregate_count;
  return std::nullopt;
}

/// Returns a failure if the options request what the pattern does not support.
Outcome check_pattern(const Words &words, const Options &options) {
  if (words.only_in_place && !has_in_place(options.collective))
    return Failure{Exit::usage, words.collective + " has no in-place form; leave out --in-place-only"};
  if (options.ranks != 0 && !takes_ranks(options.collective, options.ranks)) return wrong_ranks(options.collective);
  return std::nullopt;
}

Outcome take_files(Options &options) {
  const std::array outputs{console::Output{"--json", options.json_path}, console::Output{"--csv", options.csv_path},
                           console::Output{"--plot", options.plot_path}};
  if (auto complaint = console::check_shared(outputs)) return Failure{Exit::usage, *complaint};
  options.table_to_errors = options.json_path == "-" || options.csv_path == "-" || options.plot_path == "-";
  if (auto complaint = console::check_plot(options.plot_path)) return Failure{Exit::usage, *complaint};
  return std::nullopt;
}

Outcome take_rest(const CLI::App &app, const Words &words, Options &options) {
  if (options.product_size == 0 && !options.product_library.empty())
    return Failure{Exit::usage, "--product-library is for --beside-product; add that"};
  if (auto failure = take_device(app, words, options)) return failure;
  if (auto failure = take_threads(words, options)) return failure;
  if (auto failure = check_pattern(words, options)) return failure;
  if (auto failure = check_plan_options(app, options)) return failure;
  if (words.only_in_place && words.only_out_of_place)
    return Failure{Exit::usage, "--in-place-only and --out-of-place-only exclude each other; give one of them"};
  if (options.root < 0 || (options.ranks != 0 && options.root >= options.ranks))
    return Failure{Exit::usage, "-r, --root: it must be a rank, 0 to the number of ranks - 1 (ranks as threads are "
                                "--ranks N)"};
  if (auto failure = take_files(options)) return failure;
  options.out_of_place = !words.only_in_place;
  options.in_place = !words.only_out_of_place && has_in_place(options.collective);
  options.rewrite = !words.no_rewrite;
  options.use_stream = words.stream == 1;
  options.config.timeout_ms = words.timeout_s * 1'000;
  if (app.count("--iters") != 0 && !options.iteration_count) options.iteration_count = words.iterations;
  if (app.count("--warmup_iters") != 0) options.warmup_count = words.warmups;
  return std::nullopt;
}

}  // namespace

Failure wrong_ranks(rondo_collective_t collective) {
  return {Exit::usage, std::string(name_of(collective)) + " takes a number of ranks that is a power of two"};
}

uint64_t timeout_ns(const Options &options) {
  constexpr uint64_t default_ns = 300'000'000'000u;
  return options.config.timeout_ms != 0 ? options.config.timeout_ms * uint64_t{1'000'000} : default_ns;
}

std::vector<size_t> sizes_of(const Options &options) {
  std::vector<size_t> sizes;
  if (options.max_bytes < options.min_bytes) return sizes;
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes && sizes.size() < size_count_max;) {
    sizes.push_back(bytes);
    const size_t room = options.max_bytes - bytes;
    if (options.step_bytes != 0) {
      if (room < options.step_bytes) break;
      bytes += options.step_bytes;
    } else {
      if (bytes > options.max_bytes / options.step_factor) break;
      bytes = bytes == 0 ? 1 : bytes * options.step_factor;
    }
  }
  if (sizes.back() != options.max_bytes) sizes.push_back(options.max_bytes);  // if the steps skip it
  return sizes;
}

std::variant<Options, Failure> parse_options(std::span<const char *const> args) {
  Options options;
  Words words;
  NcclWords nccl;
  console::CommandLine app(manual);
  add_choice_options(app, options, words);
  add_run_options(app, options, words);
  add_device_options(app, options, words);
  add_output_options(app, options);
  add_nccl_options(app, options, nccl);
  if (auto answer = app.read(args))
    return Failure{answer->is_help ? Exit::ok : Exit::usage, std::move(answer->text)};
  for (std::string *word : {&words.collective, &words.type, &words.op, &words.device, &words.buffers,
                            &words.plan.algorithm, &words.plan.protocol, &words.plan.kernel})
    *word = console::lower_case(*word);
  words.collective = collective_spelling(words.collective);
  const SharedWords shared{words.device, words.buffers, words.iterations, words.stream, words.graph};
  if (auto failure = take_nccl_options(app, nccl, shared, options)) return *failure;
  if (auto failure = take_names(words, options)) return *failure;
  if (auto failure = take_sizes(words, app.count("--stepfactor") != 0, options)) return *failure;
  if (auto failure = take_rest(app, words, options)) return *failure;
  return options;
}

}  // namespace rondo::perf
