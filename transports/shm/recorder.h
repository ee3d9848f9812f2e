// SPDX-License-Identifier: Apache-2.0
// This file declares the flight recorder in a segment of this process. It also declares functions that read another
// process's segment through /proc, without writing to it.
#pragma once

#include <memory>
#include <vector>

#include "src/base/clock.h"
#include "src/links/recording.h"
#include "transports/shm/segment.h"

namespace rondo::shm {

/// Reads the recording in a segment. The segment may be mapped for reading only, and may hold anything.
class SegmentRecording final : public Recording {
 public:
  explicit SegmentRecording(std::shared_ptr<const Segment> segment);

  [[nodiscard]] std::string communicator() const override;
  [[nodiscard]] uint32_t rank_count() const override { return segment_->shape().rank_count; }
  [[nodiscard]] uint64_t made_ns() const override { return made_.at_ns; }
  [[nodiscard]] RecordedRank rank(uint32_t rank) const override;
  [[nodiscard]] std::optional<RecordedOperation> operation(uint32_t rank, uint64_t number) const override;
  [[nodiscard]] std::optional<RecordedMessage> message(uint32_t rank, uint64_t record) const override;
  [[nodiscard]] RecordedStatistics statistics(uint32_t rank) const override;
  [[nodiscard]] std::optional<ClockOffset> clock_offset() const override;
  [[nodiscard]] std::optional<Error> failure() const override;
  [[nodiscard]] bool dumped() const override;

  /// Says whether both recordings read the same segment.
  [[nodiscard]] bool same_segment(const SegmentRecording &other) const;

 private:
  [[nodiscard]] ProcessState look_at_process(const RankBoard &board) const;

  std::shared_ptr<const Segment> segment_;
  TickSource source_;
  TickMark made_;
};

/// The recorder of a rank that has mapped the segment for writing.
class SegmentRecorder final : public FlightRecorder {
 public:
  explicit SegmentRecorder(std::shared_ptr<Segment> segment) : segment_(std::move(segment)) {}

  [[nodiscard]] std::unique_ptr<Recording> recording() const override;
  void set_communicator(const std::array<uint64_t, 2> &id) override;
  void set_group_rank(uint32_t rank, uint32_t group_rank) override;
  void set_clock_offset(const ClockOffset &offset) override;
  [[nodiscard]] bool claim_dump() override;
  void end_dump(bool finished) override;

 private:
  std::shared_ptr<Segment> segment_;
};

/// Returns the inode of this process's PID namespace, or 0 if the system does not report it.
[[nodiscard]] uint64_t process_namespace();

struct Observed {
  std::vector<std::unique_ptr<SegmentRecording>> recordings;
  std::vector<Error> refused;  ///< segments that could not be read, and why
  bool cut_off = false;        ///< observed_ranks_max was reached
};

/// The most ranks that are observed at a time, because another process could offer any number of segments.
inline constexpr uint64_t observed_ranks_max = 65'536;

/// Adds the recordings of `more` that `all` lacks. They may repeat, because each rank of a communicator shows the same
/// segment. Recordings beyond observed_ranks_max are refused.
void merge(Observed &all, Observed more);

/// Observes the communicators of process `process`. RONDO_ERROR_INVALID_ARGUMENT means that there is no such process.
/// RONDO_ERROR_SYSTEM means that this user may not see it.
[[nodiscard]] Result<Observed> observe_process(int process);

}  // namespace rondo::shm
