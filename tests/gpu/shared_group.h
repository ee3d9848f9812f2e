// SPDX-License-Identifier: Apache-2.0
// This file has ranks on a device. It sets whether they share launches, whatever the environment says.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "cuda/kernels/operation.h"
#include "tests/gpu/device_ranks.h"

namespace rondo_test {

inline constexpr int kernel_ranks = rondo::device::ranks_per_kernel_max;

/// Sets an environment variable while it exists.
class Setting {
 public:
  Setting(const char *name, const char *value) : name_(name) {
    if (const char *const before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~Setting() { before_.empty() ? ::unsetenv(name_) : ::setenv(name_, before_.c_str(), 1); }
  Setting(const Setting &) = delete;
  Setting &operator=(const Setting &) = delete;

 private:
  const char *name_;
  std::string before_;
};

/// While this object exists, new communicators share launches. A process reads this setting once. So a test program has
/// one mode, or runs each case in its own process.
struct Sharing : Setting {
  explicit Sharing(const char *launch = "shared") : Setting("RONDO_DEVICE_LAUNCH", launch) {}
};

inline rondo_config_t by_kernels(uint32_t timeout_ms = 60'000) {
  rondo_config_t config = on_device();
  config.device_executor = RONDO_DEVICE_EXECUTOR_KERNEL;
  config.max_ctas = 2;  // with 4 channels, the slots of 11 ranks would take half a GiB
  config.timeout_ms = timeout_ms;
  return config;
}

/// Ranks that each have a buffer, which is summed in place.
struct Group {
  explicit Group(int rank_count, size_t of_count, const rondo_config_t &config = by_kernels(),
                 const char *launch = "shared")
      : sharing(launch), ranks(rank_count, config), count(of_count) {
    for (int rank = 0; rank < rank_count; ++rank)
      buffers.emplace_back(ranks.world, bytes_of(whole_numbers(static_cast<uint64_t>(rank), count)));
  }
  [[nodiscard]] void *pointer(int rank) const { return buffers[static_cast<size_t>(rank)].pointer(); }
  [[nodiscard]] rondo_status_t sum(int rank, size_t elements) const {
    return rondo_all_reduce(pointer(rank), pointer(rank), elements, RONDO_FLOAT32, RONDO_SUM, ranks.ranks[rank],
                            ranks.stream(rank));
  }
  [[nodiscard]] rondo_status_t sum(int rank) const { return sum(rank, count); }
  /// Runs a sum on every rank, each on its own thread.
  void sum_all() {
    REQUIRE(all_ok(ranks.ranks.run([&](int rank, rondo_comm_t) { return sum(rank); })));
  }
  void check(const std::vector<float> &expected) const {
    ranks.complete();
    for (const DeviceBuffer &buffer : buffers) CHECK_VALUES(buffer.read(), expected);
  }
  void check_sums() const { check(sum_over_ranks(0, ranks.ranks.size(), count)); }

  Sharing sharing;  // initialised before the communicators
  DeviceRanks ranks;
  size_t count;
  std::vector<DeviceBuffer> buffers;
};

}  // namespace rondo_test
