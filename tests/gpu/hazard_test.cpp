// SPDX-License-Identifier: Apache-2.0
// These hazards exist only on a device, if one thread drives two ranks: rank 0 calls, another event happens, rank 1
// calls. If this event waits for rank 0's call, rank 1 never calls, and without a deadline the wait would never end.
// Each case shows the hazard, and that the deadline ends the wait and names the rank that did not call. It also shows
// that Rondo's own calls avoid the hazard.
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>

#include "cuda/driver/kernel_set.h"
#include "tests/catch.h"
#include "tests/gpu/device_ranks.h"

using namespace rondo_test;
using rondo::cuda::CuStatus;
using rondo::cuda::CuStream;
using rondo::cuda::DevicePointer;

namespace {

constexpr size_t count = 1000;
constexpr uint32_t deadline_ms = 400;        // for calls that must miss it
constexpr uint32_t no_deadline_ms = 60'000;  // for all other calls

/// Two ranks with a buffer each, on streams with the given flags.
class Pair {
 public:
  explicit Pair(unsigned stream_flags = rondo::cuda::stream_non_blocking, uint32_t timeout_ms = deadline_ms) {
    rondo_config_t config = on_device();
    config.timeout_ms = timeout_ms;
    config.device_executor = RONDO_DEVICE_EXECUTOR_KERNEL;
    ranks_.emplace(2, config);
    if (ranks_->status() != RONDO_OK) FAIL(error_message());
    for (CuStream &stream : streams_) CU_OK(world.cu.stream_create(&stream, stream_flags, 0));
    for (int rank = 0; rank < 2; ++rank) memory_.push_back(world.memory(count * sizeof(double)));
  }
  ~Pair() {
    for (CuStream stream : streams_) CU_OK(world.cu.stream_synchronize(stream));
    ranks_.reset();
    for (CuStream stream : streams_) CU_OK(world.cu.stream_destroy(stream));
  }
  Pair(const Pair &) = delete;
  Pair &operator=(const Pair &) = delete;

  /// Makes a call of `rank`. If the other rank has failed, the call may be refused.
  rondo_status_t call(int rank, rondo_type_t type = RONDO_FLOAT32, rondo_op_t op = RONDO_SUM) {
    const auto own = static_cast<size_t>(rank);
    auto *const pointer = reinterpret_cast<void *>(memory_[own].get().object);
    return rondo_all_reduce(pointer, pointer, count, type, op, (*ranks_)[rank], streams_[own]);
  }
  /// Waits until both streams have ended, and returns rank 0's error.
  rondo_error_t verdict() {
    for (CuStream stream : streams_) CU_OK(world.cu.stream_synchronize(stream));
    return failure_of((*ranks_)[0]);
  }

  const World world;

 private:
  std::optional<Ranks> ranks_;
  CuStream streams_[2] = {};
  std::vector<rondo::cuda::DeviceMemory> memory_;
};

/// Lets rank 0 call, runs `between`, and lets rank 1 call. Returns rank 0's error.
rondo_error_t what_comes_of(Pair &pair, const std::function<void(Pair &)> &between) {
  REQUIRE(pair.call(0) == RONDO_OK);
  between(pair);
  static_cast<void>(pair.call(1));
  return pair.verdict();
}

void check_that_rank_1_was_late(const rondo_error_t &verdict) {
  CHECK(verdict.status == RONDO_ERROR_TIMEOUT);
  CHECK(std::string(verdict.message).find("rank 1") != std::string::npos);
}

void check_that_it_waits(Pair &pair, const std::function<void(Pair &)> &between) {
  check_that_rank_1_was_late(what_comes_of(pair, between));
}

/// Checks a call that may wait on a real device, and prints whether it waited there. The driver in software always
/// waits, which is the worst case.
void check_that_it_may_wait(Pair &pair, const char *what, const std::function<void(Pair &)> &between) {
  const rondo_error_t verdict = what_comes_of(pair, between);
  const bool waits = in_software() || verdict.status != RONDO_OK;
  if (!in_software()) std::printf("the driver %s: %s\n", waits ? "waits" : "does not wait", what);
  if (waits) check_that_rank_1_was_late(verdict);
}

/// Returns the number of copies from the host to a device on that stream so far.
uint64_t upload_count_of(rondo_stream_t stream) {
  auto *const ask = soft_cuda_function<uint64_t(CuStream)>(rondo::cuda::conformance::loaded_driver().library,
                                                           "soft_cuda_upload_count_of");
  REQUIRE(ask != nullptr);
  return ask(static_cast<CuStream>(stream));
}

std::function<void(Pair &)> clear_on_the_default_stream(const Pair &pair) {
  auto memory = std::make_shared<rondo::cuda::DeviceMemory>(pair.world.memory(64));
  return [memory](Pair &it) { CU_OK(it.world.cu.memset_d8_async(memory->get().object, 0, 64, nullptr)); };
}

}  // namespace

TEST_CASE("hazard: memory that is allocated or given back while a collective waits", "[plain]") {
  SECTION("allocated") {
    Pair pair;
    rondo::cuda::DeviceMemory memory;  // outlives the calls, since freeing it would wait, too
    check_that_it_may_wait(pair, "cuMemAlloc of 1 MiB", [&](Pair &it) { memory = it.world.memory(1 << 20); });
  }
  SECTION("given back") {
    Pair pair;
    auto memory = pair.world.memory(1 << 20);
    check_that_it_waits(pair, [&](Pair &) { memory.reset(); });
  }
  SECTION("pinned") {
    Pair pair;
    rondo::cuda::HostMemory memory;
    check_that_it_may_wait(pair, "cuMemHostAlloc of 1 MiB", [&](Pair &it) { memory = it.world.pinned(1 << 20); });
  }
}

TEST_CASE("hazard: communicators are destroyed while another stream of the caller does not move", "[plain]") {
  const World world;
  rondo::cuda::conformance::Gate gate(world);
  const rondo::cuda::Stream blocked = world.another_stream();
  std::vector<rondo::cuda::Stream> streams;
  std::vector<DeviceBuffer> buffers;
  for (int rank = 0; rank < 2; ++rank) {
    streams.push_back(world.another_stream());
    buffers.emplace_back(world, bytes_of(whole_numbers(static_cast<uint64_t>(rank), count)));
  }
  const auto before = rondo::cuda::conformance::live_counts();
  std::vector<rondo_comm_t> comms;
  for (const rondo_device_executor_t executor : {RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_DEVICE_EXECUTOR_COPY}) {
    rondo_config_t config = on_device();
    config.device_executor = executor;
    Ranks ranks(2, config);
    if (ranks.status() != RONDO_OK) FAIL(error_message());
    const auto sum = [&](int rank, rondo_comm_t comm) {
      void *const pointer = buffers[static_cast<size_t>(rank)].pointer();
      return rondo_all_reduce(pointer, pointer, count, RONDO_FLOAT32, RONDO_SUM, comm,
                              streams[static_cast<size_t>(rank)].get().object);
    };
    REQUIRE(all_ok(call_each(ranks, sum)));
    for (const rondo::cuda::Stream &stream : streams) CU_OK(world.cu.stream_synchronize(stream.get().object));
    for (int rank = 0; rank < 2; ++rank) {
      comms.push_back(ranks[rank]);
      ranks.forget(rank);
    }
  }
  gate.close(blocked.get().object);
  std::vector<std::thread> threads;
  for (rondo_comm_t comm : comms) threads.emplace_back([comm] { static_cast<void>(rondo_comm_destroy(comm)); });
  for (std::thread &thread : threads) thread.join();
  CHECK(gate.word() == 0);  // the gate has not opened by itself, so no call waited for it
  gate.open();
  CU_OK(world.cu.stream_synchronize(blocked.get().object));
  CHECK(rondo::cuda::conformance::becomes_true([&] { return rondo::cuda::conformance::live_counts() == before; }));
}

TEST_CASE("hazard: kernels that are loaded while a collective waits", "[plain]") {
  Pair pair;
  static constexpr char any_image[8] = {};
  const void *const image = rondo::device::kernels_image().data;
  rondo::cuda::Library library;
  check_that_it_may_wait(pair, "cuLibraryLoadData", [&](Pair &it) {
    library = rondo::cuda::load_library(it.world.context(), image != nullptr ? image : any_image).value();
  });
}

TEST_CASE("hazard: the first all-reduce of every type and operation allocates and loads nothing", "[plain]") {
  Pair pair(rondo::cuda::stream_non_blocking, no_deadline_ms);
  // Rank 0 makes all its calls first, so its first kernel waits during all later calls.
  for (int rank = 0; rank < 2; ++rank)
    for (int type = 0; rondo_type_string(static_cast<rondo_type_t>(type)) != nullptr; ++type)
      for (int op = 0; rondo_op_string(static_cast<rondo_op_t>(op)) != nullptr; ++op)
        REQUIRE(pair.call(rank, static_cast<rondo_type_t>(type), static_cast<rondo_op_t>(op)) == RONDO_OK);
  CHECK(pair.verdict().status == RONDO_OK);
}

// A multiprocessor cannot change its share of shared memory while a block is resident. So a block without shared memory
// must not keep out another communicator's block that needs some.
TEST_CASE("hazard: communicators whose kernels use different amounts of shared memory, called in opposite orders",
          "[plain][carve-out]") {
  constexpr size_t elements = size_t{1} << 22;
  rondo_config_t direct = on_device(), staged = on_device();
  direct.timeout_ms = staged.timeout_ms = no_deadline_ms;
  direct.kernel = RONDO_KERNEL_LOAD_STORE;
  staged.kernel = RONDO_KERNEL_INTERPRETER;
  staged.protocol = RONDO_PROTOCOL_LL;
  staged.channels = in_software() ? 2 : 32;
  const DeviceRanks first(2, direct), second(2, staged);
  std::vector<DeviceBuffer> buffers;
  for (int number = 0; number < 4; ++number)
    buffers.emplace_back(first.world, bytes_of(std::vector<float>(elements, 1)));
  const auto call = [&](const DeviceRanks &group, int rank) {
    void *const pointer = buffers[static_cast<size_t>(&group == &first ? rank : 2 + rank)].pointer();
    REQUIRE(rondo_all_reduce(pointer, pointer, elements, RONDO_FLOAT32, RONDO_SUM, group.ranks[rank],
                             group.stream(rank)) == RONDO_OK);
  };
  call(first, 0);
  std::this_thread::sleep_for(rondo::cuda::conformance::a_while);  // the first kernel waits on all multiprocessors
  call(second, 1);
  std::this_thread::sleep_for(rondo::cuda::conformance::a_while);  // the second kernel waits, too
  call(second, 0);
  call(first, 1);
  first.complete();
  second.complete();
  for (const DeviceBuffer &buffer : buffers) CHECK_VALUES(buffer.read(), std::vector<float>(elements, 2));
}

TEST_CASE("hazard: the legacy default stream between ranks on blocking streams", "[plain]") {
  SECTION("blocking streams wait for it, and it for them") {
    Pair pair(0);
    check_that_it_waits(pair, clear_on_the_default_stream(pair));
  }
  SECTION("non-blocking ones do not") {
    Pair pair(rondo::cuda::stream_non_blocking, no_deadline_ms);
    CHECK(what_comes_of(pair, clear_on_the_default_stream(pair)).status == RONDO_OK);
  }
}

TEST_CASE("hazard: ranks whose streams share a hardware queue", "[queue]") {
  Pair pair;
  check_that_it_may_wait(pair, "the kernel of a second stream, in its hardware queue", [](Pair &) {});
}

TEST_CASE("hazard: a call is captured while the copy of its plan is held up for a while", "[queue]") {
  DeviceRanks group(2, on_device());
  const DeviceBuffer buffer(group.world, std::vector<std::byte>(count * sizeof(float)));
  const rondo::cuda::CudaDriver &cu = group.world.cu;
  CuStream other = nullptr;
  CU_OK(cu.stream_create(&other, rondo::cuda::stream_non_blocking, 0));
  const auto stand_in_the_way = [](void *) { std::this_thread::sleep_for(std::chrono::milliseconds(500)); };
  CU_OK(cu.launch_host_func(other, stand_in_the_way, nullptr));
  const auto graph = captured(group.world, group.stream(0), [&] {
    CHECK(rondo_broadcast(buffer.pointer(), buffer.pointer(), count, RONDO_FLOAT32, 0, group.ranks[0],
                          group.stream(0)) == RONDO_OK);
  });
  CU_OK(cu.stream_synchronize(other));
  CU_OK(cu.stream_destroy(other));
}

TEST_CASE("hazard: a call is captured while the copy of its plan is held up for long, and reads it from the host",
          "[queue]") {
  rondo_config_t config = on_device();
  config.kernel = RONDO_KERNEL_INTERPRETER;
  DeviceRanks group(1, config);
  const auto sent = whole_numbers(0, count);
  const DeviceBuffer send(group.world, bytes_of(sent)), recv(group.world, bytes_of(std::vector<float>(count, 0)));
  const rondo::cuda::Stream other = group.world.another_stream();
  const uint64_t uploads = upload_count();
  rondo::cuda::conformance::Gate gate(group.world);
  gate.close(other.get().object);
  const auto graph = captured(group.world, group.stream(0), [&] {
    CHECK(rondo_all_reduce(send.pointer(), recv.pointer(), count, RONDO_FLOAT32, RONDO_SUM, group.ranks[0],
                           group.stream(0)) == RONDO_OK);
    gate.open();  // then captured() instantiates the graph, which may wait for the device
  });
  for (int replay = 0; replay < 2; ++replay) {
    group.launch(graph, 0);
    group.complete();
  }
  CHECK_VALUES(recv.read(), sent);
  if (in_software()) CHECK(upload_count() - uploads == 1);  // the plan's copy, which no replay repeats
}

TEST_CASE("hazard: blocks that are not resident, on a device that says it could hold them", "[blocks]") {
  Pair pair;  // SOFT_CUDA_CLAIMED_BLOCKS: how many blocks the device claims to hold
  check_that_it_may_wait(pair, "blocks of a second kernel, for multiprocessors", [](Pair &) {});
}

TEST_CASE("hazard: kernels that run one by one", "[serial]") {
  Pair pair;
  check_that_it_may_wait(pair, "the kernel of a second stream, while another runs", [](Pair &) {});
}

TEST_CASE("hazard: more calls of a rank than its stream takes, before the other rank has called", "[launch queue]") {
  constexpr int more_than_fit = 24;  // each call takes at least one entry of the queue
  Pair pair;
  check_that_it_waits(pair, [](Pair &it) {
    for (int call = 0; call < more_than_fit; ++call)
      if (it.call(0) != RONDO_OK) return;
  });
}

// Each rank copies its plan on a stream of its own, so 8 ranks have more streams than there are hardware queues.
TEST_CASE("hazard: plans that are copied while kernels of other ranks wait in the same queue", "[eight queues]") {
  constexpr int rank_count = 8;
  rondo_config_t config = on_device();
  config.device_executor = RONDO_DEVICE_EXECUTOR_KERNEL;
  config.kernel = RONDO_KERNEL_INTERPRETER;
  config.max_ctas = 2;
  DeviceRanks group(rank_count, config);
  std::vector<DeviceBuffer> buffers;
  for (int rank = 0; rank < rank_count; ++rank)
    buffers.emplace_back(group.world, bytes_of(whole_numbers(static_cast<uint64_t>(rank), count)));
  std::vector<float> expected = sum_over_ranks(0, rank_count, count);
  const auto call = [&](int rank, size_t elements, bool sums) {
    void *const pointer = buffers[static_cast<size_t>(rank)].pointer();
    const rondo_stream_t stream = group.stream(rank);
    return sums ? rondo_all_reduce(pointer, pointer, elements, RONDO_FLOAT32, RONDO_SUM, group.ranks[rank], stream)
                : rondo_broadcast(pointer, pointer, elements, RONDO_FLOAT32, 0, group.ranks[rank], stream);
  };
  const uint64_t uploads = upload_count();
  for (const bool from_one_thread : {false, true})
    for (const size_t elements : {count, count - 1, count - 2})  // each count has its own plan
      for (const bool sums : {true, false}) {
        CAPTURE(from_one_thread, elements, sums);
        if (from_one_thread) {
          for (int rank = 0; rank < rank_count; ++rank) REQUIRE(call(rank, elements, sums) == RONDO_OK);
        } else {
          REQUIRE(all_ok(group.ranks.run([&](int rank, rondo_comm_t) { return call(rank, elements, sums); })));
        }
        group.complete();
        for (size_t index = 0; sums && index < elements; ++index) {
          if (elements != count || from_one_thread) expected[index] *= rank_count;
        }
        for (const DeviceBuffer &buffer : buffers) CHECK_VALUES(buffer.read(), expected);
      }
  if (!in_software()) return;
  CHECK(upload_count() - uploads == 3 * 2 * rank_count);  // one copy for each plan
  // Rondo copies plans on streams of its own, so the caller's streams have no copy.
  for (int rank = 0; rank < rank_count; ++rank) CHECK(upload_count_of(group.stream(rank)) == 0);
}
