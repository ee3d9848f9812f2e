// SPDX-License-Identifier: Apache-2.0
// This file compares our declarations of the driver's interface with an installed cuda.h. The compiler is the test.
#include <cuda.h>

#include <type_traits>

#include "cuda/driver/driver.h"

// Newer headers declare only a newer version of this function. Drivers have both.
extern "C" CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                                      CUgraph *graph, const CUgraphNode **after, size_t *after_count);

namespace rondo::cuda {
namespace {

/// Says whether both types are passed in the same way: both are pointers, or integers or structs of one size.
template <class Ours, class Theirs>
constexpr bool alike =
    sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs) &&
    std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&std::is_class_v<Ours> == std::is_class_v<Theirs>;

template <class Ours, class Theirs>
constexpr bool same_signature = false;
template <class... Ours, class... Theirs>
constexpr bool same_signature<CuStatus (*)(Ours...), CUresult (*)(Theirs...)> = [] {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs))
    return false;
  else
    return (alike<Ours, Theirs> && ...);
}();

// Checks that a function of our table has the parameters that cuda.h declares, in every version of cuda.h.
#define CHECK_SIGNATURE(field, name, symbol, version, parameters) \
  static_assert(same_signature<decltype(CudaDriver::field), decltype(&::symbol)>, name);
RONDO_CUDA_ENTRIES(CHECK_SIGNATURE)
#undef CHECK_SIGNATURE

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<long long>(ours) == static_cast<long long>(theirs);
}
#define SAME(ours, theirs) static_assert(same(ours, theirs))

SAME(CuStatus::invalid_value, CUDA_ERROR_INVALID_VALUE);
SAME(CuStatus::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CuStatus::not_initialized, CUDA_ERROR_NOT_INITIALIZED);
SAME(CuStatus::deinitialized, CUDA_ERROR_DEINITIALIZED);
SAME(CuStatus::stub_library, CUDA_ERROR_STUB_LIBRARY);
SAME(CuStatus::no_device, CUDA_ERROR_NO_DEVICE);
SAME(CuStatus::invalid_device, CUDA_ERROR_INVALID_DEVICE);
SAME(CuStatus::invalid_image, CUDA_ERROR_INVALID_IMAGE);
SAME(CuStatus::invalid_context, CUDA_ERROR_INVALID_CONTEXT);
SAME(CuStatus::map_failed, CUDA_ERROR_MAP_FAILED);
SAME(CuStatus::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(CuStatus::peer_access_unsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
SAME(CuStatus::operating_system, CUDA_ERROR_OPERATING_SYSTEM);
SAME(CuStatus::invalid_handle, CUDA_ERROR_INVALID_HANDLE);
SAME(CuStatus::illegal_state, CUDA_ERROR_ILLEGAL_STATE);
SAME(CuStatus::not_found, CUDA_ERROR_NOT_FOUND);
SAME(CuStatus::not_ready, CUDA_ERROR_NOT_READY);
SAME(CuStatus::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(CuStatus::launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME(CuStatus::launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(CuStatus::peer_access_already_enabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(CuStatus::peer_access_not_enabled, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
SAME(CuStatus::context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(CuStatus::host_memory_already_registered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME(CuStatus::host_memory_not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
SAME(CuStatus::launch_failed, CUDA_ERROR_LAUNCH_FAILED);
SAME(CuStatus::not_permitted, CUDA_ERROR_NOT_PERMITTED);
SAME(CuStatus::not_supported, CUDA_ERROR_NOT_SUPPORTED);
SAME(CuStatus::system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(CuStatus::stream_capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(CuStatus::stream_capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(CuStatus::stream_capture_merge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
SAME(CuStatus::stream_capture_unmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
SAME(CuStatus::stream_capture_unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME(CuStatus::stream_capture_isolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SAME(CuStatus::stream_capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(CuStatus::captured_event, CUDA_ERROR_CAPTURED_EVENT);
SAME(CuStatus::stream_capture_wrong_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME(CuStatus::unknown, CUDA_ERROR_UNKNOWN);

SAME(DeviceAttribute::max_threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(DeviceAttribute::max_shared_memory_per_block, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
SAME(DeviceAttribute::warp_size, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
SAME(DeviceAttribute::clock_rate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME(DeviceAttribute::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(DeviceAttribute::integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
SAME(DeviceAttribute::compute_mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SAME(DeviceAttribute::concurrent_kernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
SAME(DeviceAttribute::pci_bus_id, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
SAME(DeviceAttribute::pci_device_id, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
SAME(DeviceAttribute::max_threads_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
SAME(DeviceAttribute::async_engine_count, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
SAME(DeviceAttribute::unified_addressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME(DeviceAttribute::pci_domain_id, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
SAME(DeviceAttribute::compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(DeviceAttribute::compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(DeviceAttribute::stream_priorities_supported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
SAME(DeviceAttribute::max_shared_memory_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
SAME(DeviceAttribute::max_registers_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
SAME(DeviceAttribute::cooperative_launch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
SAME(DeviceAttribute::max_shared_memory_per_block_optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(DeviceAttribute::mem_sync_domain_count, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT);
SAME(DeviceAttribute::can_flush_remote_writes, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES);
SAME(DeviceAttribute::host_register_supported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
SAME(DeviceAttribute::virtual_memory_management_supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(DeviceAttribute::posix_descriptor_handles_supported,
     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(DeviceAttribute::max_blocks_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
SAME(DeviceAttribute::gpu_direct_rdma_supported, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
SAME(DeviceAttribute::gpu_direct_rdma_flush_writes_options,
     CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
SAME(DeviceAttribute::gpu_direct_rdma_writes_ordering, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
SAME(DeviceAttribute::dma_buf_supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
SAME(GpuDirectOrdering::none, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
SAME(GpuDirectOrdering::owner, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
SAME(GpuDirectOrdering::all_devices, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES);
SAME(gpu_direct_flush_by_host, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
SAME(gpu_direct_flush_by_stream, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS);
SAME(FlushTarget::current_context, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
SAME(FlushScope::to_owner, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
SAME(FlushScope::to_all_devices, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
SAME(RangeHandleType::dma_buf_descriptor, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
SAME(DeviceAttribute::can_use_64_bit_stream_mem_ops, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
SAME(DeviceAttribute::can_use_stream_wait_value_nor, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR);
SAME(DeviceAttribute::ipc_event_supported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
SAME(DeviceAttribute::mps_enabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED);

SAME(PointerAttribute::context, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME(PointerAttribute::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(PointerAttribute::device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
SAME(PointerAttribute::host_pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER);
SAME(PointerAttribute::buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME(PointerAttribute::is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME(PointerAttribute::device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(PointerAttribute::is_legacy_ipc_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME(PointerAttribute::range_start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(PointerAttribute::range_size, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(PointerAttribute::mapped, CU_POINTER_ATTRIBUTE_MAPPED);
SAME(PointerAttribute::allowed_handle_types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
SAME(MemoryType::host, CU_MEMORYTYPE_HOST);
SAME(MemoryType::device, CU_MEMORYTYPE_DEVICE);
SAME(FunctionAttribute::max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(FunctionAttribute::shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(FunctionAttribute::const_bytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
SAME(FunctionAttribute::local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(FunctionAttribute::register_count, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(FunctionAttribute::ptx_version, CU_FUNC_ATTRIBUTE_PTX_VERSION);
SAME(FunctionAttribute::binary_version, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
SAME(FunctionAttribute::max_dynamic_shared_bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(FunctionAttribute::preferred_shared_carveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
SAME(PeerAttribute::performance_rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK);
SAME(PeerAttribute::access_supported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED);
SAME(PeerAttribute::native_atomics_supported, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);

SAME(stream_non_blocking, CU_STREAM_NON_BLOCKING);
SAME(event_blocking_sync, CU_EVENT_BLOCKING_SYNC);
SAME(event_disable_timing, CU_EVENT_DISABLE_TIMING);
SAME(event_interprocess, CU_EVENT_INTERPROCESS);
SAME(host_alloc_portable, CU_MEMHOSTALLOC_PORTABLE);
SAME(host_alloc_device_map, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(host_register_portable, CU_MEMHOSTREGISTER_PORTABLE);
SAME(host_register_device_map, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(ipc_lazy_enable_peer_access, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(wait_value_geq, CU_STREAM_WAIT_VALUE_GEQ);
SAME(wait_value_eq, CU_STREAM_WAIT_VALUE_EQ);
SAME(wait_value_and, CU_STREAM_WAIT_VALUE_AND);
SAME(wait_value_nor, CU_STREAM_WAIT_VALUE_NOR);
SAME(wait_value_flush, CU_STREAM_WAIT_VALUE_FLUSH);
SAME(write_value_no_memory_barrier, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
SAME(ProcAddressResult::not_found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME(ProcAddressResult::version_not_sufficient, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
SAME(CaptureStatus::active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(CaptureStatus::invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(CaptureMode::global, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(CaptureMode::thread_local_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(CaptureMode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(AllocationType::pinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(LocationType::device, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(LocationType::host, CU_MEM_LOCATION_TYPE_HOST);
SAME(HandleType::posix_descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(AccessFlags::read, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME(AccessFlags::read_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(Granularity::minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(Granularity::recommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(LaunchAttributeId::cooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME(LaunchAttributeId::cluster_dimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(LaunchAttributeId::priority, CU_LAUNCH_ATTRIBUTE_PRIORITY);
SAME(LaunchAttributeId::mem_sync_domain, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN);
SAME(MemSyncDomain::remote, CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);

static_assert(sizeof(DeviceUuid) == sizeof(CUuuid) && sizeof(IpcMemoryHandle) == sizeof(CUipcMemHandle) &&
              sizeof(IpcEventHandle) == sizeof(CUipcEventHandle));
static_assert(sizeof(MemoryProperties) == sizeof(CUmemAllocationProp));
SAME(offsetof(MemoryProperties, requested_handle_types), offsetof(CUmemAllocationProp, requestedHandleTypes));
SAME(offsetof(MemoryProperties, location), offsetof(CUmemAllocationProp, location));
SAME(offsetof(MemoryProperties, win32_meta_data), offsetof(CUmemAllocationProp, win32HandleMetaData));
SAME(offsetof(MemoryProperties, compression_type), offsetof(CUmemAllocationProp, allocFlags.compressionType));
SAME(offsetof(MemoryProperties, gpu_direct_rdma_capable),
     offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable));
SAME(offsetof(MemoryProperties, usage), offsetof(CUmemAllocationProp, allocFlags.usage));
static_assert(sizeof(MemoryAccess) == sizeof(CUmemAccessDesc));
SAME(offsetof(MemoryAccess, flags), offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
SAME(offsetof(LaunchAttribute, value), offsetof(CUlaunchAttribute, value));
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
SAME(offsetof(LaunchConfig, shared_bytes), offsetof(CUlaunchConfig, sharedMemBytes));
SAME(offsetof(LaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
SAME(offsetof(LaunchConfig, attributes), offsetof(CUlaunchConfig, attrs));
SAME(offsetof(LaunchConfig, attribute_count), offsetof(CUlaunchConfig, numAttrs));

}  // namespace
}  // namespace rondo::cuda

int main() { return 0; }
