// SPDX-License-Identifier: Apache-2.0
// These functions read facts about this host from the operating system, except about its hardware. They also find the
// cores that this process may use, and bind threads to cores.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace rondo {

/// Returns an id that is equal for two processes if they can share memory. They must have the same kernel (boot id) and
/// the same three namespaces:
/// - processes: needed because peers find each other under /proc, and read each other's memory by process number
/// - network: needed for local sockets
/// - users: needed for the permission to do both
/// So two containers of one machine have different ids unless they share all three. In tests, network namespaces
/// represent hosts, and have different ids, too. If there is no boot id, the name of the host replaces it.
/// RONDO_ERROR_OUT_OF_RESOURCES: no descriptor is left to read the boot id.
[[nodiscard]] Result<std::string> host_id();

/// Returns the host's own name, for people.
[[nodiscard]] std::string host_name();

/// Returns the CPU limit of this process's cgroups, in processors, rounded up. It is 0 if there is no limit.
[[nodiscard]] uint32_t processor_limit();

/// Returns the CPU limit from the cgroup file systems below `root`. `groups` is the text of /proc/PID/cgroup. Version
/// 2 is mounted at `root` itself, and the controller "cpu" of version 1 at its folder cpu.
[[nodiscard]] uint32_t processor_limit(const std::string &root, const std::string &groups);

/// Parses "QUOTA PERIOD" or "max PERIOD", as in cpu.max. The result is rounded up. It is 0 for no limit and for an
/// unknown form.
[[nodiscard]] uint32_t parse_processor_limit(std::string_view text);

// These functions find the cores that this process may use, and divide them among the ranks of a host.

/// The processors (hardware threads) of one core or of several, as the kernel numbers them.
using Processors = std::vector<uint32_t>;

/// Returns the cores in the machine's order. Each has the processors that this process may use.
[[nodiscard]] Result<std::vector<Processors>> allowed_cores();

/// Divides `cores` into `rank_count` runs of neighbours, whose lengths differ by at most one. Returns none if there are
/// fewer cores than ranks. Returns none for a single rank, because binding it would only take cores away from it.
[[nodiscard]] std::vector<Processors> share_cores(const std::vector<Processors> &cores, uint32_t rank_count);

/// Returns share_cores() of the allowed cores, or none if the cores cannot be read.
[[nodiscard]] std::vector<Processors> allowed_shares(uint32_t rank_count);

/// Binds the calling thread. Returns false if the kernel refuses; errno says why.
[[nodiscard]] bool bind_to(const Processors &processors);

}  // namespace rondo
