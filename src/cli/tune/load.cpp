// SPDX-License-Identifier: Apache-2.0
// This file measures how busy the processors are, to distinguish quiet rounds from rounds in which other programs
// computed.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "src/cli/tune/tune.h"

namespace rondo::cli::tune {

std::optional<double> busy_seconds_of(std::string_view stat, std::span<const uint32_t> os_indices,
                                      double ticks_per_second) {
  std::istringstream lines{std::string(stat)};
  std::string line;
  double ticks = 0;
  size_t found = 0;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name.size() < 4 || name.rfind("cpu", 0) != 0 || name.find_first_not_of("0123456789", 3) != std::string::npos)
      continue;
    const auto number = std::stoul(name.substr(3, 6));
    if (std::find(os_indices.begin(), os_indices.end(), number) == os_indices.end()) continue;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0, stolen = 0;
    if (!(words >> user >> nice >> system >> idle >> waiting >> interrupts >> soft >> stolen)) return std::nullopt;
    ticks += user + nice + system + interrupts + soft + stolen;
    ++found;
  }
  if (found == 0 || found != os_indices.size()) return std::nullopt;
  return ticks / ticks_per_second;
}

std::optional<double> Load::read() const {
  std::ifstream file("/proc/stat");
  std::ostringstream text;
  if (!(text << file.rdbuf())) return std::nullopt;
  return busy_seconds_of(text.str(), os_indices_, static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

std::optional<double> Load::busy_seconds() const {
  const auto now = read();
  if (!now || !begin_) return std::nullopt;
  return *now - *begin_;
}

}  // namespace rondo::cli::tune
