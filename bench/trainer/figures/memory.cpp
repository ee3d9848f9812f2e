// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/figures/memory.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace rondo::train {
namespace {

/// Returns the sum of the entries with these two names in a file of /proc, converted from kB to bytes. A name may be
/// null.
size_t sum_of(const char *path, const char *one, const char *other) {
  std::ifstream file(path);
  size_t kilobytes = 0;
  for (std::string line; std::getline(file, line);)
    for (const char *name : {one, other})
      if (name != nullptr && line.starts_with(name))
        kilobytes += std::strtoull(line.c_str() + std::strlen(name), nullptr, 10);
  return kilobytes * 1024;
}

}  // namespace

size_t process_memory_bytes() { return sum_of("/proc/self/smaps_rollup", "Pss_Anon:", "Pss_Shmem:"); }

size_t process_status_bytes(const char *name) { return sum_of("/proc/self/status", name, nullptr); }

}  // namespace rondo::train
