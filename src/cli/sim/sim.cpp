// SPDX-License-Identifier: Apache-2.0
// This file is `rondo sim`. It estimates how long a collective would take among many ranks, from the description of a
// network.
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/base/config.h"
#include "src/base/names.h"
#include "src/base/parse.h"
#include "src/cli/collective_option.h"
#include "src/cli/commands.h"
#include "src/cli/sim/sim.h"
#include "src/cli/subcommand.h"
#include "src/console/command_line.h"
#include "src/console/output.h"
#include "src/console/progress.h"
#include "src/console/terminal.h"
#include "src/plan/collective.h"
#include "src/proto/exchange.h"

namespace rondo::cli {
namespace {

struct SimOptions {
  std::string algorithm = "auto", collective = "all_reduce", protocol = "auto", kernel = "interpreter", bytes = "1G",
              chunk;
  std::string topology, table, json, plot;
  uint32_t ranks = 0, nodes = 0, gpus = 0, rack_nodes = 0, root = 0, channels = 0;
  bool in_place = false, every = false, alone = false;
};

constexpr console::Manual sim_manual{
    "rondo sim",
    "Simulates a collective without starting its ranks. The real schedules run on a model of links and ports, which "
    "has\ntimes and no data. share/doc/rondo/docs/simulator.md describes the model.",
    "rondo sim [OPTIONS]",
    "  rondo sim --ranks 16384 --algorithm ring --bytes 1G    how long a ring among 16,384 ranks takes\n"
    "  rondo sim --nodes 16 --gpus 8 --plot sim.svg           draw all algorithms by size and by ranks\n"
    "  rondo sim --table here.json --ranks 4 --json           this machine, as rondo tune has measured it\n"};

void add_place_options(console::CommandLine &app, SimOptions &options) {
  app.begin_group("The network");
  app.add_option("--ranks", options.ranks, "number of ranks, 1 to 1048576 [all of the nodes, or 16]")
      ->check(console::InRange(1u, sim::sim_rank_count_max))
      ->type_name("N");
  app.add_option("--nodes", options.nodes, "number of nodes, 1 to 1048576")
      ->check(console::InRange(1u, sim::sim_rank_count_max))
      ->type_name("N");
  app.add_option("--gpus", options.gpus, "ranks of a node, 1 to 4096 [8]")
      ->check(console::InRange(1u, 4096u))
      ->type_name("N");
  app.add_option("--rack", options.rack_nodes, "nodes of a rack [all are in one]")->type_name("N");
  app.add_option("--topology", options.topology, "read nodes, links and costs from a JSON file")->type_name("FILE");
  app.add_option("--table", options.table, "links and costs of this machine, from a table that rondo tune has written")
      ->type_name("FILE");
}

void add_case_options(console::CommandLine &app, SimOptions &options) {
  app.begin_group("The collective");
  app.add_option("--collective", options.collective, known_collectives() + " [all_reduce]")->type_name("NAME");
  app.add_option("--bytes", options.bytes, "size of the whole vector; in an all_to_all, of a rank's buffer [1G]")
      ->type_name("SIZE");
  app.add_option("--root", options.root, "root of a broadcast, reduce, gather or scatter [0]")->type_name("RANK");
  app.add_flag("--in-place", options.in_place, "send and receive buffers coincide");
  app.begin_group("The plan");
  app.add_option("--algorithm", options.algorithm,
                 "auto, ring, tree, halving_doubling, one_shot, two_shot, hierarchical or hierarchical_tree; auto is "
                 "the tuner's choice [auto]")
      ->type_name("NAME");
  app.add_option("--protocol", options.protocol, "auto, simple or ll [auto]")->type_name("NAME");
  app.add_option("--kernel", options.kernel,
                 "interpreter; or load_store, for an all_reduce among 2 to 64 ranks of one node [interpreter]")
      ->type_name("NAME");
  app.add_option("--channels", options.channels, "parallel lanes, 1 to 128 [the tuner's choice]")
      ->check(console::InRange(1u, device_channels_max))
      ->type_name("N");
  app.add_option("--chunk-bytes", options.chunk, "the schedule's unit, from 64 [the tuner's choice]")
      ->type_name("SIZE");
}

Result<Parsed<SimOptions>> parse_sim_options(Arguments args) {
  SimOptions options;
  console::CommandLine app(sim_manual);
  add_place_options(app, options);
  add_case_options(app, options);
  app.begin_group("Output");
  app.add_json(options.json, "write the result");
  app.add_option("--plot,--sweep", options.plot,
                 "draw time by size, and by ranks to 131072, into FILE.svg, in a minute or two; - is standard output")
      ->type_name("FILE");
  app.add_flag("--alone", options.alone, "do not compare with the other algorithms");
  app.add_flag("--every", options.every,
               "simulate every rank and tile, even those that repeat: slow, with the same result");
  if (auto answer = app.read(args)) {
    if (answer->is_help) return Parsed<SimOptions>(std::move(answer->text));
    return invalid_argument(std::move(answer->text));
  }
  const std::array outputs{console::Output{"--json", options.json}, console::Output{"--plot", options.plot}};
  for (const console::Complaint &complaint :
       {console::check_shared(outputs), console::check_plot(options.plot), console::check_output(options.json),
        console::check_output(options.plot)})
    if (complaint) return invalid_argument(*complaint);
  return Parsed<SimOptions>(std::move(options));
}

/// Sets the nodes from the options, unless the file has them.
Result<void> choose_nodes(const SimOptions &options, sim::Network *network) {
  constexpr uint32_t node_rank_count_default = 8, rank_count_default = 16;
  const bool asked = options.nodes != 0 || options.gpus != 0 || options.rack_nodes != 0;
  if (!network->nodes.empty()) {
    if (asked || (options.ranks != 0 && options.ranks != network->rank_count()))
      return invalid_argument("the topology file has " + std::to_string(network->nodes.size()) + " nodes with " +
                              std::to_string(network->rank_count()) +
                              " ranks; leave --ranks, --nodes, --gpus and --rack out, or the nodes from the file");
    return {};
  }
  uint64_t gpus = options.gpus;
  if (gpus == 0 && options.nodes != 0 && options.ranks != 0) gpus = (options.ranks + options.nodes - 1) / options.nodes;
  if (gpus == 0) gpus = node_rank_count_default;
  const uint64_t all = uint64_t{options.nodes} * gpus;
  const uint64_t ranks = options.ranks != 0 ? options.ranks : all != 0 ? all : rank_count_default;
  if ((all != 0 && ranks > all) || ranks > sim::sim_rank_count_max)
    return invalid_argument(std::to_string(ranks) + " ranks do not fit: " + std::to_string(options.nodes) +
                            " nodes of " + std::to_string(gpus) + " have " + std::to_string(all) + ", and " +
                            std::to_string(sim::sim_rank_count_max) + " can be simulated");
  network->nodes = sim::even_nodes(static_cast<uint32_t>(ranks), static_cast<uint32_t>(gpus), options.rack_nodes);
  if (options.nodes != 0 && network->nodes.size() != options.nodes)
    return invalid_argument(std::to_string(ranks) + " ranks fill " + std::to_string(network->nodes.size()) +
                            " nodes of " + std::to_string(gpus) + ", not " + std::to_string(options.nodes));
  return {};
}

struct Question {
  sim::SimCase what;
  std::optional<TunedNetworks> tuned;
};

/// Takes the network from the tuning table, which covers one machine and the measured numbers of ranks.
Result<void> choose_tuned(const SimOptions &options, Question *question) {
  if (!options.topology.empty() || options.nodes != 0 || options.gpus != 0 || options.rack_nodes != 0)
    return invalid_argument("--table describes the machine; leave --topology, --nodes, --gpus and --rack out");
  if (!options.plot.empty())
    return invalid_argument(
        "--plot needs costs for many numbers of ranks, which the table of one machine does not have; leave it out, or "
        "give --topology");
  sim::SimCase &what = question->what;
  RONDO_TRY_ASSIGN(question->tuned, TunedNetworks::read(options.table, what.collective, what.overrides.kernel));
  RONDO_TRY_ASSIGN(what.network, question->tuned->at(options.ranks, what.bytes));
  return {};
}

/// Returns an error for load_store among ranks on several hosts. It names the options that put the ranks on one host.
Result<void> check_kernel(const sim::SimCase &what) {
  const uint64_t ranks = what.network.rank_count();
  const bool fit = ranks >= 2 && ranks <= exchange_rank_count_max;
  if (what.overrides.kernel != RONDO_KERNEL_LOAD_STORE || (fit && what.network.nodes.size() == 1)) return {};
  return invalid_argument("the kernel 'load_store' is for 2 to " + std::to_string(exchange_rank_count_max) +
                          " ranks that are all on one host" +
                          (fit ? "; name `--nodes 1 --gpus " + std::to_string(ranks) + "`" : ""));
}

Result<Question> make_question(const SimOptions &options) {
  Question question;
  sim::SimCase &what = question.what;
  RONDO_TRY_ASSIGN(what.overrides.algorithm, parse_name(options.algorithm, rondo_algorithm_string, "algorithm"));
  RONDO_TRY_ASSIGN(what.overrides.protocol, parse_name(options.protocol, rondo_protocol_string, "protocol"));
  RONDO_TRY_ASSIGN(what.overrides.kernel, parse_name(options.kernel, rondo_kernel_string, "kernel"));
  RONDO_TRY_ASSIGN(what.collective, read_collective(options.collective));
  RONDO_TRY_ASSIGN(what.bytes, parse_bytes(options.bytes, 1, uint64_t{1} << 50));
  if (!options.chunk.empty()) {
    RONDO_TRY_ASSIGN(what.overrides.chunk_bytes, parse_bytes(options.chunk, 64, uint64_t{1} << 40));
  }
  what.overrides.channels = options.channels;
  what.root = options.root;
  what.in_place = options.in_place;
  what.use_symmetry = what.use_period = !options.every;
  if (!options.table.empty()) {
    RONDO_TRY(choose_tuned(options, &question));
  } else {
    if (!options.topology.empty()) RONDO_TRY(read_network(options.topology, &what.network));
    RONDO_TRY(choose_nodes(options, &what.network));
  }
  RONDO_TRY(sim::check_network(what.network));
  set_exchange(&what.network);
  RONDO_TRY(check_kernel(what));
  return question;
}

Result<void> report(const SimOptions &options, const Question &question) {
  const sim::SimCase &what = question.what;
  sim::SimCase compared = what;
  compared.use_symmetry = compared.use_period = true;
  compared.overrides = {};
  compared.overrides.kernel = what.overrides.kernel;
  const bool by_ranks = !options.plot.empty(), by_size = !options.alone || by_ranks;
  const auto ranks = static_cast<double>(what.network.rank_count());
  console::Progress progress("rondo sim");
  Effort effort(ranks + (by_size ? effort_by_size(compared) : 0) + (by_ranks ? effort_by_ranks(compared) : 0),
                [&progress](double part) { progress.reach(part); });
  sim::Simulator simulator;
  effort.begin(simulator, ranks);
  RONDO_TRY_ASSIGN(const sim::SimResult result, simulator.simulate(what));
  effort.end(ranks);
  SimComparison sizes;
  if (by_size) sizes = compare_by_size(compared, simulator, question.tuned ? &*question.tuned : nullptr, effort);
  const std::string drawing = by_ranks ? sim_svg(compared, sizes, compare_by_ranks(compared, effort)) : "";
  progress.wipe();
  if (options.json != "-" && options.plot != "-")
    RONDO_TRY(write_text("-", console::fitted(sim_text(what, result, sizes), stdout)));
  if (!options.json.empty()) RONDO_TRY(write_text(options.json, sim_json(what, result, sizes)));
  if (by_ranks) RONDO_TRY(write_text(options.plot, drawing));
  return {};
}

Result<void> answer(const SimOptions &options) {
  RONDO_TRY_ASSIGN(const Question question, make_question(options));
  return report(options, question);
}

}  // namespace

int run_sim(Arguments args) {
  const auto parsed = parse_sim_options(args);
  if (parsed.ok() && std::holds_alternative<std::string>(parsed.value())) {
    std::fputs(std::get<std::string>(parsed.value()).c_str(), stdout);
    return 0;
  }
  const auto fail = [](const Error &error) {
    std::fprintf(stderr, "rondo sim: %s\n", error.message.c_str());
    return error.status == RONDO_ERROR_INVALID_ARGUMENT || error.status == RONDO_ERROR_UNSUPPORTED ? exit_usage
                                                                                                    : exit_failed;
  };
  if (!parsed.ok()) return fail(parsed.error());
  const auto &options = std::get<SimOptions>(parsed.value());
  const auto done = answer(options);
  return done.ok() ? 0 : fail(done.error());
}

}  // namespace rondo::cli
