// SPDX-License-Identifier: Apache-2.0
// These tests make many communicators in one process on one device, as frameworks do: what each of them costs, and when
// the next one is refused. The device has the blocks of an H100.
#include <filesystem>
#include <iterator>
#include <memory>
#include <vector>

#include "tests/gpu/device_ranks.h"

using namespace rondo_test;

namespace {

constexpr size_t count = 1000;

/// Sums on one communicator, in place, and compares.
void sum(const World &world, const std::vector<rondo::cuda::Stream> &streams, const Ranks &ranks) {
  std::vector<DeviceBuffer> buffers;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    buffers.emplace_back(world, bytes_of(std::vector<float>(count, static_cast<float>(rank + 1))));
    void *const pointer = buffers.back().pointer();
    REQUIRE(rondo_all_reduce(pointer, pointer, count, RONDO_FLOAT32, RONDO_SUM, ranks[rank],
                             streams[static_cast<size_t>(rank)].get().object) == RONDO_OK);
  }
  for (const auto &stream : streams) CU_OK(world.cu.stream_synchronize(stream.get().object));
  for (const DeviceBuffer &buffer : buffers) CHECK_VALUES(buffer.read(), std::vector<float>(count, 3));
}

}  // namespace

TEST_CASE("many communicators: 64 of two ranks work beside each other on one device, and are refused with numbers") {
  const World world;
  std::vector<rondo::cuda::Stream> streams;
  for (int rank = 0; rank < 2; ++rank) streams.push_back(world.another_stream());
  std::vector<std::unique_ptr<Ranks>> all;
  for (int made = 0; made < 64; ++made) {
    all.push_back(std::make_unique<Ranks>(2, on_device()));
    CAPTURE(made, error_message());
    REQUIRE(all.back()->status() == RONDO_OK);
  }
  for (const auto &ranks : all) sum(world, streams, *ranks);
  rondo_config_t wide = on_device();
  wide.channels = 128;
  CHECK(Ranks(2, wide).status() == RONDO_ERROR_OUT_OF_RESOURCES);
  const std::string message = error_message();
  CAPTURE(message);
  CHECK(message.find("2 ranks need 256 blocks, 128 each, but of the 264 that can be resident at once") !=
        std::string::npos);
  CHECK(message.find("belong to 128 ranks of other communicators") != std::string::npos);
}
