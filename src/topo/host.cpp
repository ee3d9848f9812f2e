// SPDX-License-Identifier: Apache-2.0
#include "src/topo/host.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>

#include "src/base/checked.h"
#include "src/base/kernel_file.h"
#include "src/base/unique_handle.h"

namespace rondo {
namespace {

/// Returns e.g. "4026531836" of "pid:[4026531836]", or "none" if /proc does not say.
std::string namespace_number(const char *kind) {
  std::array<char, 64> target{};
  const std::string path = std::string("/proc/self/ns/") + kind;
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  const std::string_view text(target.data(), length > 0 ? static_cast<size_t>(length) : 0);
  const size_t open = text.find('[');
  const size_t close = text.find(']');
  if (open == text.npos || close == text.npos || close < open) return "none";
  return std::string(text.substr(open + 1, close - open - 1));
}

uint32_t stricter(uint32_t a, uint32_t b) { return a == 0 || (b != 0 && b < a) ? b : a; }

/// Returns this process's cgroup in the unified hierarchy, e.g. "/a/b", or an empty text if there is none.
std::string cgroup_path() {
  constexpr std::string_view unified = "0::";
  const std::string groups = read_kernel_file("/proc/self/cgroup");
  for (size_t at = 0; at < groups.size();) {  // a line each turn
    const size_t end = std::min(groups.find('\n', at), groups.size());
    const std::string line = groups.substr(at, end - at);
    if (line.starts_with(unified)) return line.substr(unified.size());
    at = end + 1;
  }
  return {};
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

Result<std::string> host_id() {
  constexpr const char *path = "/proc/sys/kernel/random/boot_id";
  const FileDescriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  // Not the name then: two names for one host would make two hosts of it.
  if (!file.valid() && ran_out(errno)) return system_error(std::string("open ") + path, errno);
  std::array<char, 64> text{};
  const ssize_t length = file.valid() ? ::read(file.get(), text.data(), text.size()) : -1;
  std::string boot(text.data(), length > 0 ? static_cast<size_t>(length) : 0);
  boot.resize(std::min(boot.size(), boot.find('\n')));
  if (boot.empty()) boot = host_name();
  return boot + "/pid:" + namespace_number("pid") + "/net:" + namespace_number("net") +
         "/user:" + namespace_number("user");
}

uint32_t parse_processor_limit(std::string_view text) {
  uint64_t quota_us = 0;
  uint64_t period_us = 0;
  const char *const end = text.data() + text.size();
  const auto quota = std::from_chars(text.data(), end, quota_us);
  if (quota.ec != std::errc{} || quota.ptr == end || *quota.ptr != ' ') return 0;
  const auto period = std::from_chars(quota.ptr + 1, end, period_us);
  if (period.ec != std::errc{} || period_us == 0 || quota_us == 0) return 0;
  const uint64_t processors = ceil_div(quota_us, period_us);
  return static_cast<uint32_t>(std::min<uint64_t>(processors, std::numeric_limits<uint32_t>::max()));
}

uint32_t processor_limit() {
  constexpr int depth_max = 64;
  uint32_t limit = 0;
  std::string path = cgroup_path();
  for (int depth = 0; depth < depth_max; ++depth) {  // every group above limits, too
    limit = stricter(limit, parse_processor_limit(read_kernel_line("/sys/fs/cgroup" + path + "/cpu.max")));
    const size_t slash = path.rfind('/');
    if (slash == path.npos) break;
    path.resize(slash);
  }
  const std::string quota = read_kernel_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");  // version 1; -1 for no limit
  const std::string period = read_kernel_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  return stricter(limit, parse_processor_limit(quota + " " + period));
}

}  // namespace rondo
