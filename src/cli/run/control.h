// SPDX-License-Identifier: Apache-2.0
// Launcher and guard exchange messages over a pair of SOCK_SEQPACKET sockets. Each message arrives whole. If either end
// dies, the other reads an end of file. Both ends are the same program, so the layout may change freely.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "src/base/result.h"
#include "src/base/unique_handle.h"
#include "src/cli/run/job.h"

namespace rondo::cli {

/// A message of the launcher to the guard.
struct Order {
  enum class Kind : uint32_t { start, signal, end };
  Kind kind = Kind::start;
  int32_t signal = 0;                   ///< signal: its number
  uint64_t grace_ns = 0;                ///< end: time from SIGTERM to SIGKILL
  std::array<char, 320> store{};        ///< start: RONDO_STORE, null-terminated
  std::array<char, 128> secret{};       ///< start: RONDO_SECRET, null-terminated
};

/// A message of the guard to the launcher. After all_ended the guard exits.
struct Report {
  enum class Kind : uint32_t { rank_ended, all_ended };
  Kind kind = Kind::rank_ended;
  RankEnd end;              ///< rank_ended
  uint32_t left_count = 0;  ///< all_ended: number of processes that could not be killed
};

enum class Received { message, nothing, closed };

[[nodiscard]] Result<std::pair<FileDescriptor, FileDescriptor>> control_pair();

/// These functions do not wait. They return false if the other end's queue is full or the other end is closed. A
/// receive call then shows which of the two it is.
[[nodiscard]] bool send_order(int control, const Order &order);
[[nodiscard]] bool send_report(int control, const Report &report);
[[nodiscard]] Received receive_order(int control, Order *order);
[[nodiscard]] Received receive_report(int control, Report *report);

}  // namespace rondo::cli
