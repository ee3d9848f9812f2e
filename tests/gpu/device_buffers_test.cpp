// SPDX-License-Identifier: Apache-2.0
// These tests cover which buffers, streams and registrations a communicator on a device accepts, and which it refuses.
#include "tests/gpu/device_ranks.h"

using namespace rondo_test;

TEST_CASE("device: host memory, a host stream, another device's stream and too small buffers are refused") {
  DeviceRanks group(1);
  const DeviceBuffer buffer(group.world, bytes_of(std::vector<float>(16, 1)));
  std::vector<float> host(16, 1);
  CHECK(rondo_all_reduce(host.data(), buffer.pointer(), 16, RONDO_FLOAT32, RONDO_SUM, group.ranks[0],
                         group.stream(0)) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(error_message().find("send is host memory") != std::string::npos);
  CHECK(rondo_all_reduce(buffer.pointer(), buffer.pointer(), 1 << 20, RONDO_FLOAT32, RONDO_SUM, group.ranks[0],
                         group.stream(0)) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(error_message().find("more than the") != std::string::npos);
  const auto sum_on = [&](rondo_stream_t stream) {
    return rondo_all_reduce(buffer.pointer(), buffer.pointer(), 16, RONDO_FLOAT32, RONDO_SUM, group.ranks[0], stream);
  };
  rondo_stream_t of_host = nullptr;
  REQUIRE(rondo_stream_create(&of_host) == RONDO_OK);
  CHECK(sum_on(of_host) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(error_message().find("rondo_stream_create") != std::string::npos);
  CHECK(rondo_stream_destroy(of_host) == RONDO_OK);
  if (has_two_devices("another device's stream and memory")) {
    const World other(1);
    const DeviceBuffer elsewhere(other, bytes_of(std::vector<float>(16, 1)));
    CHECK(sum_on(other.stream()) == RONDO_ERROR_INVALID_ARGUMENT);
    CHECK(error_message().find("the stream is not one of CUDA device 0") != std::string::npos);
    CHECK(rondo_all_reduce(elsewhere.pointer(), buffer.pointer(), 16, RONDO_FLOAT32, RONDO_SUM, group.ranks[0],
                           group.stream(0)) == RONDO_ERROR_INVALID_ARGUMENT);
    CHECK(error_message().find("send is memory of CUDA device 1") != std::string::npos);
  }
  // The refused calls did not count as operations, so the communicator continues.
  CHECK(rondo_all_reduce(buffer.pointer(), buffer.pointer(), 16, RONDO_FLOAT32, RONDO_SUM, group.ranks[0],
                         group.stream(0)) == RONDO_OK);
}

TEST_CASE("device: a registration takes whole ranges of the device's memory, and nothing else") {
  DeviceRanks group(1);
  const DeviceBuffer buffer(group.world, bytes_of(std::vector<float>(16, 1)));
  constexpr size_t allocated_bytes = 16 * sizeof(float) + DeviceBuffer::spare_bytes;
  auto *const first = static_cast<std::byte *>(buffer.pointer());
  std::vector<float> host(16, 1);
  const auto pinned = rondo::cuda::allocate_host_memory(group.world.context(), 64);
  REQUIRE(pinned.ok());
  rondo_registration_t registration = nullptr;
  const auto add = [&](void *pointer, size_t bytes, unsigned flags = 0) {
    return rondo_comm_register(group.ranks[0], pointer, bytes, flags, &registration);
  };
  CHECK(add(host.data(), 64) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(error_message().find("pointer is host memory") != std::string::npos);
  // Pinned memory is a buffer, but no other process can open it. So its registration has no effect.
  REQUIRE(add(pinned.value().get().object, 64) == RONDO_OK);
  CHECK(rondo_comm_deregister(group.ranks[0], registration) == RONDO_OK);
  registration = nullptr;
  CHECK(add(first + 16, allocated_bytes - 15) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(error_message().find("more than the " + std::to_string(allocated_bytes - 16) + " that are left") !=
        std::string::npos);
  CHECK(add(first, 64, RONDO_REGISTER_MOVE_PAGES) == RONDO_ERROR_UNSUPPORTED);
  CHECK(registration == nullptr);
  if (has_two_devices("a registration of another device's memory")) {
    const World other(1);
    const DeviceBuffer elsewhere(other, bytes_of(std::vector<float>(16, 1)));
    CHECK(add(elsewhere.pointer(), 64) == RONDO_ERROR_INVALID_ARGUMENT);
    CHECK(error_message().find("pointer is memory of CUDA device 1") != std::string::npos);
  }
  REQUIRE(add(first + 16, allocated_bytes - 16) == RONDO_OK);
  CHECK(rondo_all_reduce(buffer.pointer(), buffer.pointer(), 16, RONDO_FLOAT32, RONDO_SUM, group.ranks[0],
                         group.stream(0)) == RONDO_OK);
  group.complete();
  CHECK(rondo_comm_deregister(group.ranks[0], registration) == RONDO_OK);
}

TEST_CASE("device: a communicator on the host refuses memory of a device, and takes pinned memory") {
  const World world;
  const DeviceBuffer buffer(world, bytes_of(std::vector<float>(16, 1)));
  const auto pinned = rondo::cuda::allocate_host_memory(world.context(), 64);
  REQUIRE(pinned.ok());
  std::vector<float> host(16, 1);
  const Ranks ranks(1);
  const auto sum = [&](const void *send, void *recv) {
    return rondo_all_reduce(send, recv, 16, RONDO_FLOAT32, RONDO_SUM, ranks[0], nullptr);
  };
  CHECK(sum(host.data(), buffer.pointer()) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(error_message().find("recv is memory of a CUDA device") != std::string::npos);
  CHECK(sum(host.data(), pinned.value().get().object) == RONDO_OK);
}
