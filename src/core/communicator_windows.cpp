// SPDX-License-Identifier: Apache-2.0
// This file counts the signals of a communicator, and submits its one-sided operations.
#include <mutex>
#include <string>

#include "src/core/communicator.h"

namespace rondo {

Result<void> Communicator::open_one_sided() {
  if (group_.one_node()) return executor_->open_one_sided();
  return Error{RONDO_ERROR_UNSUPPORTED,
               "windows and signals are for ranks of one host in this version, and this communicator has " +
                   std::to_string(group_.node_count()) +
                   " hosts; use rondo_send and rondo_recv between hosts, or make a communicator of each host"};
}

Result<void> Communicator::submit(std::span<const OneSided> operations, StreamRef stream) {
  OneSidedBatch batch;
  batch.operations.assign(operations.begin(), operations.end());
  std::unique_lock lock(submit_lock_);
  RONDO_TRY(check_usable_locked());
  const bool runs_here = stream.none() && capabilities_.runs_in_call;
  if (!runs_here) {
    RONDO_TRY_ASSIGN(const bool captured, executor_->check_stream(stream));
    executor_->forget_stream();  // the call takes no place among the calls of other ranks
    if (captured)
      return Error{RONDO_ERROR_UNSUPPORTED,
                   "puts, signals and waits cannot be captured into a graph in this version; enqueue them on a stream "
                   "that is not captured"};
  }
  if (signals_.empty()) signals_.resize(size_t{2} * signal_count * rank_count_);
  if (!capabilities_.one_sided_by_stream) batch.turn = ++turn_;
  for (OneSided &each : batch.operations) {
    const bool sends = each.kind != OneSided::Kind::wait;
    uint64_t &total = signals_[(size_t{each.peer} * signal_count + each.signal) * 2 + (sends ? 1 : 0)];
    total += each.count;
    each.total = total;
  }
  if (runs_here) lock.unlock();
  return executor_->enqueue_one_sided(batch, stream);
}

}  // namespace rondo
