// SPDX-License-Identifier: Apache-2.0
// NVML in software, for tests: devices at the addresses of the CUDA driver in software, with the NVLinks that the
// environment says. docs/gpu-tests.md lists the variables, which are read with each call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/topo/nvml_api.h"

namespace soft_nvml {

using namespace rondo::nvml;

enum class EndKind { device, nvswitch, hidden_switch, processor, inactive };

/// One link of a device.
struct Link {
  EndKind kind = EndKind::device;
  unsigned number = 0;  ///< of the device or switch at the other end
};

/// What SOFT_NVML_FAULTS says of `symbol`, else success.
[[nodiscard]] Status fault_of(const char *symbol);

/// The number of a device behind a handle; false: it is none.
[[nodiscard]] bool number_of(DeviceHandle device, unsigned &number);

/// The links of a device, in order.
[[nodiscard]] std::vector<Link> links_of(unsigned number);

/// The fault of `symbol`, or why `link` cannot be asked for; else `found` is set.
[[nodiscard]] Status find_link(const char *symbol, DeviceHandle device, unsigned link, Link &found);

}  // namespace soft_nvml

extern "C" {
#define SOFT_NVML_DECLARE(field, symbol, needed, parameters) \
  __attribute__((visibility("default"))) rondo::nvml::Status symbol parameters;
using namespace rondo::nvml;
RONDO_NVML_ENTRIES(SOFT_NVML_DECLARE)
#undef SOFT_NVML_DECLARE
__attribute__((visibility("default"))) const char *nvmlErrorString(rondo::nvml::Status status);
}
