// SPDX-License-Identifier: Apache-2.0
// These functions describe the content of the flight recorder: what each rank does, and for which ranks it waits. They
// also write it as a file of JSON Lines about a communicator, its ranks, and their operations. docs/recorder.md
// describes the file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/links/recording.h"

namespace rondo {

/// The format of recordings, and of what `rondo status --json` prints. Format 1 has no batches of messages.
inline constexpr int recording_format = 2;

enum class Activity { joining, in_call, failed, between_calls, finalized, left, dead };
[[nodiscard]] const char *activity_string(Activity activity);

/// The state of a rank when the recording was read.
struct RankNow {
  RecordedRank rank;
  Activity activity = Activity::joining;
  RecordedStatistics statistics;
  /// The latest operation, or the one that the rank's device runs. Empty if none exists or its record is unreadable.
  std::optional<RecordedOperation> latest;
  std::optional<RecordedMessage> message;   ///< in a batch: the oldest message that runs, or the latest failed one

  /// Returns whether the rank's device has reported what it runs, and has not completed it since.
  [[nodiscard]] bool device_known() const {
    const bool is_over = rank.device.kind == DevicePlace::Kind::collective && rank.device.number <= rank.completed;
    return rank.device.kind != DevicePlace::Kind::unknown && !is_over;
  }
  [[nodiscard]] bool device_runs(DevicePlace::Kind kind) const { return device_known() && rank.device.kind == kind; }
  /// Returns the number of the latest operation that the rank has begun. On a device, it was enqueued earlier.
  [[nodiscard]] uint64_t begun() const {
    if (device_runs(DevicePlace::Kind::collective)) return rank.device.number;
    return device_known() ? rank.completed : rank.entered;
  }
  [[nodiscard]] bool in_batch() const {
    const bool outside = device_runs(DevicePlace::Kind::collective) ||
                         (device_runs(DevicePlace::Kind::idle) && rank.entered > rank.completed);
    return !outside && rank.batches.entered > rank.batches.completed;
  }
};
[[nodiscard]] std::vector<RankNow> look_at_ranks(const Recording &recording);

/// The oldest operation in which some ranks wait for another rank, or failed while waiting. If there is no such
/// operation, it is the oldest operation that some rank is in.
struct WaitNow {
  uint64_t operation = 0;
  std::vector<uint32_t> waiting;     ///< the ranks that are in the operation
  std::vector<uint32_t> waited_for;  ///< ranks that have not entered it; if there are none, stopped or dead ranks
};
[[nodiscard]] std::optional<WaitNow> find_wait(const std::vector<RankNow> &ranks);

/// Returns the line about the communicator. `now_ns` is when the recording was read.
[[nodiscard]] std::string communicator_line(const Recording &recording, const std::vector<RankNow> &ranks,
                                            uint64_t now_ns);
[[nodiscard]] std::string rank_line(const RankNow &now, uint32_t rank, uint64_t now_ns);
/// Returns the line about an operation. `arrived_ns` is the time at which the last rank entered it, or 0 if unknown.
[[nodiscard]] std::string operation_line(const RecordedOperation &operation, uint32_t rank, uint64_t made_ns,
                                         uint64_t arrived_ns);

[[nodiscard]] std::string message_line(const RecordedMessage &message, uint32_t rank, uint64_t made_ns);

/// Passes all lines of a recording to `sink`, in order, each with its end of line. Stops if `sink` returns false.
[[nodiscard]] bool print_recording(const Recording &recording, const std::function<bool(std::string_view)> &sink);

/// Writes recordings to a file, one after another. The file gets the name `path` only once it is complete.
Result<void> write_recordings(const std::vector<const Recording *> &recordings, const std::string &path);

/// Returns the path for the recording of a failed communicator: rondo-HOST-COMMUNICATOR.jsonl in `folder`. If rank 0 is
/// on another host, "-rankR" follows COMMUNICATOR, with the first rank of this host.
[[nodiscard]] std::string recording_path(const Recording &recording, const std::string &folder);

}  // namespace rondo
