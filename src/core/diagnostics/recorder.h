// SPDX-License-Identifier: Apache-2.0
// The flight recorder in words: what each rank does, which are waited for, and the recording as a file. That is JSON
// Lines, one object a line, described in docs/recorder.md: a communicator, its ranks, their operations.
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

enum class Activity { joining, in_call, failed, between_calls, finalized, left, dead };
[[nodiscard]] const char *activity_string(Activity activity);

/// A rank at the moment of a look.
struct RankNow {
  RecordedRank rank;
  Activity activity = Activity::joining;
  RecordedStatistics statistics;
  std::optional<RecordedOperation> latest;  ///< none: there is none, or its record cannot be read
  std::optional<RecordedMessage> message;   ///< in a batch: the oldest that runs, or the latest that has failed

  [[nodiscard]] bool in_batch() const { return rank.batches.entered > rank.batches.completed; }
};
[[nodiscard]] std::vector<RankNow> look_at_ranks(const Recording &recording);

/// The oldest operation that ranks are in, or failed in, and that waits for a rank. If none waits, the oldest of all.
struct WaitNow {
  uint64_t operation = 0;
  std::vector<uint32_t> waiting;     ///< the ranks that are in it
  std::vector<uint32_t> waited_for;  ///< ranks that have not entered it, or if all have, those stopped or dead in it
};
[[nodiscard]] std::optional<WaitNow> find_wait(const std::vector<RankNow> &ranks);

/// Returns the line about the communicator; rank_line() is about a rank. `now_ns`: when the record was read.
[[nodiscard]] std::string communicator_line(const Recording &recording, const std::vector<RankNow> &ranks,
                                            uint64_t now_ns);
[[nodiscard]] std::string rank_line(const RankNow &now, uint32_t rank, uint64_t now_ns);
/// Returns the line about an operation. `arrived_ns`: when the last rank entered it, 0 if that is not known.
[[nodiscard]] std::string operation_line(const RecordedOperation &operation, uint32_t rank, uint64_t made_ns,
                                         uint64_t arrived_ns);

[[nodiscard]] std::string message_line(const RecordedMessage &message, uint32_t rank, uint64_t made_ns);

/// All lines of a recording, in order, each with its end of line; false from `sink` ends it.
[[nodiscard]] bool print_recording(const Recording &recording, const std::function<bool(std::string_view)> &sink);

/// Writes recordings one after another to a file that gets its name at the end: a file that is at `path` is whole.
Result<void> write_recordings(const std::vector<const Recording *> &recordings, const std::string &path);

/// Returns the path for the recording of a failed communicator: rondo-HOST-COMMUNICATOR.jsonl in `folder`.
[[nodiscard]] std::string recording_path(const Recording &recording, const std::string &folder);

}  // namespace rondo
