// SPDX-License-Identifier: Apache-2.0
// This file has ranks that are threads of the test. Each has a stream and buffers on a device, and uses the public
// interface.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "cuda/transport/shared_memory.h"
#include "tests/gpu/conformance.h"
#include "tests/gpu/device_case.h"
#include "tests/unit/ranks.h"

namespace rondo_test {

using rondo::cuda::CuDevice;
using rondo::cuda::conformance::World;

inline rondo_config_t on_device(CuDevice device = 0) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.device = device;
  config.timeout_ms = 60'000;
  return config;
}

inline int device_count() {
  const auto devices = rondo::cuda::cuda_devices(rondo::cuda::conformance::loaded_driver());
  return devices.ok() ? static_cast<int>(devices.value().size()) : 0;
}

/// Says whether two devices exist. If not, prints that `what` is left out.
inline bool has_two_devices(const char *what) {
  if (device_count() > 1) return true;
  std::printf("skipped: %s: there is one device\n", what);
  return false;
}

/// Device memory with the bytes of a vector. If `hidden`, only its own device maps it, so no other device can read it.
class DeviceBuffer {
 public:
  static constexpr size_t spare_bytes = 64;  ///< bytes after the values
  DeviceBuffer(const World &world, const std::vector<std::byte> &bytes, bool hidden = false)
      : world_(world), bytes_(bytes.size()) {
    auto made = rondo::cuda::SharedMemory::allocate(world.context(), bytes.size() + spare_bytes,
                                                    hidden ? rondo::DeviceHandles::vmm : rondo::DeviceHandles::ipc);
    if (!made.ok()) FAIL(made.error().message);
    memory_ = std::move(made).value();
    write(bytes);
  }
  [[nodiscard]] void *pointer() const { return reinterpret_cast<void *>(memory_->address()); }
  void write(const std::vector<std::byte> &bytes) const {
    CU_OK(world_.cu.memcpy_htod_async(memory_->address(), bytes.data(), bytes.size(), world_.stream()));
    CU_OK(world_.cu.stream_synchronize(world_.stream()));
  }
  [[nodiscard]] std::vector<std::byte> read() const {
    std::vector<std::byte> bytes(bytes_);
    CU_OK(world_.cu.memcpy_dtoh_async(bytes.data(), memory_->address(), bytes.size(), world_.stream()));
    CU_OK(world_.cu.stream_synchronize(world_.stream()));
    return bytes;
  }

 private:
  const World &world_;
  size_t bytes_;
  std::shared_ptr<const rondo::cuda::SharedMemory> memory_;
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

/// Returns "" if both are equal. Otherwise returns the number of differences and the first one, but not all values.
inline std::string difference(const std::vector<float> &received, const std::vector<float> &expected) {
  if (received.size() != expected.size())
    return std::to_string(received.size()) + " elements in place of " + std::to_string(expected.size());
  const size_t bytes = received.size() * sizeof(float);
  if (bytes == 0 || std::memcmp(received.data(), expected.data(), bytes) == 0) return "";
  size_t wrong = 0, first = 0;
  for (size_t i = received.size(); i-- > 0;) {
    if (received[i] == expected[i]) continue;
    ++wrong;
    first = i;
  }
  if (wrong == 0) return "";
  return std::to_string(wrong) + " of " + std::to_string(received.size()) + " elements are wrong, the first is " +
         std::to_string(first) + ": " + std::to_string(received[first]) + " in place of " +
         std::to_string(expected[first]);
}
inline std::string difference(const std::vector<std::byte> &received, const std::vector<float> &expected) {
  return difference(values_of<float>(received), expected);
}
#define CHECK_VALUES(received, expected) CHECK(rondo_test::difference(received, expected) == "")

/// Numbers that depend only on the seed. They are quick to draw without optimisation, too, as under a sanitizer.
class QuickNumbers {
 public:
  explicit QuickNumbers(uint64_t seed) : state_((seed + 1) * 0x9E37'79B9'7F4A'7C15) {}
  uint32_t next() {
    state_ = state_ * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;
    return static_cast<uint32_t>(state_ >> 32);  // the lower bits repeat soon
  }

 private:
  uint64_t state_;
};

inline std::vector<float> whole_numbers(uint64_t seed, size_t count) {
  QuickNumbers numbers(seed);
  std::vector<float> values(count);
  float *const all = values.data();
  for (size_t i = 0; i < count; ++i) all[i] = static_cast<float>(numbers.next() % 1000) - 500;
  return values;
}

/// Returns all elements of a sum. The operands are whole numbers, so the sum is exact in any order.
inline std::vector<float> sum_over_ranks(uint64_t seed, int rank_count, size_t count) {
  std::vector<float> sum(count, 0);
  float *const all = sum.data();
  for (int rank = 0; rank < rank_count; ++rank) {
    QuickNumbers numbers(seed + static_cast<uint64_t>(rank));  // like whole_numbers()
    for (size_t i = 0; i < count; ++i) all[i] += static_cast<float>(numbers.next() % 1000) - 500;
  }
  return sum;
}

/// Returns what a rank receives in a call with sums of float32, where rank r sends whole_numbers(seed + r).
inline std::vector<float> expected_sums(const DeviceCase &it, int rank, int rank_count, uint64_t seed = 0) {
  const size_t all = it.count * static_cast<size_t>(rank_count), own = it.count * static_cast<size_t>(rank);
  std::vector<float> expected;
  switch (it.collective) {
    case RONDO_ALL_REDUCE: return sum_over_ranks(seed, rank_count, it.count);
    case RONDO_REDUCE: return rank == it.root ? sum_over_ranks(seed, rank_count, it.count) : expected;
    case RONDO_BROADCAST: return whole_numbers(seed + static_cast<uint64_t>(it.root), it.count);
    case RONDO_REDUCE_SCATTER:
      expected = sum_over_ranks(seed, rank_count, all);
      expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(own));
      expected.resize(it.count);
      return expected;
    case RONDO_ALL_GATHER:
      for (int peer = 0; peer < rank_count; ++peer)
        for (const float value : whole_numbers(seed + static_cast<uint64_t>(peer), it.count)) expected.push_back(value);
      return expected;
    case RONDO_BARRIER:
    case RONDO_SEND:
    case RONDO_RECV:
    case RONDO_ALL_TO_ALL:
    case RONDO_GATHER:
    case RONDO_SCATTER: break;
  }
  return expected;
}
/// Checks the received values at the beginning of `bytes`.
inline void check_received(const std::vector<std::byte> &bytes, const DeviceCase &it, int rank, int rank_count,
                           uint64_t seed = 0) {
  const auto expected = expected_sums(it, rank, rank_count, seed);
  auto received = values_of<float>(bytes);
  REQUIRE(received.size() >= expected.size());
  received.resize(expected.size());
  CHECK_VALUES(received, expected);
}

/// Returns the failure of the communicator, or RONDO_OK.
inline rondo_error_t failure_of(rondo_comm_t comm) {
  rondo_error_t error = RONDO_ERROR_INIT;
  rondo_status_t status = RONDO_OK;
  if (rondo_comm_get_async_error(comm, &status) != RONDO_OK || status == RONDO_OK) return error;
  static_cast<void>(rondo_comm_last_error(comm, &error));
  error.status = status;
  return error;
}

/// Captures the work that `enqueue()` puts on the stream. Returns an executable graph.
template <class Enqueue>
rondo::cuda::GraphExec captured(const World &world, rondo_stream_t of_rondo, const Enqueue &enqueue) {
  auto *const stream = static_cast<rondo::cuda::CuStream>(of_rondo);
  CU_OK(world.cu.stream_begin_capture(stream, rondo::cuda::CaptureMode::thread_local_));
  enqueue();
  return world.end_capture(stream);
}

/// Checks that this thread's last error contains all these words.
inline void check_message(const std::vector<std::string> &words) {
  const std::string message = error_message();
  for (const std::string &word : words) {
    CAPTURE(message, word);
    CHECK(message.find(word) != std::string::npos);
  }
}

/// Returns the number of kernels launched so far. Returns nothing with a real driver, which does not count.
inline std::optional<uint64_t> launch_count() {
  const std::string library = rondo::cuda::conformance::loaded_driver().library;
  auto *const ask = soft_cuda_function<uint64_t()>(library, "soft_cuda_launch_count");
  if (ask == nullptr) return std::nullopt;
  return ask();
}

/// Returns whether the driver is the one of tests/soft_cuda.
inline bool in_software() { return launch_count().has_value(); }

/// Returns the number of copies from the host to a device so far. With a real driver it is 0.
inline uint64_t upload_count() {
  auto *const ask =
      soft_cuda_function<uint64_t()>(rondo::cuda::conformance::loaded_driver().library, "soft_cuda_upload_count");
  return ask == nullptr ? 0 : ask();
}

/// Says whether a call waits on the host until the ranks that share its kernel have called (RONDO_DEVICE_LAUNCH).
inline bool calls_wait() {
  const auto config = rondo::read_config();
  REQUIRE(config.ok());
  return config.value().device_launch == rondo::DeviceLaunch::shared;
}

/// Returns the result of body(rank, comm) for each rank. One thread makes all calls, because no call waits for another
/// rank. If calls_wait(), each rank has a thread.
inline std::vector<rondo_status_t> call_each(Ranks &ranks,
                                             const std::function<rondo_status_t(int, rondo_comm_t)> &body) {
  if (calls_wait()) return ranks.run(body);
  std::vector<rondo_status_t> statuses;
  for (int rank = 0; rank < ranks.size(); ++rank) statuses.push_back(body(rank, ranks[rank]));
  return statuses;
}

/// A World for each requested device: its context and a stream. The Worlds are destroyed from the last to the first.
class Worlds {
 public:
  explicit Worlds(const std::vector<rondo_config_t> &configs) {
    for (const rondo_config_t &config : configs) {
      const bool known = std::any_of(devices_.begin(), devices_.end(), [&](int of) { return of == config.device; });
      if (known) continue;
      devices_.push_back(config.device);
      worlds_.push_back(std::make_unique<World>(config.device));
    }
  }
  ~Worlds() {
    while (!worlds_.empty()) worlds_.pop_back();
  }
  Worlds(const Worlds &) = delete;
  Worlds &operator=(const Worlds &) = delete;
  [[nodiscard]] const World &of(CuDevice device) const {
    const auto found = std::find(devices_.begin(), devices_.end(), device);
    return *worlds_[static_cast<size_t>(found - devices_.begin())];
  }

 private:
  std::vector<CuDevice> devices_;
  std::vector<std::unique_ptr<World>> worlds_;
};

/// Says whether ranks on one device use the code for several devices (RONDO_TEST_DEVICES_APART=on).
inline bool acts_apart() {
  const char *const text = std::getenv("RONDO_TEST_DEVICES_APART");
  return text != nullptr && std::string(text) == "on";
}

/// Returns `config` for each rank, with the rank's device. If acts_apart(), existing devices stand for missing ones.
inline std::vector<rondo_config_t> on_devices(const std::vector<CuDevice> &devices,
                                              const rondo_config_t &config = on_device()) {
  std::vector<rondo_config_t> configs(devices.size(), config);
  const int present = acts_apart() ? std::max(1, device_count()) : std::numeric_limits<int>::max();
  for (size_t rank = 0; rank < devices.size(); ++rank) configs[rank].device = devices[rank] % present;
  return configs;
}

/// Returns on how many devices ranks are in turn (RONDO_TEST_DEVICES).
inline int devices_of_environment() {
  const char *const text = std::getenv("RONDO_TEST_DEVICES");
  return text == nullptr ? 1 : std::atoi(text);
}

/// Returns `config` for each rank, on the devices of the environment in turn.
inline std::vector<rondo_config_t> on_devices_in_turn(int rank_count, const rondo_config_t &config) {
  std::vector<rondo_config_t> configs(static_cast<size_t>(rank_count), config);
  for (size_t rank = 0; rank < configs.size(); ++rank)
    configs[rank].device = static_cast<int>(rank) % devices_of_environment();
  return configs;
}

/// Ranks that are threads. Each has its own stream, on device 0 by default.
struct DeviceRanks {
  explicit DeviceRanks(int rank_count, const rondo_config_t &config = on_device())
      : DeviceRanks(std::vector(static_cast<size_t>(rank_count), config)) {}
  explicit DeviceRanks(const std::vector<rondo_config_t> &of_configs)
      : configs(of_configs), worlds(configs), world(worlds.of(configs[0].device)), ranks(configs) {
    if (ranks.status() != RONDO_OK) FAIL(error_message());
    for (int rank = 0; rank < ranks.size(); ++rank) streams.push_back(world_of(rank).another_stream());
  }
  ~DeviceRanks() { synchronize(); }
  [[nodiscard]] const World &world_of(int rank) const { return worlds.of(configs[static_cast<size_t>(rank)].device); }
  [[nodiscard]] rondo_stream_t stream(int rank) const { return streams[static_cast<size_t>(rank)].get().object; }
  /// Launches the graph on the stream of `rank`.
  void launch(const rondo::cuda::GraphExec &graph, int rank) const {
    CU_OK(world.cu.graph_launch(graph.get().object, streams[static_cast<size_t>(rank)].get().object));
  }
  void synchronize() const {
    for (const rondo::cuda::Stream &stream : streams) CU_OK(world.cu.stream_synchronize(stream.get().object));
  }
  /// Waits for calls that must succeed, before their values are compared. Without this wait, the values of a call that
  /// timed out on a busy machine would be reported as wrong sums.
  void complete() const {
    synchronize();
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const rondo_error_t error = failure_of(ranks[rank]);
      CAPTURE(rank, error.message);
      REQUIRE(error.status == RONDO_OK);
    }
  }

  std::vector<rondo_config_t> configs;
  Worlds worlds;
  const World &world;  ///< the World of the device of rank 0
  std::vector<rondo::cuda::Stream> streams;
  Ranks ranks;  // destroyed before the streams
};

/// Returns the plan of an all-reduce of `count` floats.
inline rondo_plan_info_t plan_of(rondo_comm_t comm, size_t count) {
  rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
  REQUIRE(rondo_comm_query_plan(comm, RONDO_ALL_REDUCE, count, RONDO_FLOAT32, &plan) == RONDO_OK);
  return plan;
}

}  // namespace rondo_test
