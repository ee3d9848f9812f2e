// SPDX-License-Identifier: Apache-2.0
// This file declares the functions of the NVIDIA Management Library that Rondo uses, so that Rondo builds where the
// library is not installed. The names are Rondo's. The values and layouts are NVIDIA's documented ones. If nvml.h is
// present, tests/gpu/nvml_api_test.cpp compares them with that header.
#pragma once

#include <cstddef>

namespace rondo::nvml {

/// nvmlReturn_t. NVML may return other values, which nvmlErrorString describes.
enum class Status : int {
  success = 0,
  uninitialized = 1,
  invalid_argument = 2,
  not_supported = 3,
  no_permission = 4,
  not_found = 6,
  insufficient_size = 7,
  driver_not_loaded = 9,
  gpu_is_lost = 15,
  library_mismatch = 18,
  unknown = 999,
};

struct DeviceObject;
using DeviceHandle = DeviceObject *;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];  ///< "00000000:3B:00.0"
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, domain) == 16 && offsetof(PciInfo, bus_id) == 36);

enum class EnableState : int { disabled = 0, enabled = 1 };
enum class PeerCapability : int { read = 0, write = 1, atomics = 3 };
enum class PeerStatus : int { ok = 0, unknown = 6 };  ///< the values between them say what prevents access
enum class RemoteType : int { device = 0, processor = 1, nvswitch = 2, unknown = 255 };
inline constexpr unsigned uuid_bytes = 96;

}  // namespace rondo::nvml

// Lists each function of NVML that Rondo calls once: ENTRY(field, symbol, needed, parameters). If a
// needed function is missing, Rondo does not use NVML. If another function is missing, only the
// facts that it would report are unknown. The table, its loader and the library in software for
// tests are made from this list. nvmlErrorString returns text, so it is handled separately.
// clang-format off
#define RONDO_NVML_ENTRIES(ENTRY)                                                                                     \
  ENTRY(init, nvmlInit_v2, true, ())                                                                                  \
  ENTRY(shutdown, nvmlShutdown, true, ())                                                                             \
  ENTRY(device_get_count, nvmlDeviceGetCount_v2, true, (unsigned *count))                                             \
  ENTRY(device_get_handle_by_index, nvmlDeviceGetHandleByIndex_v2, true, (unsigned index, DeviceHandle *device))      \
  ENTRY(device_get_pci_info, nvmlDeviceGetPciInfo_v3, true, (DeviceHandle device, PciInfo *info))                     \
  ENTRY(device_get_uuid, nvmlDeviceGetUUID, false, (DeviceHandle device, char *uuid, unsigned bytes))                 \
  ENTRY(device_get_p2p_status, nvmlDeviceGetP2PStatus, false,                                                         \
        (DeviceHandle device, DeviceHandle peer, PeerCapability capability, PeerStatus *status))                      \
  ENTRY(nvlink_get_state, nvmlDeviceGetNvLinkState, false, (DeviceHandle device, unsigned link, EnableState *state))  \
  ENTRY(nvlink_get_version, nvmlDeviceGetNvLinkVersion, false,                                                        \
        (DeviceHandle device, unsigned link, unsigned *version))                                                      \
  ENTRY(nvlink_get_remote_type, nvmlDeviceGetNvLinkRemoteDeviceType, false,                                           \
        (DeviceHandle device, unsigned link, RemoteType *type))                                                       \
  ENTRY(nvlink_get_remote_pci_info, nvmlDeviceGetNvLinkRemotePciInfo_v2, false,                                       \
        (DeviceHandle device, unsigned link, PciInfo *info))
// clang-format on
