// SPDX-License-Identifier: Apache-2.0
// The tests of regions and of moved pages share these helpers.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "src/base/unique_handle.h"
#include "tests/catch.h"

namespace rondo {

inline size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

/// Returns the number of open descriptors of this process.
inline int descriptor_count() {
  DIR *directory = ::opendir("/proc/self/fd");
  REQUIRE(directory != nullptr);
  int count = 0;
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

/// Returns the permissions of the mapping at `pointer`, such as "rw-s".
inline std::string permissions_at(const void *pointer) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    unsigned long begin = 0, end = 0;
    char permissions[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, permissions) != 3) continue;
    if (reinterpret_cast<uintptr_t>(pointer) >= begin && reinterpret_cast<uintptr_t>(pointer) < end) return permissions;
  }
  return "none";
}

/// Maps the memfd `descriptor` of this process in another process, which opens it through /proc and shares no memory.
/// The other process checks that each byte is `expected`, and writes `written` to each. Returns true if all of this
/// succeeds.
inline bool peer_sees_and_writes(int descriptor, size_t bytes, std::byte expected, std::byte written) {
  const std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    void *mapped = file < 0 ? MAP_FAILED : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) ::_exit(2);
    auto *at = static_cast<volatile std::byte *>(mapped);
    for (size_t i = 0; i < bytes; ++i) {
      if (at[i] != expected) ::_exit(1);
      at[i] = written;
    }
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

inline bool all_equal(const void *memory, size_t bytes, std::byte value) {
  const auto *at = static_cast<const std::byte *>(memory);
  for (size_t i = 0; i < bytes; ++i)
    if (at[i] != value) return false;
  return true;
}

}  // namespace rondo
