// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/launch_group.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <utility>

#include "cuda/driver/shared_table.h"
#include "src/base/clock.h"
#include "src/proto/memory.h"

namespace rondo::cuda {
namespace {

constexpr char launching[] = "launching a collective";
// Before ranks have shared a launch, one thread may drive all of them, so the wait is short. After that each rank has
// its own thread, which may be late. The wait is longer then, because ranks with separate kernels might wait for each
// other in one queue.
constexpr uint64_t first_patience_ns = 100'000'000, later_patience_ns = 2'000'000'000;
constexpr uint32_t impatient_count_max = 8;  // then ranks stay separate
constexpr uint32_t rounds_to_forgive = 1000;
constexpr uint64_t never = UINT64_MAX;
constexpr auto look_interval = std::chrono::milliseconds(1);  // between reads of the abort word; nothing announces it

SharedTable<DevicePointer, LaunchGroup> &groups() {
  static auto *const all = new SharedTable<DevicePointer, LaunchGroup>;
  return *all;
}

/// Says whether one kernel can run both parts. Ranks that disagree, or are in different captures, launch separate
/// kernels.
bool fit_together(const LaunchPart &one, const LaunchPart &other) {
  return one.kernel.function == other.kernel.function && one.channel_count == other.channel_count &&
         one.capture == other.capture && one.number == other.number &&
         (one.joint == nullptr || one.operation.buffers.signature == other.operation.buffers.signature);
}

/// Returns the id of the capture that a stream is in. All streams of a capture have the same id. The context must be
/// current.
Result<uint64_t> capture_of(const CudaDriver &driver, CuStream stream) {
  CaptureStatus status = CaptureStatus::none;
  unsigned long long id = 0;
  RONDO_TRY(cuda_check(driver, driver.stream_get_capture_info(stream, &status, &id, nullptr, nullptr, nullptr),
                       "cuStreamGetCaptureInfo"));
  return uint64_t{id};
}

Result<void> launch_joint(const CudaDriver &driver, std::span<const LaunchPart> parts, CuStream stream) {
  std::array<device::JointRank, device::ranks_per_kernel_max> ranks;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const device::DeviceOperation &of = parts[rank].operation;
    ranks[rank] = {of.buffers.send.data, of.buffers.recv.data, of.progress, of.result, of.number};
  }
  const LaunchPart &first = parts.front();
  JointLaunch joint = make_joint(*first.joint, {first.operation.divisor, first.operation.captured, first.blocks_max},
                                 {ranks.data(), parts.size()});
  return launch_kernel(driver, first.kernel, joint.size, &joint.operation, stream, launching);
}

}  // namespace

Result<void> launch_parts(const CudaDriver &driver, std::span<const LaunchPart> parts, CuStream stream) {
  if (parts.front().joint != nullptr) return launch_joint(driver, parts, stream);
  device::DeviceOperations operations;
  operations.channel_count = parts.front().channel_count;
  uint32_t threads = 0, shared_bytes = 0;
  for (size_t index = 0; index < parts.size(); ++index) {
    operations.operations[index] = parts[index].operation;
    threads = std::max(threads, parts[index].threads);
    shared_bytes = std::max(shared_bytes, parts[index].shared_bytes);
  }
  const auto blocks = static_cast<uint32_t>(parts.size() * operations.channel_count);
  return launch_kernel(driver, parts.front().kernel, {blocks, threads, shared_bytes}, &operations, stream,
                       launching);
}

Result<std::shared_ptr<LaunchGroup>> LaunchGroup::join(const PrimaryContext &context, DevicePointer name,
                                                       uint32_t rank_count) {
  return groups().find_or_make(name, [&]() -> Result<std::shared_ptr<LaunchGroup>> {
    auto made = std::make_shared<LaunchGroup>();
    made->driver_ = context.get().driver;
    RONDO_TRY_ASSIGN(made->context_, retain_primary_context(*made->driver_, context.get().device));
    RONDO_TRY_ASSIGN(made->ended_, make_event(context));
    made->places_.resize(rank_count);
    made->parts_.resize(rank_count);
    for (Place &place : made->places_) {
      RONDO_TRY_ASSIGN(place.ready, make_event(context));
    }
    return made;
  });
}

bool LaunchGroup::has_lost_patience() const {
  const std::lock_guard lock(mutex_);
  return impatient_count_ != 0;
}

/// Says whether the call takes part in a shared launch, with mutex_ held. The value of own_until_ changes only to a
/// number that no rank has called yet. So all ranks get the same answer for an operation.
bool LaunchGroup::takes_part(Place &own, uint64_t number) {
  own.number = number;
  own.thread = std::this_thread::get_id();
  if (own_until_ != never || impatient_count_ == impatient_count_max) return number >= own_until_;
  std::set<std::thread::id> threads;
  uint64_t latest = 0;
  for (const Place &place : places_) {
    threads.insert(place.thread);
    latest = std::max(latest, place.number);
  }
  if (threads.size() == places_.size() && !threads.contains(std::thread::id())) own_until_ = latest + 1;
  return false;
}

/// Ends sharing for a while. A waiting rank calls it, with mutex_ held.
void LaunchGroup::lose_patience() {
  own_until_ = never;
  ++impatient_count_;
  round_count_ = 0;
  for (Place &place : places_) place.thread = {};
  end_round({});
}

Result<void> LaunchGroup::launch(uint32_t place, const LaunchPart &part, const uint64_t &abort,
                                 uint64_t patience_ns, bool &launched) {
  Place &own = places_[place];
  std::unique_lock lock(mutex_);
  if (given_up_ || !takes_part(own, part.number)) return {};
  // Calls of the driver for one capture are serialised: the driver does not promise that threads may share a graph.
  const bool captured = part.operation.captured != 0;
  uint64_t capture = 0;
  if (captured) {
    RONDO_TRY_ASSIGN(capture, capture_of(*driver_, part.stream));
  } else {
    lock.unlock();
  }
  RONDO_TRY(cuda_check(*driver_, driver_->event_record(own.ready.get().object, part.stream), "cuEventRecord"));
  if (!captured) lock.lock();
  if (given_up_ || part.number < own_until_) return {};
  parts_[place] = part;
  parts_[place].capture = capture;
  if (++arrived_ == places_.size()) {
    if (!captured) lock.unlock();  // a launch may take long; the parts stay, because no rank leaves now
    const auto done = launch_all(place, launched);
    if (!captured) lock.lock();
    end_round({launched, done});
    return done;
  }
  own.waits = true;
  const uint64_t impatient_at =
      patience_ns == endless_ns ? endless_ns
                                : now_ns() + std::min(has_shared_ ? later_patience_ns : first_patience_ns, patience_ns);
  while (own.waits) {  // ends at the deadline, when the host sets the abort word
    changed_.wait_for(lock, look_interval);
    // The load of `abort` pairs with the release in KernelExecutor::stop().
    if (!own.waits || arrived_ == places_.size()) continue;
    if (memory::load_acquire(abort) == 0) {
      if (now_ns() > impatient_at) lose_patience();
      continue;
    }
    given_up_ = true;
    own.waits = false;
    return Error{RONDO_ERROR_ABORTED, "the call was aborted while it waited for the ranks that share its kernel"};
  }
  const Outcome outcome = own.outcome;
  if (!captured) lock.unlock();
  launched = outcome.launched;
  if (!launched || !outcome.done.ok()) return outcome.done;
  return cuda_check(*driver_, driver_->stream_wait_event(part.stream, ended_.get().object, 0), "cuStreamWaitEvent");
}

/// Wakes the waiting ranks and gives them `outcome`. mutex_ must be held.
void LaunchGroup::end_round(const Outcome &outcome) {
  for (Place &place : places_)
    if (std::exchange(place.waits, false)) place.outcome = outcome;
  has_shared_ |= outcome.launched;
  if (outcome.launched && ++round_count_ == rounds_to_forgive) impatient_count_ = 0;
  arrived_ = 0;
  changed_.notify_all();
}

/// Launches a kernel for all parts. The last rank to arrive, at `place`, calls it.
Result<void> LaunchGroup::launch_all(uint32_t place, bool &launched) const {
  const LaunchPart &own = parts_[place];
  for (const LaunchPart &part : parts_)
    if (!fit_together(part, own)) return {};
  for (uint32_t other = 0; other < places_.size(); ++other)
    if (other != place)
      RONDO_TRY(cuda_check(*driver_, driver_->stream_wait_event(own.stream, places_[other].ready.get().object, 0),
                           "cuStreamWaitEvent"));
  RONDO_TRY(launch_parts(*driver_, parts_, own.stream));
  launched = true;
  return cuda_check(*driver_, driver_->event_record(ended_.get().object, own.stream), "cuEventRecord");
}

}  // namespace rondo::cuda
