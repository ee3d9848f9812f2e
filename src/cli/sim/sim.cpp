// SPDX-License-Identifier: Apache-2.0
// `rondo sim`: how long a collective would take among so many ranks, on a network that is described, not there.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/base/names.h"
#include "src/base/parse.h"
#include "src/cli/commands.h"
#include "src/cli/sim/sim.h"

namespace rondo::cli {
namespace {

struct SimOptions {
  std::string algorithm = "auto", collective = "all_reduce", protocol = "auto", bytes = "1G", chunk;
  std::string topology, table, json, sweep;
  uint32_t ranks = 0, nodes = 0, gpus = 0, rack_nodes = 0, root = 0, channels = 0;
  bool in_place = false, every = false, alone = false;
};

using Parsed = std::variant<SimOptions, std::string>;  // the string is the help

Result<Parsed> parse_options(Arguments args) {
  SimOptions options;
  CLI::App app("Simulates a collective: the very schedules, on a model of links and ports, with times for data.",
               "rondo sim");
  app.add_option("--ranks", options.ranks, "Number of ranks (default: all of the nodes)")
      ->check(CLI::Range(1u, sim::sim_rank_count_max))
      ->type_name("N");
  app.add_option("--nodes", options.nodes, "Number of nodes")->check(CLI::Range(1u, sim::sim_rank_count_max));
  app.add_option("--gpus", options.gpus, "Ranks of a node (default 8)")->check(CLI::Range(1u, 4096u));
  app.add_option("--rack", options.rack_nodes, "Nodes of a rack (default: all are in one)")->type_name("NODES");
  app.add_option("--topology", options.topology, "Read nodes, links and costs from a JSON file")->type_name("FILE");
  app.add_option("--table", options.table,
                 "Take links and costs of this machine from a table that rondo tune has written")
      ->type_name("FILE");
  app.add_option("--algorithm", options.algorithm,
                 "auto (default), ring, tree, halving_doubling, one_shot, two_shot, hierarchical or "
                 "hierarchical_tree");
  app.add_option("--bytes", options.bytes, "Size of the whole vector, as in 64K or 1G (default 1G)")->type_name("SIZE");
  app.add_option("--collective", options.collective, "Default all_reduce");
  app.add_option("--root", options.root, "Root of a broadcast or reduce (default 0)")->type_name("RANK");
  app.add_flag("--in-place", options.in_place, "Send and receive buffers coincide");
  app.add_option("--protocol", options.protocol, "auto (default), simple or ll");
  app.add_option("--channels", options.channels, "Default: what the tuner chooses")->check(CLI::Range(1u, 64u));
  app.add_option("--chunk-bytes,--chunk", options.chunk, "The schedule's unit (default: what the tuner chooses)")
      ->type_name("SIZE");
  app.add_option("--json", options.json, "Write the result as JSON; - is standard output")->type_name("FILE");
  app.add_option("--sweep", options.sweep, "Draw time by size and by ranks to 131072, as SVG")->type_name("FILE");
  app.add_flag("--alone", options.alone, "Do not compare with the other algorithms");
  app.add_flag("--every", options.every, "Simulate every rank and tile, though they repeat: slow, the same result");
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // CLI11 wants the last argument first
  } catch (const CLI::CallForHelp &) {
    return Parsed(app.help());
  } catch (const CLI::Error &error) {
    return invalid_argument(std::string(error.what()) + "; see rondo sim --help");
  }
  return Parsed(std::move(options));
}

/// Nodes from the options, unless the file has them.
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

/// From the table. It is of one machine, and of the numbers of ranks that were measured.
Result<void> choose_tuned(const SimOptions &options, Question *question) {
  if (!options.topology.empty() || options.nodes != 0 || options.gpus != 0 || options.rack_nodes != 0)
    return invalid_argument("--table says what the machine is: leave --topology, --nodes, --gpus and --rack out");
  if (!options.sweep.empty())
    return invalid_argument("--sweep draws numbers of ranks that the table of one machine has no costs for; "
                            "leave it out, or give a --topology");
  sim::SimCase &what = question->what;
  RONDO_TRY_ASSIGN(question->tuned, TunedNetworks::read(options.table, what.collective));
  RONDO_TRY_ASSIGN(what.network, question->tuned->at(options.ranks, what.bytes));
  return {};
}

Result<Question> make_question(const SimOptions &options) {
  Question question;
  sim::SimCase &what = question.what;
  RONDO_TRY_ASSIGN(what.overrides.algorithm, parse_name(options.algorithm, rondo_algorithm_string, "algorithm"));
  RONDO_TRY_ASSIGN(what.overrides.protocol, parse_name(options.protocol, rondo_protocol_string, "protocol"));
  RONDO_TRY_ASSIGN(what.collective, parse_name(options.collective, rondo_collective_string, "collective"));
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
  return question;
}

Result<void> write_file(const std::string &path, const std::string &text) {
  if (path == "-") {
    if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return {};
  } else {
    std::ofstream file(path);
    if (file << text << std::flush) return {};
  }
  return Error{RONDO_ERROR_SYSTEM,
               "cannot write " + rondo::quoted(path) + "; give a file in a folder that can be written to"};
}

Result<void> report(const SimOptions &options, const Question &question) {
  const sim::SimCase &what = question.what;
  sim::Simulator simulator;
  RONDO_TRY_ASSIGN(const sim::SimResult result, simulator.simulate(what));
  SimComparison by_size;
  sim::SimCase compared = what;
  compared.use_symmetry = compared.use_period = true;
  compared.overrides = {};
  if (!options.alone || !options.sweep.empty())
    by_size = compare_by_size(compared, simulator, question.tuned ? &*question.tuned : nullptr);
  if (options.json != "-") RONDO_TRY(write_file("-", sim_text(what, result, by_size)));
  if (!options.json.empty()) RONDO_TRY(write_file(options.json, sim_json(what, result, by_size)));
  if (!options.sweep.empty())
    RONDO_TRY(write_file(options.sweep, sim_svg(compared, by_size, compare_by_ranks(compared))));
  return {};
}

}  // namespace

int run_sim(Arguments args) {
  const auto parsed = parse_options(args);
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
  const auto question = make_question(options);
  if (!question.ok()) return fail(question.error());
  const auto done = report(options, question.value());
  return done.ok() ? 0 : fail(done.error());
}

}  // namespace rondo::cli
