// SPDX-License-Identifier: Apache-2.0
// This file has libraries of kernels, and launches. Images are not read: SOFT_CUDA_KERNELS names the kernels' library.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <sstream>

#include "tests/soft_cuda/capture.h"
#include "tests/soft_cuda/exports.h"
#include "tests/soft_cuda/soft_cuda.h"
#include "tests/soft_cuda/streams.h"
#include "tests/soft_cuda/turns.h"

namespace soft_cuda {
namespace {

constexpr unsigned block_threads_max = 1024;
constexpr int small_block_threads = 256;  // a multiprocessor may hold several such blocks
constexpr int dynamic_shared_bytes_limit = 227 << 10;
/// The driver in software does not know a kernel's static shared memory, so every block has at least this much.
constexpr uint64_t shared_bytes_min = 16 << 10;
constexpr uint64_t shared_bytes_reserved = 1 << 10;  ///< the driver's own share for each block
/// The possible sizes of a multiprocessor's shared memory.
constexpr uint64_t carveouts[] = {8 << 10, 16 << 10, 32 << 10, 64 << 10, 100 << 10, 132 << 10, 164 << 10, 196 << 10,
                                  228 << 10};

using KernelList = const KernelEntry *(*)();

/// Returns a bit, by number, for each device whose kernels may touch the range. For a mapping, these are the devices
/// for which its access was set. For an import, they are the devices whose contexts opened it. For other memory, it is
/// the device itself, and for memory of cuMemAlloc also the devices with peer access.
uint64_t reached_by(const State &driver, const Range &range) {
  if (range.kind == RangeKind::mapped || range.kind == RangeKind::imported) return range.access;
  uint64_t devices = uint64_t{1} << range.physical->device;
  for (const Device &device : driver.devices)
    if (device.primary != nullptr && device.primary->peers.contains(range.device) && range.kind == RangeKind::device)
      devices |= uint64_t{1} << device.number;
  return devices;
}

/// Finds the memory that contains an address, so that accesses can be counted.
void find_memory(uintptr_t address, MemoryExtent &extent) {
  State &driver = state();
  const Lock lock(driver.mutex);
  const auto after = driver.memory.ranges.upper_bound(address);
  extent = {0, after == driver.memory.ranges.end() ? UINTPTR_MAX : after->first, MemoryExtent::none};
  if (after == driver.memory.ranges.begin()) return;
  const Range &range = std::prev(after)->second;
  extent.begin = range.base + range.bytes;
  if (address >= extent.begin) return;
  extent = {range.base, range.base + range.bytes,
            is_on_device(range.kind) ? range.physical->device : MemoryExtent::host,
            is_on_device(range.kind) ? reached_by(driver, range) : UINT64_MAX};
}

/// Returns a function of the first library of kernels that has it, or null.
template <class Function>
Function *kernels_function(const char *name) {
  std::istringstream list(state().settings.kernels);
  for (std::string path; std::getline(list, path, ':');) {
    void *const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    if (void *const found = ::dlsym(handle, name)) return reinterpret_cast<Function *>(found);
  }
  return nullptr;
}

/// Returns the kernels of all libraries in `paths`, which are separated by colons, or none if one library has none.
/// Libraries are never closed, because blocks may run their code until the process ends.
std::vector<KernelEntry> open_kernels(const std::string &paths) {
  std::vector<KernelEntry> all;
  std::istringstream list(paths);
  for (std::string path; std::getline(list, path, ':');) {
    void *const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) std::fprintf(stderr, "soft cuda: %s\n", ::dlerror());
    const auto kernels = handle == nullptr ? nullptr
                                           : reinterpret_cast<KernelList>(::dlsym(handle, "soft_cuda_kernels"));
    if (kernels == nullptr) return {};
    for (const KernelEntry *entry = kernels(); entry->name != nullptr; ++entry) all.push_back(*entry);
  }
  return all;
}

/// Returns the function that stands for the kernel in the context. Makes it at the first call.
std::shared_ptr<Function> function_of(State &driver, Kernel &kernel, const std::shared_ptr<Context> &context) {
  for (const CuFunction handle : kernel.functions)
    if (auto known = driver.functions.find(handle); known != nullptr && known->context == context) return known;
  auto function = std::make_shared<Function>();
  function->context = context;
  function->entry = kernel.entry;
  function->handle = driver.functions.add(function);
  kernel.functions.push_back(function->handle);
  return function;
}

/// Returns the function that `handle` names. The handle of a kernel names the kernel's function in the context.
std::shared_ptr<Function> function_in(State &driver, CuFunction handle, const std::shared_ptr<Context> &context) {
  if (auto found = driver.functions.find(handle)) return found;
  const auto kernel = driver.kernels.find(reinterpret_cast<CuKernel>(handle));
  return kernel == nullptr ? nullptr : function_of(driver, *kernel, context);
}

/// Loads a function's code when a call first needs the code. This call may synchronise the device.
CuStatus load(State &driver, Lock &lock, Function &function) {
  if (function.loaded) return CuStatus::success;
  if (const CuStatus status = check_unsafe_call(driver); status != CuStatus::success) return status;
  synchronise_implicitly(driver, lock, function.context);
  function.loaded = true;
  return CuStatus::success;
}

template <class Body>
CuStatus call_on_function(Entry entry, CuFunction handle, const Body &body) {
  return call_in_context(entry, [&](State &driver, Lock &lock, const auto &context) {
    const auto function = function_in(driver, handle, context);
    if (function == nullptr) return CuStatus::invalid_handle;
    if (const CuStatus status = load(driver, lock, *function); status != CuStatus::success) return status;
    return body(driver, *function);
  });
}

struct Shape {
  uint64_t grid = 0;
  uint64_t block = 0;
};

bool shape_of(const LaunchConfig &config, Shape &shape) {
  shape.grid = uint64_t{config.grid_x} * config.grid_y * config.grid_z;
  shape.block = uint64_t{config.block_x} * config.block_y * config.block_z;
  return shape.grid != 0 && shape.grid <= UINT32_MAX && shape.block != 0 && shape.block <= block_threads_max;
}

bool is_cooperative(const LaunchConfig &config) {
  for (unsigned index = 0; index < config.attribute_count; ++index)
    if (config.attributes[index].id == LaunchAttributeId::cooperative &&
        config.attributes[index].value.cooperative != 0)
      return true;
  return false;
}

bool is_remote(const LaunchConfig &config) {
  for (unsigned index = 0; index < config.attribute_count; ++index)
    if (config.attributes[index].id == LaunchAttributeId::mem_sync_domain &&
        config.attributes[index].value.mem_sync_domain == MemSyncDomain::remote)
      return true;
  return false;
}

/// Returns the part of a multiprocessor that a block takes. A kernel without a requested carve-out gets the smallest
/// carve-out that fits all its blocks on a multiprocessor. A real driver may choose a larger one.
SharedNeed need_of(const State &driver, const Function &function, uint64_t shared_bytes) {
  SharedNeed need;
  need.block_bytes = shared_bytes + shared_bytes_reserved;
  const uint64_t asked = function.shared_carveout < 0
                             ? need.block_bytes * driver.settings.blocks_per_multiprocessor
                             : std::end(carveouts)[-1] * static_cast<uint64_t>(function.shared_carveout) / 100;
  const auto *const found = std::lower_bound(std::begin(carveouts), std::end(carveouts) - 1,
                                             std::max(asked, need.block_bytes));
  need.carveout_bytes = *found;
  return need;
}

CuStatus launch(State &driver, Lock &lock, const std::shared_ptr<Stream> &stream, const LaunchConfig &config,
                CuFunction handle, void **parameters, void **extra) {
  const auto function = function_in(driver, handle, stream->context);
  if (function == nullptr || function->context != stream->context) return CuStatus::invalid_handle;
  Shape shape;
  if (extra != nullptr || !shape_of(config, shape)) return CuStatus::invalid_value;
  if (static_cast<int64_t>(config.shared_bytes) > function->dynamic_shared_bytes_max) return CuStatus::invalid_value;
  const uint32_t parameter_bytes = function->entry.parameter_bytes;
  if (parameter_bytes != 0 && (parameters == nullptr || parameters[0] == nullptr)) return CuStatus::invalid_value;
  Device &device = *stream->context->device;
  constexpr auto too_large = static_cast<CuStatus>(720);  // CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
  if (is_cooperative(config) && shape.grid > device.blocks->count()) return too_large;
  if (stream->capture == nullptr)
    if (const CuStatus status = load(driver, lock, *function); status != CuStatus::success) return status;
  Launch made;
  made.function = function->entry.function;
  made.grid_size = static_cast<uint32_t>(shape.grid);
  made.thread_count = driver.settings.block_threads;
  made.shared_bytes = std::max<uint64_t>(config.shared_bytes, shared_bytes_min);
  made.need = need_of(driver, *function, config.shared_bytes);
  made.device = device.number;
  made.find_memory = find_memory;
  made.parameters.resize(parameter_bytes);
  if (parameter_bytes != 0) std::memcpy(made.parameters.data(), parameters[0], parameter_bytes);
  ++driver.launch_count;
  driver.remote_launch_count += is_remote(config) ? 1 : 0;
  driver.block_threads = std::max(driver.block_threads, shape.block);
  return submit(driver, lock, stream, [made = std::move(made), &device] {
    const uint32_t place = device.kernels != nullptr ? device.kernels->acquire({}) : 0;
    run_blocks(made, *device.blocks);
    if (device.kernels != nullptr) device.kernels->release(place, {});
    return CuStatus::success;
  });
}

}  // namespace
}  // namespace soft_cuda

using namespace soft_cuda;

extern "C" {

CuStatus cuLibraryLoadData(CuLibrary *handle, const void *image, int *, void **, unsigned, int *, void **, unsigned) {
  return call(Entry::library_load_data, [&](State &driver, Lock &lock) {
    if (handle == nullptr || image == nullptr) return CuStatus::invalid_value;
    if (const CuStatus status = check_unsafe_call(driver); status != CuStatus::success) return status;
    const std::vector<KernelEntry> entries = open_kernels(driver.settings.kernels);
    if (entries.empty()) return CuStatus::no_binary_for_gpu;
    // Modules are loaded into every existing context.
    for (const Device &device : driver.devices)
      if (const auto context = device.primary) synchronise_implicitly(driver, lock, context);
    auto library = std::make_shared<soft_cuda::Library>();
    for (const KernelEntry &entry : entries) {
      auto kernel = std::make_shared<Kernel>();
      kernel->entry = entry;
      kernel->handle = driver.kernels.add(kernel);
      library->kernels.push_back(kernel);
    }
    *handle = library->handle = driver.libraries.add(library);
    return CuStatus::success;
  });
}

CuStatus cuLibraryUnload(CuLibrary handle) {
  return call(Entry::library_unload, [&](State &driver, Lock &) {
    const auto library = driver.libraries.take(handle);
    if (library == nullptr) return CuStatus::invalid_handle;
    for (const auto &kernel : library->kernels) {
      for (const CuFunction function : kernel->functions) driver.functions.take(function);
      driver.kernels.take(kernel->handle);
    }
    return CuStatus::success;
  });
}

CuStatus cuLibraryGetKernel(CuKernel *handle, CuLibrary library_handle, const char *name) {
  return call(Entry::library_get_kernel, [&](State &driver, Lock &) {
    const auto library = driver.libraries.find(library_handle);
    if (handle == nullptr || name == nullptr) return CuStatus::invalid_value;
    if (library == nullptr) return CuStatus::invalid_handle;
    for (const auto &kernel : library->kernels) {
      if (std::strcmp(kernel->entry.name, name) != 0) continue;
      *handle = kernel->handle;
      return CuStatus::success;
    }
    return CuStatus::not_found;
  });
}

CuStatus cuKernelGetFunction(CuFunction *handle, CuKernel kernel_handle) {
  return call_in_context(Entry::kernel_get_function, [&](State &driver, Lock &, const auto &context) {
    const auto kernel = driver.kernels.find(kernel_handle);
    if (handle == nullptr) return CuStatus::invalid_value;
    if (kernel == nullptr) return CuStatus::invalid_handle;
    *handle = function_of(driver, *kernel, context)->handle;
    return CuStatus::success;
  });
}

CuStatus cuFuncLoad(CuFunction handle) {
  return call_on_function(Entry::func_load, handle, [](State &, Function &) { return CuStatus::success; });
}

CuStatus cuFuncGetAttribute(int *value, FunctionAttribute attribute, CuFunction handle) {
  return call_on_function(Entry::func_get_attribute, handle, [&](State &, Function &function) {
    const int number = static_cast<int>(attribute);
    if (value == nullptr || number < 0 || number > 15) return CuStatus::invalid_value;
    switch (attribute) {
      case FunctionAttribute::max_threads_per_block:
        *value = static_cast<int>(block_threads_max);
        break;
      case FunctionAttribute::register_count:
        *value = 32;
        break;
      case FunctionAttribute::ptx_version:
      case FunctionAttribute::binary_version:
        *value = 90;
        break;
      case FunctionAttribute::max_dynamic_shared_bytes:
        *value = function.dynamic_shared_bytes_max;
        break;
      case FunctionAttribute::preferred_shared_carveout:
        *value = function.shared_carveout;
        break;
      default:
        *value = 0;
    }
    return CuStatus::success;
  });
}

CuStatus cuFuncSetAttribute(CuFunction handle, FunctionAttribute attribute, int value) {
  return call_on_function(Entry::func_set_attribute, handle, [&](State &, Function &function) {
    if (attribute == FunctionAttribute::preferred_shared_carveout) {
      if (value < -1 || value > 100) return CuStatus::invalid_value;
      function.shared_carveout = value;
      return CuStatus::success;
    }
    if (attribute != FunctionAttribute::max_dynamic_shared_bytes || value < 0 || value > dynamic_shared_bytes_limit)
      return CuStatus::invalid_value;
    function.dynamic_shared_bytes_max = value;
    return CuStatus::success;
  });
}

CuStatus cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CuFunction handle, int block_threads,
                                                     size_t dynamic_shared_bytes) {
  return call_on_function(Entry::occupancy_max_blocks, handle, [&](State &driver, Function &) {
    if (blocks == nullptr || block_threads <= 0) return CuStatus::invalid_value;
    // A multiprocessor of this device holds one block, or several small ones.
    const bool fits = block_threads <= static_cast<int>(block_threads_max) &&
                      dynamic_shared_bytes <= static_cast<size_t>(dynamic_shared_bytes_limit);
    const auto most = static_cast<int>(driver.settings.blocks_per_multiprocessor);
    *blocks = !fits ? 0 : block_threads <= small_block_threads ? most : 1;
    return CuStatus::success;
  });
}

CuStatus cuLaunchKernel(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CuStream handle, void **parameters,
                        void **extra) {
  return call_on_stream(Entry::launch_kernel, handle, [&](State &driver, Lock &lock, const auto &stream) {
    LaunchConfig config;
    config.grid_x = grid_x;
    config.grid_y = grid_y;
    config.grid_z = grid_z;
    config.block_x = block_x;
    config.block_y = block_y;
    config.block_z = block_z;
    config.shared_bytes = shared_bytes;
    return launch(driver, lock, stream, config, function, parameters, extra);
  });
}

CuStatus cuLaunchKernelEx(const LaunchConfig *config, CuFunction function, void **parameters, void **extra) {
  if (config == nullptr || (config->attribute_count != 0 && config->attributes == nullptr))
    return CuStatus::invalid_value;
  return call_on_stream(Entry::launch_kernel_ex, config->stream, [&](State &driver, Lock &lock, const auto &stream) {
    return launch(driver, lock, stream, *config, function, parameters, extra);
  });
}

__attribute__((visibility("default"))) void soft_cuda_lose_device(uint32_t device, uint32_t lost) {
  lose_device(device, lost != 0);
}

__attribute__((visibility("default"))) void soft_cuda_count_accesses(uint32_t on) {
  if (auto *const call_it = kernels_function<void(uint32_t)>("rondo_count_accesses")) call_it(on);
}

__attribute__((visibility("default"))) uint32_t soft_cuda_access_counts(soft_cuda::AccessCounts *counts,
                                                                         uint32_t room) {
  auto *const call_it = kernels_function<uint32_t(soft_cuda::AccessCounts *, uint32_t)>("rondo_access_counts");
  return call_it == nullptr ? 0 : call_it(counts, room);
}

__attribute__((visibility("default"))) uint64_t soft_cuda_moved_bytes(uint32_t from, uint32_t to) {
  auto *const call_it = kernels_function<uint64_t(uint32_t, uint32_t)>("rondo_moved_bytes");
  return call_it == nullptr ? 0 : call_it(from, to);
}

}  // extern "C"
