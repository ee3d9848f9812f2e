// SPDX-License-Identifier: Apache-2.0
// The launcher's connection to the agent on one host: the process of ssh, its pipes, and what is known of that host.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "src/base/unique_handle.h"
#include "src/cli/hosts/frames.h"
#include "src/cli/hosts/host_list.h"

namespace rondo::cli {

struct HostConnection {
  enum class Phase {
    connecting,  ///< nothing of the agent yet
    preparing,   ///< it has the plan
    ready,
    ended,       ///< all of its ranks have, and it said so
    lost         ///< the connection has ended before that
  };

  HostShare share;
  uint32_t first_rank = 0;
  pid_t ssh = 0;
  FileDescriptor to;
  FileDescriptor from;
  FileDescriptor said;  ///< ssh's standard error
  FrameWriter writer;
  FrameReader reader{FrameReader::Start::behind_greeting};
  std::string complaint;  ///< what ssh said, its end
  uint64_t heard_ns = 0;
  Phase phase = Phase::connecting;

  [[nodiscard]] bool alive() const { return phase != Phase::ended && phase != Phase::lost; }
  /// Takes what ssh has said.
  void read_complaint();
  /// Returns for people how the connection has ended. Waits for ssh for a moment.
  [[nodiscard]] std::string why_lost(const std::string &remote_rondo);
};

/// Starts `ssh` (program and arguments) to the host, in a process group of its own, which no terminal signals.
[[nodiscard]] Result<HostConnection> connect_host(const HostShare &share, const std::vector<std::string> &ssh,
                                                  const std::string &remote_rondo);

}  // namespace rondo::cli
