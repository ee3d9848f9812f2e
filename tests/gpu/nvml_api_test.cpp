// SPDX-License-Identifier: Apache-2.0
// This file compares our declarations of NVML's interface with nvml.h, if that is installed. The compiler is the test.
#include <nvml.h>

#include <type_traits>

#include "src/topo/nvml_api.h"

namespace rondo::nvml {
namespace {

/// Says whether both types are passed in the same way: pointers, or integers of one size.
template <class Ours, class Theirs>
constexpr bool alike = sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;

template <class Ours, class Theirs>
constexpr bool same_signature = false;
template <class... Ours, class... Theirs>
constexpr bool same_signature<Status(Ours...), nvmlReturn_t(Theirs...)> = [] {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs))
    return false;
  else
    return (alike<Ours, Theirs> && ...);
}();

#define CHECK_SIGNATURE(field, symbol, needed, parameters) \
  static_assert(same_signature<Status parameters, decltype(::symbol)>, #symbol);
RONDO_NVML_ENTRIES(CHECK_SIGNATURE)
#undef CHECK_SIGNATURE

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<long long>(ours) == static_cast<long long>(theirs);
}
#define SAME(ours, theirs) static_assert(same(ours, theirs))

SAME(Status::success, NVML_SUCCESS);
SAME(Status::uninitialized, NVML_ERROR_UNINITIALIZED);
SAME(Status::invalid_argument, NVML_ERROR_INVALID_ARGUMENT);
SAME(Status::not_supported, NVML_ERROR_NOT_SUPPORTED);
SAME(Status::no_permission, NVML_ERROR_NO_PERMISSION);
SAME(Status::not_found, NVML_ERROR_NOT_FOUND);
SAME(Status::insufficient_size, NVML_ERROR_INSUFFICIENT_SIZE);
SAME(Status::driver_not_loaded, NVML_ERROR_DRIVER_NOT_LOADED);
SAME(Status::gpu_is_lost, NVML_ERROR_GPU_IS_LOST);
SAME(Status::library_mismatch, NVML_ERROR_LIB_RM_VERSION_MISMATCH);
SAME(Status::unknown, NVML_ERROR_UNKNOWN);
SAME(EnableState::disabled, NVML_FEATURE_DISABLED);
SAME(EnableState::enabled, NVML_FEATURE_ENABLED);
SAME(PeerCapability::read, NVML_P2P_CAPS_INDEX_READ);
SAME(PeerCapability::write, NVML_P2P_CAPS_INDEX_WRITE);
SAME(PeerCapability::atomics, NVML_P2P_CAPS_INDEX_ATOMICS);
SAME(PeerStatus::ok, NVML_P2P_STATUS_OK);
SAME(PeerStatus::unknown, NVML_P2P_STATUS_UNKNOWN);
SAME(RemoteType::device, NVML_NVLINK_DEVICE_TYPE_GPU);
SAME(RemoteType::processor, NVML_NVLINK_DEVICE_TYPE_IBMNPU);
SAME(RemoteType::nvswitch, NVML_NVLINK_DEVICE_TYPE_SWITCH);
SAME(RemoteType::unknown, NVML_NVLINK_DEVICE_TYPE_UNKNOWN);
static_assert(sizeof(EnableState) == sizeof(nvmlEnableState_t) &&
              sizeof(RemoteType) == sizeof(nvmlIntNvLinkDeviceType_t));
static_assert(sizeof(PciInfo) == sizeof(nvmlPciInfo_t) && alignof(PciInfo) == alignof(nvmlPciInfo_t));
static_assert(offsetof(PciInfo, domain) == offsetof(nvmlPciInfo_t, domain));
static_assert(offsetof(PciInfo, bus) == offsetof(nvmlPciInfo_t, bus));
static_assert(offsetof(PciInfo, device) == offsetof(nvmlPciInfo_t, device));
static_assert(offsetof(PciInfo, bus_id) == offsetof(nvmlPciInfo_t, busId));
static_assert(sizeof(PciInfo::bus_id) == sizeof(nvmlPciInfo_t::busId));

}  // namespace
}  // namespace rondo::nvml

int main() { return 0; }
