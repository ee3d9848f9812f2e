// SPDX-License-Identifier: Apache-2.0
#include "src/core/host_event.h"

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/engine/host_stream.h"

namespace rondo {

Result<void> HostEvent::record(HostStream *stream) {
  uint64_t generation = 0;
  {
    const std::lock_guard lock(mutex_);
    pending_.push_back({next_, stream});  // may run out of memory; nothing has changed before
    generation = next_++;
  }
  if (stream == nullptr) {
    complete_record(generation, std::nullopt);
    return {};
  }
  auto enqueued = stream->enqueue([self = shared_from_this(), generation, stream]() -> Result<void> {
    self->complete_record(generation, stream->failure());
    return {};
  });
  enqueued.ok() ? publish_record(generation) : withdraw_record(generation);
  return enqueued;
}

Result<void> HostEvent::hold(HostStream *stream) {
  uint64_t generation = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!pending(latest_)) return {};
    generation = latest_;
  }
  if (stream == nullptr) {
    wait_for(generation, true);
    return {};
  }
  return stream->enqueue([self = shared_from_this(), generation]() -> Result<void> {
    self->wait_for(generation, false);
    return {};
  });
}

Result<void> HostEvent::synchronize() {
  RONDO_TRY(hold(nullptr));
  const std::lock_guard lock(mutex_);
  if (failure_) return *failure_;
  return {};
}

bool HostEvent::done() const {
  const std::lock_guard lock(mutex_);
  return !pending(latest_);
}

std::optional<uint64_t> HostEvent::timestamp_ns() const {
  const std::lock_guard lock(mutex_);
  if (latest_ == 0 || timed_ != latest_) return std::nullopt;
  return timestamp_ns_;
}

/// Makes a record visible to waits, once it is enqueued: a wait that precedes its record in a stream would never end.
void HostEvent::publish_record(uint64_t generation) {
  const std::lock_guard lock(mutex_);
  latest_ = std::max(latest_, generation);
}

void HostEvent::complete_record(uint64_t generation, std::optional<Error> failure) {
  {
    const std::lock_guard lock(mutex_);
    const auto done = std::ranges::lower_bound(pending_, generation, {}, &Pending::generation);
    if (done->waiter_count != 0) done->stream->end_waits(done->waiter_count);  // this code runs in the stream's thread
    pending_.erase(done);
    latest_ = std::max(latest_, generation);  // the stream may reach the point before record() publishes it
    if (generation > timed_) {
      timed_ = generation;
      timestamp_ns_ = now_ns();
      failure_ = std::move(failure);
    }
  }
  completed_.notify_all();
}

/// Removes a record that the stream has refused. No thread can wait for that record yet.
void HostEvent::withdraw_record(uint64_t generation) {
  const std::lock_guard lock(mutex_);
  std::erase_if(pending_, [&](const Pending &each) { return each.generation == generation; });
}

/// Waits for a record. The wait ends, because a stream runs every task that it has accepted. Each wait is called after
/// the record that it waits for, so waits cannot form a circle.
void HostEvent::wait_for(uint64_t generation, bool is_caller) {
  std::unique_lock lock(mutex_);
  if (is_caller && pending(generation)) {
    // The stream is alive, because it must still take mutex_ in complete_record().
    Pending &awaited = *std::ranges::lower_bound(pending_, generation, {}, &Pending::generation);
    if (awaited.stream != nullptr) {
      awaited.stream->begin_wait();
      ++awaited.waiter_count;
    }
  }
  completed_.wait(lock, [&] { return !pending(generation); });
}

bool HostEvent::pending(uint64_t generation) const {
  return std::ranges::binary_search(pending_, generation, {}, &Pending::generation);
}

}  // namespace rondo
