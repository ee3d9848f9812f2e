// SPDX-License-Identifier: Apache-2.0
#include "src/cli/status/processes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include "src/base/kernel_file.h"

namespace rondo::cli {
namespace {

std::vector<pid_t> all_processes() {
  std::vector<pid_t> processes;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry("/proc", failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const std::string name = entry->path().filename();
    pid_t process = 0;
    const auto [rest, wrong] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (wrong == std::errc{} && rest == name.data() + name.size()) processes.push_back(process);
  }
  return processes;
}

}  // namespace

std::vector<pid_t> processes_below(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t process : all_processes())
    if (const auto stat = parse_process_stat(read_kernel_file("/proc/" + std::to_string(process) + "/stat"));
        stat && process != root)
      children.emplace(stat->parent, process);
  std::vector<pid_t> found{root};
  for (size_t next = 0; next < found.size(); ++next) {  // ends: each process has one parent, so it is added once
    const auto [first, last] = children.equal_range(found[next]);
    for (auto child = first; child != last; ++child) found.push_back(child->second);
  }
  return found;
}

std::vector<pid_t> processes_of_user(bool everybody) {
  std::vector<pid_t> found;
  for (const pid_t process : all_processes()) {
    struct stat status {};
    const bool exists = ::stat(("/proc/" + std::to_string(process)).c_str(), &status) == 0;
    if (exists && (everybody || status.st_uid == ::geteuid())) found.push_back(process);
  }
  return found;
}

}  // namespace rondo::cli
