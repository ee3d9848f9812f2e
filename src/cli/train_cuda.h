// SPDX-License-Identifier: Apache-2.0
// What `rondo train` needs of CUDA, through the library's own table of the driver.
#pragma once

#include <memory>

#include "bench/trainer/cuda/device.h"

namespace rondo::cli {

[[nodiscard]] std::unique_ptr<train::Devices> make_train_devices();

}  // namespace rondo::cli
