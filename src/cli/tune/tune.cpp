// SPDX-License-Identifier: Apache-2.0
// This file is `rondo tune`. It measures this machine, writes the table that RONDO_TUNING_FILE loads, and shows what
// the table chooses.
#include "src/cli/tune/runs.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "src/base/parse.h"
#include "src/console/output.h"

namespace rondo::cli {
namespace {

using namespace tune;

constexpr double cost_seconds = 0.1, quick_cost_seconds = 0.02;  // time to measure each rate

/// Reads the configuration. A tuning table and requests such as an algorithm are removed from the environment, because
/// the measurement compares such choices. Settings such as slots and waiting stay.
Result<Config> configuration() {
  for (const char *name : {"RONDO_ALGORITHM", "RONDO_PROTOCOL", "RONDO_KERNEL", "RONDO_CHANNELS", "RONDO_CHUNK_BYTES",
                           "RONDO_TUNING_FILE"}) {
    if (const char *value = std::getenv(name); value != nullptr && *value != '\0')
      std::fprintf(stderr, "rondo tune: ignores %s\n", name);
    ::unsetenv(name);
  }
  RONDO_TRY_ASSIGN(const Config config, read_config());
  if (!config.topology_file.empty())
    return invalid_argument("RONDO_TOPOLOGY_FILE describes another machine, but this one is measured; unset it");
  return config;
}

/// Reports the runs that other programs disturbed, and adds the undisturbed sizes to the findings.
void take_quiet(const Options &options, Measured measured, Findings &findings) {
  if (measured.repeated_count != 0 || measured.disturbed_count != 0)
    std::fprintf(stderr, "  other programs disturbed %s; measured again: %u\n",
                 counted(measured.repeated_count + measured.disturbed_count, "run").c_str(), measured.repeated_count);
  if (!options.keep_disturbed) {
    const std::vector<uint64_t> lacking = drop_disturbed(measured);
    for (const uint64_t bytes : lacking)
      std::fprintf(stderr, "  %8s  is left out of the table: other programs disturbed every run\n",
                   show_bytes(bytes).c_str());
    findings.lacks_sizes |= !lacking.empty();
  }
  if (!measured.series.empty()) findings.all.push_back(std::move(measured));
}

/// A file beside the output, which holds the table until the table is known to be valid, and then replaces the output.
/// If the output is standard output, a device or a FIFO, the file is a temporary file.
class Partial {
 public:
  explicit Partial(const std::string &output)
      : place_(console::output_place(output)), replaces_(output != "-" && place_.can_be_replaced),
        path_(place_.path + ".partial") {
    if (replaces_) return;
    const char *base = std::getenv("TMPDIR");
    path_ = (base != nullptr && *base != '\0' ? std::string(base) : "/tmp") + "/rondo-tuning-XXXXXX";
    if (const int file = ::mkstemp(path_.data()); file >= 0) (void)::close(file);
  }
  Partial(const Partial &) = delete;
  Partial &operator=(const Partial &) = delete;
  ~Partial() { (void)std::remove(path_.c_str()); }
  [[nodiscard]] const std::string &path() const { return path_; }

  /// Moves the table to the output.
  [[nodiscard]] Result<void> publish(const std::string &output, const std::string &document) const {
    if (!replaces_) {
      if (auto complaint = console::write_output(output, document))
        return Error{RONDO_ERROR_SYSTEM, std::move(*complaint)};
    } else if (std::rename(path_.c_str(), place_.path.c_str()) != 0) {
      return system_error("cannot rename " + path_, errno);
    }
    return {};
  }

 private:
  console::OutputPlace place_;
  bool replaces_;
  std::string path_;
};

/// Writes and shows the table. Returns false if a choice is too slow.
Result<bool> conclude(const Findings &findings, const Partial &partial, const std::string &output) {
  const std::string document = document_text(findings, build_rows(findings.all));
  RONDO_TRY(write_file(partial.path(), document));
  // The comparison uses the table as the library will read it.
  auto table = read_tuning_file(partial.path());
  if (!table.ok()) return Error{RONDO_ERROR_INTERNAL, "its own table is refused: " + table.error().message};
  RONDO_TRY(partial.publish(output, document));
  const bool to_output = output == "-";
  const auto comparisons = compare(findings.all, table.value(), findings.config);
  const char *const name = to_output ? "FILE" : output.c_str();
  std::fprintf(to_output ? stderr : stdout, "%s%s%s: %s; use it with RONDO_TUNING_FILE=%s\n",
               costs_text(findings.costs).c_str(), comparison_text(comparisons).c_str(),
               to_output ? "standard output" : name, counted(table.value().rows().size(), "row").c_str(), name);
  if (findings.lacks_sizes)
    std::fprintf(stderr, "rondo tune: the table lacks sizes; end the other programs and run this again\n");
  return worst_ratio(comparisons) <= ratio_max && !findings.lacks_sizes;
}

Result<void> measure_on_host(const Options &options, Findings &findings) {
  RONDO_TRY_ASSIGN(const auto groups, host_groups(options, usable_core_count(findings.topology)));
  RONDO_TRY_ASSIGN(auto all, measure_groups(options, findings.config, groups));
  for (Measured &measured : all) take_quiet(options, std::move(measured), findings);
  if (findings.all.empty())
    return Error{RONDO_ERROR_SYSTEM, "no table is written: other programs disturbed every run of every size; end "
                                     "them and run this again, or give --keep-disturbed"};
  if (options.hosts.empty())
    findings.costs = measure_costs(findings.topology, options.quick ? quick_cost_seconds : cost_seconds);
  return {};
}

Result<bool> measure_here(const Options &options) {
  Findings findings;
  RONDO_TRY_ASSIGN(findings.config, configuration());
  RONDO_TRY_ASSIGN(findings.topology, discover_topology(findings.config));
  const Partial partial(options.output);
  RONDO_TRY(write_file(partial.path(), ""));  // an error now is better than after the measurements
  if (options.device.empty()) {
    RONDO_TRY(measure_on_host(options, findings));
  } else {
    RONDO_TRY_ASSIGN(const auto groups, device_groups(options, findings.config));
    RONDO_TRY_ASSIGN(findings.all, measure_groups(options, findings.config, groups));
  }
  return conclude(findings, partial, options.output);
}

}  // namespace

int run_tune(Arguments args) {
  const auto parsed = parse_options(args);
  if (!parsed.ok()) {
    std::fprintf(stderr, "rondo tune: %s\n", parsed.error().message.c_str());
    return exit_usage;
  }
  if (const auto *help = std::get_if<std::string>(&parsed.value())) {
    std::fputs(help->c_str(), stdout);
    return 0;
  }
  const auto &options = std::get<Options>(parsed.value());
  const auto good = measure_here(options);
  if (!good.ok()) {
    std::fprintf(stderr, "rondo tune: %s\n", good.error().message.c_str());
    return good.error().status == RONDO_ERROR_INVALID_ARGUMENT ? exit_usage : exit_failed;
  }
  return good.value() ? 0 : exit_failed;
}

}  // namespace rondo::cli
