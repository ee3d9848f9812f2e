// SPDX-License-Identifier: Apache-2.0
#include "src/engine/operations.h"

#include <chrono>
#include <string>
#include <utility>

#include "src/base/clock.h"

namespace rondo {
namespace {

constexpr auto turn_look_interval = std::chrono::milliseconds(1);

}  // namespace

bool Operations::wait_for_turn(uint64_t turn) {
  std::unique_lock lock(turn_mutex_);
  turn_waiter_count_.fetch_add(1, std::memory_order_relaxed);  // mark_executed() reads it
  // Each earlier operation has its own deadline, except a wait for an event. So the end of each restarts the timeout.
  uint64_t deadline_ns = now_ns() + timeout_ns();
  uint64_t seen = executed();
  while (executed() + 1 < turn && !ranks_.failed()) {
    turn_.wait_for(lock, turn_look_interval);
    const uint64_t done = executed();
    if (std::exchange(seen, done) != done) deadline_ns = now_ns() + timeout_ns();
    if (now_ns() >= deadline_ns) ranks_.raise(turn_timed_out(turn));
  }
  turn_waiter_count_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: the count only saves notifications
  return executed() + 1 >= turn;
}

Error Operations::turn_timed_out(uint64_t turn) const {
  Error error{RONDO_ERROR_TIMEOUT, "call " + std::to_string(turn) + " of this rank waited too long for call " +
                                       std::to_string(executed() + 1) +
                                       ", which was made before it on a stream that does not advance"};
  error.rank = error.peer = static_cast<int32_t>(rank());
  return error;
}

void Operations::notify_turns() {
  const std::lock_guard lock(turn_mutex_);
  turn_.notify_all();
}

Error Operations::own(Error error, uint64_t number) const {
  error.rank = error.peer = static_cast<int32_t>(rank());
  error.operation = number;
  return error;
}

void Operations::raise(Error error, uint64_t number) {
  if (!has_left()) ranks_.raise(own(std::move(error), number));
}

void Operations::leave(Error error, uint64_t number) {
  departure_ = own(std::move(error), number);
  left_.store(true, std::memory_order_release);  // pairs with has_left()
}

void Operations::raise_not_enqueued(Error error, uint64_t number) {
  error.message = "operation " + std::to_string(number) + " could not be enqueued: " + error.message;
  raise(std::move(error), number);
}

Error Operations::report_failure() {
  Error error = failure();
  // Relaxed: it only selects the thread that reports first, and publishes no data.
  if (!failure_told_.exchange(true, std::memory_order_relaxed)) {
    // Wait until the recording is written, unless a user has caused the failure by an abort or a revocation.
    if (!has_left()) parts_.on_failure(error.status != RONDO_ERROR_ABORTED && error.status != RONDO_ERROR_REVOKED);
    return error;
  }
  if (error.status == RONDO_ERROR_REVOKED) return error;  // a user has called for this state, so it is no failure
  error.message =
      "the communicator failed earlier (" + std::string(rondo_status_string(error.status)) + "): " + error.message;
  error.status = RONDO_ERROR_COMM_FAILED;
  return error;
}

}  // namespace rondo
