// SPDX-License-Identifier: Apache-2.0
// This library is NVML in software, for tests. Its devices have the same addresses as in the CUDA driver in software.
// The environment describes their NVLinks: tests/soft_cuda/README.md lists the variables, which are read at each call.
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

/// Returns the status that SOFT_NVML_FAULTS sets for `symbol`, or success.
[[nodiscard]] Status fault_of(const char *symbol);

/// Gets the number of a device from its handle. Returns false if the handle is invalid.
[[nodiscard]] bool number_of(DeviceHandle device, unsigned &number);

/// Returns the links of a device, in order.
[[nodiscard]] std::vector<Link> links_of(unsigned number);

/// Returns the fault of `symbol`, or the reason why `link` cannot be queried. If it returns success, it sets `found`.
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
