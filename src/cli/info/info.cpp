// SPDX-License-Identifier: Apache-2.0
// `rondo info`: what Rondo finds on this machine and would do there.
#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/cli/commands.h"
#include "src/cli/info/report.h"

namespace rondo::cli {
namespace {

constexpr uint32_t rank_count_max = 1u << 20;

struct InfoOptions {
  bool json = false;
  uint32_t rank_count = 0;   ///< 0: as many as there are usable cores
  uint32_t host_count = 1;   ///< of those ranks
  std::string topology_xml;  ///< a file to write, "-" for standard output
};

using Parsed = std::variant<InfoOptions, std::string>;  // the string is the help

Result<Parsed> parse_options(Arguments args) {
  InfoOptions options;
  CLI::App app("Tells what Rondo finds on this machine, what is configured, and which plans it would choose.",
               "rondo info");
  app.add_flag("--json", options.json, "Print the same as JSON");
  app.add_option("--ranks", options.rank_count, "Show the plans for N ranks (default: one for each usable core)")
      ->check(CLI::Range(1u, rank_count_max))
      ->type_name("N");
  app.add_option("--hosts", options.host_count, "Spread them over N hosts like this one (default 1)")
      ->check(CLI::Range(1u, rank_count_max))
      ->type_name("N");
  app.add_option("--topology-xml", options.topology_xml,
                 "Write the topology, devices and NVLinks included, to F (- for standard output) as hwloc XML, for "
                 "RONDO_TOPOLOGY_FILE, and no more")
      ->type_name("F");
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // CLI11 wants the last argument first
  } catch (const CLI::CallForHelp &) {
    return Parsed(app.help());
  } catch (const CLI::Error &error) {
    return invalid_argument(std::string(error.what()) + "; see rondo info --help");
  }
  return Parsed(std::move(options));
}

Result<void> write_topology(const std::string &path, const Config &config) {
  RONDO_TRY_ASSIGN(const std::string xml, export_topology_xml(config));
  if (path == "-") {
    if (std::fwrite(xml.data(), 1, xml.size(), stdout) != xml.size()) return system_error("standard output", errno);
    return {};
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << xml << std::flush;
  if (!file) return system_error("cannot write " + path, errno);
  return {};
}

Result<void> show(const InfoOptions &options) {
  InfoInput input;
  RONDO_TRY_ASSIGN(input.config, read_config());
  if (!options.topology_xml.empty()) return write_topology(options.topology_xml, input.config);
  input.capabilities = find_capabilities();  // while there are no threads of other libraries
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
  // Names come from files and the environment: what is not UTF-8 is replaced, not thrown at us.
  const std::string text = options.json ? document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                                        : info_text(document);
  std::fputs(text.c_str(), stdout);
  return {};
}

}  // namespace

int run_info(Arguments args) {
  const auto parsed = parse_options(args);
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
  return exit_failed;
}

}  // namespace rondo::cli
