// SPDX-License-Identifier: Apache-2.0
// This file counts the threads of a process. The kernel lists a thread for a moment after another thread has joined it,
// so a count of all entries in /proc depends on chance.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace rondo_test {

/// Returns the number of threads of this process that have not begun to end. A thread that was joined does not count.
inline size_t living_threads() {
  constexpr unsigned long is_ending = 4;  // PF_EXITING of the kernel
  size_t count = 0;
  for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string text;
    std::getline(std::ifstream(task.path() / "stat"), text);
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) continue;  // it has ended since
    std::istringstream fields(text.substr(name_end + 1));
    std::string skipped;
    unsigned long flags = is_ending;
    for (int field = 0; field < 6; ++field) fields >> skipped;  // fields from the state to the terminal's process group
    fields >> flags;
    count += (flags & is_ending) == 0 ? 1 : 0;
  }
  return count;
}

}  // namespace rondo_test
