// SPDX-License-Identifier: Apache-2.0
// This file names the thread that watches all work of the process on devices (src/base/shared_thread.h).
#pragma once

#include "src/base/shared_thread.h"

namespace rondo {

/// Returns the thread of all monitors (DeviceMonitor), which also watches one-sided operations.
[[nodiscard]] SharedThread &monitor_thread();

}  // namespace rondo
