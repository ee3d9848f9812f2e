// SPDX-License-Identifier: Apache-2.0
// This file has events, between the streams of a process and between processes.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/soft_cuda/capture.h"
#include "tests/soft_cuda/exports.h"
#include "tests/soft_cuda/ipc.h"
#include "tests/soft_cuda/streams.h"

namespace soft_cuda {
namespace {

using Page = std::shared_ptr<SharedEventPage>;

// The counters of an event between processes are read and written here. The comments say which accesses pair.
uint64_t recorded_of(SharedEvent &event) {
  return std::atomic_ref(event.recorded).load(std::memory_order_acquire);  // pairs with record_shared()
}
uint64_t completed_of(SharedEvent &event) {
  return std::atomic_ref(event.completed).load(std::memory_order_acquire);  // pairs with complete_shared()
}
uint64_t record_shared(SharedEvent &event) {
  return std::atomic_ref(event.recorded).fetch_add(1, std::memory_order_release) + 1;  // pairs with recorded_of()
}
void complete_shared(SharedEvent &event, uint64_t number) {
  std::atomic_ref completed(event.completed);
  uint64_t seen = completed.load(std::memory_order_relaxed);
  while (seen < number && !completed.compare_exchange_weak(seen, number, std::memory_order_release,  // completed_of()
                                                           std::memory_order_relaxed)) {
  }
}

CuStatus wait_for_shared(const Page &page, uint64_t number, const Context &context) {
  for (uint64_t poll = 1; completed_of(*page->counters) < number; ++poll) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (poll % 64 != 0) continue;
    const std::lock_guard lock(state().mutex);
    if (context.error != CuStatus::success) break;
  }
  return CuStatus::success;
}

/// Returns success if the host may query this event.
CuStatus check_event(const State &driver, const Event *event) {
  return event == nullptr ? CuStatus::invalid_handle : check_not_captured(driver, *event);
}

CuStatus record(State &driver, Lock &lock, Event &event, const std::shared_ptr<Stream> &stream) {
  if (stream->capture != nullptr) return capture_record(*stream, event);
  Action run;
  if (event.shared != nullptr) {
    const uint64_t number = record_shared(*event.shared->counters);
    run = [page = event.shared, number] {
      complete_shared(*page->counters, number);
      return CuStatus::success;
    };
  }
  CompletionRef end;
  const CuStatus status = submit(driver, lock, stream, std::move(run), &end);
  if (status != CuStatus::success) return status;
  event.recorded = end;
  event.capture.reset();
  event.capture_tips.clear();
  return CuStatus::success;
}

CuStatus wait(State &driver, Lock &lock, const std::shared_ptr<Stream> &stream, const Event &event) {
  if (stream->capture != nullptr || event.capture != nullptr) return capture_wait(driver, *stream, event);
  if (event.shared != nullptr) {
    const uint64_t number = recorded_of(*event.shared->counters);
    if (completed_of(*event.shared->counters) >= number) return CuStatus::success;
    return submit(driver, lock, stream, [page = event.shared, number, context = stream->context] {
      return wait_for_shared(page, number, *context);
    });
  }
  if (event.recorded == nullptr || event.recorded->done) return CuStatus::success;
  return submit(driver, lock, stream, nullptr, nullptr, {event.recorded});
}

bool has_ended(const Event &event) {
  if (event.shared != nullptr) return completed_of(*event.shared->counters) >= recorded_of(*event.shared->counters);
  return event.recorded == nullptr || event.recorded->done;
}

Page make_page(int descriptor) {
  auto page = std::make_shared<SharedEventPage>();
  page->descriptor = descriptor;
  void *const address = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return nullptr;
  page->counters = static_cast<SharedEvent *>(address);
  return page;
}

Page new_page() {
  const int descriptor = ::memfd_create("soft-cuda-event", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  if (::ftruncate(descriptor, page_bytes) == 0) return make_page(descriptor);
  ::close(descriptor);
  return nullptr;
}

}  // namespace

SharedEventPage::~SharedEventPage() {
  if (counters != nullptr) ::munmap(counters, page_bytes);
  if (descriptor >= 0) ::close(descriptor);
}

}  // namespace soft_cuda

using namespace soft_cuda;

extern "C" {

CuStatus cuEventCreate(CuEvent *handle, unsigned flags) {
  return call_in_context(Entry::event_create, [&](State &driver, Lock &, const auto &context) {
    const bool shared = (flags & event_interprocess) != 0;
    // "CU_EVENT_INTERPROCESS ... must be set with CU_EVENT_DISABLE_TIMING."
    if (handle == nullptr || flags > 7 || (shared && (flags & event_disable_timing) == 0))
      return CuStatus::invalid_value;
    auto event = std::make_shared<soft_cuda::Event>();
    event->context = context;
    event->flags = flags;
    if (shared && (event->shared = new_page()) == nullptr) return CuStatus::operating_system;
    *handle = event->handle = driver.events.add(event);
    return CuStatus::success;
  });
}

CuStatus cuEventDestroy_v2(CuEvent handle) {
  return call(Entry::event_destroy, [&](State &driver, Lock &) {
    const auto event = driver.events.take(handle);
    return event == nullptr ? CuStatus::invalid_handle : event->context->error;
  });
}

CuStatus cuEventRecord(CuEvent handle, CuStream stream_handle) {
  return call_on_stream(Entry::event_record, stream_handle, [&](State &driver, Lock &lock, const auto &stream) {
    const auto event = driver.events.find(handle);
    // "hEvent and hStream must be from the same context."
    if (event == nullptr || event->context != stream->context) return CuStatus::invalid_handle;
    return record(driver, lock, *event, stream);
  });
}

CuStatus cuEventQuery(CuEvent handle) {
  return call(Entry::event_query, [&](State &driver, Lock &) {
    const auto event = driver.events.find(handle);
    if (const CuStatus status = check_event(driver, event.get()); status != CuStatus::success) return status;
    if (const CuStatus status = check_unsafe_call(driver); status != CuStatus::success) return status;
    if (event->context->error != CuStatus::success) return event->context->error;
    return has_ended(*event) ? CuStatus::success : CuStatus::not_ready;
  });
}

CuStatus cuEventSynchronize(CuEvent handle) {
  return call(Entry::event_synchronize, [&](State &driver, Lock &lock) {
    const auto event = driver.events.find(handle);
    if (const CuStatus status = check_event(driver, event.get()); status != CuStatus::success) return status;
    if (event->shared != nullptr) {
      const uint64_t number = recorded_of(*event->shared->counters);
      lock.unlock();
      const CuStatus status = wait_for_shared(event->shared, number, *event->context);
      lock.lock();
      if (status != CuStatus::success) return status;
    } else if (const CompletionRef recorded = event->recorded; recorded != nullptr) {
      wait_for(lock, recorded);
    }
    return event->context->error;
  });
}

CuStatus cuEventElapsedTime(float *milliseconds, CuEvent from_handle, CuEvent to_handle) {
  return call(Entry::event_elapsed_time, [&](State &driver, Lock &) {
    const auto from = driver.events.find(from_handle);
    const auto to = driver.events.find(to_handle);
    if (milliseconds == nullptr) return CuStatus::invalid_value;
    // "If either event has not been recorded, or was made with CU_EVENT_DISABLE_TIMING: CUDA_ERROR_INVALID_HANDLE."
    if (from == nullptr || to == nullptr || ((from->flags | to->flags) & event_disable_timing) != 0 ||
        from->recorded == nullptr || to->recorded == nullptr)
      return CuStatus::invalid_handle;
    if (!from->recorded->done || !to->recorded->done) return CuStatus::not_ready;
    const auto elapsed_ns = static_cast<int64_t>(to->recorded->done_ns - from->recorded->done_ns);
    *milliseconds = static_cast<float>(static_cast<double>(elapsed_ns) * 1e-6);
    return CuStatus::success;
  });
}

CuStatus cuStreamWaitEvent(CuStream stream_handle, CuEvent handle, unsigned flags) {
  return call_on_stream(Entry::stream_wait_event, stream_handle, [&](State &driver, Lock &lock, const auto &stream) {
    const auto event = driver.events.find(handle);
    if (event == nullptr) return CuStatus::invalid_handle;
    if (flags != 0) return CuStatus::invalid_value;
    return wait(driver, lock, stream, *event);
  });
}

CuStatus cuIpcGetEventHandle(IpcEventHandle *handle, CuEvent event_handle) {
  return call(Entry::ipc_get_event_handle, [&](State &driver, Lock &) {
    const auto event = driver.events.find(event_handle);
    if (handle == nullptr) return CuStatus::invalid_value;
    if (event == nullptr || event->shared == nullptr) return CuStatus::invalid_handle;
    return offer(event->shared->descriptor, ExportKind::event, event->context->device->ordinal, page_bytes,
                 event->shared, handle->bytes);
  });
}

CuStatus cuIpcOpenEventHandle(CuEvent *handle, IpcEventHandle bytes) {
  return call_in_context(Entry::ipc_open_event_handle, [&](State &driver, Lock &lock, const auto &context) {
    if (handle == nullptr) return CuStatus::invalid_value;
    Fetched fetched;
    lock.unlock();  // another thread of this process may answer
    const CuStatus status = fetch(bytes.bytes, ExportKind::event, fetched);
    lock.lock();
    if (status != CuStatus::success) return status;
    auto event = std::make_shared<soft_cuda::Event>();
    event->context = context;
    event->flags = event_interprocess | event_disable_timing;
    event->shared = make_page(fetched.descriptor);
    if (event->shared == nullptr) return CuStatus::map_failed;
    *handle = event->handle = driver.events.add(event);
    return CuStatus::success;
  });
}

}  // extern "C"
