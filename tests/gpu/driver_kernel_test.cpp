// SPDX-License-Identifier: Apache-2.0
// These tests cover the driver's kernels, capture and replay.
#include <cstdio>

#include "tests/gpu/conformance.h"

using namespace rondo;
using namespace rondo::cuda;
using namespace rondo::cuda::conformance;

namespace {

std::vector<uint64_t> words_of(const World &world, const DeviceMemory &memory, size_t count) {
  std::vector<uint64_t> words(count);
  CU_OK(world.cu.memcpy_dtoh_async(words.data(), memory.get().object, count * 8, world.stream()));
  CU_OK(world.cu.stream_synchronize(world.stream()));
  return words;
}

uint64_t *pointer_to(const DeviceMemory &memory) { return reinterpret_cast<uint64_t *>(memory.get().object); }

void count_up(void *argument) {
  static_cast<std::atomic<int> *>(argument)->fetch_add(1, std::memory_order_acq_rel);  // pairs with the tests' loads
}

}  // namespace

TEST_CASE("kernels: are found by name, launched with a copy of their parameters, and run all their blocks") {
  World world;
  const CudaDriver &cu = world.cu;
  const auto kernels = test_kernels(world);
  SKIP_WITHOUT_KERNELS(kernels);
  constexpr size_t count = 10'000;
  const DeviceMemory memory = world.memory(count * 8);
  for (const unsigned grid : {1u, 3u, 200u}) {
    const soft_cuda::FillParameters parameters{pointer_to(memory), count, grid};
    CU_OK(launch(world, *kernels, "test_fill", grid, world.stream(), parameters));
    const auto words = words_of(world, memory, count);
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i) wrong += words[i] != grid + i;
    CHECK(wrong == 0);
  }
  CHECK_FALSE(find_function(*kernels, "no_such_kernel").ok());
  CuKernel kernel = nullptr;
  CU_FAILS(cu.library_get_kernel(&kernel, kernels->get().object, "no_such_kernel"), CuStatus::not_found);
}

TEST_CASE("kernels: attributes, occupancy, and launches that cannot be") {
  World world;
  const CudaDriver &cu = world.cu;
  const auto kernels = test_kernels(world);
  SKIP_WITHOUT_KERNELS(kernels);
  const CuFunction function = find_function(*kernels, "test_fill").value();
  int value = 0;
  CU_OK(cu.func_get_attribute(&value, FunctionAttribute::max_threads_per_block, function));
  CHECK(value >= 32);
  CU_OK(cu.func_get_attribute(&value, FunctionAttribute::register_count, function));
  CHECK(value > 0);
  CU_OK(cu.func_set_attribute(function, FunctionAttribute::max_dynamic_shared_bytes, 64 << 10));
  CU_FAILS(cu.func_set_attribute(function, FunctionAttribute::max_dynamic_shared_bytes, 1 << 30),
           CuStatus::invalid_value);
  CU_OK(cu.occupancy_max_blocks(&value, function, 256, 0));
  CHECK(value >= 1);
  soft_cuda::FillParameters parameters{};
  void *arguments[] = {&parameters};
  CU_FAILS(cu.launch_kernel(function, 0, 1, 1, 32, 1, 1, 0, world.stream(), arguments, nullptr),
           CuStatus::invalid_value);
  CU_FAILS(cu.launch_kernel(function, 1, 1, 1, 4096, 1, 1, 0, world.stream(), arguments, nullptr),
           CuStatus::invalid_value);
  LaunchConfig config;
  config.stream = world.stream();
  CU_OK(cu.launch_kernel_ex(&config, function, arguments, nullptr));
  CU_OK(cu.stream_synchronize(world.stream()));
}

TEST_CASE("kernels: blocks of a grid that fits run together, with all their threads and zeroed shared memory") {
  World world;
  const auto kernels = test_kernels(world);
  SKIP_WITHOUT_KERNELS(kernels);
  const DeviceMemory arrived = world.memory(64);
  CU_OK(world.cu.memset_d8_async(arrived.get().object, 0, 64, world.stream()));
  CU_OK(
      launch(world, *kernels, "test_barrier", 4, world.stream(), soft_cuda::BarrierParameters{pointer_to(arrived), 0}));
  CHECK(words_of(world, arrived, 1)[0] == 4);  // a larger count means that a block gave up
  const DeviceMemory counts = world.memory(64);
  CU_OK(
      launch(world, *kernels, "test_count_threads", 8, world.stream(), soft_cuda::CountParameters{pointer_to(counts)}));
  const auto words = words_of(world, counts, 8);
  for (const uint64_t count : words) CHECK(count == words[0]);
  CHECK(words[0] >= 1);
}

TEST_CASE("kernels: of different streams run beside each other") {
  World world;
  const auto kernels = test_kernels(world);
  SKIP_WITHOUT_KERNELS(kernels);
  const Stream other = world.another_stream();
  const DeviceMemory arrived = world.memory(64);
  CU_OK(world.cu.memset_d8_async(arrived.get().object, 0, 64, world.stream()));
  CU_OK(world.cu.stream_synchronize(world.stream()));
  const soft_cuda::BarrierParameters parameters{pointer_to(arrived), 2};
  CU_OK(launch(world, *kernels, "test_barrier", 2, world.stream(), parameters));
  CU_OK(launch(world, *kernels, "test_barrier", 2, other.get().object, parameters));
  CU_OK(world.cu.stream_synchronize(world.stream()));
  CU_OK(world.cu.stream_synchronize(other.get().object));
  CHECK(words_of(world, arrived, 1)[0] == 4);
}

TEST_CASE("capture: nothing runs until the graph is launched, and then each time") {
  World world;
  const CudaDriver &cu = world.cu;
  std::atomic<int> count{0};
  CaptureStatus status = CaptureStatus::none;
  CU_OK(cu.stream_begin_capture(world.stream(), CaptureMode::thread_local_));
  CU_OK(cu.stream_is_capturing(world.stream(), &status));
  CHECK(status == CaptureStatus::active);
  CU_OK(cu.launch_host_func(world.stream(), count_up, &count));
  CU_OK(cu.launch_host_func(world.stream(), count_up, &count));
  CuGraph raw = nullptr;
  CU_OK(cu.stream_end_capture(world.stream(), &raw));
  Graph graph({&cu, world.handle(), raw});
  CU_OK(cu.stream_is_capturing(world.stream(), &status));
  CHECK(status == CaptureStatus::none);
  std::this_thread::sleep_for(a_while);
  CHECK(count.load(std::memory_order_acquire) == 0);
  CuGraphExec raw_exec = nullptr;
  CU_OK(cu.graph_instantiate(&raw_exec, graph.get().object, 0));
  const GraphExec exec({&cu, world.handle(), raw_exec});
  graph.reset();
  CU_OK(cu.graph_upload(exec.get().object, world.stream()));
  for (int i = 0; i < 3; ++i) CU_OK(cu.graph_launch(exec.get().object, world.stream()));
  CU_OK(cu.stream_synchronize(world.stream()));
  CHECK(count.load(std::memory_order_acquire) == 6);
}

TEST_CASE("capture: waits and writes of memory, and copies, are done with each replay") {
  World world;
  const CudaDriver &cu = world.cu;
  constexpr size_t bytes = 4096;
  const DeviceMemory from = world.memory(bytes), to = world.memory(bytes);
  const HostMemory pinned = world.pinned(bytes);
  Gate gate(world);
  CU_OK(cu.stream_begin_capture(world.stream(), CaptureMode::thread_local_));
  gate.close(world.stream());
  CU_OK(cu.stream_write_value64(world.stream(), reinterpret_cast<DevicePointer>(&gate.word()), 0, write_value_default));
  CU_OK(cu.memcpy_async(to.get().object, from.get().object, bytes, world.stream()));
  CU_OK(cu.memcpy_async(reinterpret_cast<DevicePointer>(pinned.get().object), to.get().object, bytes, world.stream()));
  const GraphExec exec = world.end_capture(world.stream());
  for (unsigned char value = 1; value <= 3; ++value) {
    CU_OK(cu.memset_d8_async(from.get().object, value, bytes, world.stream()));
    CU_OK(cu.graph_launch(exec.get().object, world.stream()));
    std::this_thread::sleep_for(a_while / 2);
    CU_FAILS(cu.stream_query(world.stream()), CuStatus::not_ready);
    gate.open();
    CU_OK(cu.stream_synchronize(world.stream()));
    CHECK(gate.word() == 0);
    CHECK(words_of(world, to, 1)[0] == 0x0101010101010101u * value);
    CHECK(static_cast<const unsigned char *>(pinned.get().object)[bytes - 1] == value);
  }
}

TEST_CASE("capture: other streams join by events, and their branches run beside each other") {
  World world;
  const CudaDriver &cu = world.cu;
  const auto kernels = test_kernels(world);
  SKIP_WITHOUT_KERNELS(kernels);
  const Stream other = world.another_stream();
  const Event fork = world.event();
  const Event join = world.event();
  const DeviceMemory arrived = world.memory(64);
  const CuFunction meet = find_function(*kernels, "test_barrier").value();
  soft_cuda::BarrierParameters parameters{pointer_to(arrived), 1};
  void *arguments[] = {&parameters};
  CU_OK(cu.stream_begin_capture(world.stream(), CaptureMode::global));
  CU_OK(cu.memset_d8_async(arrived.get().object, 0, 64, world.stream()));
  CU_OK(cu.event_record(fork.get().object, world.stream()));
  CU_OK(cu.stream_wait_event(other.get().object, fork.get().object, 0));
  CU_OK(cu.launch_kernel(meet, 1, 1, 1, 32, 1, 1, 0, world.stream(), arguments, nullptr));
  CU_OK(cu.launch_kernel(meet, 1, 1, 1, 32, 1, 1, 0, other.get().object, arguments, nullptr));
  CU_OK(cu.event_record(join.get().object, other.get().object));
  CU_OK(cu.stream_wait_event(world.stream(), join.get().object, 0));
  const GraphExec exec = world.end_capture(world.stream());
  for (int i = 0; i < 20; ++i) CU_OK(cu.graph_launch(exec.get().object, world.stream()));
  CU_OK(cu.stream_synchronize(world.stream()));
  CHECK(words_of(world, arrived, 1)[0] == 2);
}

TEST_CASE("capture: an event that was recorded in it stands for no work, and may not be asked for") {
  World world;
  const CudaDriver &cu = world.cu;
  const Event event = world.event();
  CuGraph graph = nullptr;
  CU_OK(cu.stream_begin_capture(world.stream(), CaptureMode::relaxed));
  CU_OK(cu.event_record(event.get().object, world.stream()));
  // A query during the capture would invalidate it, so this case queries the event after the capture has ended.
  CU_OK(cu.stream_end_capture(world.stream(), &graph));
  CU_OK(cu.graph_destroy(graph));
  CU_FAILS(cu.event_query(event.get().object), CuStatus::invalid_value);
  CU_OK(cu.event_record(event.get().object, world.stream()));  // after a new record, it is an ordinary event
  CU_OK(cu.event_synchronize(event.get().object));
}

// gpu_check_test.py runs this case, which exceeds its limit.
TEST_CASE("conformance: a case that sleeps for five seconds", "[.]") {
  CHECK(true);
  std::this_thread::sleep_for(std::chrono::seconds(5));
}

TEST_CASE("capture: a stream that is not joined back fails the end") {
  World world;
  const CudaDriver &cu = world.cu;
  const Stream other = world.another_stream();
  const Event fork = world.event();
  std::atomic<int> count{0};
  CU_OK(cu.stream_begin_capture(world.stream(), CaptureMode::relaxed));
  CU_OK(cu.event_record(fork.get().object, world.stream()));
  CU_OK(cu.stream_wait_event(other.get().object, fork.get().object, 0));
  CU_OK(cu.launch_host_func(other.get().object, count_up, &count));
  CuGraph graph = nullptr;
  CU_FAILS(cu.stream_end_capture(world.stream(), &graph), CuStatus::stream_capture_unjoined);
  CHECK(graph == nullptr);
  CU_OK(cu.stream_synchronize(other.get().object));
}

TEST_CASE("capture: synchronising, allocating and the legacy stream are refused, and end it") {
  const int what = GENERATE(0, 1, 2);
  World world;
  const CudaDriver &cu = world.cu;
  CuStream blocking = nullptr;
  CU_OK(cu.stream_create(&blocking, stream_default, 0));
  CU_OK(cu.stream_begin_capture(blocking, CaptureMode::global));
  DevicePointer pointer = 0;
  std::atomic<int> count{0};
  if (what == 0) CU_FAILS(cu.stream_synchronize(blocking), CuStatus::stream_capture_unsupported);
  if (what == 1) CU_FAILS(cu.mem_alloc(&pointer, 4096), CuStatus::stream_capture_unsupported);
  if (what == 2) CU_FAILS(cu.launch_host_func(nullptr, count_up, &count), CuStatus::stream_capture_implicit);
  CaptureStatus status = CaptureStatus::none;
  CU_OK(cu.stream_is_capturing(blocking, &status));
  CHECK(status == CaptureStatus::invalidated);
  CuGraph graph = nullptr;
  CU_FAILS(cu.stream_end_capture(blocking, &graph), CuStatus::stream_capture_invalidated);
  CU_FAILS(cu.stream_begin_capture(nullptr, CaptureMode::global), CuStatus::stream_capture_unsupported);
  CU_OK(cu.stream_destroy(blocking));
}

TEST_CASE("capture: what a thread may do meanwhile is its own choice") {
  World world;
  const CudaDriver &cu = world.cu;
  CU_OK(cu.stream_begin_capture(world.stream(), CaptureMode::global));
  CaptureMode mode = CaptureMode::relaxed;
  CU_OK(cu.thread_exchange_capture_mode(&mode));
  CHECK(mode == CaptureMode::global);
  DevicePointer pointer = 0;
  CU_OK(cu.mem_alloc(&pointer, 4096));
  CU_OK(cu.mem_free(pointer));
  CU_OK(cu.thread_exchange_capture_mode(&mode));
  CuGraph graph = nullptr;
  CU_OK(cu.stream_end_capture(world.stream(), &graph));
  CU_OK(cu.graph_destroy(graph));
}
