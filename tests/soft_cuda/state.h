// SPDX-License-Identifier: Apache-2.0
// This file declares the state of the driver in software in this process. One mutex protects all objects. The file also
// declares what every entry does at its beginning and at its end.
#pragma once

#include <array>
#include <new>

#include "cuda/driver/driver_entries.h"
#include "tests/soft_cuda/memory.h"
#include "tests/soft_cuda/objects.h"

namespace soft_cuda {

/// A number for each entry of the driver's interface.
enum class Entry : uint32_t {
#define SOFT_CUDA_ENTRY(field, name, symbol, version, parameters) field,
  RONDO_CUDA_ENTRIES(SOFT_CUDA_ENTRY)
#undef SOFT_CUDA_ENTRY
      count
};

struct State {
  std::mutex mutex;
  bool initialised = false;
  Settings settings;
  std::array<uint64_t, static_cast<size_t>(Entry::count)> calls{};
  uint64_t work_number = 0;
  uint64_t launch_count = 0;    ///< launches of kernels
  uint64_t upload_count = 0;    ///< copies from the host to a device, called or captured
  uint64_t remote_launch_count = 0;  ///< launches of kernels in the remote memory-sync domain
  uint64_t block_threads = 0;   ///< the most that a launch has requested
  uint64_t flush_count = 0;     ///< flushes of what network cards wrote
  uint64_t captured_count = 0;  ///< captured nodes of graphs
  uint64_t capture_count = 0;   ///< captures that began

  std::deque<Device> devices;
  Memory memory;
  HandleTable<CuContext, Context> contexts{0xC1};
  HandleTable<CuStream, Stream> streams{0xC2};
  HandleTable<CuEvent, Event> events{0xC3};
  HandleTable<CuLibrary, Library> libraries{0xC4};
  HandleTable<CuKernel, Kernel> kernels{0xC5};
  HandleTable<CuFunction, Function> functions{0xC6};
  HandleTable<CuGraph, Graph> graphs{0xC7};
  HandleTable<CuGraphExec, GraphExec> graph_execs{0xC8};
  std::set<std::shared_ptr<Capture>> captures;  ///< in progress
};

/// Returns the state. It is never destroyed, because detached threads use it until the process ends.
State &state();

/// The state of the driver in one host thread.
struct ThreadState {
  std::vector<CuContext> contexts;  ///< the current one is the last
  bool in_host_function = false;
  CaptureMode capture_mode = CaptureMode::global;
  uint64_t number = 0;  ///< of this thread, from 1
  uint64_t call_count = 0;   ///< calls of the driver
  uint64_t query_count = 0;  ///< calls among them that neither make nor enqueue anything
};
ThreadState &this_thread();

/// Begins an entry. Returns success, unless the driver is not initialised, a host function makes the call, or a fault
/// is injected. Takes no lock.
CuStatus begin_call(Lock &lock, Entry entry);

/// Returns the current context. If there is none, returns null and sets `why`.
std::shared_ptr<Context> current_context(State &state, CuStatus &why);

/// Returns the device of `ordinal`, or null.
Device *device_of(State &state, CuDevice ordinal);

/// Returns the ordinal of a device of the machine, or -1 if this process does not see it.
int ordinal_of(const State &state, int number);

/// Returns the stream of a handle, which may name a default stream of the current context. If no stream exists, returns
/// null and sets `why`. A thread's default stream is made at its first use, and lives as long as its context.
std::shared_ptr<Stream> stream_of(State &state, CuStream handle, CuStatus &why);

/// Waits until all submitted work of the context has ended.
void synchronise(Lock &lock, const std::shared_ptr<Context> &context);

/// Does the same as synchronise(), for calls that synchronise implicitly, such as allocation and loading. With
/// SOFT_CUDA_SYNC=off it does nothing.
void synchronise_implicitly(State &state, Lock &lock, const std::shared_ptr<Context> &context);

/// Runs an entry that needs no context. It calls body(state, lock) under the mutex.
template <class Body>
CuStatus call(Entry entry, const Body &body) noexcept {
  try {
    State &driver = state();
    Lock lock(driver.mutex);
    const CuStatus begun = begin_call(lock, entry);
    return begun != CuStatus::success ? begun : body(driver, lock);
  } catch (const std::bad_alloc &) {
    return CuStatus::out_of_memory;
  } catch (...) {
    return CuStatus::unknown;
  }
}

/// Runs an entry that needs a current context. It calls body(state, lock, context). If the context has a sticky error,
/// it returns the error and makes no call.
template <class Body>
CuStatus call_in_context(Entry entry, const Body &body) noexcept {
  return call(entry, [&](State &driver, Lock &lock) {
    CuStatus why = CuStatus::success;
    const auto context = current_context(driver, why);
    if (context == nullptr) return why;
    if (context->error != CuStatus::success) return context->error;
    return body(driver, lock, context);
  });
}

/// Runs an entry that returns resources. If the context has a sticky error, the entry runs, and the error is returned.
template <class Body>
CuStatus call_to_close(Entry entry, const Body &body) noexcept {
  return call(entry, [&](State &driver, Lock &lock) {
    CuStatus why = CuStatus::success;
    const auto context = current_context(driver, why);
    if (context == nullptr) return why;
    const CuStatus done = body(driver, lock, context);
    return context->error != CuStatus::success ? context->error : done;
  });
}

/// Runs an entry on a stream; a null handle means the legacy stream. It calls body(state, lock, stream).
template <class Body>
CuStatus call_on_stream(Entry entry, CuStream handle, const Body &body) noexcept {
  return call(entry, [&](State &driver, Lock &lock) {
    CuStatus why = CuStatus::success;
    const auto stream = stream_of(driver, handle, why);
    if (stream == nullptr) return why;
    if (stream->context->error != CuStatus::success) return stream->context->error;
    return body(driver, lock, stream);
  });
}

}  // namespace soft_cuda
