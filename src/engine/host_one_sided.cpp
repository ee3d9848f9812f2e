// SPDX-License-Identifier: Apache-2.0
#include "src/engine/host_one_sided.h"

#include <algorithm>
#include <string>

#include "src/engine/signal_watch.h"
#include "src/proto/memory.h"

namespace rondo {
namespace {

/// The bytes that are copied between two checks for a failure. A copy of this size takes about a millisecond.
constexpr uint64_t copy_bytes_max = uint64_t{8} << 20;

}  // namespace

bool HostOneSided::run(std::span<const OneSided> operations, Operations &owner) {
  for (const OneSided &operation : operations)
    if (!(operation.kind == OneSided::Kind::wait ? wait(operation, owner) : send(operation, owner))) return false;
  return !owner.ranks().failed();
}

/// Writes the data, then publishes the signal. A rank of this process that fails waits until this rank does not write
/// to its memory (Links::wait_for_readers()).
bool HostOneSided::send(const OneSided &operation, Operations &owner) {
  Ranks &ranks = owner.ranks();
  int error_number = 0;
  links_.set_running(true);
  for (uint64_t done = 0; done < operation.bytes && error_number == 0 && !ranks.failed();) {
    const uint64_t part = std::min(operation.bytes - done, copy_bytes_max);
    error_number = operation.to->write(operation.offset + done, operation.from + done, part);
    done += part;
  }
  links_.set_running(false);
  if (error_number != 0) SignalWatch(owner, operation, links_).explain_refusal(error_number);
  if (ranks.failed()) return false;
  uint64_t &signal = links_.signals(owner.rank(), operation.peer)[operation.signal];
  memory::store_sync(signal, operation.total);  // pairs with load_flag() in wait(), and with a peer that falls asleep
  if (wait_.sleeps && operation.peer != owner.rank()) links_.peers().wake(operation.peer);
  return true;
}

bool HostOneSided::wait(const OneSided &operation, Operations &owner) {
  const uint64_t &signal = links_.signals(operation.peer, owner.rank())[operation.signal];
  // The load pairs with send().
  const auto has_come = [&] { return memory::load_flag(signal, wait_.sleeps) >= operation.total; };
  if (has_come()) return true;
  SignalWatch watch(owner, operation, links_);
  Waiter waiter(wait_, links_.peers(), watch);
  for (uint32_t poll = 0; poll < waiter.poll_count(); ++poll)
    if (has_come()) return true;
  while (!has_come())  // ends at the deadline
    if (!waiter.idle()) return false;
  return true;
}

}  // namespace rondo
