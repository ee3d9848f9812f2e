// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/device_calls.h"

#include <atomic>
#include <thread>
#include <utility>

#include "bench/perf/call.h"

namespace rondo::perf {
Outcome DeviceCalls::enqueue(uint32_t call_count) {
  for (uint32_t call = 0; call < call_count; ++call) {
    if (session_.other != nullptr) {
      if (auto failure = session_.other->call(what_, shape_, at_, session_.device->stream())) return failure;
      continue;
    }
    const rondo_status_t status = make_call(what_, shape_, at_, session_.comm, session_.device->stream());
    if (status != RONDO_OK)
      return communication_failure(session_.comm, name_of(what_.collective), status);
  }
  return std::nullopt;
}

/// Waits for calls of the other library until a deadline, because that library may have none.
Outcome DeviceCalls::wait_for_other() {
  const uint64_t deadline_ns = clock_ns() + timeout_ns(session_.options);
  for (bool ended = false; !ended;) {
    if (auto failure = session_.device->ended(ended)) return failure;
    if (ended) break;
    if (clock_ns() > deadline_ns)
      return Failure{Exit::communication, "calls of the other library did not end in time; raise --timeout"};
    std::this_thread::yield();
  }
  return session_.other->check();
}

/// Waits for the stream. A stream ends even if its kernels fail, so the communicator is asked for a failure.
Outcome DeviceCalls::wait() {
  if (session_.other != nullptr) return wait_for_other();
  if (auto failure = session_.device->wait()) return failure;
  rondo_status_t state = RONDO_OK;
  rondo_status_t status = rondo_comm_get_async_error(session_.comm, &state);
  if (status == RONDO_OK) status = state;
  if (status == RONDO_OK) return std::nullopt;
  return communication_failure(session_.comm, name_of(what_.collective), status);
}

Outcome DeviceCalls::prepare() {
  if (!session_.options.graph) return std::nullopt;
  // The first call copies the plan to the device. That copy must not be part of the graph.
  if (auto failure = enqueue(1)) return failure;
  if (auto failure = wait()) return failure;
  // Making a graph may wait for the device. At that time no kernel on the device may be waiting for this rank.
  if (auto failure = session_.group.barrier()) return failure;
  if (auto failure = session_.first == nullptr ? capture() : capture_with_all()) return failure;
  return session_.group.barrier();
}

Outcome DeviceCalls::capture() {
  if (auto failure = session_.device->begin_capture()) return failure;
  if (auto failure = enqueue(call_count_)) return failure;
  return session_.device->end_capture();
}

/// Captures the calls of all ranks into one graph, on rank 0's device.
Outcome DeviceCalls::capture_with_all() {
  Device &device = *session_.device, &first = *session_.first;
  const bool is_first = &device == &first;
  if (is_first)
    if (auto failure = first.begin_capture()) return failure;
  const auto capture = [&]() -> Outcome {
    if (auto failure = session_.group.barrier()) return failure;
    if (!is_first)
      if (auto failure = device.follow(first)) return failure;
    if (auto failure = enqueue(call_count_)) return failure;
    if (auto failure = session_.group.barrier()) return failure;  // otherwise rank 0's calls could follow the others'
    if (!is_first)
      if (auto failure = device.lead_back(first)) return failure;
    return session_.group.barrier();
  };
  auto failure = capture();
  if (!is_first) return failure;
  auto ended = first.end_capture();  // even after a failure, as the stream must not stay in capture
  return failure ? failure : ended;
}

Outcome DeviceCalls::enqueue_all() {
  if (!session_.options.graph) return enqueue(call_count_);
  if (session_.first == nullptr) return session_.device->replay();
  const bool is_first = session_.device == session_.first;
  if (is_first)
    if (auto failure = session_.first->replay()) return failure;
  if (auto failure = session_.group.barrier()) return failure;
  return is_first ? std::nullopt : session_.device->follow(*session_.first);
}

/// Enqueues the calls between their marks. With --together, they first wait for the word that starts all streams.
/// @param host_ns  receives the time in which this thread has enqueued one call
Outcome DeviceCalls::enqueue_run(double &host_ns) {
  Device &device = *session_.device;
  if (session_.start != nullptr)
    if (auto failure = device.await_start(session_.start, ++session_.start_count)) return failure;
  if (auto failure = device.mark_begin()) return failure;
  const uint64_t begin_ns = clock_ns();
  if (auto failure = enqueue_all()) return failure;
  host_ns = static_cast<double>(clock_ns() - begin_ns) / call_count_;
  return device.mark_end();
}

/// Releases all streams once all ranks have enqueued their run. After a failure, releases them at once, because nothing
/// else would end their wait.
Outcome DeviceCalls::start_together(Outcome enqueued) {
  if (!enqueued) enqueued = session_.group.barrier();
  // These releases pair with the wait of the streams. After a failure, the word also lets all later runs begin.
  std::atomic_ref word(*session_.start);
  if (enqueued)
    word.store(~uint64_t{0} >> 1, std::memory_order_release);
  else if (session_.group.rank() == 0)
    word.store(session_.start_count, std::memory_order_release);
  return enqueued;
}

Outcome DeviceCalls::run(CallTime &time) {
  Device &device = *session_.device;
  auto enqueued = enqueue_run(time.host_ns);
  if (session_.start != nullptr) enqueued = start_together(std::move(enqueued));
  if (enqueued) return enqueued;
  if (auto failure = wait()) return failure;
  if (auto failure = device.elapsed_ns(time.call_ns)) return failure;
  time.call_ns /= call_count_;
  return std::nullopt;
}

}  // namespace rondo::perf
