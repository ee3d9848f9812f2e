// SPDX-License-Identifier: Apache-2.0
// These tests suspend and resume communicators on devices. They check which memory is given back, that everything works
// afterwards, and which calls are refused in between. The environment makes ranks share memory by descriptors.
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/suspend_calls.h"
#include "tests/sanitized.h"

using namespace rondo_test;

namespace {

constexpr size_t count = 100'000;
constexpr uint64_t look_ns = 1'000'000;
constexpr int looks_max = 60'000;  // a limit against hangs

rondo_config_t by(rondo_device_executor_t executor, uint32_t timeout_ms = 60'000) {
  rondo_config_t config = on_device();
  config.device_executor = executor;
  config.timeout_ms = timeout_ms;
  return config;
}

/// Ranks on two devices in turn, each with a buffer of ones.
struct Group : DeviceRanks {
  explicit Group(const rondo_config_t &config, int rank_count = 4)
      : DeviceRanks(on_devices(devices_of(rank_count), config)) {
    for (int rank = 0; rank < rank_count; ++rank)
      buffers.emplace_back(world_of(rank), bytes_of(std::vector<float>(count, 1)));
  }
  static std::vector<CuDevice> devices_of(int rank_count) {
    std::vector<CuDevice> devices;
    for (int rank = 0; rank < rank_count; ++rank) devices.push_back(rank % 2);
    return devices;
  }
  rondo_status_t sum(int rank, rondo_comm_t comm) const {
    void *const pointer = buffers[static_cast<size_t>(rank)].pointer();
    return rondo_all_reduce(pointer, pointer, count, RONDO_FLOAT32, RONDO_SUM, comm, stream(rank));
  }
  /// Checks that all elements are ranks.size() to the power of `sums`, and makes them 1 again.
  void check_and_reset(int sums) {
    complete();
    float expected = 1;
    for (int each = 0; each < sums; ++each) expected *= static_cast<float>(ranks.size());
    for (const DeviceBuffer &buffer : buffers) {
      CHECK_VALUES(buffer.read(), std::vector<float>(count, expected));
      buffer.write(bytes_of(std::vector<float>(count, 1)));
    }
  }
  /// Lets each even rank send `first` plus its number to the next rank. Checks the received values, and writes 1 again.
  void exchange(float first) {
    const auto values = [&](int rank) { return std::vector<float>(count, first + static_cast<float>(rank)); };
    for (int rank = 0; rank < ranks.size(); ++rank) buffers[static_cast<size_t>(rank)].write(bytes_of(values(rank)));
    const auto pair = [&](int rank, rondo_comm_t comm) {
      void *const pointer = buffers[static_cast<size_t>(rank)].pointer();
      return rank % 2 == 0 ? rondo_send(pointer, count, RONDO_FLOAT32, rank + 1, comm, stream(rank))
                           : rondo_recv(pointer, count, RONDO_FLOAT32, rank - 1, comm, stream(rank));
    };
    REQUIRE(all_ok(call_each(ranks, pair)));
    complete();
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const DeviceBuffer &buffer = buffers[static_cast<size_t>(rank)];
      CHECK_VALUES(buffer.read(), values(rank - rank % 2));
      buffer.write(bytes_of(std::vector<float>(count, 1)));
    }
  }
  [[nodiscard]] size_t free_bytes(int rank) const {
    const World &of = world_of(rank);
    const rondo::cuda::ContextGuard guard(of.cu, of.context().get().context);
    size_t free = 0, total = 0;
    CU_OK(of.cu.mem_get_info(&free, &total));
    return free;
  }

  std::vector<DeviceBuffer> buffers;
};

struct Memory {
  uint64_t suspendable = 0, persistent = 0;
  int suspended = -1;
};
Memory memory_of(rondo_comm_t comm) {
  Memory memory;
  CHECK(rondo_comm_device_memory(comm, &memory.suspendable, &memory.persistent, &memory.suspended) == RONDO_OK);
  return memory;
}

/// Keeps a stream busy until this object is destroyed, but at most a minute, so that nothing hangs.
class BlockedStream {
 public:
  BlockedStream(const World &world, rondo_stream_t stream) {
    CU_OK(world.cu.launch_host_func(static_cast<rondo::cuda::CuStream>(stream), wait, this));
  }
  BlockedStream(const BlockedStream &) = delete;
  BlockedStream &operator=(const BlockedStream &) = delete;
  ~BlockedStream() {
    goes_on_ = true;
    while (!ended_) rondo::sleep_for_ns(look_ns);
  }

 private:
  static void wait(void *self) {
    auto &it = *static_cast<BlockedStream *>(self);
    for (int look = 0; look < looks_max && !it.goes_on_; ++look) rondo::sleep_for_ns(look_ns);
    it.ended_ = true;
  }
  std::atomic<bool> goes_on_ = false, ended_ = false;
};

/// Two ranks whose buffers are a window, and another buffer for each.
struct WindowGroup : Group {
  explicit WindowGroup(uint32_t timeout_ms = 60'000) : Group(by(RONDO_DEVICE_EXECUTOR_AUTO, timeout_ms), 2) {
    for (int rank = 0; rank < 2; ++rank)
      sources.emplace_back(world_of(rank), bytes_of(std::vector<float>(count, 0)));
    REQUIRE(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
      const auto index = static_cast<size_t>(rank);
      return rondo_window_register(comm, buffers[index].pointer(), count * sizeof(float), 0, &windows[index]);
    })));
  }
  /// Lets rank 0 put `value` into the window of rank 1, which waits for the signal.
  void begin_put(float value) const {
    fill_source(value);
    REQUIRE(put() == RONDO_OK);
    REQUIRE(wait() == RONDO_OK);
  }
  void fill_source(float value) const { sources[0].write(bytes_of(std::vector<float>(count, value))); }
  void check_put(float value) const {
    complete();
    CHECK_VALUES(buffers[1].read(), std::vector<float>(count, value));
  }
  [[nodiscard]] rondo_status_t put() const {
    return rondo_put_signal(sources[0].pointer(), count * sizeof(float), 1, windows[0], 0, 0, ranks[0], stream(0));
  }
  [[nodiscard]] rondo_status_t wait() const { return rondo_wait_signal(0, 0, 1, ranks[1], stream(1)); }

  std::vector<DeviceBuffer> sources;
  rondo_window_t windows[2] = {};
};

bool knows_two_devices() { return has_two_devices("suspending what ranks share by descriptors"); }

}  // namespace

TEST_CASE("suspend: device memory is given back, and calls, messages and graphs work after resume") {
  if (!knows_two_devices()) return;
  for (const auto executor : {RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_DEVICE_EXECUTOR_COPY}) {
    CAPTURE(executor);
    Group group(by(executor));
    REQUIRE(all_ok(call_each(group.ranks, [&](int rank, rondo_comm_t comm) { return group.sum(rank, comm); })));
    group.check_and_reset(1);
    std::vector<rondo::cuda::GraphExec> graphs;
    for (int rank = 0; rank < group.ranks.size(); ++rank)
      graphs.push_back(captured(group.world_of(rank), group.stream(rank),
                                [&] { CHECK(group.sum(rank, group.ranks[rank]) == RONDO_OK); }));
    const Memory usual = memory_of(group.ranks[0]);
    CHECK(usual.suspended == 0);
    CHECK(usual.suspendable > 1 << 20);
    CHECK(usual.persistent == 0);
    for (int round = 0; round < 3; ++round) {
      CAPTURE(round);
      const size_t before = group.free_bytes(0);
      REQUIRE(all_ok(group.ranks.run(suspend)));
      const Memory less = memory_of(group.ranks[0]);
      CHECK(less.suspended == 1);
      CHECK(less.suspendable == usual.suspendable);
      CHECK(group.free_bytes(0) == before + 2 * usual.suspendable);  // the memory of both ranks on that device
      REQUIRE(all_ok(group.ranks.run(resume)));
      CHECK(group.free_bytes(0) == before);
      CHECK(memory_of(group.ranks[0]).suspended == 0);
      REQUIRE(all_ok(call_each(group.ranks, [&](int rank, rondo_comm_t comm) { return group.sum(rank, comm); })));
      for (int rank = 0; rank < group.ranks.size(); ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
      group.check_and_reset(2);
      group.exchange(static_cast<float>(10 * round + 2));
    }
  }
}

TEST_CASE("suspend: the workspace of premul sums is given back, too") {
  if (!knows_two_devices()) return;
  Group group(by(RONDO_DEVICE_EXECUTOR_KERNEL), 2);
  const uint64_t before = memory_of(group.ranks[0]).suspendable;
  std::vector<rondo_op_t> ops(2);
  const float factor = 2;
  for (int rank = 0; rank < 2; ++rank)
    REQUIRE(rondo_op_create_premul_sum(&ops[static_cast<size_t>(rank)], &factor, RONDO_FLOAT32, RONDO_RESIDENCE_HOST,
                                       group.ranks[rank]) == RONDO_OK);
  std::vector<DeviceBuffer> halves;
  for (int rank = 0; rank < 2; ++rank)
    halves.emplace_back(group.world_of(rank), bytes_of(std::vector<float>(count / 2, 0)));
  const auto scatter = [&](int rank, rondo_comm_t comm) {
    const auto index = static_cast<size_t>(rank);
    return rondo_reduce_scatter(group.buffers[index].pointer(), halves[index].pointer(), count / 2, RONDO_FLOAT32,
                                ops[index], comm, group.stream(rank));
  };
  REQUIRE(all_ok(call_each(group.ranks, scatter)));
  group.complete();
  CHECK(memory_of(group.ranks[0]).suspendable >= before + count * sizeof(float));
  REQUIRE(all_ok(group.ranks.run(suspend)));
  REQUIRE(all_ok(group.ranks.run(resume)));
  REQUIRE(all_ok(call_each(group.ranks, scatter)));
  group.complete();
  for (const DeviceBuffer &half : halves) CHECK_VALUES(half.read(), std::vector<float>(count / 2, 4));
}

TEST_CASE("suspend: until resume, calls are refused by a sentence, and destroy works") {
  if (!knows_two_devices()) return;
  Group group(by(RONDO_DEVICE_EXECUTOR_AUTO), 2);
  CHECK(rondo_comm_suspend(group.ranks[0], 0) == RONDO_ERROR_INVALID_ARGUMENT);
  check_message({"flags are 0", "RONDO_SUSPEND_MEMORY"});
  CHECK(rondo_comm_resume(group.ranks[0]) == RONDO_ERROR_INVALID_USAGE);
  check_message({"not suspended"});
  CHECK(rondo_group_begin() == RONDO_OK);
  CHECK(rondo_comm_suspend(group.ranks[0], RONDO_SUSPEND_MEMORY) == RONDO_ERROR_INVALID_USAGE);
  CHECK(rondo_group_cancel(nullptr) == RONDO_OK);
  REQUIRE(all_ok(group.ranks.run(suspend)));
  CHECK(group.sum(0, group.ranks[0]) == RONDO_ERROR_INVALID_USAGE);
  check_message({"the communicator is suspended; call rondo_comm_resume on every rank"});
  CHECK(rondo_comm_suspend(group.ranks[0], RONDO_SUSPEND_MEMORY) == RONDO_ERROR_INVALID_USAGE);
  rondo_registration_t registration = nullptr;
  CHECK(rondo_comm_register(group.ranks[0], group.buffers[0].pointer(), count, 0, &registration) ==
        RONDO_ERROR_INVALID_USAGE);
  CHECK(rondo_comm_finalize(group.ranks[0]) == RONDO_ERROR_INVALID_USAGE);
  CHECK(rondo_group_begin() == RONDO_OK);
  static_cast<void>(group.sum(0, group.ranks[0]));  // the group keeps this call
  CHECK(rondo_group_end() == RONDO_ERROR_INVALID_USAGE);
  CHECK(rondo_comm_flush(group.ranks[0]) == RONDO_OK);
  rondo_status_t status = RONDO_ERROR_INTERNAL;
  CHECK(rondo_comm_get_async_error(group.ranks[0], &status) == RONDO_OK);
  CHECK(status == RONDO_OK);
}

TEST_CASE("suspend: a rank that does not come to resume is named at the deadline, and the communicator fails") {
  if (!knows_two_devices()) return;
  Group group(by(RONDO_DEVICE_EXECUTOR_AUTO, sanitized() ? 20'000 : 5'000), 3);  // all ranks that come are in time
  REQUIRE(all_ok(group.ranks.run(suspend)));
  const auto statuses = group.ranks.run([](int rank, rondo_comm_t comm) {
    return rank == 1 ? RONDO_OK : rondo_comm_resume(comm);
  });
  CHECK((statuses[0] == RONDO_ERROR_TIMEOUT || statuses[0] == RONDO_ERROR_COMM_FAILED));
  const rondo_error_t error = failure_of(group.ranks[1]);
  const std::string message = error.message;
  CAPTURE(message);
  CHECK(error.status == RONDO_ERROR_TIMEOUT);
  CHECK(message.find("rondo_comm_resume") != std::string::npos);
  CHECK(error.peer == 1);
  CHECK(rondo_comm_resume(group.ranks[1]) != RONDO_OK);
}

TEST_CASE("suspend: windows work after resume, and one-sided calls in between are refused") {
  if (!knows_two_devices()) return;
  WindowGroup group;
  group.begin_put(2);
  REQUIRE(all_ok(group.ranks.run(suspend)));
  group.check_put(2);
  CHECK(group.put() == RONDO_ERROR_INVALID_USAGE);
  check_message({"the communicator is suspended"});
  CHECK(group.wait() == RONDO_ERROR_INVALID_USAGE);
  CHECK(rondo_signal(1, 0, group.ranks[0], group.stream(0)) == RONDO_ERROR_INVALID_USAGE);
  REQUIRE(all_ok(group.ranks.run(resume)));
  group.begin_put(3);
  group.check_put(3);
}

TEST_CASE("suspend: while a rank's one-sided operation has not ended, no rank gives memory back") {
  if (!knows_two_devices()) return;
  WindowGroup group(sanitized() ? 20'000 : 5'000);  // both ranks come in time
  const size_t before = group.free_bytes(1);
  const BlockedStream blocked(group.world_of(0), group.stream(0));
  REQUIRE(group.put() == RONDO_OK);
  for (const rondo_status_t status : group.ranks.run(suspend)) CHECK(status != RONDO_OK);
  CHECK(failure_of(group.ranks[0]).status == RONDO_ERROR_TIMEOUT);
  CHECK(group.free_bytes(1) == before);
}

TEST_CASE("suspend: one-sided operations that were enqueued before a suspend have their effect") {
  if (!knows_two_devices()) return;
  WindowGroup group;
  group.fill_source(5);
  std::future<std::vector<rondo_status_t>> suspended;
  {
    const BlockedStream blocked(group.world_of(0), group.stream(0));
    REQUIRE(group.put() == RONDO_OK);
    suspended = std::async(std::launch::async, [&] { return group.ranks.run(suspend); });
    for (int rank = 0; rank < 2; ++rank) {
      for (int look = 0; look < looks_max && memory_of(group.ranks[rank]).suspended == 0; ++look)
        rondo::sleep_for_ns(look_ns);
      CHECK(memory_of(group.ranks[rank]).suspended == 1);
    }
  }
  REQUIRE(all_ok(suspended.get()));
  REQUIRE(all_ok(group.ranks.run(resume)));
  REQUIRE(group.wait() == RONDO_OK);
  group.check_put(5);
}

TEST_CASE("suspend: a rank that calls another collective is named") {
  if (!knows_two_devices()) return;
  Group group(by(RONDO_DEVICE_EXECUTOR_AUTO), 2);
  const auto statuses = group.ranks.run([&](int rank, rondo_comm_t comm) {
    return rank == 1 ? group.sum(rank, comm) : suspend(rank, comm);
  });
  CHECK(statuses[0] == RONDO_ERROR_MISMATCH);
  const std::string message = failure_of(group.ranks[0]).message;
  CAPTURE(message);
  CHECK(message.find("rondo_comm_suspend") != std::string::npos);
  CHECK(message.find("all_reduce") != std::string::npos);
}

TEST_CASE("suspend: a device that is full fails resume on all ranks") {
  if (!knows_two_devices() || !in_software()) return;
  Group group(by(RONDO_DEVICE_EXECUTOR_AUTO), 2);
  REQUIRE(all_ok(group.ranks.run(suspend)));
  const size_t all = group.free_bytes(0) / (2 << 20) * (2 << 20);
  auto taken = rondo::cuda::SharedMemory::allocate(group.world_of(0).context(), all, rondo::DeviceHandles::vmm);
  REQUIRE(taken.ok());
  for (const rondo_status_t status : group.ranks.run(resume))
    CHECK((status == RONDO_ERROR_OUT_OF_RESOURCES || status == RONDO_ERROR_COMM_FAILED));
  CHECK(failure_of(group.ranks[1]).status == RONDO_ERROR_OUT_OF_RESOURCES);
}

TEST_CASE("suspend: memory of CUDA IPC stays, and calls work after resume", "[ipc]") {
  if (!knows_two_devices()) return;
  Group group(by(RONDO_DEVICE_EXECUTOR_AUTO));
  const size_t before = group.free_bytes(0);
  CHECK(memory_of(group.ranks[0]).suspendable == 0);
  CHECK(memory_of(group.ranks[0]).persistent > 1 << 20);
  REQUIRE(all_ok(group.ranks.run(suspend)));
  CHECK(group.free_bytes(0) == before);
  CHECK(group.sum(0, group.ranks[0]) == RONDO_ERROR_INVALID_USAGE);
  REQUIRE(all_ok(group.ranks.run(resume)));
  REQUIRE(all_ok(call_each(group.ranks, [&](int rank, rondo_comm_t comm) { return group.sum(rank, comm); })));
  group.check_and_reset(1);
}
