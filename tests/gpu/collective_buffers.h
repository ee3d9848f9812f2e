// SPDX-License-Identifier: Apache-2.0
// This file has buffers of ranks that are threads, for every collective, on one device or several devices.
#pragma once

#include <algorithm>
#include <cstdio>
#include <vector>

#include "src/plan/tuner.h"
#include "tests/gpu/device_ranks.h"

namespace rondo_test {

/// All collectives except all_reduce.
inline constexpr rondo_collective_t other_collectives[] = {RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER, RONDO_BROADCAST,
                                                           RONDO_REDUCE};

inline bool has_devices(int count) {
  const auto devices = rondo::cuda::cuda_devices(rondo::cuda::conformance::loaded_driver());
  if (devices.ok() && devices.value().size() >= static_cast<size_t>(count)) return true;
  std::printf("skipped: load_store among devices: there are not %d\n", count);
  return false;
}

/// Says whether `count` devices exist, and each of them reaches all others with atomics.
inline bool has_peers(int count) {
  if (acts_apart()) return true;
  if (!has_devices(count)) return false;
  for (rondo::cuda::CuDevice from = 0; from < count; ++from)
    for (rondo::cuda::CuDevice to = 0; to < count; ++to)
      if (from != to && !rondo::cuda::has_native_atomics(rondo::cuda::conformance::loaded_driver(), from, to)) {
        std::puts("skipped: load_store among devices: no atomics from one to another");
        return false;
      }
  return true;
}

/// Says the same of the devices up to the highest of a list.
inline bool has_peers(const std::vector<rondo::cuda::CuDevice> &devices) {
  return has_peers(1 + *std::max_element(devices.begin(), devices.end()));
}

/// While this object exists, the driver in software ends the process if a kernel touches memory that its device does
/// not reach. The check makes accesses slow, and orders them, so not all tests use it.
class AccessCheck {
 public:
  AccessCheck()
      : count_(soft_cuda_function<void(uint32_t)>(rondo::cuda::conformance::loaded_driver().library,
                                                  "soft_cuda_count_accesses")) {
    if (count_ != nullptr) count_(1);
  }
  AccessCheck(const AccessCheck &) = delete;
  AccessCheck &operator=(const AccessCheck &) = delete;
  ~AccessCheck() {
    if (count_ != nullptr) count_(0);
  }

 private:
  void (*count_)(uint32_t);
};

/// Returns a call whose vector has `elements` elements, or a few less to make equal blocks. The last rank is the root.
inline DeviceCase case_of(rondo_collective_t collective, size_t elements, int rank_count) {
  DeviceCase it{collective};
  it.count = in_blocks(collective) ? elements / static_cast<size_t>(rank_count) : elements;
  it.root = rank_count - 1;
  return it;
}

inline rondo_kernel_t kernel_of(rondo_comm_t comm, const DeviceCase &it) {
  rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
  REQUIRE(rondo_comm_query_plan(comm, it.collective, it.count, it.type, &plan) == RONDO_OK);
  return plan.kernel;
}

/// Returns values whose sum depends on the order in which they are added.
inline std::vector<float> fractions(uint64_t seed, size_t count) {
  QuickNumbers numbers(seed);
  std::vector<float> made(count);
  float *const all = made.data();
  for (size_t i = 0; i < count; ++i) all[i] = static_cast<float>(static_cast<int32_t>(numbers.next())) * 0x1p-31f;
  return made;
}

/// Returns how many bytes the rank receives.
inline size_t received_bytes(const DeviceCase &it, int rank, int rank_count) {
  if (it.collective == RONDO_REDUCE && rank != it.root) return 0;
  const size_t blocks = it.collective == RONDO_ALL_GATHER ? static_cast<size_t>(rank_count) : 1;
  return blocks * it.count * rondo_type_size(it.type);
}

/// A send and a recv buffer of each rank, of float32. `hidden` has a bit for each rank whose buffers peers cannot read.
/// The buffers of rank 1 may begin `skew_bytes` after a multiple of 16.
struct CollectiveBuffers {
  CollectiveBuffers(const DeviceRanks &of, size_t elements, uint32_t hidden = 0, size_t of_skew_bytes = 0)
      : group(of), vector_elements(elements), skew_bytes(of_skew_bytes) {
    for (int rank = 0; rank < rank_count(); ++rank)
      for (auto *const side : {&send, &recv})
        side->emplace_back(group.world_of(rank), std::vector<std::byte>(elements * sizeof(float) + skew_bytes),
                           (hidden >> rank & 1) != 0);
  }
  void fill(uint64_t seed) const {
    for (int rank = 0; rank < rank_count(); ++rank) write(rank, 0, values(seed, rank));
  }
  /// Fills `send` for a call in place. For an all_gather, each rank's operand goes into the rank's own block.
  void fill_in_place(const DeviceCase &it, uint64_t seed) const {
    if (it.collective != RONDO_ALL_GATHER) return fill(seed);
    for (int rank = 0; rank < rank_count(); ++rank) {
      auto bytes = values(seed, rank);
      bytes.resize(it.count * sizeof(float));
      write(rank, static_cast<size_t>(rank) * bytes.size(), bytes);
    }
  }
  void call(const DeviceCase &it, int rank) const {
    const auto at = [&](const std::vector<DeviceBuffer> &side) {
      return static_cast<std::byte *>(side[static_cast<size_t>(rank)].pointer()) + skew_of(rank);
    };
    REQUIRE(rondo_test::call(it, rank, group.ranks[rank], group.stream(rank), at(send), at(recv)) == RONDO_OK);
  }
  void call_all(const DeviceCase &it) const {  // one thread makes all calls, because none waits for another rank
    for (int rank = 0; rank < rank_count(); ++rank) call(it, rank);
  }
  [[nodiscard]] std::vector<std::byte> received(int rank) const { return read(recv, rank, 0); }
  /// Compares what each rank received with the host's results, bit for bit.
  void check(const DeviceCase &it, uint64_t seed) const {
    const auto expected = on_host(it, seed);
    for (int rank = 0; rank < rank_count(); ++rank) {
      const bool own_block = it.in_place && it.collective == RONDO_REDUCE_SCATTER;
      const size_t first = own_block ? static_cast<size_t>(rank) * it.count * sizeof(float) : 0;
      auto got = read(it.in_place ? send : recv, rank, first);
      got.resize(received_bytes(it, rank, rank_count()));
      CAPTURE(rank);
      CHECK((got == expected[static_cast<size_t>(rank)]));  // the brackets prevent printing
    }
  }

  const DeviceRanks &group;
  size_t vector_elements, skew_bytes;
  std::vector<DeviceBuffer> send, recv;

 private:
  [[nodiscard]] int rank_count() const { return group.ranks.size(); }
  [[nodiscard]] size_t skew_of(int rank) const { return rank == 1 ? skew_bytes : 0; }
  [[nodiscard]] std::vector<std::byte> values(uint64_t seed, int rank) const {
    return bytes_of(fractions(seed + static_cast<uint64_t>(rank), vector_elements));
  }
  /// Returns what each rank receives on host memory, where the schedule is the one that load_store replaces.
  [[nodiscard]] std::vector<std::vector<std::byte>> on_host(DeviceCase it, uint64_t seed) const {
    it.in_place = false;
    rondo_config_t config = RONDO_CONFIG_INIT;
    config.algorithm = rondo::load_store_algorithm(it.collective);
    Ranks host(rank_count(), config);
    std::vector<std::vector<std::byte>> sent, received;
    for (int rank = 0; rank < rank_count(); ++rank) {
      sent.push_back(values(seed, rank));
      received.emplace_back(sent[0].size());
    }
    REQUIRE(all_ok(host.run([&](int rank, rondo_comm_t comm) {
      const auto at = static_cast<size_t>(rank);
      return rondo_test::call(it, rank, comm, nullptr, sent[at].data(), received[at].data());
    })));
    for (int rank = 0; rank < rank_count(); ++rank)
      received[static_cast<size_t>(rank)].resize(received_bytes(it, rank, rank_count()));
    return received;
  }
  void write(int rank, size_t first, const std::vector<std::byte> &bytes) const {
    auto all = bytes;
    all.insert(all.begin(), skew_of(rank) + first, std::byte{0});
    send[static_cast<size_t>(rank)].write(all);
  }
  [[nodiscard]] std::vector<std::byte> read(const std::vector<DeviceBuffer> &side, int rank, size_t first) const {
    auto bytes = side[static_cast<size_t>(rank)].read();
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(skew_of(rank) + first));
    return bytes;
  }
};

}  // namespace rondo_test
