// SPDX-License-Identifier: Apache-2.0
// These tests use windows and signals on device memory through the public interface. Ranks are threads, and
// RONDO_DEVICE_EXECUTOR names their executor.
#include <cstdlib>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "tests/gpu/device_ranks.h"
#include "tests/sanitized.h"
#include "tests/seeds.h"
#include "tests/window_program.h"

using namespace rondo_test;

namespace {

/// Memory of rondo_device_mem_alloc().
class PeerBuffer {
 public:
  explicit PeerBuffer(size_t bytes) { status = rondo_device_mem_alloc(&pointer, bytes, 0); }
  PeerBuffer(const PeerBuffer &) = delete;
  PeerBuffer &operator=(const PeerBuffer &) = delete;
  ~PeerBuffer() { static_cast<void>(rondo_device_mem_free(pointer)); }
  [[nodiscard]] std::byte *data() const { return static_cast<std::byte *>(pointer); }
  void *pointer = nullptr;
  rondo_status_t status = RONDO_OK;
};

/// Returns functions that write and read a device's memory by its driver. If one fails, the next synchronize() fails.
WindowMemory on_stream(const rondo::cuda::CudaDriver &cu, rondo_comm_t comm, rondo::cuda::CuStream stream) {
  using rondo::cuda::CuStatus;
  const auto failed = std::make_shared<bool>(false);
  WindowMemory memory;
  memory.write = [=, &cu](void *to, const void *from, size_t bytes) {
    if (bytes != 0 && cu.memcpy_htod_async(reinterpret_cast<uint64_t>(to), from, bytes, stream) != CuStatus::success)
      *failed = true;
    if (cu.stream_synchronize(stream) != CuStatus::success) *failed = true;
  };
  memory.read = [=, &cu](void *to, const void *from, size_t bytes) {
    if (cu.memcpy_dtoh_async(to, reinterpret_cast<uint64_t>(from), bytes, stream) != CuStatus::success) *failed = true;
    if (cu.stream_synchronize(stream) != CuStatus::success) *failed = true;
  };
  memory.synchronize = [=, &cu] {
    if (cu.stream_synchronize(stream) != CuStatus::success || *failed) return RONDO_ERROR_INTERNAL;
    rondo_status_t state = RONDO_OK;
    return rondo_comm_get_async_error(comm, &state) == RONDO_OK ? state : RONDO_ERROR_INTERNAL;
  };
  return memory;
}

/// An all-reduce of a single rank, which copies a buffer to another one.
struct Copied {
  explicit Copied(DeviceRanks &of) : group(of), to(of.world, std::vector<std::byte>(8)) {}
  [[nodiscard]] rondo_status_t call() const {
    return rondo_all_reduce(from.pointer(), to.pointer(), 2, RONDO_INT32, RONDO_SUM, group.ranks[0], group.stream(0));
  }
  /// Launches the graph. Returns whether it has run the call.
  [[nodiscard]] bool is_done_by(const rondo::cuda::GraphExec &graph) const {
    auto *const stream = static_cast<rondo::cuda::CuStream>(group.stream(0));
    CU_OK(group.world.cu.graph_launch(graph.get().object, stream));
    CU_OK(group.world.cu.stream_synchronize(stream));
    return to.read() == from.read();
  }
  DeviceRanks &group;
  const DeviceBuffer from{group.world, std::vector<std::byte>(8, std::byte{7})};
  const DeviceBuffer to;
};

rondo_error_t await_failure(rondo_comm_t comm) {
  for (int look = 0; look < 120'000; ++look) {  // a limit for a test that hangs
    if (const rondo_error_t error = failure_of(comm); error.status != RONDO_OK) return error;
    rondo::sleep_for_ns(1'000'000);
  }
  FAIL("the communicator does not fail");
  return RONDO_ERROR_INIT;
}

void run_program(uint64_t seed) {
  INFO("RONDO_SEED=" << seed);
  const auto rank_count = static_cast<uint32_t>(1 + seed % 3);
  DeviceRanks group(static_cast<int>(rank_count));
  const auto statuses = group.ranks.run([&](int rank, rondo_comm_t comm) {
    const rondo::cuda::ContextGuard guard(group.world.cu, group.world.handle());
    WindowProgram program(seed, rank_count);
    const PeerBuffer own(program.window_bytes()), source(program.window_bytes());
    rondo_window_t window = nullptr;
    if (const auto made = rondo_window_register(comm, own.pointer, program.window_bytes(), 0, &window);
        made != RONDO_OK)
      return made;
    auto *const stream = static_cast<rondo::cuda::CuStream>(group.stream(rank));
    auto status = program.run(static_cast<uint32_t>(rank), comm, stream, window, own.data(), source.data(),
                              on_stream(group.world.cu, comm, stream));
    if (status == RONDO_OK) status = rondo_window_deregister(comm, window);
    return status == RONDO_OK ? rondo_barrier(comm, stream) : status;
  });
  const std::string message = all_ok(statuses) ? "" : failure_of(group.ranks[0]).message;
  CAPTURE(message);
  CHECK(all_ok(statuses));
}

}  // namespace

TEST_CASE("device windows: random programs of puts, signals and waits leave the bytes of the model") {
  GateShare share("programs of windows on a device", std::getenv("RONDO_SEED") == nullptr);
  for_each_seed(40, [&](uint64_t seed) {
    if (share.has_next()) run_program(seed);
  });
}

TEST_CASE("device windows: a wait is ended at the deadline, and the error names the peer and both counts") {
  rondo_config_t config = on_device();
  config.timeout_ms = 500;
  DeviceRanks group(2, config);
  CHECK(rondo_signal(0, 5, group.ranks[1], group.stream(1)) == RONDO_OK);
  CU_OK(group.world.cu.stream_synchronize(static_cast<rondo::cuda::CuStream>(group.stream(1))));  // the signal is there
  CHECK(rondo_wait_signal(1, 5, 3, group.ranks[0], group.stream(0)) == RONDO_OK);
  CU_OK(group.world.cu.stream_synchronize(static_cast<rondo::cuda::CuStream>(group.stream(0))));  // the wait is over
  const rondo_error_t error = await_failure(group.ranks[0]);
  CAPTURE(error.message);
  CHECK(error.status == RONDO_ERROR_TIMEOUT);
  CHECK(error.peer == 1);
  CHECK(std::string(error.message).find("rank 0 waits for 3 signals of number 5 from rank 1, and 1 have arrived") !=
        std::string::npos);
  CHECK(await_failure(group.ranks[1]).status == RONDO_ERROR_TIMEOUT);
  CHECK(rondo_signal(0, 5, group.ranks[1], group.stream(1)) != RONDO_OK);
}

TEST_CASE("device windows: a rank that has left is named, and its signals count") {
  DeviceRanks group(2);
  CHECK(rondo_signal(0, 1, group.ranks[1], group.stream(1)) == RONDO_OK);
  CHECK(rondo_comm_destroy(group.ranks[1]) == RONDO_OK);
  group.ranks.forget(1);
  CHECK(rondo_wait_signal(1, 1, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
  group.synchronize();
  CHECK(failure_of(group.ranks[0]).status == RONDO_OK);
  CHECK(rondo_wait_signal(1, 1, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
  group.synchronize();
  const rondo_error_t error = await_failure(group.ranks[0]);
  CAPTURE(error.message);
  CHECK(error.status == RONDO_ERROR_REMOTE);
  CHECK(std::string(error.message).find("rank 1 (host") != std::string::npos);
}

TEST_CASE("device windows: an abort and a flush end a wait") {
  DeviceRanks group(2);
  CHECK(rondo_wait_signal(1, 0, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
  rondo_status_t aborted = RONDO_ERROR_INTERNAL;
  std::thread aborter([&] { aborted = rondo_comm_abort(group.ranks[1]); });
  const rondo_status_t flushed = rondo_comm_flush(group.ranks[0]);
  aborter.join();
  CHECK(aborted == RONDO_OK);
  CHECK(flushed == RONDO_ERROR_ABORTED);
  group.synchronize();
}

TEST_CASE("device windows: a capture, host memory and wrong frees are refused") {
  DeviceRanks group(1);
  PeerBuffer own(64);
  CHECK(own.status == RONDO_OK);
  rondo_window_t window = nullptr;
  CHECK(rondo_window_register(group.ranks[0], own.pointer, 64, 0, &window) == RONDO_OK);
  char host[8] = {};
  CHECK(rondo_put_signal(host, 8, 0, window, 0, 0, group.ranks[0], group.stream(0)) == RONDO_ERROR_INVALID_ARGUMENT);
  check_message({"send is host memory"});
  rondo_window_t other = nullptr;
  CHECK(rondo_window_register(group.ranks[0], host, 8, 0, &other) == RONDO_ERROR_INVALID_ARGUMENT);
  const auto graph = captured(group.world, group.stream(0), [&] {
    CHECK(rondo_signal(0, 0, group.ranks[0], group.stream(0)) == RONDO_ERROR_UNSUPPORTED);
    check_message({"cannot be captured into a graph"});
  });
  CHECK(rondo_wait_signal(0, 0, uint64_t{1} << 62, group.ranks[0], group.stream(0)) == RONDO_ERROR_INVALID_ARGUMENT);
  check_message({"must be less than 2^62"});
  CHECK(rondo_wait_signal(0, 0, 0, group.ranks[0], group.stream(0)) == RONDO_OK);
  group.synchronize();
  CHECK(rondo_window_deregister(group.ranks[0], window) == RONDO_OK);
  CHECK(rondo_device_mem_free(own.data() + 1) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_device_mem_free(host) == RONDO_ERROR_INVALID_ARGUMENT);
  void *pointer = nullptr;
  CHECK(rondo_device_mem_alloc(&pointer, 0, 0) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_device_mem_alloc(&pointer, 8, 99) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_device_mem_alloc(&pointer, size_t{1} << 50, 0) == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(rondo_device_mem_alloc(nullptr, 8, 0) == RONDO_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("device windows: a captured stream refuses the first operation, and the capture goes on") {
  DeviceRanks group(1);
  const Copied copy(group);
  const auto graph = captured(group.world, group.stream(0), [&] {
    CHECK(rondo_signal(0, 0, group.ranks[0], group.stream(0)) == RONDO_ERROR_UNSUPPORTED);
    check_message({"cannot be captured into a graph"});
    CHECK(copy.call() == RONDO_OK);
  });
  CHECK(copy.is_done_by(graph));
  CHECK(rondo_signal(0, 0, group.ranks[0], group.stream(0)) == RONDO_OK);
  CHECK(rondo_wait_signal(0, 0, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
  group.synchronize();
}

TEST_CASE("device windows: a group with a wait on a captured stream captures nothing") {
  DeviceRanks group(1);
  CHECK(rondo_signal(0, 0, group.ranks[0], group.stream(0)) == RONDO_OK);
  CHECK(rondo_wait_signal(0, 0, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
  group.synchronize();
  const Copied copy(group);
  const auto graph = captured(group.world, group.stream(0), [&] {
    CHECK(rondo_group_begin() == RONDO_OK);
    CHECK(copy.call() == RONDO_OK);
    CHECK(rondo_wait_signal(0, 0, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
    CHECK(rondo_group_end() == RONDO_ERROR_UNSUPPORTED);
    check_message({"cannot be captured into a graph"});
  });
  CHECK_FALSE(copy.is_done_by(graph));
}

TEST_CASE("device windows: a suspended communicator refuses every call, and has windows after resume") {
  DeviceRanks group(1);
  PeerBuffer own(64);
  rondo_window_t window = nullptr;
  CHECK(rondo_comm_suspend(group.ranks[0], RONDO_SUSPEND_MEMORY) == RONDO_OK);
  CHECK(rondo_window_register(group.ranks[0], own.pointer, 64, 0, &window) == RONDO_ERROR_INVALID_USAGE);
  CHECK(rondo_signal(0, 0, group.ranks[0], group.stream(0)) == RONDO_ERROR_INVALID_USAGE);
  CHECK(rondo_comm_resume(group.ranks[0]) == RONDO_OK);
  CHECK(rondo_window_register(group.ranks[0], own.pointer, 64, 0, &window) == RONDO_OK);
  CHECK(rondo_signal(0, 0, group.ranks[0], group.stream(0)) == RONDO_OK);
  CHECK(rondo_wait_signal(0, 0, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
  group.synchronize();
}
