// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run/children.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "src/base/clock.h"
#include "src/base/kernel_file.h"

namespace rondo::cli {
namespace {

struct DirectoryCloser {
  void operator()(DIR *directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, DirectoryCloser>;

/// Returns the names in `path` that are numbers.
std::vector<pid_t> numbers_in(const char *path) {
  std::vector<pid_t> numbers;
  const Directory directory(::opendir(path));
  while (directory != nullptr) {  // ends with the directory
    const dirent *entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    if (const int number = std::atoi(entry->d_name); number > 0) numbers.push_back(number);
  }
  return numbers;
}

/// Reads the parent of every process. This is for kernels without /proc/PID/task/TID/children.
std::vector<pid_t> search_children() {
  std::vector<pid_t> children;
  const std::string self = std::to_string(::getpid());
  for (const pid_t pid : numbers_in("/proc")) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(stat, text);
    const size_t name_end = text.rfind(')');  // "pid (name) state parent ..."; the name may hold anything
    if (name_end == std::string::npos || text.size() < name_end + 4) continue;
    const std::string rest = text.substr(name_end + 4);
    if (rest.substr(0, rest.find(' ')) == self) children.push_back(pid);
  }
  return children;
}

void sleep_ns(long time_ns) {
  const timespec time{.tv_sec = 0, .tv_nsec = time_ns};
  ::nanosleep(&time, nullptr);
}

}  // namespace

bool become_subreaper() { return ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0; }

std::vector<pid_t> list_children() {
  std::vector<pid_t> children;
  if (!proc_has_own_numbers()) return children;  // other numbers, by which this process would signal strangers
  bool known = false;
  for (const pid_t thread : numbers_in("/proc/self/task")) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/children");
    known = known || file.is_open();
    for (pid_t pid = 0; file >> pid;) children.push_back(pid);
  }
  return known ? children : search_children();
}

bool reap_children(const ChildEnded &ended) {
  while (true) {  // one round for each ended child
    int wait_status = 0;
    const pid_t pid = ::waitpid(-1, &wait_status, WNOHANG | __WALL);
    if (pid == 0) return true;
    if (pid < 0) return errno != ECHILD;
    ended(pid, wait_status);
  }
}

uint32_t kill_children(uint64_t deadline_ns, const ChildEnded &ended) {
  while (true) {  // ends at the deadline; each round goes one generation deeper
    const std::vector<pid_t> children = list_children();
    for (const pid_t child : children) ::kill(child, SIGKILL);
    if (!reap_children(ended)) return 0;
    if (now_ns() >= deadline_ns) return std::max(1u, static_cast<uint32_t>(children.size()));  // one at least lives
    sleep_ns(1'000'000);
  }
}

}  // namespace rondo::cli
