// SPDX-License-Identifier: Apache-2.0
// This file gives `rondo train` its devices, through the library's table of the CUDA driver.
#pragma once

#include <memory>

#include "bench/trainer/cuda/device.h"

namespace rondo::cli {

[[nodiscard]] std::unique_ptr<train::Devices> make_train_devices();

}  // namespace rondo::cli
