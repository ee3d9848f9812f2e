// SPDX-License-Identifier: Apache-2.0
// These tests make many communicators in one process on one device, as frameworks do. They check the cost of each, and
// when the next one is refused. The device has the blocks of an H100.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "src/base/clock.h"
#include "tests/gpu/device_ranks.h"

using namespace rondo_test;

namespace {

constexpr size_t count = 1000;

/// A stream and a buffer for each of two ranks. All communicators of a case use them.
struct Operands {
  Operands() {
    for (int rank = 0; rank < 2; ++rank) {
      streams.push_back(world.another_stream());
      buffers.emplace_back(world, bytes_of(std::vector<float>(count, 1)));
    }
  }
  /// Sums on one communicator of two ranks, in place.
  void sum(const Ranks &ranks) const {
    for (int rank = 0; rank < ranks.size(); ++rank) {
      void *const pointer = buffers[static_cast<size_t>(rank)].pointer();
      REQUIRE(rondo_all_reduce(pointer, pointer, count, RONDO_FLOAT32, RONDO_SUM, ranks[rank], stream(rank)) ==
              RONDO_OK);
    }
  }
  /// Sends a signal from rank 0 to rank 1 of a communicator, which waits for it.
  void signal(const Ranks &ranks) const {
    REQUIRE(rondo_signal(1, 0, ranks[0], stream(0)) == RONDO_OK);
    REQUIRE(rondo_wait_signal(0, 0, 1, ranks[1], stream(1)) == RONDO_OK);
  }
  void send(const Ranks &ranks) const {
    REQUIRE(rondo_send(buffers[0].pointer(), count, RONDO_FLOAT32, 1, ranks[0], stream(0)) == RONDO_OK);
  }
  void receive(const Ranks &ranks) const {
    REQUIRE(rondo_recv(buffers[1].pointer(), count, RONDO_FLOAT32, 0, ranks[1], stream(1)) == RONDO_OK);
  }
  void synchronize() const {
    for (const auto &each : streams) CU_OK(world.cu.stream_synchronize(each.get().object));
  }
  /// Writes a new value for rank 0 to send.
  void renew() { buffers[0].write(bytes_of(std::vector<float>(count, ++value))); }
  /// Waits until rank 1 has received the value.
  void check_received() const {
    synchronize();
    CHECK_VALUES(buffers[1].read(), std::vector<float>(count, value));
  }
  [[nodiscard]] rondo_stream_t stream(int rank) const { return streams[static_cast<size_t>(rank)].get().object; }

  const World world;
  std::vector<rondo::cuda::Stream> streams;
  std::vector<DeviceBuffer> buffers;
  float value = 1;
};

std::vector<std::unique_ptr<Ranks>> make_pairs(int pair_count, const rondo_config_t &config) {
  std::vector<std::unique_ptr<Ranks>> all;
  for (int made = 0; made < pair_count; ++made) {
    all.push_back(std::make_unique<Ranks>(2, config));
    CAPTURE(made, error_message());
    REQUIRE(all.back()->status() == RONDO_OK);
  }
  return all;
}

/// Returns the number of threads of this process, without those that run streams of the driver in software.
int thread_count() {
  const auto live = rondo::cuda::conformance::live_counts();
  int threads = 0;
  for ([[maybe_unused]] const auto &each : std::filesystem::directory_iterator("/proc/self/task")) ++threads;
  return threads - (live ? static_cast<int>(live->streams) : 0);
}

/// Waits until this process has at most `most` threads. Threads that have ended are still listed for a moment. A thread
/// of a stream outlives the stream, and threads of kernels stay. So the case must be the first one of its process, and
/// its kernels must run later.
void await_threads(int most) {
  while (thread_count() > most) std::this_thread::yield();  // bounded by the test's limit
}

/// Returns the free bytes of the device whose context is current.
size_t free_bytes(const World &world) {
  size_t free = 0, total = 0;
  CU_OK(world.cu.mem_get_info(&free, &total));
  return free;
}

/// Returns the bytes of device 0 that a rank of a new communicator takes: the average, if device 0 has all ranks.
size_t bytes_of_rank(const std::vector<rondo_config_t> &configs) {
  const Worlds worlds(configs);
  const World &world = worlds.of(0);
  const bool on_one = std::all_of(configs.begin(), configs.end(), [](const auto &it) { return it.device == 0; });
  const size_t before = free_bytes(world);
  const Ranks ranks(configs);
  CAPTURE(error_message());
  REQUIRE(ranks.status() == RONDO_OK);
  return (before - free_bytes(world)) / (on_one ? configs.size() : 1);
}

constexpr size_t MiB = size_t{1} << 20;

}  // namespace

TEST_CASE("many communicators: 64 of two ranks work on one device by one thread, and wide ones are refused") {
  const Operands given;
  const int threads = thread_count();
  const auto all = make_pairs(64, on_device());
  for (const auto &ranks : all) given.signal(*ranks);
  given.synchronize();
  await_threads(threads + 1);
  float expected = 1;
  for (size_t each = 0; each < all.size(); ++each) {
    given.sum(*all[each]);
    expected = each % 20 == 19 ? 1 : 2 * expected;  // exact in float32
    if (expected != 1) continue;
    given.synchronize();
    for (const DeviceBuffer &buffer : given.buffers) {
      CHECK_VALUES(buffer.read(), std::vector<float>(count, 1 << 20));
      buffer.write(bytes_of(std::vector<float>(count, 1)));
    }
  }
  given.synchronize();
  for (const DeviceBuffer &buffer : given.buffers) CHECK_VALUES(buffer.read(), std::vector<float>(count, expected));
  rondo_config_t wide = on_device();
  wide.channels = 128;
  CHECK(Ranks(2, wide).status() == RONDO_ERROR_OUT_OF_RESOURCES);
  const std::string message = error_message();
  CAPTURE(message);
  CHECK(message.find("2 ranks need 256 blocks, 128 each, but of the 264 that can be resident at once") !=
        std::string::npos);
  CHECK(message.find("belong to 128 ranks of other communicators") != std::string::npos);
}

TEST_CASE("many communicators: threads that copy end when nothing is left to copy, unless it is captured",
          "[.][copies]") {
  Operands given;
  rondo_config_t copying = on_device();
  copying.device_executor = RONDO_DEVICE_EXECUTOR_COPY;
  const int threads = thread_count();
  const auto all = make_pairs(64, copying);
  for (int round = 0; round < 3; ++round) {
    given.renew();
    for (const auto &ranks : all) {
      given.send(*ranks);
      given.receive(*ranks);
    }
    given.check_received();
    await_threads(threads + 1);
  }
  for (int pause = 0; pause < 10; ++pause) {  // threads end at about the time of the next message
    given.renew();
    given.send(*all[0]);
    given.receive(*all[0]);
    given.check_received();
    rondo::sleep_for_ns(250'000'000);
  }
  const auto sends = captured(given.world, given.stream(0), [&] { given.send(*all[0]); });
  const auto receives = captured(given.world, given.stream(1), [&] { given.receive(*all[0]); });
  for (int replay = 0; replay < 2; ++replay) {
    await_threads(threads + 3);
    given.renew();
    CU_OK(given.world.cu.graph_launch(sends.get().object, given.streams[0].get().object));
    CU_OK(given.world.cu.graph_launch(receives.get().object, given.streams[1].get().object));
    given.check_received();
    given.renew();
    given.send(*all[1]);
    given.receive(*all[1]);
    given.check_received();
  }
}

TEST_CASE("many communicators: a rank takes at most 6 MiB of a device with 2 ranks, and 16 MiB with 8") {
  for (const auto executor : {RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_DEVICE_EXECUTOR_COPY})
    for (const int ranks : {2, 8}) {
      std::vector<rondo_config_t> one, several;
      for (int rank = 0; rank < ranks; ++rank) {
        one.push_back(on_device());
        several.push_back(on_device(rank));
      }
      for (auto *const configs : {&one, &several})
        for (rondo_config_t &config : *configs) config.device_executor = executor;
      const bool copies = executor == RONDO_DEVICE_EXECUTOR_COPY;
      const size_t most = ranks == 8 ? 16 * MiB : 6 * MiB;
      CAPTURE(copies, ranks);
      CHECK(bytes_of_rank(one) <= most);
      CHECK(bytes_of_rank(several) <= most);
      std::printf("%s, %d ranks: %.1f MiB of one device, %.1f MiB of each of several\n", copies ? "copies" : "kernels",
                  ranks, static_cast<double>(bytes_of_rank(one)) / MiB,
                  static_cast<double>(bytes_of_rank(several)) / MiB);
    }
}
