// SPDX-License-Identifier: Apache-2.0
// This file implements rondo_stream_* and rondo_event_*: it validates arguments and translates results.
#include <sched.h>

#include <memory>

#include "src/api/boundary.h"
#include "src/api/lookup.h"
#include "src/core/host_event.h"

using namespace rondo;

namespace {

Result<std::shared_ptr<HostEvent>> event_of(rondo_event_t handle) {
  auto event = process().events.find(handle);
  if (event == nullptr) return invalid_handle(HandleKind::event, handle);
  return event;
}

/// Returns how long the thread of the next stream may poll for work before it sleeps. The result is 0 unless there are
/// more than two cores for each stream.
uint64_t spin_ns_for_next_stream() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return 0;
  const auto core_count = static_cast<uint32_t>(CPU_COUNT(&cores));
  return core_count / 2 > process().streams.live_count() + 1 ? HostStream::spin_ns_max : 0;
}

}  // namespace

extern "C" {

rondo_status_t rondo_stream_create(rondo_stream_t *stream) noexcept {
  return at_boundary([&]() -> Result<void> {
    if (stream == nullptr) return invalid_argument("rondo_stream_create: stream is NULL");
    RONDO_TRY_ASSIGN(auto made, HostStream::create(spin_ns_for_next_stream()));
    void *handle = process().streams.insert(std::move(made));
    if (handle == nullptr) return no_more_handles(HandleKind::stream);
    *stream = handle;
    return {};
  });
}

rondo_status_t rondo_stream_destroy(rondo_stream_t stream) noexcept {
  return at_boundary([&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto found, stream_of(stream));
    if (found->on_own_thread())
      return invalid_argument("rondo_stream_destroy came from an operation of that stream: it would wait for itself");
    const auto removed = process().streams.remove(stream);
    if (removed == nullptr) return invalid_handle(HandleKind::stream, stream);  // another call has destroyed it
    return removed->close();
  });
}

rondo_status_t rondo_stream_synchronize(rondo_stream_t stream) noexcept {
  return at_boundary([&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto found, stream_of(stream));
    return found->synchronize();
  });
}

rondo_status_t rondo_stream_query(rondo_stream_t stream) noexcept {
  bool idle = false;
  const rondo_status_t status = at_boundary([&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto found, stream_of(stream));
    idle = found->idle();
    return {};
  });
  return status == RONDO_OK && !idle ? RONDO_NOT_READY : status;
}

rondo_status_t rondo_stream_wait_event(rondo_stream_t stream, rondo_event_t event) noexcept {
  return at_boundary([&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto held, stream_or_call(stream));
    RONDO_TRY_ASSIGN(const auto found, event_of(event));
    return found->hold(held.get());
  });
}

rondo_status_t rondo_event_create(rondo_event_t *event) noexcept {
  return at_boundary([&]() -> Result<void> {
    if (event == nullptr) return invalid_argument("rondo_event_create: event is NULL");
    void *handle = process().events.insert(std::make_shared<HostEvent>());
    if (handle == nullptr) return no_more_handles(HandleKind::event);
    *event = static_cast<rondo_event_t>(handle);
    return {};
  });
}

rondo_status_t rondo_event_destroy(rondo_event_t event) noexcept {
  return at_boundary([&]() -> Result<void> {
    if (process().events.remove(event) == nullptr) return invalid_handle(HandleKind::event, event);
    return {};
  });
}

rondo_status_t rondo_event_record(rondo_event_t event, rondo_stream_t stream) noexcept {
  return at_boundary([&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto found, event_of(event));
    RONDO_TRY_ASSIGN(const auto reached, stream_or_call(stream));
    return found->record(reached.get());
  });
}

rondo_status_t rondo_event_synchronize(rondo_event_t event) noexcept {
  return at_boundary([&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto found, event_of(event));
    return found->synchronize();
  });
}

rondo_status_t rondo_event_query(rondo_event_t event) noexcept {
  bool done = false;
  const rondo_status_t status = at_boundary([&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto found, event_of(event));
    done = found->done();
    return {};
  });
  return status == RONDO_OK && !done ? RONDO_NOT_READY : status;
}

rondo_status_t rondo_event_timestamp_ns(rondo_event_t event, uint64_t *timestamp_ns) noexcept {
  bool done = false;
  const rondo_status_t status = at_boundary([&]() -> Result<void> {
    if (timestamp_ns == nullptr) return invalid_argument("rondo_event_timestamp_ns: timestamp_ns is NULL");
    RONDO_TRY_ASSIGN(const auto found, event_of(event));
    if (const auto time = found->timestamp_ns()) {
      *timestamp_ns = *time;
      done = true;
    }
    return {};
  });
  return status == RONDO_OK && !done ? RONDO_NOT_READY : status;
}

}  // extern "C"
