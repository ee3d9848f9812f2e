// SPDX-License-Identifier: Apache-2.0
// This list names every CUDA driver function that Rondo calls, once:
//     ENTRY(field, name, symbol, version, parameters)
// The loader passes `name` and `version` (1000 * major + 10 * minor) to cuGetProcAddress, which returns the function
// with these parameters. `symbol` is the name of that version in libcuda.so. Four things are made from the list: the
// table of function pointers, its loader, the comparison with cuda.h, and the exports of the driver in software.
#pragma once

#include "cuda/driver/driver_api.h"

// clang-format off
#define RONDO_CUDA_ENTRIES(ENTRY)                                                                                     \
  /* the driver and its devices */                                                                                    \
  ENTRY(init, "cuInit", cuInit, 2000, (unsigned flags))                                                               \
  ENTRY(driver_get_version, "cuDriverGetVersion", cuDriverGetVersion, 2020, (int *version))                           \
  ENTRY(get_error_name, "cuGetErrorName", cuGetErrorName, 6000, (CuStatus error, const char **text))                  \
  ENTRY(get_error_string, "cuGetErrorString", cuGetErrorString, 6000, (CuStatus error, const char **text))            \
  ENTRY(device_get_count, "cuDeviceGetCount", cuDeviceGetCount, 2000, (int *count))                                   \
  ENTRY(device_get, "cuDeviceGet", cuDeviceGet, 2000, (CuDevice *device, int ordinal))                                \
  ENTRY(device_get_name, "cuDeviceGetName", cuDeviceGetName, 2000, (char *name, int bytes, CuDevice device))          \
  ENTRY(device_get_uuid, "cuDeviceGetUuid", cuDeviceGetUuid_v2, 11040, (DeviceUuid *uuid, CuDevice device))           \
  ENTRY(device_get_pci_bus_id, "cuDeviceGetPCIBusId", cuDeviceGetPCIBusId, 4010,                                      \
        (char *id, int bytes, CuDevice device))                                                                       \
  ENTRY(device_get_attribute, "cuDeviceGetAttribute", cuDeviceGetAttribute, 2000,                                     \
        (int *value, DeviceAttribute attribute, CuDevice device))                                                     \
  ENTRY(device_total_mem, "cuDeviceTotalMem", cuDeviceTotalMem_v2, 3020, (size_t *bytes, CuDevice device))            \
  ENTRY(device_can_access_peer, "cuDeviceCanAccessPeer", cuDeviceCanAccessPeer, 4000,                                 \
        (int *can_access, CuDevice device, CuDevice peer))                                                            \
  ENTRY(device_get_p2p_attribute, "cuDeviceGetP2PAttribute", cuDeviceGetP2PAttribute, 8000,                           \
        (int *value, PeerAttribute attribute, CuDevice from, CuDevice to))                                            \
  /* contexts */                                                                                                      \
  ENTRY(primary_ctx_retain, "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain, 7000,                               \
        (CuContext *context, CuDevice device))                                                                        \
  ENTRY(primary_ctx_release, "cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2, 11000, (CuDevice device))     \
  ENTRY(primary_ctx_get_state, "cuDevicePrimaryCtxGetState", cuDevicePrimaryCtxGetState, 7000,                        \
        (CuDevice device, unsigned *flags, int *active))                                                              \
  ENTRY(ctx_push_current, "cuCtxPushCurrent", cuCtxPushCurrent_v2, 4000, (CuContext context))                         \
  ENTRY(ctx_pop_current, "cuCtxPopCurrent", cuCtxPopCurrent_v2, 4000, (CuContext *context))                           \
  ENTRY(ctx_get_current, "cuCtxGetCurrent", cuCtxGetCurrent, 4000, (CuContext *context))                              \
  ENTRY(ctx_get_device, "cuCtxGetDevice", cuCtxGetDevice, 2000, (CuDevice *device))                                   \
  ENTRY(ctx_synchronize, "cuCtxSynchronize", cuCtxSynchronize, 2000, ())                                              \
  ENTRY(ctx_get_stream_priority_range, "cuCtxGetStreamPriorityRange", cuCtxGetStreamPriorityRange, 5050,              \
        (int *least, int *greatest))                                                                                  \
  ENTRY(ctx_enable_peer_access, "cuCtxEnablePeerAccess", cuCtxEnablePeerAccess, 4000,                                 \
        (CuContext peer, unsigned flags))                                                                             \
  ENTRY(ctx_disable_peer_access, "cuCtxDisablePeerAccess", cuCtxDisablePeerAccess, 4000, (CuContext peer))            \
  /* memory */                                                                                                        \
  ENTRY(pointer_get_attributes, "cuPointerGetAttributes", cuPointerGetAttributes, 7000,                               \
        (unsigned count, PointerAttribute *attributes, void **data, DevicePointer pointer))                           \
  ENTRY(mem_alloc, "cuMemAlloc", cuMemAlloc_v2, 3020, (DevicePointer *pointer, size_t bytes))                         \
  ENTRY(mem_free, "cuMemFree", cuMemFree_v2, 3020, (DevicePointer pointer))                                           \
  ENTRY(mem_get_info, "cuMemGetInfo", cuMemGetInfo_v2, 3020, (size_t *free_bytes, size_t *total_bytes))               \
  ENTRY(mem_get_address_range, "cuMemGetAddressRange", cuMemGetAddressRange_v2, 3020,                                 \
        (DevicePointer *base, size_t *bytes, DevicePointer pointer))                                                  \
  ENTRY(mem_host_alloc, "cuMemHostAlloc", cuMemHostAlloc, 2020, (void **pointer, size_t bytes, unsigned flags))       \
  ENTRY(mem_free_host, "cuMemFreeHost", cuMemFreeHost, 2000, (void *pointer))                                         \
  ENTRY(mem_host_register, "cuMemHostRegister", cuMemHostRegister_v2, 6050,                                           \
        (void *pointer, size_t bytes, unsigned flags))                                                                \
  ENTRY(mem_host_unregister, "cuMemHostUnregister", cuMemHostUnregister, 4000, (void *pointer))                       \
  ENTRY(mem_host_get_device_pointer, "cuMemHostGetDevicePointer", cuMemHostGetDevicePointer_v2, 3020,                 \
        (DevicePointer *device_pointer, void *pointer, unsigned flags))                                               \
  ENTRY(mem_get_range_handle, "cuMemGetHandleForAddressRange", cuMemGetHandleForAddressRange, 11070,                  \
        (void *handle, DevicePointer pointer, size_t bytes, RangeHandleType type, unsigned long long flags))          \
  ENTRY(flush_gpu_direct_writes, "cuFlushGPUDirectRDMAWrites", cuFlushGPUDirectRDMAWrites, 11030,                     \
        (FlushTarget target, FlushScope scope))                                                                       \
  /* copies */                                                                                                        \
  ENTRY(memcpy_async, "cuMemcpyAsync", cuMemcpyAsync, 4000,                                                           \
        (DevicePointer to, DevicePointer from, size_t bytes, CuStream stream))                                        \
  ENTRY(memcpy_dtod_async, "cuMemcpyDtoDAsync", cuMemcpyDtoDAsync_v2, 3020,                                           \
        (DevicePointer to, DevicePointer from, size_t bytes, CuStream stream))                                        \
  ENTRY(memcpy_htod_async, "cuMemcpyHtoDAsync", cuMemcpyHtoDAsync_v2, 3020,                                           \
        (DevicePointer to, const void *from, size_t bytes, CuStream stream))                                          \
  ENTRY(memcpy_dtoh_async, "cuMemcpyDtoHAsync", cuMemcpyDtoHAsync_v2, 3020,                                           \
        (void *to, DevicePointer from, size_t bytes, CuStream stream))                                                \
  ENTRY(memset_d8_async, "cuMemsetD8Async", cuMemsetD8Async, 3020,                                                    \
        (DevicePointer to, unsigned char value, size_t count, CuStream stream))                                       \
  ENTRY(memset_d32_async, "cuMemsetD32Async", cuMemsetD32Async, 3020,                                                 \
        (DevicePointer to, unsigned value, size_t count, CuStream stream))                                            \
  /* streams */                                                                                                       \
  ENTRY(stream_create, "cuStreamCreateWithPriority", cuStreamCreateWithPriority, 5050,                                \
        (CuStream *stream, unsigned flags, int priority))                                                             \
  ENTRY(stream_destroy, "cuStreamDestroy", cuStreamDestroy_v2, 4000, (CuStream stream))                               \
  ENTRY(stream_query, "cuStreamQuery", cuStreamQuery, 2000, (CuStream stream))                                        \
  ENTRY(stream_synchronize, "cuStreamSynchronize", cuStreamSynchronize, 2000, (CuStream stream))                      \
  ENTRY(stream_wait_event, "cuStreamWaitEvent", cuStreamWaitEvent, 3020,                                              \
        (CuStream stream, CuEvent event, unsigned flags))                                                             \
  ENTRY(stream_get_ctx, "cuStreamGetCtx", cuStreamGetCtx, 9020, (CuStream stream, CuContext *context))                \
  ENTRY(stream_get_flags, "cuStreamGetFlags", cuStreamGetFlags, 5050, (CuStream stream, unsigned *flags))             \
  ENTRY(stream_wait_value64, "cuStreamWaitValue64", cuStreamWaitValue64_v2, 11070,                                    \
        (CuStream stream, DevicePointer address, uint64_t value, unsigned flags))                                     \
  ENTRY(stream_write_value64, "cuStreamWriteValue64", cuStreamWriteValue64_v2, 11070,                                 \
        (CuStream stream, DevicePointer address, uint64_t value, unsigned flags))                                     \
  ENTRY(launch_host_func, "cuLaunchHostFunc", cuLaunchHostFunc, 10000,                                                \
        (CuStream stream, HostFunction function, void *user_data))                                                    \
  /* events */                                                                                                        \
  ENTRY(event_create, "cuEventCreate", cuEventCreate, 2000, (CuEvent *event, unsigned flags))                         \
  ENTRY(event_destroy, "cuEventDestroy", cuEventDestroy_v2, 4000, (CuEvent event))                                    \
  ENTRY(event_record, "cuEventRecord", cuEventRecord, 2000, (CuEvent event, CuStream stream))                         \
  ENTRY(event_query, "cuEventQuery", cuEventQuery, 2000, (CuEvent event))                                             \
  ENTRY(event_synchronize, "cuEventSynchronize", cuEventSynchronize, 2000, (CuEvent event))                           \
  ENTRY(event_elapsed_time, "cuEventElapsedTime", cuEventElapsedTime, 2000,                                           \
        (float *milliseconds, CuEvent from, CuEvent to))                                                              \
  /* between processes */                                                                                             \
  ENTRY(ipc_get_mem_handle, "cuIpcGetMemHandle", cuIpcGetMemHandle, 4010,                                             \
        (IpcMemoryHandle *handle, DevicePointer pointer))                                                             \
  ENTRY(ipc_open_mem_handle, "cuIpcOpenMemHandle", cuIpcOpenMemHandle_v2, 11000,                                      \
        (DevicePointer *pointer, IpcMemoryHandle handle, unsigned flags))                                             \
  ENTRY(ipc_close_mem_handle, "cuIpcCloseMemHandle", cuIpcCloseMemHandle, 4010, (DevicePointer pointer))              \
  ENTRY(ipc_get_event_handle, "cuIpcGetEventHandle", cuIpcGetEventHandle, 4010,                                       \
        (IpcEventHandle *handle, CuEvent event))                                                                      \
  ENTRY(ipc_open_event_handle, "cuIpcOpenEventHandle", cuIpcOpenEventHandle, 4010,                                    \
        (CuEvent *event, IpcEventHandle handle))                                                                      \
  /* memory and addresses apart, with handles that are descriptors */                                                 \
  ENTRY(vmm_create, "cuMemCreate", cuMemCreate, 10020,                                                                \
        (MemoryHandle *handle, size_t bytes, const MemoryProperties *properties, unsigned long long flags))           \
  ENTRY(vmm_release, "cuMemRelease", cuMemRelease, 10020, (MemoryHandle handle))                                      \
  ENTRY(vmm_get_granularity, "cuMemGetAllocationGranularity", cuMemGetAllocationGranularity, 10020,                   \
        (size_t *bytes, const MemoryProperties *properties, Granularity kind))                                        \
  ENTRY(vmm_address_reserve, "cuMemAddressReserve", cuMemAddressReserve, 10020,                                       \
        (DevicePointer *address, size_t bytes, size_t alignment, DevicePointer wanted, unsigned long long flags))     \
  ENTRY(vmm_address_free, "cuMemAddressFree", cuMemAddressFree, 10020, (DevicePointer address, size_t bytes))         \
  ENTRY(vmm_map, "cuMemMap", cuMemMap, 10020,                                                                         \
        (DevicePointer address, size_t bytes, size_t offset, MemoryHandle handle, unsigned long long flags))          \
  ENTRY(vmm_unmap, "cuMemUnmap", cuMemUnmap, 10020, (DevicePointer address, size_t bytes))                            \
  ENTRY(vmm_set_access, "cuMemSetAccess", cuMemSetAccess, 10020,                                                      \
        (DevicePointer address, size_t bytes, const MemoryAccess *access, size_t count))                              \
  ENTRY(vmm_export, "cuMemExportToShareableHandle", cuMemExportToShareableHandle, 10020,                              \
        (void *shareable, MemoryHandle handle, HandleType type, unsigned long long flags))                            \
  ENTRY(vmm_import, "cuMemImportFromShareableHandle", cuMemImportFromShareableHandle, 10020,                          \
        (MemoryHandle *handle, void *shareable, HandleType type))                                                     \
  /* kernels */                                                                                                       \
  ENTRY(library_load_data, "cuLibraryLoadData", cuLibraryLoadData, 12000,                                             \
        (CuLibrary *library, const void *image, int *jit_options, void **jit_values, unsigned jit_count,              \
         int *options, void **values, unsigned count))                                                                \
  ENTRY(library_unload, "cuLibraryUnload", cuLibraryUnload, 12000, (CuLibrary library))                               \
  ENTRY(library_get_kernel, "cuLibraryGetKernel", cuLibraryGetKernel, 12000,                                          \
        (CuKernel *kernel, CuLibrary library, const char *name))                                                      \
  ENTRY(kernel_get_function, "cuKernelGetFunction", cuKernelGetFunction, 12000,                                       \
        (CuFunction *function, CuKernel kernel))                                                                      \
  ENTRY(func_load, "cuFuncLoad", cuFuncLoad, 12040, (CuFunction function))                                            \
  ENTRY(func_get_attribute, "cuFuncGetAttribute", cuFuncGetAttribute, 2020,                                           \
        (int *value, FunctionAttribute attribute, CuFunction function))                                               \
  ENTRY(func_set_attribute, "cuFuncSetAttribute", cuFuncSetAttribute, 9000,                                           \
        (CuFunction function, FunctionAttribute attribute, int value))                                                \
  ENTRY(occupancy_max_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                                          \
        cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050,                                                            \
        (int *blocks, CuFunction function, int block_threads, size_t dynamic_shared_bytes))                           \
  ENTRY(launch_kernel, "cuLaunchKernel", cuLaunchKernel, 4000,                                                        \
        (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,  \
         unsigned block_z, unsigned shared_bytes, CuStream stream, void **parameters, void **extra))                  \
  ENTRY(launch_kernel_ex, "cuLaunchKernelEx", cuLaunchKernelEx, 11060,                                                \
        (const LaunchConfig *config, CuFunction function, void **parameters, void **extra))                           \
  /* capture and replay */                                                                                            \
  ENTRY(stream_is_capturing, "cuStreamIsCapturing", cuStreamIsCapturing, 10000,                                       \
        (CuStream stream, CaptureStatus *status))                                                                     \
  ENTRY(stream_get_capture_info, "cuStreamGetCaptureInfo", cuStreamGetCaptureInfo_v2, 11030,                          \
        (CuStream stream, CaptureStatus *status, unsigned long long *id, CuGraph *graph, const CuGraphNode **after,   \
         size_t *after_count))                                                                                        \
  ENTRY(stream_begin_capture, "cuStreamBeginCapture", cuStreamBeginCapture_v2, 10010,                                 \
        (CuStream stream, CaptureMode mode))                                                                          \
  ENTRY(stream_end_capture, "cuStreamEndCapture", cuStreamEndCapture, 10000, (CuStream stream, CuGraph *graph))       \
  ENTRY(thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", cuThreadExchangeStreamCaptureMode, 10010,  \
        (CaptureMode *mode))                                                                                          \
  ENTRY(graph_instantiate, "cuGraphInstantiateWithFlags", cuGraphInstantiateWithFlags, 11040,                         \
        (CuGraphExec *exec, CuGraph graph, unsigned long long flags))                                                 \
  ENTRY(graph_upload, "cuGraphUpload", cuGraphUpload, 11010, (CuGraphExec exec, CuStream stream))                     \
  ENTRY(graph_launch, "cuGraphLaunch", cuGraphLaunch, 10000, (CuGraphExec exec, CuStream stream))                     \
  ENTRY(graph_exec_destroy, "cuGraphExecDestroy", cuGraphExecDestroy, 10000, (CuGraphExec exec))                      \
  ENTRY(graph_destroy, "cuGraphDestroy", cuGraphDestroy, 10000, (CuGraph graph))
// clang-format on
