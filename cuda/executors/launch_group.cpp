// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/launch_group.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "cuda/transport/shared_table.h"
#include "src/proto/memory.h"

namespace rondo::cuda {
namespace {

constexpr auto look_interval = std::chrono::milliseconds(1);  // at the abort word, which nobody notifies about

SharedTable<DevicePointer, LaunchGroup> &groups() {
  static auto *const all = new SharedTable<DevicePointer, LaunchGroup>;
  return *all;
}

}  // namespace

Result<void> launch_parts(const CudaDriver &driver, std::span<const LaunchPart> parts, CuStream stream) {
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
                       "launching a collective");
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

Result<void> LaunchGroup::launch(uint32_t place, const LaunchPart &part, const uint64_t &abort, bool &launched) {
  Place &own = places_[place];
  RONDO_TRY(cuda_check(*driver_, driver_->event_record(own.ready.get().object, part.stream), "cuEventRecord"));
  std::unique_lock lock(mutex_);
  if (given_up_) return {};
  parts_[place] = part;
  if (++arrived_ == places_.size()) {
    lock.unlock();  // a launch may take its time; the parts stay, since nobody leaves any more
    const auto done = launch_all(place, launched);
    lock.lock();
    end_round({launched, done});
    return done;
  }
  own.waits = true;
  while (own.waits) {  // bounded by the deadline, at which the host sets the abort word
    changed_.wait_for(lock, look_interval);
    // Pairs with the release of KernelExecutor::stop().
    if (!own.waits || arrived_ == places_.size() || memory::load_acquire(abort) == 0) continue;
    given_up_ = true;
    own.waits = false;
    return Error{RONDO_ERROR_ABORTED, "it was told to stop while it waited for the ranks that share its kernel"};
  }
  const Outcome outcome = own.outcome;
  lock.unlock();
  launched = outcome.launched;
  if (!launched || !outcome.done.ok()) return outcome.done;
  return cuda_check(*driver_, driver_->stream_wait_event(part.stream, ended_.get().object, 0), "cuStreamWaitEvent");
}

/// With mutex_ held.
void LaunchGroup::end_round(const Outcome &outcome) {
  for (Place &place : places_)
    if (std::exchange(place.waits, false)) place.outcome = outcome;
  arrived_ = 0;
  changed_.notify_all();
}

/// By the last one, at `place`, when all have come.
Result<void> LaunchGroup::launch_all(uint32_t place, bool &launched) const {
  const LaunchPart &own = parts_[place];
  for (const LaunchPart &part : parts_)  // of ranks that disagree, which their own kernels will find out
    if (part.kernel.function != own.kernel.function || part.channel_count != own.channel_count) return {};
  for (uint32_t other = 0; other < places_.size(); ++other)
    if (other != place)
      RONDO_TRY(cuda_check(*driver_, driver_->stream_wait_event(own.stream, places_[other].ready.get().object, 0),
                           "cuStreamWaitEvent"));
  RONDO_TRY(launch_parts(*driver_, parts_, own.stream));
  launched = true;
  return cuda_check(*driver_, driver_->event_record(ended_.get().object, own.stream), "cuEventRecord");
}

}  // namespace rondo::cuda
