// SPDX-License-Identifier: Apache-2.0
// This file is `rondo info`, which shows what Rondo finds on this machine and would choose there.
#include <array>
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/cli/commands.h"
#include "src/cli/info/info_report.h"
#include "src/cli/subcommand.h"
#include "src/console/command_line.h"
#include "src/console/output.h"
#include "src/console/terminal.h"

namespace rondo::cli {
namespace {

constexpr uint32_t rank_count_max = 1u << 20;

struct InfoOptions {
  std::string json;          ///< a file to write, "-" for standard output
  uint32_t rank_count = 0;   ///< 0: the number of usable cores
  uint32_t host_count = 1;   ///< hosts of these ranks
  std::string topology_xml;  ///< a file to write, "-" for standard output
};

constexpr console::Manual info_manual{
    "rondo info",
    "Shows what Rondo finds on this machine, what is configured, and which plans it would choose here. For a job "
    "on\nseveral hosts, RONDO_LOG=debug reports the same once the ranks have met.",
    "rondo info [OPTIONS]",
    "  rondo info --ranks 4\n"
    "  rondo info --ranks 16 --hosts 2                     plans for a job of two hosts like this one\n"
    "  RONDO_ALGORITHM=tree rondo info --json info.json    with what a variable changes; the file is for scripts\n"
    "  rondo info --topology-xml here.xml                  for RONDO_TOPOLOGY_FILE on another machine\n"};

Result<Parsed<InfoOptions>> parse_info_options(Arguments args) {
  InfoOptions options;
  console::CommandLine app(info_manual);
  app.add_option("--ranks", options.rank_count, "show the plans for N ranks, 1 to 1048576 [one for each usable core]")
      ->check(console::InRange(1u, rank_count_max))
      ->type_name("N");
  app.add_option("--hosts", options.host_count, "spread them over N hosts like this one, 1 to 1048576 [1]")
      ->check(console::InRange(1u, rank_count_max))
      ->type_name("N");
  app.add_json(options.json, "write the same");
  app.add_option("--topology-xml", options.topology_xml,
                 "write the topology, devices and NVLinks included, as hwloc XML to FILE (- is standard output), for "
                 "RONDO_TOPOLOGY_FILE, and no more")
      ->type_name("FILE");
  if (auto answer = app.read(args)) {
    if (answer->is_help) return Parsed<InfoOptions>(std::move(answer->text));
    return invalid_argument(std::move(answer->text));
  }
  const std::array outputs{console::Output{"--json", options.json},
                           console::Output{"--topology-xml", options.topology_xml}};
  for (const console::Complaint &complaint : {console::check_shared(outputs), console::check_output(options.json),
                                              console::check_output(options.topology_xml)})
    if (complaint) return invalid_argument(*complaint);
  return Parsed<InfoOptions>(std::move(options));
}

Result<void> show(const InfoOptions &options) {
  InfoInput input;
  RONDO_TRY_ASSIGN(input.config, read_config());
  if (!options.topology_xml.empty()) {
    RONDO_TRY_ASSIGN(const std::string xml, export_topology_xml(input.config));
    return write_text(options.topology_xml, xml);
  }
  input.capabilities = find_capabilities();  // before other libraries have started threads
  RONDO_TRY_ASSIGN(input.found, discover_devices(input.config));
  if (!input.config.tuning_file.empty()) {
    RONDO_TRY_ASSIGN(input.table, read_tuning_file(input.config.tuning_file));
  }
  input.rank_count = options.rank_count != 0 ? options.rank_count : usable_core_count(input.found.topology);
  input.host_count = options.host_count;
  if (options.rank_count == 0) input.rank_count *= options.host_count;
  if (input.rank_count < input.host_count)
    return invalid_argument(std::to_string(input.rank_count) + " ranks cannot be on " +
                            std::to_string(input.host_count) + " hosts; give at least one rank for each");
  const auto document = info_document(input);
  if (options.json != "-") RONDO_TRY(write_text("-", console::fitted(info_text(document), stdout)));
  if (options.json.empty()) return {};
  // Names from files and the environment may not be UTF-8, so replace bad bytes, for which the JSON writer would throw.
  return write_text(options.json, document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace

int run_info(Arguments args) {
  const auto parsed = parse_info_options(args);
  if (!parsed.ok()) {
    std::fprintf(stderr, "rondo info: %s\n", parsed.error().message.c_str());
    return exit_usage;
  }
  if (const auto *help = std::get_if<std::string>(&parsed.value())) {
    std::fputs(help->c_str(), stdout);
    return 0;
  }
  const auto shown = show(std::get<InfoOptions>(parsed.value()));
  if (shown.ok()) return 0;
  std::fprintf(stderr, "rondo info: %s\n", shown.error().message.c_str());
  return shown.error().status == RONDO_ERROR_INVALID_ARGUMENT ? exit_usage : exit_failed;
}

}  // namespace rondo::cli
