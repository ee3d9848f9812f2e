// SPDX-License-Identifier: Apache-2.0
// The driver in software of this process: all its objects, under one mutex, and what every entry does first and last.
#pragma once

#include <array>
#include <new>

#include "cuda/driver/driver_entries.h"
#include "tests/soft_cuda/memory.h"
#include "tests/soft_cuda/objects.h"

namespace soft_cuda {

/// One for each entry of the driver's interface.
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
  uint64_t launch_count = 0;    ///< of kernels
  uint64_t upload_count = 0;    ///< copies from the host to a device, called or captured
  uint64_t remote_launch_count = 0;  ///< of those, in the remote memory-sync domain
  uint64_t block_threads = 0;   ///< the most that a launch has asked for
  uint64_t flush_count = 0;     ///< of what network cards wrote
  uint64_t captured_count = 0;  ///< of nodes of graphs
  uint64_t capture_count = 0;   ///< that were begun

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

/// Returns the state, which is never destroyed: detached threads use it until the process is gone.
State &state();

/// The driver's state of one host thread.
struct ThreadState {
  std::vector<CuContext> contexts;  ///< the current one is the last
  bool in_host_function = false;
  CaptureMode capture_mode = CaptureMode::global;
  uint64_t number = 0;  ///< of this thread, from 1
};
ThreadState &this_thread();

/// Returns success, unless the driver is not initialised, a host function calls it, or a fault is injected. Takes no
/// lock.
CuStatus begin_call(Lock &lock, Entry entry);

/// Returns the current context, which must exist, or null with `why`.
std::shared_ptr<Context> current_context(State &state, CuStatus &why);

/// Returns the device of `ordinal`, or null.
Device *device_of(State &state, CuDevice ordinal);

/// Returns the ordinal of a device of the machine, or -1 if this process does not see it.
int ordinal_of(const State &state, int number);

/// Returns the stream of a handle. For null it is the current context's legacy default one; null with `why` if none.
std::shared_ptr<Stream> stream_of(State &state, CuStream handle, CuStatus &why);

/// Waits until all work that was submitted in the context has ended.
void synchronise(Lock &lock, const std::shared_ptr<Context> &context);

/// Does the same for calls that synchronise implicitly: allocation, loading. SOFT_CUDA_SYNC=off leaves it out.
void synchronise_implicitly(State &state, Lock &lock, const std::shared_ptr<Context> &context);

/// Runs an entry that needs no context: body(state, lock) under the mutex.
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

/// Runs an entry that needs a current context: body(state, lock, context). An error that sticks in it is returned
/// first.
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

/// Does the same for entries that give something back: they do it, and then return the error that sticks.
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

/// Runs an entry on a stream, null for the legacy one: body(state, lock, stream).
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
