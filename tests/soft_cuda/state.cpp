// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_cuda/state.h"

#include "tests/soft_cuda/streams.h"

namespace soft_cuda {
namespace {

struct EntryRow {
  const char *name;
  bool may_fail;  ///< for lack of a resource, by "fail" of SOFT_CUDA_FAULTS
};

/// Says whether an entry makes an object or enqueues work. Entries that query or give back never fail by chance.
constexpr bool may_fail(Entry entry) {
  switch (entry) {
    case Entry::primary_ctx_retain:
    case Entry::mem_alloc:
    case Entry::mem_host_alloc:
    case Entry::mem_host_register:
    case Entry::memcpy_async:
    case Entry::memcpy_dtod_async:
    case Entry::memcpy_htod_async:
    case Entry::memcpy_dtoh_async:
    case Entry::memset_d8_async:
    case Entry::memset_d32_async:
    case Entry::stream_create:
    case Entry::stream_wait_event:
    case Entry::stream_wait_value64:
    case Entry::stream_write_value64:
    case Entry::launch_host_func:
    case Entry::event_create:
    case Entry::event_record:
    case Entry::ipc_get_mem_handle:
    case Entry::ipc_open_mem_handle:
    case Entry::ipc_get_event_handle:
    case Entry::ipc_open_event_handle:
    case Entry::vmm_create:
    case Entry::vmm_address_reserve:
    case Entry::vmm_map:
    case Entry::vmm_set_access:
    case Entry::vmm_export:
    case Entry::vmm_import:
    case Entry::library_load_data:
    case Entry::kernel_get_function:
    case Entry::launch_kernel:
    case Entry::launch_kernel_ex:
    case Entry::graph_instantiate:
    case Entry::graph_launch:
    case Entry::graph_upload:
      return true;
    default:
      return false;
  }
}

constexpr std::array rows{
#define SOFT_CUDA_ROW(field, name, symbol, version, parameters) EntryRow{name, may_fail(Entry::field)},
    RONDO_CUDA_ENTRIES(SOFT_CUDA_ROW)
#undef SOFT_CUDA_ROW
};
static_assert(rows.size() == static_cast<size_t>(Entry::count));

CuStatus injected(State &driver, Entry entry) {
  const auto index = static_cast<size_t>(entry);
  const uint64_t number = ++driver.calls[index];
  const Faults &faults = driver.settings.faults;
  for (const CallFault &fault : faults.calls)
    if (fault.number == number && fault.name == rows[index].name) return fault.status;
  if (rows[index].may_fail && faults.fail_share > 0 && chance(faults.seed, 1000 + index, number) < faults.fail_share)
    return faults.fail_status;
  return CuStatus::success;
}

}  // namespace

State &state() {
  static State *const instance = new State;
  return *instance;
}

ThreadState &this_thread() {
  static std::mutex mutex;
  static uint64_t thread_count = 0;
  thread_local ThreadState own;
  if (own.number == 0) {
    const std::lock_guard lock(mutex);
    own.number = ++thread_count;
  }
  return own;
}

CuStatus begin_call(Lock &, Entry entry) {
  State &driver = state();
  ThreadState &thread = this_thread();
  ++thread.call_count;
  thread.query_count += rows[static_cast<size_t>(entry)].may_fail ? 0 : 1;
  // cuLaunchHostFunc: "Attempting to use a CUDA API from a host function may result in CUDA_ERROR_NOT_PERMITTED."
  if (thread.in_host_function) return CuStatus::not_permitted;
  if (!driver.initialised) return CuStatus::not_initialized;
  return injected(driver, entry);
}

std::shared_ptr<Context> current_context(State &driver, CuStatus &why) {
  const auto &contexts = this_thread().contexts;
  why = CuStatus::invalid_context;
  if (contexts.empty() || contexts.back() == nullptr) return nullptr;
  auto found = driver.contexts.find(contexts.back());
  if (found == nullptr) why = CuStatus::context_is_destroyed;
  return found;
}

Device *device_of(State &driver, CuDevice ordinal) {
  return ordinal >= 0 && static_cast<size_t>(ordinal) < driver.devices.size()
             ? &driver.devices[static_cast<size_t>(ordinal)]
             : nullptr;
}

int ordinal_of(const State &driver, int number) {
  for (const Device &device : driver.devices)
    if (device.number == number) return device.ordinal;
  return -1;
}

std::shared_ptr<Stream> stream_of(State &driver, CuStream handle, CuStatus &why) {
  constexpr uint64_t of_thread = 2;  // CU_STREAM_PER_THREAD
  const auto number = reinterpret_cast<uint64_t>(handle);
  if (number > of_thread) {
    why = CuStatus::invalid_handle;
    return driver.streams.find(handle);
  }
  const auto context = current_context(driver, why);
  if (context == nullptr) return nullptr;
  if (number != of_thread) return context->legacy;  // 0, and 1 (CU_STREAM_LEGACY)
  auto &own = context->of_threads[this_thread().number];
  if (own == nullptr) own = start_stream(driver, context, stream_default, 0);
  return own;
}

void synchronise(Lock &lock, const std::shared_ptr<Context> &context) {
  std::vector<CompletionRef> ends;
  for (const auto &stream : context->streams)
    if (stream->last != nullptr) ends.push_back(stream->last);
  for (const CompletionRef &end : ends) wait_for(lock, end);
}

void synchronise_implicitly(State &driver, Lock &lock, const std::shared_ptr<Context> &context) {
  if (driver.settings.synchronising) synchronise(lock, context);
}

}  // namespace soft_cuda
