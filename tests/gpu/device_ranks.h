// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of the test, each with a stream and buffers on a device, through the public interface.
#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include "tests/gpu/conformance.h"
#include "tests/unit/ranks.h"

namespace rondo_test {

using rondo::cuda::CuDevice;
using rondo::cuda::conformance::World;

inline rondo_config_t on_device(CuDevice device = 0) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.device = device;
  config.timeout_ms = 20'000;
  return config;
}

/// Device memory with the bytes of a vector.
class DeviceBuffer {
 public:
  DeviceBuffer(const World &world, const std::vector<std::byte> &bytes)
      : world_(world), bytes_(bytes.size()), memory_(world.memory(bytes.size() + 64)) {
    write(bytes);
  }
  [[nodiscard]] void *pointer() const { return reinterpret_cast<void *>(memory_.get().object); }
  void write(const std::vector<std::byte> &bytes) const {
    CU_OK(world_.cu.memcpy_htod_async(memory_.get().object, bytes.data(), bytes.size(), world_.stream()));
    CU_OK(world_.cu.stream_synchronize(world_.stream()));
  }
  [[nodiscard]] std::vector<std::byte> read() const {
    std::vector<std::byte> bytes(bytes_);
    CU_OK(world_.cu.memcpy_dtoh_async(bytes.data(), memory_.get().object, bytes.size(), world_.stream()));
    CU_OK(world_.cu.stream_synchronize(world_.stream()));
    return bytes;
  }

 private:
  const World &world_;
  size_t bytes_;
  rondo::cuda::DeviceMemory memory_;
};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T> &values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <class T>
std::vector<T> values_of(const std::vector<std::byte> &bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace rondo_test
