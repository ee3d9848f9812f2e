// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/nccl_letters.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdlib>

#include "src/console/command_line.h"

namespace rondo::perf {
namespace {

constexpr const char *group = "As in nccl-tests";
constexpr uint32_t captured_default = 20;  // nccl-tests' iterations, which its -G captures

Failure refuse(const std::string &message) { return {Exit::usage, message}; }

/// Says whether a launcher has started other ranks besides this process.
bool in_a_job() {
  for (const char *name : {"RONDO_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char *size = std::getenv(name); size != nullptr && std::atoi(size) > 1) return true;
  return false;
}

/// Applies -t threads with -g ranks each. If both are 1, this process is the rank that the environment describes.
Outcome take_ranks(const CLI::App &app, const NcclWords &words, const SharedWords &shared, Options &options) {
  const bool threads_given = app.count("--nthreads") != 0, gpus_given = app.count("--ngpus") != 0;
  if (gpus_given && app.count("--device") != 0 && shared.device == "host")
    return refuse("-g counts GPUs, and --device is host; give --ranks N for ranks on host memory");
  if (gpus_given && shared.device == "host") shared.device = "cuda";
  if (app.count("--ranks") != 0 && (threads_given || gpus_given))
    return refuse("--ranks and -t or -g exclude each other; --ranks N does the same as -t N");
  const int ranks = words.threads * words.gpus;
  if (ranks == 1) return std::nullopt;
  if (in_a_job())
    return refuse("-t and -g make several ranks of a process, but a launcher has started this process as one rank of a "
                  "job; have it start " + std::to_string(ranks) + " times as many, each without -t and -g");
  options.ranks = ranks;
  return std::nullopt;
}

Outcome take_root(const NcclWords &words, Options &options) {
  if (words.root == "all") {
    options.all_roots = true;
    return std::nullopt;
  }
  const auto [end, error] =
      std::from_chars(words.root.data(), words.root.data() + words.root.size(), options.root);
  if (error == std::errc{} && end == words.root.data() + words.root.size()) return std::nullopt;
  return refuse("-r: '" + words.root + "' is no root; give a rank, or all (ranks as threads are --ranks N)");
}

/// Applies -G N: the calls that nccl-tests times as iterations become one graph, which is launched N times.
Outcome take_graph(const CLI::App &app, const NcclWords &words, const SharedWords &shared, Options &options) {
  if (words.graph_launches == 0) return std::nullopt;
  const uint32_t captured = app.count("--iters") != 0 ? shared.iterations : captured_default;
  constexpr uint32_t calls_max = 1'000'000;
  if (uint64_t{captured} * options.aggregate_count > calls_max)
    return refuse("-G captures -n times -m calls, which are more than 1,000,000; lower one of them");
  shared.graph = true;
  options.aggregate_count *= captured;
  shared.iterations = words.graph_launches;
  options.iteration_count = words.graph_launches;
  return std::nullopt;
}

/// Refuses letters that nccl-tests has had since 2.14, unless they have their default value.
Outcome refuse_later(const CLI::App &app, const NcclWords &words) {
  if (app.count("--device_cta_count") != 0)
    return refuse("-V belongs to -D, which rondo perf does not have; --max-ctas N limits the blocks of a collective");
  if (app.count("--cta_policy") != 0)
    return refuse("-x: there is no such policy; --max-ctas N limits the blocks of a collective");
  if (words.memory != 0) return refuse("-M: rondo info --ranks N shows the memory of a communicator; leave -M out");
  if (words.unaligned != 0) return refuse("-u: buffers always have the same alignment; leave -u out");
  if (words.default_stream != 0)
    return refuse("-y 1: each rank's calls always use a stream of its own; leave -y out, or give -y 0");
  if (words.run_times != 0 || words.skipped_runs != "0")
    return refuse("-I, -K: --json has the median, the least and the greatest time of the runs, and -w N makes N "
                  "untimed runs before them; leave -I and -K out");
  return std::nullopt;
}

/// Refuses options that have no meaning here, unless they request what happens anyway.
Outcome refuse_rest(const CLI::App &app, const NcclWords &words) {
  if (words.blocking == 2)
    return refuse("-z 2 waits after each call, without a barrier; on host memory -m N does so with N calls: use it, or "
                  "-z 1, which has a barrier before each call");
  if (words.blocking == 3)
    return refuse("-z 3 waits after the calls of -m, with a barrier between runs; -z 0 does that here: use it");
  if (words.average != 3)
    return refuse("-a " + std::to_string(words.average) +
                  " asks for rank 0's time, the mean or the least of the ranks; rondo perf reports the slowest rank's; "
                  "leave -a out, or give -a 3");
  if (words.run_cycles != 1) return refuse("-N: rondo perf runs once; start it again, in a loop of the shell");
  if (words.cpu_time != 0)
    return refuse("-C: rondo perf does not report the host's time for a call; use --stream 1 and a profiler");
  if (words.timestamps != 0)
    return refuse(
        "-S: rows have no time of day; --json has the time of the run, and RONDO_LOG=plan=debug logs when a size "
        "begins");
  if (words.local_register > 1)
    return refuse("-R 2 asks for symmetric windows; memory that all ranks of a host map is --buffers alloc");
  if (words.device_implementation != "0")
    return refuse("-D: rondo perf has no collectives that kernels can call; leave -D out");
  return refuse_later(app, words);
}

}  // namespace

void add_nccl_options(CLI::App &app, Options &options, NcclWords &words) {
  const auto add = [&app](const char *names, auto &target, const char *help) {
    return app.add_option(names, target, help)->group(group);
  };
  add("-t,--nthreads", words.threads, "ranks as threads of this process, 1 to 1024 [1: as the environment says]")
      ->check(console::InRange(1, 1'024))
      ->type_name("N");
  add("-g,--ngpus", words.gpus, "GPUs for each of them, a rank each, 1 to 1024; implies --device cuda")
      ->check(console::InRange(1, 1'024))
      ->type_name("N");
  add("-r,--root", words.root, "root of broadcast and reduce, or all: one after the other [0]")->type_name("RANK");
  add("-G,--cudagraph", words.graph_launches,
      "capture -n times -m calls into a graph and launch it N times, 0 to 1000000 [0]")
      ->check(console::InRange(0u, 1'000'000u))
      ->type_name("N");
  add("-z,--blocking", words.blocking, "1: wait after each call; 0: enqueue -m of them, then wait")
      ->check(console::InRange(0, 3))
      ->type_name("0|1");
  add("-R,--local_register", words.local_register, "1: register the buffers, as --buffers registered does [0]")
      ->check(console::InRange(0, 2))
      ->type_name("0|1");
  add("-J,--output_file", options.json_path, "as --json")->type_name("FILE");
  add("-F", options.csv_path, "as --csv")->type_name("FILE");
  add("-a,--average", words.average, "3: the slowest rank's time, which rondo perf reports")
      ->check(console::InRange(0, 3))
      ->type_name("3");
  add("-p,--parallel_init", words.parallel_init, "ranks that are threads always start side by side")
      ->check(console::InRange(0, 1))
      ->type_name("0|1");
  // These are refused unless they change nothing, so the help does not list them.
  const auto hide = [&app](const char *names, auto &target) { app.add_option(names, target)->group(""); };
  hide("-N,--run_cycles", words.run_cycles);
  hide("-C,--report_cputime", words.cpu_time);
  hide("-S,--report_timestamps", words.timestamps);
  hide("-D,--device_implementation", words.device_implementation);
  hide("-V,--device_cta_count", words.device_cta_count);
  hide("-x,--cta_policy", words.cta_policy);
  hide("-M,--memory,--memory_report", words.memory);
  hide("-u,--unalign", words.unaligned);
  hide("-y,--stream_null", words.default_stream);
  hide("-I,--per_iter_timing", words.run_times);
  hide("-K,--per_iter_skip", words.skipped_runs);
}

Outcome take_nccl_options(const CLI::App &app, const NcclWords &words, const SharedWords &shared, Options &options) {
  if (auto failure = refuse_rest(app, words)) return failure;
  if (auto failure = take_ranks(app, words, shared, options)) return failure;
  if (auto failure = take_root(words, options)) return failure;
  if (auto failure = take_graph(app, words, shared, options)) return failure;
  if (words.local_register == 1 && app.count("--buffers") == 0) shared.buffers = "registered";
  if (app.count("--blocking") != 0) {
    if (app.count("--stream") != 0)
      return refuse("-z and --stream exclude each other; -z 0 does the same as --stream 1");
    shared.stream = words.blocking == 0 ? 1 : 0;
    if (app.count("--agg_iters") == 0) options.aggregate_count = words.blocking == 0 ? device_aggregate_count : 1;
  }
  return std::nullopt;
}

}  // namespace rondo::perf
