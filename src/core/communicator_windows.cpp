// SPDX-License-Identifier: Apache-2.0
// This file counts the signals of a communicator, and submits its one-sided operations.
#include <mutex>
#include <string>

#include "src/core/communicator.h"
#include "src/links/message_boards.h"

namespace rondo {
namespace {

/// The total of a signal stays below this number, because streams compare two totals by the sign of their difference.
constexpr uint64_t signal_total_end = uint64_t{1} << 62;

}  // namespace

Result<void> Communicator::check_windows() const {
  if (group_.one_node() || capabilities_.puts_between_hosts) return {};
  const std::string hosts = ", and this communicator has " + std::to_string(group_.node_count()) + " hosts";
  if (settings_.device != RONDO_DEVICE_HOST)
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "windows and signals on devices are for ranks of one host in this version" + hosts +
                     "; use rondo_send and rondo_recv between hosts, or make a communicator of each host"};
  return Error{RONDO_ERROR_UNSUPPORTED, "windows and signals between hosts take at most " +
                                            std::to_string(message_ranks_max) + " ranks" + hosts + " and " +
                                            std::to_string(rank_count_) + " ranks; make a communicator of fewer ranks"};
}

Result<void> Communicator::open_one_sided() {
  {
    const std::lock_guard lock(submit_lock_);
    RONDO_TRY(check_usable_locked());
  }
  RONDO_TRY(check_windows());
  return executor_->open_one_sided();
}

Result<void> Communicator::open_one_sided(StreamRef stream) {
  {
    const std::lock_guard lock(submit_lock_);
    RONDO_TRY(check_usable_locked());
    if (signals_.empty()) RONDO_TRY(check_not_captured_locked(stream));  // later, submit() checks the stream
  }
  RONDO_TRY(check_windows());
  return executor_->open_one_sided();
}

/// Checks that the stream is not captured, so that it takes one-sided operations. The caller holds submit_lock_.
Result<void> Communicator::check_not_captured_locked(StreamRef stream) {
  if (stream.none() && capabilities_.runs_in_call) return {};
  RONDO_TRY_ASSIGN(const uint64_t capture, executor_->check_stream(stream, StreamRole::lead));
  executor_->forget_stream();  // the call has no turn among the operations
  if (capture == 0) return {};
  return Error{RONDO_ERROR_UNSUPPORTED,
               "puts, signals and waits cannot be captured into a graph in this version; enqueue them on a stream "
               "that is not captured"};
}

Result<void> Communicator::check_one_sided(std::span<const OneSided> operations, StreamRef stream) {
  std::vector<OneSided> copies(operations.begin(), operations.end());
  const std::lock_guard lock(submit_lock_);
  RONDO_TRY(check_usable_locked());
  RONDO_TRY(check_not_captured_locked(stream));
  RONDO_TRY(count_signals(copies));
  for (const OneSided &each : copies) total_of(each) -= each.count;
  return {};
}

/// Returns the total so far of signals with the operation's peer, number and direction. The caller holds submit_lock_.
uint64_t &Communicator::total_of(const OneSided &operation) {
  if (signals_.empty()) signals_.resize(size_t{2} * signal_count * rank_count_);
  const bool sends = operation.kind != OneSided::Kind::wait;
  return signals_[(size_t{operation.peer} * signal_count + operation.signal) * 2 + (sends ? 1 : 0)];
}

Result<void> Communicator::count_signals(std::span<OneSided> operations) {
  for (size_t at = 0; at < operations.size(); ++at) {
    OneSided &each = operations[at];
    uint64_t &total = total_of(each);
    if (each.count >= signal_total_end - total) {
      Error error{RONDO_ERROR_INVALID_ARGUMENT,
                  "count is " + std::to_string(each.count) + ", and earlier waits want " + std::to_string(total) +
                      " signals of number " + std::to_string(each.signal) + " from rank " +
                      std::to_string(each.peer) + "; together they must be less than 2^62"};
      for (const OneSided &counted : operations.first(at)) total_of(counted) -= counted.count;
      return error;
    }
    each.total = total += each.count;
  }
  return {};
}

Result<void> Communicator::submit(std::span<const OneSided> operations, StreamRef stream) {
  OneSidedBatch batch;
  for (const OneSided &each : operations)
    if (each.count != 0) batch.operations.push_back(each);  // a wait for no signals is left out
  std::unique_lock lock(submit_lock_);
  RONDO_TRY(check_usable_locked());
  RONDO_TRY(check_not_captured_locked(stream));
  RONDO_TRY(count_signals(batch.operations));
  if (batch.operations.empty()) return {};
  if (!capabilities_.one_sided_by_stream) batch.turn = ++turn_;
  if (stream.none() && capabilities_.runs_in_call) lock.unlock();
  return executor_->enqueue_one_sided(batch, stream);
}

}  // namespace rondo
