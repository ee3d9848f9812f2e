// SPDX-License-Identifier: Apache-2.0
// The backend on a CUDA device: matrix products by cuBLASLt, all else by kernels of our own (kernels/list.h). All of it
// goes onto one stream; collectives run on another (cuda_lane.h).
#pragma once

#include <memory>
#include <string>

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/cuda/device.h"
#include "bench/trainer/cuda/products.h"

namespace rondo::train {

struct CudaSettings {
  std::string product_library;  ///< empty: where cuBLASLt usually is
  Precision precision = Precision::float32;
  rondo_config_t config = RONDO_CONFIG_INIT;  ///< of the communicator on the device
};

[[nodiscard]] Outcome make_cuda_compute(std::unique_ptr<Device> device, const CudaSettings &settings,
                                        std::unique_ptr<Compute> &compute);

}  // namespace rondo::train
