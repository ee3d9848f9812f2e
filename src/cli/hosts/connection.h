// SPDX-License-Identifier: Apache-2.0
// This file declares the launcher's connection to the agent on one host: the process of ssh, its pipes, and the state
// of the host.
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
    connecting,  ///< nothing has arrived from the agent
    preparing,   ///< the agent has the plan
    ready,
    ended,       ///< the agent has reported that all of its ranks ended
    lost         ///< the connection ended before such a report
  };

  HostShare share;
  uint32_t first_rank = 0;
  pid_t ssh = 0;
  FileDescriptor to;
  FileDescriptor from;
  FileDescriptor said;  ///< ssh's standard error
  FrameWriter writer;
  FrameReader reader{FrameReader::Start::behind_greeting};
  std::string complaint;  ///< the end of what ssh wrote to its standard error
  uint64_t heard_ns = 0;
  Phase phase = Phase::connecting;

  [[nodiscard]] bool alive() const { return phase != Phase::ended && phase != Phase::lost; }
  /// Reads what ssh has written to its standard error.
  void read_complaint();
  /// Returns why the connection ended, as text for people. Waits a moment for ssh to end.
  [[nodiscard]] std::string why_lost(const std::string &remote_rondo);
};

/// Starts `ssh` (program and arguments) for the host, in its own process group, so that no terminal signals it.
[[nodiscard]] Result<HostConnection> connect_host(const HostShare &share, const std::vector<std::string> &ssh,
                                                  const std::string &remote_rondo);

}  // namespace rondo::cli
