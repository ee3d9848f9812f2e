// SPDX-License-Identifier: Apache-2.0
// `rondo schedule`: prints the schedule of an algorithm, so that a person can look at it.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "src/base/names.h"
#include "src/cli/commands.h"
#include "src/plan/print/print.h"

namespace rondo::cli {
namespace {

constexpr uint32_t rank_count_max = 4096;  // a ring of more is hundreds of megabytes of text

struct ScheduleOptions {
  std::string algorithm = "ring", collective = "all_reduce";
  ScheduleArgs args{.rank_count = 4};
  bool json = false, dot = false, svg = false;
};

using Parsed = std::variant<ScheduleOptions, std::string>;  // the string is the help

Result<Parsed> parse_options(Arguments args) {
  ScheduleOptions options;
  CLI::App app("Prints what each rank does in a collective: the steps of one channel and tile.", "rondo schedule");
  app.add_option("--algorithm", options.algorithm, "ring, tree, halving_doubling, one_shot, two_shot, hierarchical or "
                 "hierarchical_tree")
      ->required();
  app.add_option("--ranks", options.args.rank_count, "Number of ranks (default 4)")
      ->check(CLI::Range(1u, rank_count_max))
      ->type_name("N");
  app.add_option("--collective", options.collective, "Default all_reduce");
  app.add_option("--root", options.args.root, "Root of a broadcast or reduce (default 0)")->type_name("RANK");
  app.add_option("--channel", options.args.channel, "Odd channels have the tree's second form (default 0)");
  app.add_flag("--in-place", options.args.in_place, "Send and receive buffers coincide");
  auto *const json = app.add_flag("--json", options.json, "Print JSON");
  auto *const dot = app.add_flag("--dot", options.dot, "Print a Graphviz graph")->excludes(json);
  app.add_flag("--svg", options.svg, "Print a drawing: ranks across, time downwards")->excludes(json)->excludes(dot);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // CLI11 wants the last argument first
  } catch (const CLI::CallForHelp &) {
    return Parsed(app.help());
  } catch (const CLI::Error &error) {
    return invalid_argument(std::string(error.what()) + "; see rondo schedule --help");
  }
  return Parsed(std::move(options));
}

Result<std::string> print(ScheduleOptions options) {
  RONDO_TRY_ASSIGN(const auto algorithm, parse_name(options.algorithm, rondo_algorithm_string, "algorithm"));
  RONDO_TRY_ASSIGN(options.args.collective, parse_name(options.collective, rondo_collective_string, "collective"));
  if (algorithm == RONDO_ALGORITHM_AUTO) return invalid_argument("auto is no algorithm to print; name one");
  RONDO_TRY_ASSIGN(const ScheduleSet set, build_schedules(algorithm, options.args));
  if (options.dot) return schedule_dot(set);
  if (options.svg) return schedule_svg(set);
  return options.json ? schedule_json(set) : schedule_text(set);
}

}  // namespace

int run_schedule(Arguments args) {
  const auto parsed = parse_options(args);
  if (parsed.ok() && std::holds_alternative<std::string>(parsed.value())) {
    std::fputs(std::get<std::string>(parsed.value()).c_str(), stdout);
    return 0;
  }
  const auto text =
      parsed.ok() ? print(std::get<ScheduleOptions>(parsed.value())) : Result<std::string>(parsed.error());
  if (!text.ok()) {
    std::fprintf(stderr, "rondo schedule: %s\n", text.error().message.c_str());
    return exit_usage;
  }
  const bool written = std::fputs(text.value().c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return written ? 0 : exit_failed;
}

}  // namespace rondo::cli
