// SPDX-License-Identifier: Apache-2.0
// Tests of the trainer's CUDA backend share this file. It makes the backend on the driver in software, and arrays of
// it.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/trainer/cuda/cuda_compute.h"
#include "bench/trainer/model/random.h"
#include "src/cli/train_cuda.h"
#include "tests/catch.h"
#include "tests/unit/train_floats.h"

namespace rondo::train_cuda {

using namespace train;
using train_test::distance;
using train_test::Floats;
using train_test::random_floats;

inline std::vector<uint8_t> random_tokens(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<uint8_t> tokens(count);
  for (uint8_t &token : tokens) token = static_cast<uint8_t>(random.next());
  return tokens;
}

inline std::unique_ptr<Compute> make_cuda(Precision precision = Precision::float32, uint32_t collective_blocks = 0) {
  const char *const library = std::getenv("RONDO_TEST_CUBLAS_LT");
  static const auto devices = cli::make_train_devices();
  int device_count = 0;
  auto failure = devices->count(device_count);
  std::unique_ptr<Device> device;
  if (!failure) failure = devices->open(0, device);
  std::unique_ptr<Compute> compute;
  if (!failure)
    failure = make_cuda_compute(
        std::move(device), {library == nullptr ? "" : library, precision, RONDO_CONFIG_INIT, collective_blocks},
        compute);
  INFO((failure ? failure->message : ""));
  REQUIRE(compute != nullptr);
  return compute;
}

/// An array of a backend, with the initial values `values`.
class Array {
 public:
  Array(Compute &compute, const Floats &values) : compute_(compute), count_(values.size()) {
    memory_ = compute.allocate(count_);
    REQUIRE(memory_ != nullptr);
    compute.write(values.data(), memory_.get(), count_);
  }
  operator float *() const { return memory_.get(); }     // NOLINT: operations take such pointers
  operator Factors() const { return memory_.get(); }     // NOLINT: the same
  operator FactorsOut() const { return memory_.get(); }  // NOLINT: the same
  [[nodiscard]] Floats values() const {
    Floats found(count_);
    compute_.read(memory_.get(), found.data(), count_);
    return found;
  }

 private:
  Compute &compute_;
  size_t count_;
  Buffer memory_;
};

}  // namespace rondo::train_cuda
