// SPDX-License-Identifier: Apache-2.0
// This file runs the calls of a group at its end.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "src/base/result.h"
#include "src/core/communicator.h"
#include "src/engine/host_stream.h"

namespace rondo::group {

/// The calls of a group on one communicator.
struct Part {
  rondo_comm_t handle = nullptr;
  std::shared_ptr<Communicator> comm;
  std::vector<Call> calls;
  std::vector<Message> messages;
  std::vector<OneSided> sends;          ///< puts and signals
  std::vector<OneSided> waits;          ///< waits for signals
  bool has_own_messages = false;        ///< true if the rank sends messages to itself
  std::vector<rondo_stream_t> streams;  ///< each stream once, in the order of the calls; null for the caller's thread
  std::vector<std::unique_ptr<size_t[]>> counts;  ///< copies of the calls' counts and displacements
  // The end of the group sets these two:
  std::vector<std::shared_ptr<HostStream>> held;  ///< the objects of `streams`; null stands for the call itself
  StreamRef lead;                                 ///< the stream on which the part runs

  /// Returns whether every call of the part runs in the caller's thread, on no stream.
  [[nodiscard]] bool has_no_stream() const { return streams.size() == 1 && streams.front() == nullptr; }

  /// Empties the part, but keeps its memory for the next group.
  void clear() {
    handle = nullptr;
    comm.reset();
    calls.clear();
    messages.clear();
    sends.clear();
    waits.clear();
    has_own_messages = false;
    streams.clear();
    counts.clear();
    held.clear();
    lead = {};
  }
};

/// Checks all parts, and runs them if no check fails. Returns the first failure.
[[nodiscard]] Result<void> run_parts(std::span<Part> parts);

}  // namespace rondo::group
