// SPDX-License-Identifier: Apache-2.0
// This file declares the backend on a CUDA device. cuBLASLt computes matrix products, and Rondo's kernels do the rest
// (kernels/list.h). All of it runs on one stream; collectives run on another (cuda_lane.h).
#pragma once

#include <memory>
#include <string>

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/cuda/device.h"
#include "bench/trainer/cuda/products.h"

namespace rondo::train {

struct CudaSettings {
  std::string product_library;  ///< empty: the usual names of cuBLASLt
  Precision precision = Precision::float32;
  rondo_config_t config = RONDO_CONFIG_INIT;  ///< for the communicator on the device
  uint32_t collective_blocks = 0;  ///< most blocks of a collective (RONDO_MAX_CTAS), or 0 for no limit
};

[[nodiscard]] Outcome make_cuda_compute(std::unique_ptr<Device> device, const CudaSettings &settings,
                                        std::unique_ptr<Compute> &compute);

}  // namespace rondo::train
