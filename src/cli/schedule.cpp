// SPDX-License-Identifier: Apache-2.0
// `rondo schedule` prints the schedule of an algorithm for people.
#include <array>
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "src/base/names.h"
#include "src/base/spelling.h"
#include "src/cli/collective_option.h"
#include "src/cli/commands.h"
#include "src/cli/subcommand.h"
#include "src/console/command_line.h"
#include "src/console/output.h"
#include "src/plan/print/print.h"
#include "src/plan/schedule.h"

namespace rondo::cli {
namespace {

constexpr uint32_t schedule_rank_count_max = 4096;  // the text of a larger ring would have hundreds of megabytes

struct ScheduleOptions {
  std::string algorithm = "ring", collective = "all_reduce";
  ScheduleArgs args{.rank_count = 4};
  std::string json, plot;  ///< files, "-" for standard output; empty if not requested
  bool dot = false;
};

constexpr console::Manual schedule_manual{
    "rondo schedule", "Prints what each rank does in a collective: the steps of one channel and tile.",
    "rondo schedule --algorithm NAME [OPTIONS]",
    "  rondo schedule --algorithm tree --ranks 8                          as text\n"
    "  rondo schedule --algorithm ring --ranks 5 --plot ring.svg          a drawing: ranks across, time downwards\n"
    "  rondo schedule --algorithm two_shot --ranks 4 --dot | dot -Tpdf    by Graphviz\n"
    "  rondo schedule --algorithm one_shot --collective all_to_all        which block goes when\n"};

Result<Parsed<ScheduleOptions>> parse_schedule_options(Arguments args) {
  ScheduleOptions options;
  bool svg = false;
  console::CommandLine app(schedule_manual);
  app.begin_group("The schedule");
  app.add_option("--algorithm", options.algorithm,
                 "ring, tree, halving_doubling, one_shot, two_shot, hierarchical or hierarchical_tree; must be given")
      ->required()
      ->type_name("NAME");
  app.add_option("--ranks", options.args.rank_count, "number of ranks, 1 to 4096; drawings have at most 64 [4]")
      ->check(console::InRange(1u, schedule_rank_count_max))
      ->type_name("N");
  app.add_option("--collective", options.collective, known_collectives() + " [all_reduce]")->type_name("NAME");
  app.add_option("--root", options.args.root, "root of a broadcast, reduce, gather or scatter [0]")->type_name("RANK");
  app.add_option("--channel", options.args.channel, "odd channels have the tree's second form [0]")->type_name("N");
  app.add_flag("--in-place", options.args.in_place, "send and receive buffers coincide");
  app.begin_group("Output");
  app.add_json(options.json, "write it");
  app.add_option("--plot", options.plot, "draw it into FILE.svg in place of text; - is standard output")
      ->type_name("FILE");
  auto *const drawn = app.add_flag("--svg", svg, "the same as --plot -");
  app.add_flag("--dot", options.dot, "print a Graphviz graph in place of text");
  if (auto answer = app.read(args)) {
    if (answer->is_help) return Parsed<ScheduleOptions>(std::move(answer->text));
    return invalid_argument(std::move(answer->text));
  }
  if (drawn->count() != 0 && !options.plot.empty())
    return invalid_argument("--svg and --plot exclude each other; --svg is --plot -");
  if (svg) options.plot = "-";
  const std::array outputs{console::Output{"--json", options.json}, console::Output{"--plot or --svg", options.plot},
                           console::Output{"--dot", options.dot ? "-" : ""}};
  for (const console::Complaint &complaint :
       {console::check_shared(outputs), console::check_plot(options.plot), console::check_output(options.json),
        console::check_output(options.plot)})
    if (complaint) return invalid_argument(*complaint);
  return Parsed<ScheduleOptions>(std::move(options));
}

struct Text {
  std::string path, text;
};

/// Returns the names of the algorithms that have `collective`: "ring, tree".
std::string algorithms_with(rondo_collective_t collective) {
  std::string names;
  for (const Algorithm &algorithm : algorithms()) {
    if (!algorithm.supports(collective)) continue;
    if (!names.empty()) names += ", ";
    names += rondo_algorithm_string(algorithm.id);
  }
  return names;
}

/// Returns each output with its destination. The text goes to standard output, unless another output goes there. If a
/// drawing goes to a file, the text is only a line with that file's name.
Result<std::vector<Text>> print(ScheduleOptions options) {
  RONDO_TRY_ASSIGN(options.args.collective, read_collective(options.collective));
  const std::string known = algorithms_with(options.args.collective);
  const auto algorithm = parse_name(options.algorithm, rondo_algorithm_string, "algorithm");
  const Algorithm *const found = algorithm.ok() ? find_algorithm(algorithm.value()) : nullptr;
  if (found == nullptr)  // also for auto, which has no schedule
    return invalid_argument("no algorithm '" + options.algorithm + "' to print" + known_are(options.algorithm, known));
  if (!found->supports(options.args.collective))
    return invalid_argument("algorithm " + options.algorithm + " has no " + options.collective + "; name one of " +
                            known);
  RONDO_TRY_ASSIGN(const ScheduleSet set, build_schedules(found->id, options.args));
  std::vector<Text> texts;
  if (options.json != "-" && options.plot.empty() && !options.dot) texts.push_back({"-", schedule_text(set)});
  if (!options.json.empty()) texts.push_back({options.json, schedule_json(set)});
  if (options.dot) {
    RONDO_TRY_ASSIGN(std::string graph, schedule_dot(set));
    texts.push_back({"-", std::move(graph)});
  }
  if (!options.plot.empty()) {
    RONDO_TRY_ASSIGN(std::string drawing, schedule_svg(set));
    texts.push_back({options.plot, std::move(drawing)});
    if (options.plot != "-" && options.json != "-" && !options.dot) texts.push_back({"-", options.plot + " written\n"});
  }
  return texts;
}

}  // namespace

int run_schedule(Arguments args) {
  const auto parsed = parse_schedule_options(args);
  if (parsed.ok() && std::holds_alternative<std::string>(parsed.value())) {
    std::fputs(std::get<std::string>(parsed.value()).c_str(), stdout);
    return 0;
  }
  const auto texts =
      parsed.ok() ? print(std::get<ScheduleOptions>(parsed.value())) : Result<std::vector<Text>>(parsed.error());
  if (!texts.ok()) {
    std::fprintf(stderr, "rondo schedule: %s\n", texts.error().message.c_str());
    return exit_usage;
  }
  for (const Text &text : texts.value())
    if (const auto complaint = console::write_output(text.path, text.text)) {
      std::fprintf(stderr, "rondo schedule: %s\n", complaint->c_str());
      return exit_failed;
    }
  return 0;
}

}  // namespace rondo::cli
