// SPDX-License-Identifier: Apache-2.0
#include "src/engine/host_stream.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/base/start_thread.h"

namespace rondo {
namespace {

constexpr uint64_t ring_mask = HostStream::queue_tasks_max - 1;
static_assert((HostStream::queue_tasks_max & ring_mask) == 0);

/// Converts a time of now_ns() to a time_point. In libstdc++ and libc++, steady_clock also is CLOCK_MONOTONIC.
std::chrono::steady_clock::time_point time_of(uint64_t deadline_ns) {
  const auto most = static_cast<uint64_t>(std::chrono::nanoseconds::max().count());
  return std::chrono::steady_clock::time_point(
      std::chrono::nanoseconds(static_cast<int64_t>(std::min(deadline_ns, most))));
}

/// Runs a task. If the task throws, for instance because memory ran out, the task has failed, and the process goes on.
Result<void> run_task(Task &task) noexcept {
  try {
    return task();
  } catch (const std::bad_alloc &) {
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"};  // the text needs no allocation
  } catch (const std::exception &) {
    return Error{RONDO_ERROR_INTERNAL, "exception"};
  }
}

Error own_thread_error(const char *what) {
  return invalid_argument(std::string(what) + " came from an operation of the same stream: it would wait for itself");
}

}  // namespace

Result<std::shared_ptr<HostStream>> HostStream::create(uint64_t spin_ns) {
  std::shared_ptr<HostStream> stream;
  try {
    stream.reset(new HostStream(std::min(spin_ns, spin_ns_max)));
  } catch (const std::bad_alloc &) {
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, "no memory is left for a stream"};
  }
  RONDO_TRY(stream->start());
  return stream;
}

Result<void> HostStream::start() {
  RONDO_TRY_ASSIGN(thread_, start_thread("a stream (destroy those that are not needed)", [this] { run(); }));
  thread_id_ = thread_.get_id();
  ::pthread_setname_np(thread_.native_handle(), "rondo-stream");
  return {};
}

HostStream::~HostStream() {
  if (thread_.joinable()) static_cast<void>(close());
}

Result<void> HostStream::enqueue(Task task, uint64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  // Relaxed: enqueued_ is written under mutex_, which this thread holds.
  const auto full = [&] { return enqueued_.load(std::memory_order_relaxed) - completed_ == queue_tasks_max; };
  while (full() && !closing_) {
    if (on_own_thread()) return own_thread_error("an enqueue on a full stream");
    if (now_ns() >= deadline_ns)
      return Error{RONDO_ERROR_TIMEOUT, "the stream's queue of " + std::to_string(queue_tasks_max) +
                                            " operations was full until the deadline; nothing was enqueued"};
    ++progress_waiter_count_;
    wait_clock_.begin(now_ns());
    if (deadline_ns == no_task_deadline)
      progress_.wait(lock);
    else
      progress_.wait_until(lock, time_of(deadline_ns));
    wait_clock_.end(now_ns());
    --progress_waiter_count_;
  }
  if (closing_) return Error{RONDO_ERROR_INVALID_HANDLE, "the stream is being destroyed; nothing was enqueued"};
  const uint64_t number = enqueued_.load(std::memory_order_relaxed);
  ring_[number & ring_mask] = std::move(task);
  enqueued_.store(number + 1, std::memory_order_release);  // pairs with acquire in spin_for_task()
  const bool wake = std::exchange(asleep_, false);
  lock.unlock();
  if (wake) work_.notify_one();
  return {};
}

Result<void> HostStream::synchronize() {
  std::unique_lock lock(mutex_);
  if (on_own_thread()) return own_thread_error("a synchronize");
  const uint64_t target = enqueued_.load(std::memory_order_relaxed);  // written under mutex_
  if (completed_ < target) {
    if (synchronize_target_ == 0) wait_clock_.begin(now_ns());  // complete() ends it
    synchronize_target_ = std::max(synchronize_target_, target);
    ++progress_waiter_count_;
    progress_.wait(lock, [&] { return completed_ >= target; });
    --progress_waiter_count_;
  }
  return take_failure();
}

void HostStream::begin_wait() {
  const std::lock_guard lock(mutex_);
  wait_clock_.begin(now_ns());
}

void HostStream::end_waits(uint64_t waiter_count) {
  const std::lock_guard lock(mutex_);
  wait_clock_.end(now_ns(), waiter_count);
}

std::optional<Error> HostStream::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool HostStream::idle() const {
  const std::lock_guard lock(mutex_);
  return completed_ == enqueued_.load(std::memory_order_relaxed);  // written under mutex_
}

Result<void> HostStream::close() {
  {
    const std::lock_guard lock(mutex_);
    if (on_own_thread()) return own_thread_error("a destroy");
    closing_ = true;
    wait_clock_.begin(now_ns());  // the wait ends with the stream
  }
  work_.notify_one();
  progress_.notify_all();  // callers that wait for a free queue entry then return an error
  thread_.join();
  const std::lock_guard lock(mutex_);
  return take_failure();
}

Result<void> HostStream::take_failure() {
  if (!failure_) return {};
  Error error = std::move(*failure_);
  failure_.reset();
  return error;
}

void HostStream::run() {
  for (uint64_t number = 0; wait_for_task(number); ++number) {
    Task &task = ring_[number & ring_mask];
    Result<void> result = run_task(task);
    task.reset();  // destroys the captures before the task counts as complete, so before synchronize() returns
    complete(number, std::move(result));
  }
}

bool HostStream::wait_for_task(uint64_t number) {
  if (spin_for_task(number)) return true;
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return enqueued_.load(std::memory_order_relaxed) > number; };  // written under mutex_
  while (!ready() && !closing_) {
    asleep_ = true;
    work_.wait(lock);
    asleep_ = false;
  }
  return ready();
}

/// Polls for the next task for spin_ns_, without sleeping. Doubles spin_ns_ if the task arrives in that time, otherwise
/// halves it.
bool HostStream::spin_for_task(uint64_t number) {
  const auto ready = [&] { return enqueued_.load(std::memory_order_acquire) > number; };  // pairs with enqueue()
  if (ready()) return true;
  if (spin_ns_limit_ == 0) return false;
  const uint64_t until_ns = now_ns() + spin_ns_;
  while (now_ns() < until_ns) {
    if (!ready()) continue;
    spin_ns_ = std::min(spin_ns_ * 2, spin_ns_limit_);
    return true;
  }
  spin_ns_ = std::max(spin_ns_ / 2, std::min<uint64_t>(1'000, spin_ns_limit_));
  return false;
}

void HostStream::complete(uint64_t number, Result<void> result) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    completed_ = number + 1;
    if (synchronize_target_ != 0 && completed_ >= synchronize_target_) {
      synchronize_target_ = 0;
      wait_clock_.end(now_ns());
    }
    if (!result.ok() && !failure_) failure_ = std::move(result).error();
    wake = progress_waiter_count_ != 0;
  }
  if (wake) progress_.notify_all();
}

}  // namespace rondo
