// SPDX-License-Identifier: Apache-2.0
// Tests streams, events, stream memory operations, host functions, and the legacy default stream. No driver promises to
// refuse a host function that calls the driver, so that test is in tests/gpu/soft_cuda_test.cpp.
#include <cstdio>

#include "tests/gpu/conformance.h"

using namespace rondo;
using namespace rondo::cuda;
using namespace rondo::cuda::conformance;

namespace {

void count_in_stream(void *argument) {
  static_cast<std::atomic<int> *>(argument)->fetch_add(1, std::memory_order_acq_rel);  // pairs with the tests' loads
}

}  // namespace

TEST_CASE("stream: work runs in order, behind a gate, without the host") {
  World world;
  const CudaDriver &cu = world.cu;
  Gate gate(world);
  std::atomic<int> count{0};
  const DeviceMemory memory = world.memory(4096);
  gate.close(world.stream());
  CU_OK(cu.memset_d8_async(memory.get().object, 7, 4096, world.stream()));
  CU_OK(cu.launch_host_func(world.stream(), count_in_stream, &count));
  CU_FAILS(cu.stream_query(world.stream()), CuStatus::not_ready);
  std::this_thread::sleep_for(a_while);
  CHECK(count.load(std::memory_order_acquire) == 0);
  gate.open();
  CU_OK(cu.stream_synchronize(world.stream()));
  CHECK(count.load(std::memory_order_acquire) == 1);
  CU_OK(cu.stream_query(world.stream()));
}

TEST_CASE("stream: knows its context and flags, and is gone once it was destroyed") {
  World world;
  const CudaDriver &cu = world.cu;
  CuContext context = nullptr;
  CU_OK(cu.stream_get_ctx(world.stream(), &context));
  CHECK(context == world.handle());
  unsigned flags = 9;
  CU_OK(cu.stream_get_flags(world.stream(), &flags));
  CHECK(flags == stream_non_blocking);
  int least = 0;
  int greatest = 0;
  CU_OK(cu.ctx_get_stream_priority_range(&least, &greatest));
  CHECK(least >= greatest);
  const Stream urgent = make_stream(world.context(), greatest).value();
  CU_OK(cu.stream_query(urgent.get().object));
  CuStream wrong = nullptr;
  CU_FAILS(cu.stream_create(&wrong, 77, 0), CuStatus::invalid_value);
}

TEST_CASE("stream: destroyed with work in flight, the work still ends") {
  World world;
  const CudaDriver &cu = world.cu;
  Gate gate(world);
  std::atomic<int> count{0};
  Stream stream = world.another_stream();
  gate.close(stream.get().object);
  CU_OK(cu.launch_host_func(stream.get().object, count_in_stream, &count));
  stream.reset();
  gate.open();
  CHECK(becomes_true([&] { return count.load(std::memory_order_acquire) == 1; }));
}

TEST_CASE("events: order streams, as they were when they were recorded") {
  World world;
  const CudaDriver &cu = world.cu;
  Gate gate(world);
  const Event event = world.event();
  const Stream other = world.another_stream();
  std::atomic<int> count{0};
  CU_OK(cu.event_query(event.get().object));  // never recorded: nothing to wait for
  CU_OK(cu.stream_wait_event(other.get().object, event.get().object, 0));
  gate.close(world.stream());
  CU_OK(cu.event_record(event.get().object, world.stream()));
  CU_OK(cu.stream_wait_event(other.get().object, event.get().object, 0));
  CU_OK(cu.launch_host_func(other.get().object, count_in_stream, &count));
  CU_FAILS(cu.event_query(event.get().object), CuStatus::not_ready);
  std::this_thread::sleep_for(a_while);
  CHECK(count.load(std::memory_order_acquire) == 0);
  gate.open();
  CU_OK(cu.event_synchronize(event.get().object));
  CU_OK(cu.stream_synchronize(other.get().object));
  CHECK(count.load(std::memory_order_acquire) == 1);
}

TEST_CASE("events: time passes between two records, unless they keep no time") {
  World world;
  const CudaDriver &cu = world.cu;
  Gate gate(world);
  const Event from = world.event(event_default);
  const Event to = world.event(event_default);
  const Event timeless = world.event();
  float milliseconds = -1;
  CU_FAILS(cu.event_elapsed_time(&milliseconds, from.get().object, to.get().object), CuStatus::invalid_handle);
  const auto before = std::chrono::steady_clock::now();
  CU_OK(cu.event_record(from.get().object, world.stream()));
  CU_OK(cu.event_record(timeless.get().object, world.stream()));
  CU_OK(cu.event_synchronize(timeless.get().object));  // so that both records have ended, even on a busy machine
  gate.close(world.stream());
  CU_OK(cu.event_record(to.get().object, world.stream()));
  CU_FAILS(cu.event_elapsed_time(&milliseconds, from.get().object, to.get().object), CuStatus::not_ready);
  std::this_thread::sleep_for(a_while);
  gate.open();
  CU_OK(cu.event_synchronize(to.get().object));
  CU_OK(cu.event_elapsed_time(&milliseconds, from.get().object, to.get().object));
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - before;
  CHECK(milliseconds >= 40);
  CHECK(milliseconds < passed.count() + 10);
  CU_FAILS(cu.event_elapsed_time(&milliseconds, timeless.get().object, to.get().object), CuStatus::invalid_handle);
  CuEvent wrong = nullptr;
  CU_FAILS(cu.event_create(&wrong, event_interprocess), CuStatus::invalid_value);
}

TEST_CASE("stream memory operations: each condition is met by what meets it, and writes are seen in order") {
  struct Row {
    unsigned condition;
    uint64_t wanted, before, after;
  };
  const Row row = GENERATE(Row{wait_value_geq, 5, 4, 5}, Row{wait_value_geq, 5, UINT64_MAX, 6},
                           Row{wait_value_eq, 9, 10, 9}, Row{wait_value_and, 6, 9, 4});
  World world;
  const CudaDriver &cu = world.cu;
  const DeviceMemory words = world.memory(128);
  const DevicePointer word = words.get().object;
  const Stream writer = world.another_stream();
  CU_OK(cu.stream_write_value64(world.stream(), word, row.before, write_value_default));
  CU_OK(cu.stream_write_value64(world.stream(), word + 8, 0, write_value_default));
  CU_OK(cu.stream_synchronize(world.stream()));  // otherwise the other stream may write first on a busy machine
  CU_OK(cu.stream_wait_value64(world.stream(), word, row.wanted, row.condition));
  CU_OK(cu.stream_write_value64(world.stream(), word + 8, 1, write_value_default));
  std::this_thread::sleep_for(a_while / 2);
  CU_FAILS(cu.stream_query(world.stream()), CuStatus::not_ready);
  CU_OK(cu.stream_write_value64(writer.get().object, word, row.after, write_value_default));
  CU_OK(cu.stream_wait_value64(writer.get().object, word + 8, 1, wait_value_eq));
  CU_OK(cu.stream_synchronize(writer.get().object));
  CU_OK(cu.stream_synchronize(world.stream()));
}

TEST_CASE("stream memory operations: bad addresses are refused") {
  World world;
  const CudaDriver &cu = world.cu;
  const DeviceMemory words = world.memory(128);
  alignas(8) uint64_t ordinary = 0;
  CU_FAILS(cu.stream_wait_value64(world.stream(), words.get().object + 4, 0, wait_value_geq), CuStatus::invalid_value);
  CU_FAILS(cu.stream_write_value64(world.stream(), reinterpret_cast<DevicePointer>(&ordinary), 0, write_value_default),
           CuStatus::invalid_value);
  CU_FAILS(cu.stream_write_value64(world.stream(), 0, 0, write_value_default), CuStatus::invalid_value);
}

TEST_CASE("legacy default stream: waits for blocking streams and they for it, but not non-blocking ones") {
  World world;
  const CudaDriver &cu = world.cu;
  Gate gate(world);
  std::atomic<int> count{0};
  CuStream blocking = nullptr;
  CU_OK(cu.stream_create(&blocking, stream_default, 0));
  gate.close(blocking);
  CU_OK(cu.launch_host_func(nullptr, count_in_stream, &count));
  CU_OK(cu.launch_host_func(blocking, count_in_stream, &count));
  std::this_thread::sleep_for(a_while);
  CHECK(count.load(std::memory_order_acquire) == 0);
  CU_FAILS(cu.stream_query(nullptr), CuStatus::not_ready);
  CU_OK(cu.memset_d8_async(reinterpret_cast<DevicePointer>(&gate.word()) + 8, 0, 8, world.stream()));
  CU_OK(cu.stream_synchronize(world.stream()));  // this non-blocking stream does not wait for the default stream
  gate.open();
  CU_OK(cu.stream_synchronize(nullptr));
  CU_OK(cu.stream_synchronize(blocking));
  CHECK(count.load(std::memory_order_acquire) == 2);
  CU_OK(cu.stream_destroy(blocking));
}
