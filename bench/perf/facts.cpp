// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/facts.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace rondo::perf {

RunFacts collect_facts(std::span<const char *const> arguments) {
  RunFacts facts;
  facts.version = version_text();
  facts.commit = source_commit;
  const time_t now = ::time(nullptr);
  tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&now, &parts) != nullptr && ::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts) != 0)
    facts.time = text.data();
  facts.arguments.assign(arguments.begin(), arguments.end());
  for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view each = *entry;
    const size_t equals = std::min(each.find('='), each.size());
    const std::string_view name = each.substr(0, equals);
    if (name == "RONDO_SECRET" || name == "RONDO_STORE") continue;
    if (!name.starts_with("RONDO_") && !name.starts_with("CUDA_")) continue;
    facts.environment.emplace_back(name, each.substr(std::min(equals + 1, each.size())));
  }
  std::sort(facts.environment.begin(), facts.environment.end());
  return facts;
}

std::string version_text() {
  int major = 0, minor = 0, patch = 0;
  rondo_version(&major, &minor, &patch);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

}  // namespace rondo::perf
