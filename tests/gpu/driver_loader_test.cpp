// SPDX-License-Identifier: Apache-2.0
// These tests load a driver. Errors must name the cause. The driver in software can lack functions or devices.
#include <cstdlib>
#include <string>

#include "cuda/driver/driver.h"
#include "cuda/driver/kernel_set.h"
#include "src/base/config.h"
#include "tests/catch.h"

using namespace rondo;
using namespace rondo::cuda;

namespace {

bool contains(const std::string &text, const std::string &part) { return text.find(part) != text.npos; }

/// Sets a variable of the driver in software for one attempt to load it.
class Variable {
 public:
  Variable(const char *name, const char *value) : name_(name) { ::setenv(name, value, 1); }
  Variable(const Variable &) = delete;
  Variable &operator=(const Variable &) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char *name_;
};

std::string library() { return read_config().value().cuda_library; }

Error refusal(const std::string &name) {
  const auto loaded = load_cuda_driver(name);
  REQUIRE_FALSE(loaded.ok());
  CHECK(loaded.error().status == RONDO_ERROR_UNSUPPORTED);
  CHECK(contains(loaded.error().message, name));
  return loaded.error();
}

}  // namespace

// This case must run first, because initialisation succeeds only once in a process.
TEST_CASE("driver: without a device it is refused, and a later attempt may succeed") {
  {
    const Variable none("SOFT_CUDA_DEVICES", "0");
    CHECK(contains(refusal(library()).message, "sees no device"));
    CHECK_FALSE(cuda_driver(library()).ok());
  }
  {
    const Variable bad("SOFT_CUDA_QUEUES", "many");
    CHECK(contains(refusal(library()).message, "cuInit: CUDA_ERROR_INVALID_VALUE (1)"));
  }
  const auto first = cuda_driver(library());
  REQUIRE(first.ok());
  CHECK(first.value()->library == library());
  CHECK(cuda_driver(library()).value() == first.value());
}

TEST_CASE("driver: a library that is missing, or is none of CUDA's, is named with what to do") {
  CHECK(contains(refusal("libno-such-cuda.so.1").message, "RONDO_CUDA_LIBRARY"));
  CHECK(contains(refusal("libm.so.6").message, "it has no cuGetProcAddress_v2"));
}

TEST_CASE("driver: a missing entry and an old version are named") {
  {
    const Variable missing("SOFT_CUDA_MISSING", "cuMemExportToShareableHandle");
    CHECK(
        contains(refusal(library()).message, "it has no cuMemExportToShareableHandle; Rondo needs one for CUDA 12.2"));
  }
  {
    const Variable old("SOFT_CUDA_VERSION", "11080");
    CHECK(contains(refusal(library()).message, "it is for CUDA 11.8; Rondo needs 12.2 or newer"));
  }
  CHECK(load_cuda_driver(library()).ok());
}

TEST_CASE("driver: the release with long-term support lacks one entry, which has a substitute") {
  const Variable old("SOFT_CUDA_VERSION", "12020");
  const auto loaded = load_cuda_driver(library());
  REQUIRE(loaded.ok());
  CHECK(loaded.value().func_load == nullptr);
  CHECK(loaded.value().stream_get_capture_info != nullptr);
  const Error error = image_needs_driver(13'000, loaded.value().version);
  CHECK(contains(error.message, "this one is for CUDA 12.2: update it, or build Rondo with nvcc of CUDA 12.x"));
}

TEST_CASE("driver: an image wants a driver of its compiler's major version, and says which release that is") {
  CHECK(device::driver_needed_by(13'000) == 13'000);
  CHECK(device::driver_needed_by(13'020) == 13'000);
  CHECK(device::driver_needed_by(12'080) == 12'000);
  CHECK(device::driver_needed_by(0) == 0);  // a build without kernels
  const Error error = image_needs_driver(13'000, 12'040);
  CHECK(error.status == RONDO_ERROR_UNSUPPORTED);
  CHECK(contains(error.message, "nvcc of CUDA 13.0 and need a driver for CUDA 13.0 or newer (release 580)"));
  CHECK(contains(error.message, "this one is for CUDA 12.4: update it, or build Rondo with nvcc of CUDA 12.x"));
}

// A build without kernels has no image that a driver could refuse.
TEST_CASE("driver: the image of this build is refused by an older driver") {
  const device::KernelsImage image = device::kernels_image();
  if (image.data == nullptr) {
    CHECK(image.compiler_version == 0);
    return;
  }
  CHECK(image.compiler_version >= 12'040);
  CHECK(device::driver_needed_by(image.compiler_version) <= load_cuda_driver(library()).value().version);
}
