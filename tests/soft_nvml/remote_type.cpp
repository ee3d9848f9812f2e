// SPDX-License-Identifier: Apache-2.0
// This file has the one function that an old NVML lacks. A library without this file represents an old NVML.
#include "tests/soft_nvml/soft_nvml.h"

using namespace soft_nvml;

extern "C" {

Status nvmlDeviceGetNvLinkRemoteDeviceType(DeviceHandle device, unsigned link, RemoteType *type) {
  Link found;
  const Status status = find_link("nvmlDeviceGetNvLinkRemoteDeviceType", device, link, found);
  if (status != Status::success) return status;
  switch (found.kind) {
    case EndKind::device:
      *type = RemoteType::device;
      break;
    case EndKind::nvswitch:
    case EndKind::hidden_switch:
      *type = RemoteType::nvswitch;
      break;
    case EndKind::processor:
      *type = RemoteType::processor;
      break;
    case EndKind::inactive:
      return Status::not_supported;
  }
  return Status::success;
}

const char *nvmlErrorString(Status status) {
  switch (status) {
    case Status::success:
      return "no error";
    case Status::driver_not_loaded:
      return "the driver is not loaded";
    default:
      return "an error of the library in software";
  }
}

}  // extern "C"
