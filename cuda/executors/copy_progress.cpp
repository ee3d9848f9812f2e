// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/copy_progress.h"

#include <algorithm>
#include <new>

#include "src/proto/memory.h"

namespace rondo::cuda {

struct CopyProgress::Words {
  // These words belong to calls that are not captured:
  alignas(cache_line_bytes) uint64_t begun = 0;  ///< calls
  uint64_t turn = 0;                             ///< of the last ended operation
  uint64_t ended = 0;                            ///< calls; written last
  // These words belong to captured calls:
  alignas(cache_line_bytes) uint64_t replaying = 0;
  uint64_t spare = 0;
  alignas(cache_line_bytes) uint64_t wheel[wheel_words] = {};
};

Result<void> CopyProgress::open(const PrimaryContext &context) {
  RONDO_TRY_ASSIGN(memory_, allocate_host_memory(context, sizeof(Words)));
  ::new (memory_.get().object) Words();
  for (uint64_t index = 0; index < wheel_words; ++index) words().wheel[index] = index;
  return {};
}

DevicePointer CopyProgress::spare_word() const { return place_of(words().spare); }

Result<void> CopyProgress::begin(const StreamWork &work, bool captured) {
  if (captured) return work.write(place_of(words().replaying), 1);
  RONDO_TRY(work.write(place_of(words().begun), enqueued_count_ + 1));
  ++enqueued_count_;
  return {};
}

Result<void> CopyProgress::end(const StreamWork &work, const DeviceCall &call, bool done) {
  if (call.captured) {
    RONDO_TRY(turn_wheel(work));
    return work.write(place_of(words().replaying), 0);
  }
  Result<void> told;
  if (done) told = work.write(place_of(words().turn), call.turn);
  // The end is written even after a failure, because what was enqueued will end, and a thread waits for that.
  const auto ended = work.write(place_of(words().ended), enqueued_count_);
  return told.ok() ? ended : told;
}

/// Turns the wheel. The copies go through device memory, because some drivers make the caller wait for a copy within
/// host memory.
Result<void> CopyProgress::turn_wheel(const StreamWork &work) const {
  constexpr uint64_t word = sizeof(uint64_t), rest = scratch_bytes - word;
  constexpr char what[] = "cuMemcpyAsync of a replay's count";
  const DevicePointer wheel = place_of(words().wheel[0]);
  RONDO_TRY(work.copy(scratch_, wheel + word, rest, what));
  RONDO_TRY(work.copy(scratch_ + rest, wheel, word, what));
  return work.copy(wheel, scratch_, scratch_bytes, what);
}

DeviceReport CopyProgress::report() const {
  const std::lock_guard lock(mutex_);
  DeviceReport report;
  report.ends_when_stopped = true;
  // The count of ended calls is read first. So a call that begins meanwhile counts as running. Each read pairs with the
  // stream's writes and copies in begin() and end().
  const uint64_t ended = memory::load_acquire(words().ended);
  const uint64_t turned = memory::load_acquire(words().wheel[0]);
  report.ended_number = memory::load_acquire(words().turn);
  const uint64_t begun = std::max(memory::load_acquire(words().begun), ended);
  const bool replaying = memory::load_acquire(words().replaying) != 0;
  replay_count_ += (turned + wheel_words - replay_count_ % wheel_words) % wheel_words;
  report.ended_calls = ended + replay_count_;
  report.begun_calls = begun + replay_count_ + (replaying ? 1 : 0);
  return report;
}

bool CopyProgress::drained() const {
  // These reads pair with the stream's writes in end().
  return memory::load_acquire(words().ended) == enqueued_count_ && memory::load_acquire(words().replaying) == 0;
}

}  // namespace rondo::cuda
