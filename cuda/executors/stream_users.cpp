// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/stream_users.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "cuda/driver/shared_table.h"

namespace rondo::cuda {
namespace {

SharedTable<DevicePointer, StreamUsers> &all_users() {
  static auto *const all = new SharedTable<DevicePointer, StreamUsers>;
  return *all;
}

// The driver's handles of the two default streams, besides null.
const auto legacy_stream = reinterpret_cast<CuStream>(uintptr_t{1});
const auto thread_stream = reinterpret_cast<CuStream>(uintptr_t{2});

Error same_stream(uint32_t own, uint32_t other, const UsedStream &used) {
  const std::string name = used.stream == nullptr ? "the default stream" : "the stream";
  return Error{RONDO_ERROR_INVALID_ARGUMENT,
               name + " of rank " + std::to_string(own) + " has a call of rank " + std::to_string(other) +
                   " on the same device, which would run first and wait for this call; give each rank on a "
                   "device a stream of its own, made with cudaStreamNonBlocking"};
}

}  // namespace

bool UsedStream::is_in_line_with(const UsedStream &other) const {
  if (capture != other.capture) return false;
  if (stream == other.stream) return thread == other.thread;
  return (stream == nullptr && other.blocking) || (blocking && other.stream == nullptr);
}

bool is_default_stream(CuStream stream) {
  return stream == nullptr || stream == legacy_stream || stream == thread_stream;
}

uint64_t owner_of(CuStream stream) {
  static std::atomic<uint64_t> threads = 0;
  thread_local const uint64_t own = threads.fetch_add(1, std::memory_order_relaxed) + 1;  // the system reuses its ids
  return stream == thread_stream ? own : 0;
}

UsedStream used_stream(CuStream stream, uint64_t capture, unsigned flags) {
  UsedStream used;
  if (stream == nullptr || stream == legacy_stream) return used;  // the default stream cannot be captured
  used.stream = stream;
  used.thread = owner_of(stream);
  used.capture = capture;
  used.blocking = capture == 0 && (flags & stream_non_blocking) == 0;
  return used;
}

std::shared_ptr<StreamUsers> StreamUsers::join(DevicePointer name, uint32_t rank_count) {
  return all_users()
      .find_or_make(name, [&] { return Result(std::make_shared<StreamUsers>(rank_count)); })
      .value();
}

void StreamUsers::enter(uint32_t place, uint32_t rank, std::function<uint64_t()> ended) {
  const std::lock_guard lock(mutex_);
  places_[place] = {rank, 0, std::move(ended), {}, {}};
}

void StreamUsers::leave(uint32_t place) {
  const std::lock_guard lock(mutex_);
  places_[place] = {};
}

/// Forgets uses that have ended. A captured call runs again at each replay. So its use is kept until the rank has a
/// call that is not in the same capture.
void StreamUsers::forget_ended(Place &place) {
  if (place.uses.empty()) return;
  const uint64_t ended = place.ended();
  const uint64_t capture = place.next.used.capture;
  std::erase_if(place.uses, [&](const Use &use) {
    return use.used.capture == 0 ? use.turn <= ended : use.used.capture != capture && place.next.number != 0;
  });
}

/// Adds a use. All uses of one stream count as one.
void StreamUsers::add_use(Place &place, const Use &use) {
  const auto same = std::ranges::find(place.uses, use.used, &Use::used);
  if (same == place.uses.end()) return place.uses.push_back(use);
  same->number = std::max(same->number, use.number);
  same->turn = std::max(same->turn, use.turn);
}

Result<void> StreamUsers::reserve(uint32_t place, const UsedStream &used, StreamRole role) {
  const std::lock_guard lock(mutex_);
  Place &own = places_[place];
  const uint64_t number = own.number + 1;
  for (uint32_t at = 0; at < places_.size(); ++at) {
    Place &other = places_[at];
    if (at == place || !other.ended) continue;
    forget_ended(other);
    const auto waits_there = [&](const Use &use) { return use.number >= number && use.used.is_in_line_with(used); };
    if ((role == StreamRole::lead && waits_there(other.next)) || std::ranges::any_of(other.uses, waits_there))
      return same_stream(own.rank, other.rank, used);
  }
  if (role == StreamRole::lead) own.next = {used, number, 0};
  return {};
}

void StreamUsers::cancel(uint32_t place) {
  const std::lock_guard lock(mutex_);
  places_[place].next.number = 0;
}

void StreamUsers::enqueued(uint32_t place, uint64_t turn, uint64_t number) {
  const std::lock_guard lock(mutex_);
  Place &own = places_[place];
  forget_ended(own);
  own.number = std::max(own.number, number);
  if (own.next.number != 0) add_use(own, {own.next.used, number, turn});
}

void StreamUsers::joined(uint32_t place, const UsedStream &before, const UsedStream &behind) {
  const std::lock_guard lock(mutex_);
  Place &own = places_[place];
  const auto use = std::ranges::find(own.uses, before, &Use::used);
  if (use != own.uses.end()) add_use(own, {behind, use->number, use->turn});
}

}  // namespace rondo::cuda
