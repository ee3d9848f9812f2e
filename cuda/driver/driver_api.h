// SPDX-License-Identifier: Apache-2.0
// This file declares the part of the CUDA driver's binary interface that Rondo uses, so that the library builds without
// a CUDA toolkit. The names are ours; values and layouts follow the interface's documentation. If a toolkit is
// installed, tests/gpu/driver_api_test.cpp compares them with cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::cuda {

/// This is CUresult. A driver may return other values, of which only the number is known.
enum class CuStatus : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  stub_library = 34,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  map_failed = 205,
  no_binary_for_gpu = 209,
  peer_access_unsupported = 217,
  operating_system = 304,
  invalid_handle = 400,
  illegal_state = 401,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  peer_access_already_enabled = 704,
  peer_access_not_enabled = 705,
  context_is_destroyed = 709,
  host_memory_already_registered = 712,
  host_memory_not_registered = 713,
  launch_failed = 719,
  not_permitted = 800,
  not_supported = 801,
  system_driver_mismatch = 803,
  stream_capture_unsupported = 900,
  stream_capture_invalidated = 901,
  stream_capture_merge = 902,
  stream_capture_unmatched = 903,
  stream_capture_unjoined = 904,
  stream_capture_isolation = 905,
  stream_capture_implicit = 906,
  captured_event = 907,
  stream_capture_wrong_thread = 908,
  unknown = 999,
};

// Each kind of driver object has its own type, so that the compiler rejects a mix-up.
struct ContextObject;
struct StreamObject;
struct EventObject;
struct LibraryObject;
struct KernelObject;
struct FunctionObject;
struct GraphObject;
struct GraphExecObject;
struct GraphNodeObject;
using CuContext = ContextObject *;
using CuStream = StreamObject *;  ///< null: the legacy default stream
using CuEvent = EventObject *;
using CuLibrary = LibraryObject *;
using CuKernel = KernelObject *;
using CuFunction = FunctionObject *;
using CuGraph = GraphObject *;
using CuGraphExec = GraphExecObject *;
using CuGraphNode = GraphNodeObject *;
using CuDevice = int;
using DevicePointer = unsigned long long;  ///< 0 means none
using MemoryHandle = unsigned long long;   ///< from cuMemCreate, or 0
using HostFunction = void (*)(void *user_data);
static_assert(sizeof(DevicePointer) == 8 && sizeof(void *) == 8);

enum class DeviceAttribute : int {
  max_threads_per_block = 1,
  max_shared_memory_per_block = 8,
  warp_size = 10,
  clock_rate = 13,
  multiprocessor_count = 16,
  integrated = 18,
  compute_mode = 20,
  concurrent_kernels = 31,
  pci_bus_id = 33,
  pci_device_id = 34,
  max_threads_per_multiprocessor = 39,
  async_engine_count = 40,
  unified_addressing = 41,
  pci_domain_id = 50,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  stream_priorities_supported = 78,
  max_shared_memory_per_multiprocessor = 81,
  max_registers_per_multiprocessor = 82,
  cooperative_launch = 95,
  max_shared_memory_per_block_optin = 97,
  can_flush_remote_writes = 98,
  host_register_supported = 99,
  virtual_memory_management_supported = 102,
  posix_descriptor_handles_supported = 103,
  max_blocks_per_multiprocessor = 106,
  gpu_direct_rdma_supported = 116,
  gpu_direct_rdma_flush_writes_options = 117,  ///< bits GpuDirectFlush
  gpu_direct_rdma_writes_ordering = 118,       ///< GpuDirectOrdering
  can_use_64_bit_stream_mem_ops = 122,
  can_use_stream_wait_value_nor = 123,
  dma_buf_supported = 124,
  ipc_event_supported = 125,
  mem_sync_domain_count = 126,
  mps_enabled = 133,
};

enum class PointerAttribute : int {
  context = 1,         ///< CuContext
  memory_type = 2,     ///< MemoryType, 32 bits
  device_pointer = 3,  ///< DevicePointer
  host_pointer = 4,    ///< void *
  buffer_id = 7,       ///< uint64_t
  is_managed = 8,      ///< 32 bits
  device_ordinal = 9,  ///< int
  is_legacy_ipc_capable = 10,
  range_start = 11,  ///< DevicePointer
  range_size = 12,   ///< size_t
  mapped = 13,
  allowed_handle_types = 14,  ///< uint64_t
};

enum class MemoryType : unsigned { unknown = 0, host = 1, device = 2 };

enum class FunctionAttribute : int {
  max_threads_per_block = 0,
  shared_bytes = 1,
  const_bytes = 2,
  local_bytes = 3,
  register_count = 4,
  ptx_version = 5,
  binary_version = 6,
  max_dynamic_shared_bytes = 8,
  preferred_shared_carveout = 9,  ///< percent of a multiprocessor's largest shared memory; -1 is the driver's choice
};

enum class PeerAttribute : int { performance_rank = 1, access_supported = 2, native_atomics_supported = 3 };

enum StreamFlags : unsigned { stream_default = 0, stream_non_blocking = 1 };
enum EventFlags : unsigned {
  event_default = 0,
  event_blocking_sync = 1,
  event_disable_timing = 2,
  event_interprocess = 4
};
enum HostAllocFlags : unsigned { host_alloc_portable = 1, host_alloc_device_map = 2 };
enum HostRegisterFlags : unsigned { host_register_portable = 1, host_register_device_map = 2 };
enum IpcFlags : unsigned { ipc_lazy_enable_peer_access = 1 };
/// The condition of a stream's wait. `geq` holds if *address - value >= 0 in signed arithmetic that wraps. `eq` holds
/// if both values are equal, and `and` if they have a common bit.
enum WaitValueFlags : unsigned {
  wait_value_geq = 0,
  wait_value_eq = 1,
  wait_value_and = 2,
  wait_value_nor = 3,
  wait_value_flush = 1u << 30
};
enum WriteValueFlags : unsigned { write_value_default = 0, write_value_no_memory_barrier = 1 };
enum ProcAddressFlags : unsigned long long { proc_address_default = 0 };
enum class ProcAddressResult : int { success = 0, not_found = 1, version_not_sufficient = 2 };
enum class CaptureStatus : int { none = 0, active = 1, invalidated = 2 };
enum class CaptureMode : int { global = 0, thread_local_ = 1, relaxed = 2 };

enum class AllocationType : int { invalid = 0, pinned = 1 };
enum class LocationType : int { invalid = 0, device = 1, host = 2 };
enum class HandleType : int { none = 0, posix_descriptor = 1 };
enum class AccessFlags : int { none = 0, read = 1, read_write = 3 };
enum class Granularity : int { minimum = 0, recommended = 1 };
/// The readers for which a network card's writes into device memory are in order without a flush.
enum class GpuDirectOrdering : int { none = 0, owner = 100, all_devices = 200 };
enum GpuDirectFlush : unsigned { gpu_direct_flush_by_host = 1, gpu_direct_flush_by_stream = 2 };
enum class FlushTarget : int { current_context = 0 };
enum class FlushScope : int { to_owner = 100, to_all_devices = 200 };
enum class RangeHandleType : int { dma_buf_descriptor = 1 };
enum class LaunchAttributeId : int {
  ignore = 0,
  cooperative = 2,
  cluster_dimension = 4,
  programmatic_stream_serialization = 6,
  priority = 8,
  mem_sync_domain = 10
};
enum class MemSyncDomain : int { default_ = 0, remote = 1 };

struct DeviceUuid {
  unsigned char bytes[16];

  bool operator==(const DeviceUuid &) const = default;
};
static_assert(sizeof(DeviceUuid) == 16);

struct IpcMemoryHandle {
  unsigned char bytes[64];
};
struct IpcEventHandle {
  unsigned char bytes[64];
};
static_assert(sizeof(IpcMemoryHandle) == 64 && sizeof(IpcEventHandle) == 64);

struct MemoryLocation {
  LocationType type = LocationType::device;
  int id = 0;  ///< of a device: the ordinal
};

struct MemoryProperties {
  AllocationType type = AllocationType::pinned;
  HandleType requested_handle_types = HandleType::none;
  MemoryLocation location;
  void *win32_meta_data = nullptr;
  unsigned char compression_type = 0;
  unsigned char gpu_direct_rdma_capable = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};
static_assert(sizeof(MemoryProperties) == 32 && alignof(MemoryProperties) == 8);
static_assert(offsetof(MemoryProperties, location) == 8 && offsetof(MemoryProperties, win32_meta_data) == 16);
static_assert(offsetof(MemoryProperties, compression_type) == 24 && offsetof(MemoryProperties, usage) == 26);

struct MemoryAccess {
  MemoryLocation location;
  AccessFlags flags = AccessFlags::none;
};
static_assert(sizeof(MemoryAccess) == 12 && offsetof(MemoryAccess, flags) == 8);

union LaunchAttributeValue {
  char bytes[64];
  int cooperative;
  int programmatic_stream_serialization;
  int priority;
  MemSyncDomain mem_sync_domain;
  unsigned cluster_dimension[3];
};

struct LaunchAttribute {
  LaunchAttributeId id;
  char padding[4];
  LaunchAttributeValue value;
};
static_assert(sizeof(LaunchAttribute) == 72 && offsetof(LaunchAttribute, value) == 8);

struct LaunchConfig {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
  CuStream stream = nullptr;
  LaunchAttribute *attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32);
static_assert(offsetof(LaunchConfig, attributes) == 40 && offsetof(LaunchConfig, attribute_count) == 48);

/// cuGetProcAddress_v2, the only function that Rondo gets from the dynamic linker.
using GetProcAddress = CuStatus (*)(const char *symbol, void **function, int version, unsigned long long flags,
                                    ProcAddressResult *result);
inline constexpr const char *get_proc_address_symbol = "cuGetProcAddress_v2";

}  // namespace rondo::cuda
