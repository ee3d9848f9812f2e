// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/process_name.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace rondo::cuda {
namespace {

/// Field 22 of /proc/self/stat.
uint64_t own_start_ticks() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');  // the name may hold anything, blanks among it
  if (name_end == std::string::npos) return 0;
  size_t at = name_end + 1;
  for (int field = 3; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at, nullptr, 10);
}

}  // namespace

ProcessName own_process() { return {static_cast<uint64_t>(::getpid()), own_start_ticks()}; }

}  // namespace rondo::cuda
