// SPDX-License-Identifier: Apache-2.0
#include "src/topo/host.h"

#include <fcntl.h>
#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <memory>
#include <sstream>
#include <thread>

#include "src/base/arithmetic.h"
#include "src/base/kernel_file.h"
#include "src/base/unique_handle.h"

namespace rondo {
namespace {

/// Returns the number in a link such as "pid:[4026531836]", or "none" if /proc does not have it.
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

/// The paths of a process's cgroups, such as "/a/b".
struct CgroupPaths {
  std::string unified;   ///< path in version 2, or empty
  std::string cpu;       ///< path of the controller "cpu" in version 1, or empty
};

/// Reads the text of /proc/PID/cgroup, whose lines are "NUMBER:CONTROLLERS:PATH". In version 2, CONTROLLERS is empty.
CgroupPaths cgroup_paths(const std::string &groups) {
  CgroupPaths paths;
  std::string line;
  for (std::istringstream lines(groups); std::getline(lines, line);) {
    const size_t controllers = line.find(':');
    const size_t path = controllers == line.npos ? line.npos : line.find(':', controllers + 1);
    if (path == line.npos) continue;
    const std::string names = "," + line.substr(controllers + 1, path - controllers - 1) + ",";
    if (names == ",,") paths.unified = line.substr(path + 1);
    if (names.find(",cpu,") != names.npos) paths.cpu = line.substr(path + 1);
  }
  return paths;
}

/// Returns the strictest limit of the cgroup at `path` and all cgroups above it. `read` returns the limit of one
/// cgroup.
template <class Read>
uint32_t strictest(std::string path, const Read &read) {
  constexpr int depth_max = 64;
  uint32_t limit = 0;
  for (int depth = 0; depth < depth_max; ++depth) {
    limit = stricter(limit, read(path));
    const size_t slash = path.rfind('/');
    if (slash == path.npos) break;
    path.resize(slash);
  }
  return limit;
}

struct TopologyDeleter {
  void operator()(hwloc_topology_t topology) const { ::hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

struct BitmapDeleter {
  void operator()(hwloc_bitmap_t bitmap) const { ::hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

Processors members(hwloc_const_bitmap_t bitmap) {
  Processors processors;
  for (int index = ::hwloc_bitmap_first(bitmap); index >= 0; index = ::hwloc_bitmap_next(bitmap, index))
    processors.push_back(static_cast<uint32_t>(index));
  return processors;
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
  // If descriptors ran out, fail: with the host's name as its id, this process would seem to be on another host.
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

uint32_t processor_limit() { return processor_limit("/sys/fs/cgroup", read_kernel_file("/proc/self/cgroup")); }

uint32_t processor_limit(const std::string &root, const std::string &groups) {
  const CgroupPaths paths = cgroup_paths(groups);
  const uint32_t unified = strictest(paths.unified, [&root](const std::string &path) {
    return parse_processor_limit(read_kernel_line(root + path + "/cpu.max"));
  });
  const uint32_t cpu = strictest(paths.cpu, [&root](const std::string &path) {
    const std::string quota = read_kernel_line(root + "/cpu" + path + "/cpu.cfs_quota_us");  // -1 means no limit
    return parse_processor_limit(quota + " " + read_kernel_line(root + "/cpu" + path + "/cpu.cfs_period_us"));
  });
  return stricter(unified, cpu);
}

Result<std::vector<Processors>> allowed_cores() {
  hwloc_topology_t raw = nullptr;
  if (::hwloc_topology_init(&raw) != 0) return system_error("hwloc_topology_init", errno);
  const HwlocTopology topology(raw);
  if (::hwloc_topology_load(raw) != 0) return system_error("hwloc_topology_load", errno);
  const Bitmap allowed(::hwloc_bitmap_alloc());
  if (::hwloc_get_cpubind(raw, allowed.get(), HWLOC_CPUBIND_PROCESS) != 0)
    return system_error("reading the allowed processors (hwloc_get_cpubind)", errno);
  // If the machine does not report cores, each processor counts as one.
  const hwloc_obj_type_t unit = ::hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  std::vector<Processors> cores;
  const Bitmap usable(::hwloc_bitmap_alloc());
  for (hwloc_obj_t core = nullptr; (core = ::hwloc_get_next_obj_by_type(raw, unit, core)) != nullptr;) {
    ::hwloc_bitmap_and(usable.get(), core->cpuset, allowed.get());
    if (!::hwloc_bitmap_iszero(usable.get())) cores.push_back(members(usable.get()));
  }
  if (cores.empty()) return Error{RONDO_ERROR_UNSUPPORTED, "no core was found that this process may use"};
  return cores;
}

std::vector<Processors> share_cores(const std::vector<Processors> &cores, uint32_t rank_count) {
  if (rank_count < 2 || cores.size() < rank_count) return {};
  std::vector<Processors> shares(rank_count);
  for (size_t core = 0; core < cores.size(); ++core) {
    Processors &share = shares[core * rank_count / cores.size()];
    share.insert(share.end(), cores[core].begin(), cores[core].end());
  }
  return shares;
}

std::vector<Processors> allowed_shares(uint32_t rank_count) {
  if (rank_count < 2 || rank_count > std::thread::hardware_concurrency()) return {};  // checked first, as it is cheap
  const auto cores = allowed_cores();
  return cores.ok() ? share_cores(cores.value(), rank_count) : std::vector<Processors>{};
}

bool bind_to(const Processors &processors) {
  const uint32_t most = *std::max_element(processors.begin(), processors.end());
  const auto free_set = [](cpu_set_t *set) { CPU_FREE(set); };
  const std::unique_ptr<cpu_set_t, decltype(free_set)> set(CPU_ALLOC(most + 1), free_set);
  const size_t set_bytes = CPU_ALLOC_SIZE(most + 1);
  CPU_ZERO_S(set_bytes, set.get());
  for (const uint32_t processor : processors) CPU_SET_S(processor, set_bytes, set.get());
  return ::sched_setaffinity(0, set_bytes, set.get()) == 0;
}

}  // namespace rondo
