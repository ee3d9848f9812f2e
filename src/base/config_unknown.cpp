// SPDX-License-Identifier: Apache-2.0
// This file finds misspelt variables: names RONDO_* that no code of Rondo reads, and the known names nearest to them.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "src/base/config.h"
#include "src/base/log.h"
#include "src/base/parse.h"
#include "src/base/spelling.h"

namespace rondo {
namespace {

constexpr std::string_view prefix = "RONDO_";

/// Variables that describe a job, which src/bootstrap/launch/environment.h reads.
constexpr std::array<std::string_view, 7> job_variables{"RONDO_RANK",   "RONDO_SIZE", "RONDO_LOCAL_RANK",
                                                        "RONDO_STORE",  "RONDO_SECRET", "RONDO_PORT",
                                                        "RONDO_RENDEZVOUS_DIR"};
/// Variables of CMake (the location of the package), of libnccl.so.2, and of the project's own tests and scripts.
constexpr std::array<std::string_view, 11> foreign_variables{
    "RONDO_ROOT",        "RONDO_DIR",          "RONDO_SEED",      "RONDO_SEED_COUNT", "RONDO_NETWORK_SEEDS",
    "RONDO_SOURCE_ROOT", "RONDO_DISAGREEMENTS", "RONDO_DRIVER_PEER", "RONDO_KERNELS_ARCHITECTURES", "RONDO_JOBS",
    "RONDO_NCCL_VERSION"};
constexpr std::array<std::string_view, 2> foreign_prefixes{"RONDO_TEST_", "RONDO_CHAOS_"};

std::vector<std::string_view> known_variables() {
  std::vector<std::string_view> names(job_variables.begin(), job_variables.end());
  for (const ConfigVariable &variable : config_variables()) names.emplace_back(variable.name);
  return names;
}

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Returns the nearest known name, or "" if no name is near. A name is near if at most two letters differ, or at most a
/// third of the letters after RONDO_.
std::string nearest(std::string_view name, std::span<const std::string_view> known) {
  std::string list;
  for (const std::string_view each : known) list += (list.empty() ? "" : ", ") + std::string(each);
  return nearest_name(name, list, std::max<size_t>((name.size() - prefix.size()) / 3, 2));
}

}  // namespace

std::vector<std::string> unknown_variables(std::span<const std::string> entries) {
  std::vector<std::string> lines;
  const std::vector<std::string_view> known = known_variables();
  for (const std::string_view entry : entries) {
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(prefix) || contains(known, name) || contains(foreign_variables, name)) continue;
    if (std::ranges::any_of(foreign_prefixes, [&](std::string_view each) { return name.starts_with(each); })) continue;
    const std::string meant = nearest(name, known);
    lines.push_back("the environment has " + in_quotes(name) + ", which Rondo does not know; " +
                    (meant.empty() ? "rondo info lists the variables that it does"
                                   : "did you mean " + meant + "?"));
  }
  return lines;
}

void warn_of_unknown_variables() {
  static const bool told = [] {
    const char *rank = std::getenv("RONDO_RANK");
    if (rank != nullptr && std::string_view(rank) != "0") return true;
    std::vector<std::string> entries;
    for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry) entries.emplace_back(*entry);
    for (const std::string &line : unknown_variables(entries)) log::warning(log::Subsystem::config, line);
    return true;
  }();
  static_cast<void>(told);
}

}  // namespace rondo
