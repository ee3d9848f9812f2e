// SPDX-License-Identifier: Apache-2.0
#include "src/engine/host_one_sided.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "src/engine/signal_watch.h"
#include "src/links/remote_memory.h"
#include "src/proto/memory.h"

namespace rondo {
namespace {

/// The most bytes that are copied between two checks for a failure. A copy of this size takes about a millisecond.
constexpr uint64_t copy_bytes_max = uint64_t{8} << 20;

/// Returns whether the operation is a signal to a rank that has left. No rank waits for it, so it is no failure.
bool is_moot(const OneSided &operation, Operations &owner) {
  return operation.kind == OneSided::Kind::signal && has_left(owner.ranks().state(operation.peer));
}

}  // namespace

bool HostOneSided::run(std::span<const OneSided> operations, Operations &owner) {
  if (serves_) links_.set_running(true);
  const bool done = run_all(operations, owner);
  if (serves_) {
    static_cast<void>(links_.peers().progress());  // acknowledges the slots that were taken from other hosts
    links_.set_running(false);
  }
  return done && !owner.ranks().failed();
}

bool HostOneSided::run_all(std::span<const OneSided> operations, Operations &owner) {
  const auto is_far = [&](const OneSided &each) {
    return each.kind != OneSided::Kind::wait && !owner.ranks().is_near(each.peer);
  };
  for (const OneSided &each : operations) {
    const bool done = each.kind == OneSided::Kind::wait ? wait(each, owner)
                      : is_far(each)                    ? post(each, owner)
                                                        : send(each, owner);
    if (!done) return false;
  }
  for (const OneSided &each : operations)
    if (is_far(each) && !await_taken(each, owner)) return false;
  return true;
}

/// Writes the data, then publishes the signal. Meanwhile this rank is marked as running. So after a failure, a peer in
/// this process can wait until this rank no longer writes to the peer's memory (Links::wait_for_readers()).
bool HostOneSided::send(const OneSided &operation, Operations &owner) {
  Ranks &ranks = owner.ranks();
  int error_number = 0;
  if (!serves_) links_.set_running(true);
  for (uint64_t done = 0; done < operation.bytes && error_number == 0 && !ranks.failed();) {
    const uint64_t part = std::min(operation.bytes - done, copy_bytes_max);
    error_number = operation.to->write(operation.offset + done, operation.from + done, part);
    done += part;
  }
  if (!serves_) links_.set_running(false);
  if (error_number != 0) SignalWatch(owner, operation, links_).explain_refusal(error_number);
  if (ranks.failed()) return false;
  uint64_t &signal = links_.signals(owner.rank(), operation.peer)[operation.signal];
  memory::store_sync(signal, operation.total);  // pairs with load_flag() in wait(), and with a peer's prepare_sleep()
  if (wait_.sleeps && operation.peer != owner.rank()) links_.peers().wake(operation.peer);
  return true;
}

template <class Ready>
bool HostOneSided::wait_until(const Ready &ready, const OneSided &operation, Operations &owner) {
  if (ready()) return true;
  SignalWatch watch(owner, operation, links_);
  Waiter waiter(wait_, links_.peers(), watch);
  for (uint32_t poll = 0; poll < waiter.poll_count(); ++poll)
    if (ready()) return true;
  while (!ready())  // ends at the deadline
    if (!waiter.idle()) return false;
  return true;
}

bool HostOneSided::post(const OneSided &operation, Operations &owner) {
  Far &far = far_[operation.peer];
  SimpleSender &sender = far.sender;
  const uint64_t room = far.link.geometry.slot_bytes - sizeof(PutFrame);
  PutFrame frame;
  frame.window = operation.bytes != 0 ? operation.window : 0;
  for (uint64_t done = 0; frame.signal == signal_count;) {  // ends after the slot with the signal
    if (!wait_until([&] { return sender.can_send() || is_moot(operation, owner); }, operation, owner)) return false;
    if (is_moot(operation, owner)) return true;
    const uint64_t part = std::min(operation.bytes - done, room);
    frame.offset = operation.offset + done;
    if (done + part == operation.bytes) {
      frame.signal = operation.signal;
      frame.total = operation.total;
    }
    std::memcpy(sender.payload(), &frame, sizeof frame);
    if (part != 0) std::memcpy(sender.payload() + sizeof frame, operation.from + done, part);
    SlotHeader header;
    header.bytes = sizeof frame + part;
    sender.post(header, true);  // true, because the thread that serves the links may sleep
    ++far.posted;
    done += part;
  }
  return true;
}

bool HostOneSided::await_taken(const OneSided &operation, Operations &owner) {
  const Far &far = far_[operation.peer];
  const auto taken = [&] { return memory::load_sync(far.link.simple_head()) == far.posted; };  // S1 of simple.h
  return wait_until([&] { return taken() || is_moot(operation, owner); }, operation, owner);
}

bool HostOneSided::wait(const OneSided &operation, Operations &owner) {
  const uint64_t &signal = links_.signals(operation.peer, owner.rank())[operation.signal];
  // The load pairs with send(), and with FarWindows::take().
  return wait_until([&] { return memory::load_flag(signal, wait_.sleeps) >= operation.total; }, operation, owner);
}

}  // namespace rondo
