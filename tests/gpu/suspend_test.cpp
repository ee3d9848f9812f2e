// SPDX-License-Identifier: Apache-2.0
// These tests suspend and resume communicators on devices: what is given back, that everything works afterwards, and
// what is refused in between. The environment makes ranks share memory by descriptors.
#include <memory>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "tests/gpu/device_ranks.h"

using namespace rondo_test;

namespace {

constexpr size_t count = 100'000;
constexpr uint64_t head_start_ns = 100'000'000;  // for ranks that wait, before the event that ends their wait

rondo_config_t by(rondo_device_executor_t executor, uint32_t timeout_ms = 60'000) {
  rondo_config_t config = on_device();
  config.device_executor = executor;
  config.timeout_ms = timeout_ms;
  return config;
}

rondo_config_t on_host() {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.timeout_ms = 60'000;
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
  /// Returns whether all elements are ranks.size() to the power of `sums`, and makes them 1 again.
  void check_and_reset(int sums) {
    complete();
    float expected = 1;
    for (int each = 0; each < sums; ++each) expected *= static_cast<float>(ranks.size());
    for (const DeviceBuffer &buffer : buffers) {
      CHECK_VALUES(buffer.read(), std::vector<float>(count, expected));
      buffer.write(bytes_of(std::vector<float>(count, 1)));
    }
  }
  /// Lets each even rank send `first` plus its number to the next rank, checks what arrives, and makes all 1 again.
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

rondo_status_t suspend(int, rondo_comm_t comm) { return rondo_comm_suspend(comm, RONDO_SUSPEND_MEMORY); }
rondo_status_t resume(int, rondo_comm_t comm) { return rondo_comm_resume(comm); }

struct Memory {
  uint64_t suspendable = 0, persistent = 0;
  int suspended = -1;
};
Memory memory_of(rondo_comm_t comm) {
  Memory memory;
  CHECK(rondo_comm_device_memory(comm, &memory.suspendable, &memory.persistent, &memory.suspended) == RONDO_OK);
  return memory;
}

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
      CHECK(group.free_bytes(0) == before + 2 * usual.suspendable);  // of the two ranks on that device
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
  static_cast<void>(group.sum(0, group.ranks[0]));  // kept
  CHECK(rondo_group_end() == RONDO_ERROR_INVALID_USAGE);
  CHECK(rondo_comm_flush(group.ranks[0]) == RONDO_OK);
  rondo_status_t status = RONDO_ERROR_INTERNAL;
  CHECK(rondo_comm_get_async_error(group.ranks[0], &status) == RONDO_OK);
  CHECK(status == RONDO_OK);
}

TEST_CASE("suspend: a rank that does not come to resume is named at the deadline, and the communicator fails") {
  if (!knows_two_devices()) return;
  Group group(by(RONDO_DEVICE_EXECUTOR_AUTO, 1000), 3);
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

TEST_CASE("suspend: resume on the other ranks ends if a suspended rank aborts or revokes the communicator") {
  for (const bool aborts : {true, false}) {
    CAPTURE(aborts);
    Ranks ranks(3, on_host());
    REQUIRE(ranks.status() == RONDO_OK);
    REQUIRE(all_ok(ranks.run(suspend)));
    const auto statuses = ranks.run([&](int rank, rondo_comm_t comm) {
      if (rank != 1) return rondo_comm_resume(comm);
      rondo::sleep_for_ns(head_start_ns);
      return aborts ? rondo_comm_abort(comm) : rondo_comm_revoke(comm);
    });
    CHECK(statuses[1] == RONDO_OK);
    const rondo_status_t expected = aborts ? RONDO_ERROR_ABORTED : RONDO_ERROR_REVOKED;
    CHECK(statuses[0] == expected);
    CHECK(statuses[2] == expected);
    CHECK(failure_of(ranks[0]).peer == 1);
  }
}

TEST_CASE("suspend: resume on the other ranks ends if a suspended rank destroys the communicator") {
  for (const int leaver : {0, 1}) {  // rank 0 serves the store in which the ranks meet
    CAPTURE(leaver);
    Ranks ranks(3, on_host());
    REQUIRE(ranks.status() == RONDO_OK);
    REQUIRE(all_ok(ranks.run(suspend)));
    const auto statuses = ranks.run([&](int rank, rondo_comm_t comm) {
      if (rank != leaver) return rondo_comm_resume(comm);
      rondo::sleep_for_ns(head_start_ns);
      return rondo_comm_destroy(comm);
    });
    ranks.forget(leaver);
    CHECK(statuses[static_cast<size_t>(leaver)] == RONDO_OK);
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == leaver) continue;
      const rondo_error_t error = failure_of(ranks[rank]);
      CAPTURE(rank, error.message);
      CHECK(statuses[static_cast<size_t>(rank)] == RONDO_ERROR_REMOTE);
      CHECK(error.peer == leaver);
    }
  }
}

TEST_CASE("suspend: a rank may destroy the communicator as soon as it has resumed") {
  Ranks ranks(4, on_host());
  REQUIRE(ranks.status() == RONDO_OK);
  REQUIRE(all_ok(ranks.run(suspend)));
  const auto statuses = ranks.run([](int, rondo_comm_t comm) {
    const rondo_status_t resumed = rondo_comm_resume(comm);
    const rondo_status_t destroyed = rondo_comm_destroy(comm);
    return resumed == RONDO_OK ? destroyed : resumed;
  });
  for (int rank = 0; rank < 4; ++rank) ranks.forget(rank);
  CHECK(all_ok(statuses));
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

TEST_CASE("suspend: a communicator on host memory has nothing to give back") {
  Ranks ranks(2);
  REQUIRE(ranks.status() == RONDO_OK);
  REQUIRE(all_ok(ranks.run(suspend)));
  const Memory memory = memory_of(ranks[1]);
  CHECK(memory.suspendable + memory.persistent == 0);
  CHECK(memory.suspended == 1);
  CHECK(rondo_barrier(ranks[0], nullptr) == RONDO_ERROR_INVALID_USAGE);
  REQUIRE(all_ok(ranks.run(resume)));
  CHECK(all_ok(ranks.run([](int, rondo_comm_t comm) { return rondo_barrier(comm, nullptr); })));
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
