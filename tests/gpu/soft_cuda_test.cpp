// SPDX-License-Identifier: Apache-2.0
// These tests check behaviour of real GPUs that the driver in software imitates: limits, false dependencies, implicit
// synchronisation, injected errors, and stale handles. The driver is made small, so that a test reaches its limits.
// Each tag has its own environment.
#include <cstdio>

#include "tests/gpu/conformance.h"

using namespace rondo;
using namespace rondo::cuda;
using namespace rondo::cuda::conformance;

namespace {

void nothing(void *) {}

uint64_t *pointer_to(const DeviceMemory &memory) { return reinterpret_cast<uint64_t *>(memory.get().object); }

/// A driver call on another thread, in the world's context. It reports whether the call has returned.
class Call {
 public:
  template <class Body>
  Call(const World &world, const Body &body)
      : thread_([this, &world, body] {
          const ContextGuard guard(world.cu, world.handle());
          body();
          returned_.store(true, std::memory_order_release);  // pairs with returned()
        }) {}
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;
  ~Call() { thread_.join(); }
  [[nodiscard]] bool returned() const { return returned_.load(std::memory_order_acquire); }  // pairs with the thread's

 private:
  std::atomic<bool> returned_{false};
  std::thread thread_;
};

constexpr auto launch_failed = CuStatus::launch_failed;

/// A driver call that a host function makes, and the result of the call.
struct Forbidden {
  const CudaDriver *cu = nullptr;
  CuStream stream = nullptr;
  std::atomic<int> status{-1};
};

void call_driver(void *argument) {
  auto &self = *static_cast<Forbidden *>(argument);
  // release; pairs with the test's load
  self.status.store(static_cast<int>(self.cu->stream_query(self.stream)), std::memory_order_release);
}

}  // namespace

// This case needs SOFT_CUDA_RESIDENT_BLOCKS=4.
TEST_CASE("soft cuda: blocks beyond the resident ones wait, and none is preempted", "[blocks]") {
  World world;
  const auto kernels = test_kernels(world);
  REQUIRE(kernels.has_value());
  CHECK(device_attribute(world.cu, 0, DeviceAttribute::multiprocessor_count).value() == 4);
  const DeviceMemory arrived = world.memory(64);
  CU_OK(world.cu.memset_d8_async(arrived.get().object, 0, 64, world.stream()));
  CU_OK(
      launch(world, *kernels, "test_barrier", 4, world.stream(), soft_cuda::BarrierParameters{pointer_to(arrived), 0}));
  CU_OK(world.cu.stream_synchronize(world.stream()));
  // A fifth block would never run while four blocks wait for it.
  CU_OK(world.cu.memset_d8_async(arrived.get().object, 0, 64, world.stream()));
  CU_OK(world.cu.stream_synchronize(world.stream()));  // the host reads the count below
  CU_OK(
      launch(world, *kernels, "test_barrier", 5, world.stream(), soft_cuda::BarrierParameters{pointer_to(arrived), 0}));
  std::atomic_ref count(*pointer_to(arrived));
  CHECK(becomes_true([&] { return count.load(std::memory_order_acquire) == 4; }));  // pairs with the kernel's
  std::this_thread::sleep_for(a_while);
  CU_FAILS(world.cu.stream_query(world.stream()), CuStatus::not_ready);
  count.fetch_add(1, std::memory_order_acq_rel);  // pairs with the kernel's loads
  CU_OK(world.cu.stream_synchronize(world.stream()));
  LaunchAttribute cooperative{LaunchAttributeId::cooperative, {}, {}};
  cooperative.value.cooperative = 1;
  LaunchConfig config;
  config.grid_x = 5;
  config.stream = world.stream();
  config.attributes = &cooperative;
  config.attribute_count = 1;
  soft_cuda::BarrierParameters parameters{};
  void *arguments[] = {&parameters};
  const CuFunction meet = find_function(*kernels, "test_barrier").value();
  CHECK(static_cast<int>(world.cu.launch_kernel_ex(&config, meet, arguments, nullptr)) == 720);
}

TEST_CASE("soft cuda: places go to who came first, and blocks that begin later meet those before", "[blocks]") {
  World world;
  auto *const waiting = soft_cuda_function<uint64_t(uint32_t)>(world.cu.library, "soft_cuda_waiting_launches");
  REQUIRE(waiting != nullptr);
  const auto kernels = test_kernels(world);
  REQUIRE(kernels.has_value());
  const Stream second = world.another_stream(), third = world.another_stream();
  const DeviceMemory holds = world.memory(64), meets = world.memory(64), waits = world.memory(64);
  for (const DeviceMemory *memory : {&holds, &meets, &waits})
    CU_OK(world.cu.memset_d8_async(memory->get().object, 0, 64, world.stream()));
  // The first launch of a kernel waits for all work on the device.
  CU_OK(launch(world, *kernels, "test_await", 1, world.stream(), soft_cuda::AwaitParameters{pointer_to(waits), 0}));
  CU_OK(launch(world, *kernels, "test_barrier", 1, world.stream(), soft_cuda::BarrierParameters{pointer_to(meets), 0}));
  CU_OK(world.cu.memset_d8_async(meets.get().object, 0, 64, world.stream()));
  CU_OK(world.cu.stream_synchronize(world.stream()));
  const auto word = [](const DeviceMemory &memory) { return std::atomic_ref(*pointer_to(memory)); };
  const auto arrived = [&](const DeviceMemory &memory, uint64_t count) {  // acquire; pairs with the kernels'
    return becomes_true([&] { return word(memory).load(std::memory_order_acquire) == count; });
  };
  CU_OK(launch(world, *kernels, "test_barrier", 2, world.stream(), soft_cuda::BarrierParameters{pointer_to(holds), 1}));
  CHECK(arrived(holds, 2));
  CU_OK(launch(world, *kernels, "test_barrier", 4, second.get().object,
               soft_cuda::BarrierParameters{pointer_to(meets), 0}));
  CHECK(arrived(meets, 2));  // two places are left, and the third block waits in one
  CHECK(becomes_true([&] { return waiting(0) == 1; }));
  CU_OK(launch(world, *kernels, "test_await", 1, third.get().object, soft_cuda::AwaitParameters{pointer_to(waits), 1}));
  CHECK(becomes_true([&] { return waiting(0) == 2; }));
  word(holds).fetch_add(1, std::memory_order_acq_rel);  // pairs with the kernel's loads
  CHECK(arrived(meets, 3));
  CU_OK(world.cu.stream_synchronize(world.stream()));
  CHECK(becomes_true([&] { return waiting(0) == 1; }));  // only the fourth block waits
  std::this_thread::sleep_for(a_while);
  CU_FAILS(world.cu.stream_query(second.get().object), CuStatus::not_ready);  // the third launch has the fourth place
  word(waits).store(1, std::memory_order_release);                            // pairs with the kernel's loads
  CU_OK(world.cu.stream_synchronize(third.get().object));
  CU_OK(world.cu.stream_synchronize(second.get().object));
}

// This case needs SOFT_CUDA_QUEUES=1.
TEST_CASE("soft cuda: what waits in a hardware queue blocks the other streams that share it", "[queues]") {
  World world;
  const Stream other = world.another_stream();
  Gate gate(world);
  gate.close(world.stream());
  CU_OK(world.cu.launch_host_func(other.get().object, nothing, nullptr));
  std::this_thread::sleep_for(a_while);
  CU_FAILS(world.cu.stream_query(other.get().object), CuStatus::not_ready);
  gate.open();
  CU_OK(world.cu.stream_synchronize(other.get().object));
}

// This case needs SOFT_CUDA_LAUNCH_QUEUE=4.
TEST_CASE("soft cuda: a stream whose launch queue is full makes the host wait", "[launch queue]") {
  World world;
  Gate gate(world);
  gate.close(world.stream());
  for (int i = 1; i < 4; ++i) CU_OK(world.cu.launch_host_func(world.stream(), nothing, nullptr));
  const Call call(world, [&] { (void)world.cu.launch_host_func(world.stream(), nothing, nullptr); });
  std::this_thread::sleep_for(a_while);
  CHECK_FALSE(call.returned());
  gate.open();
  CHECK(becomes_true([&] { return call.returned(); }));
}

TEST_CASE("soft cuda: allocation, release and lazy loading wait for what runs", "[plain]") {
  const int what = GENERATE(0, 1, 2, 3);
  World world;
  const auto kernels = test_kernels(world);
  Gate gate(world);
  DeviceMemory memory = world.memory(4096);
  gate.close(world.stream());
  const Call call(world, [&] {
    DevicePointer pointer = 0;
    void *host = nullptr;
    if (what == 0) (void)world.cu.mem_alloc(&pointer, 4096);
    if (what == 0) (void)world.cu.mem_free(pointer);
    if (what == 1) memory.reset();
    if (what == 2) (void)find_function(*kernels, "test_fill");
    if (what == 3) (void)world.cu.mem_host_alloc(&host, 4096, 0);
    if (what == 3) (void)world.cu.mem_free_host(host);
  });
  std::this_thread::sleep_for(a_while);
  CHECK_FALSE(call.returned());
  gate.open();
  CHECK(becomes_true([&] { return call.returned(); }));
}

TEST_CASE("soft cuda: host functions may not call the driver", "[plain]") {
  World world;
  Forbidden asked;
  asked.cu = &world.cu;
  asked.stream = world.stream();
  CU_OK(world.cu.launch_host_func(world.stream(), call_driver, &asked));
  CU_OK(world.cu.stream_synchronize(world.stream()));
  CHECK(asked.status.load(std::memory_order_acquire) == static_cast<int>(CuStatus::not_permitted));
}

TEST_CASE("soft cuda: what was destroyed is known as such", "[plain]") {
  World world;
  const CudaDriver &cu = world.cu;
  Stream stream = world.another_stream();
  Event event = world.event();
  const CuStream old_stream = stream.get().object;
  const CuEvent old_event = event.get().object;
  stream.reset();
  event.reset();
  CU_FAILS(cu.stream_query(old_stream), CuStatus::invalid_handle);
  CU_FAILS(cu.stream_destroy(old_stream), CuStatus::invalid_handle);
  CU_FAILS(cu.event_record(old_event, world.stream()), CuStatus::invalid_handle);
  CU_FAILS(cu.event_destroy(old_event), CuStatus::invalid_handle);
  DeviceMemory memory = world.memory(4096);
  const DevicePointer old_memory = memory.get().object;
  memory.reset();
  CU_FAILS(cu.memset_d8_async(old_memory, 0, 1, world.stream()), CuStatus::invalid_value);
  CU_FAILS(cu.stream_query(nullptr), CuStatus::success);
}

TEST_CASE("soft cuda: a context that was destroyed stays unusable, and takes what it had with it", "[plain]") {
  const CudaDriver &cu = loaded_driver();
  const SoftCudaLive before = live_counts().value();
  CuContext context = nullptr;
  CU_OK(cu.primary_ctx_retain(&context, 0));
  CU_OK(cu.ctx_push_current(context));
  DevicePointer pointer = 0;
  CuStream stream = nullptr;
  CU_OK(cu.mem_alloc(&pointer, 4096));
  CU_OK(cu.stream_create(&stream, stream_non_blocking, 0));
  CHECK(live_counts()->streams == before.streams + 1);
  CU_OK(cu.primary_ctx_release(0));
  CU_FAILS(cu.mem_alloc(&pointer, 4096), CuStatus::context_is_destroyed);
  CU_FAILS(cu.ctx_push_current(context), CuStatus::context_is_destroyed);
  CU_FAILS(cu.stream_query(stream), CuStatus::invalid_handle);
  CU_OK(cu.ctx_pop_current(&context));
  CU_FAILS(cu.primary_ctx_release(0), CuStatus::invalid_context);
  CHECK((live_counts() == before));
}

TEST_CASE("soft cuda: a branch of a graph that waits for a word does not hold up the others", "[plain]") {
  World world;
  const CudaDriver &cu = world.cu;
  const Stream other = world.another_stream();
  const Event fork = world.event(), join = world.event();
  Gate gate(world), passed(world);
  CU_OK(cu.stream_begin_capture(world.stream(), CaptureMode::thread_local_));
  CU_OK(cu.event_record(fork.get().object, world.stream()));
  CU_OK(cu.stream_wait_event(other.get().object, fork.get().object, 0));
  gate.close(world.stream());
  CU_OK(cu.stream_write_value64(other.get().object, reinterpret_cast<DevicePointer>(&passed.word()), 7,
                                write_value_default));
  CU_OK(cu.event_record(join.get().object, other.get().object));
  CU_OK(cu.stream_wait_event(world.stream(), join.get().object, 0));
  const GraphExec exec = world.end_capture(world.stream());
  CU_OK(cu.graph_launch(exec.get().object, world.stream()));
  // acquire; pairs with the release of the graph's write
  CHECK(becomes_true([&] { return std::atomic_ref(passed.word()).load(std::memory_order_acquire) == 7; }));
  CU_FAILS(cu.stream_query(world.stream()), CuStatus::not_ready);
  gate.open();
  CU_OK(cu.stream_synchronize(world.stream()));
}

TEST_CASE("soft cuda: the first launch of a graph that was not uploaded waits for what runs", "[plain]") {
  World world;
  const CudaDriver &cu = world.cu;
  const Stream other = world.another_stream();
  CuGraph raw = nullptr;
  CU_OK(cu.stream_begin_capture(other.get().object, CaptureMode::thread_local_));
  CU_OK(cu.launch_host_func(other.get().object, nothing, nullptr));
  CU_OK(cu.stream_end_capture(other.get().object, &raw));
  const Graph graph({&cu, world.handle(), raw});
  for (const bool uploaded : {false, true}) {
    CAPTURE(uploaded);
    CuGraphExec made = nullptr;
    CU_OK(cu.graph_instantiate(&made, raw, 0));
    const GraphExec exec({&cu, world.handle(), made});
    if (uploaded) CU_OK(cu.graph_upload(made, other.get().object));
    Gate gate(world);
    gate.close(world.stream());
    const Call first(world, [&] { CU_OK(cu.graph_launch(made, other.get().object)); });
    if (uploaded) {
      CHECK(becomes_true([&] { return first.returned(); }));
    } else {
      std::this_thread::sleep_for(a_while);
      CHECK_FALSE(first.returned());
    }
    gate.open();
    CHECK(becomes_true([&] { return first.returned(); }));
    CU_OK(cu.graph_launch(made, other.get().object));
    CU_OK(cu.ctx_synchronize());
  }
}

TEST_CASE("soft cuda: to ask for an event of a capture ends that capture, and is no better behind it", "[plain]") {
  const bool query = GENERATE(true, false);
  World world;
  const CudaDriver &cu = world.cu;
  const Event event = world.event();
  CU_OK(cu.stream_begin_capture(world.stream(), CaptureMode::relaxed));
  CU_OK(cu.event_record(event.get().object, world.stream()));
  CU_FAILS(query ? cu.event_query(event.get().object) : cu.event_synchronize(event.get().object),
           CuStatus::captured_event);
  CuGraph graph = nullptr;
  CU_FAILS(cu.stream_end_capture(world.stream(), &graph), CuStatus::stream_capture_invalidated);
  CU_FAILS(query ? cu.event_query(event.get().object) : cu.event_synchronize(event.get().object),
           CuStatus::invalid_value);
}

// This case needs SOFT_CUDA_CAPTURE_WAITS=off.
TEST_CASE("soft cuda: a driver that captures no stream memory operations ends the capture", "[capture waits]") {
  const bool waits = GENERATE(false, true);
  World world;
  const CudaDriver &cu = world.cu;
  const DeviceMemory word = world.memory(64);
  CU_OK(cu.stream_begin_capture(world.stream(), CaptureMode::relaxed));
  CU_FAILS(waits ? cu.stream_wait_value64(world.stream(), word.get().object, 0, wait_value_geq)
                 : cu.stream_write_value64(world.stream(), word.get().object, 0, write_value_default),
           CuStatus::stream_capture_unsupported);
  CuGraph graph = nullptr;
  CU_FAILS(cu.stream_end_capture(world.stream(), &graph), CuStatus::stream_capture_invalidated);
  CU_OK(cu.stream_write_value64(world.stream(), word.get().object, 1, write_value_default));
  CU_OK(cu.stream_synchronize(world.stream()));
}

// This case needs SOFT_CUDA_FAULTS=seed=3;cuMemAlloc#2=2;work=1:719.
TEST_CASE("soft cuda: injected errors come where they were ordered, stick, and leave nothing behind", "[faults]") {
  for (int round = 0; round < 2; ++round) {  // a new context has no error
    World world;
    const CudaDriver &cu = world.cu;
    const DeviceMemory memory = world.memory(4096);
    if (round == 0) {
      const auto second = allocate_device_memory(world.context(), 4096);
      REQUIRE_FALSE(second.ok());
      CHECK(second.error().status == RONDO_ERROR_OUT_OF_RESOURCES);
      CHECK(second.error().message == "cuMemAlloc of 4096 bytes: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
    }
    const Event event = world.event();
    CU_OK(cu.memset_d8_async(memory.get().object, 1, 4096, world.stream()));
    CU_FAILS(cu.stream_synchronize(world.stream()), launch_failed);
    CU_FAILS(cu.event_record(event.get().object, world.stream()), launch_failed);
    CU_FAILS(cu.stream_query(world.stream()), launch_failed);
    CU_FAILS(cu.ctx_synchronize(), launch_failed);
    CHECK_FALSE(allocate_device_memory(world.context(), 64).ok());
  }
}

// This case needs SOFT_CUDA_DEVICES=2.
TEST_CASE("soft cuda: two devices copy between each other and do not mix their objects", "[devices]") {
  World here(0);
  const DeviceMemory source = here.memory(4096);
  const Event event = here.event();
  CU_OK(here.cu.memset_d8_async(source.get().object, 9, 4096, here.stream()));
  CU_OK(here.cu.event_record(event.get().object, here.stream()));
  World there(1);
  const CudaDriver &cu = there.cu;
  const DeviceMemory target = there.memory(4096);
  CHECK(pointer_info(cu, reinterpret_cast<void *>(target.get().object)).value().device == 1);
  int can_access = 0;
  CU_OK(cu.device_can_access_peer(&can_access, 0, 1));
  CHECK(can_access == 1);
  CU_OK(cu.device_get_p2p_attribute(&can_access, PeerAttribute::access_supported, 0, 1));
  CHECK(can_access == 1);
  CHECK(has_native_atomics(cu, 0, 1));
  CU_FAILS(cu.device_get_p2p_attribute(&can_access, PeerAttribute::access_supported, 1, 1), CuStatus::invalid_device);
  CU_OK(cu.ctx_enable_peer_access(here.handle(), 0));
  CU_FAILS(cu.ctx_enable_peer_access(here.handle(), 0), CuStatus::peer_access_already_enabled);
  CU_FAILS(cu.ctx_enable_peer_access(there.handle(), 0), CuStatus::invalid_context);
  CU_OK(cu.stream_wait_event(there.stream(), event.get().object, 0));
  CU_OK(cu.memcpy_async(target.get().object, source.get().object, 4096, there.stream()));
  unsigned char last = 0;
  CU_OK(cu.memcpy_dtoh_async(&last, target.get().object + 4095, 1, there.stream()));
  CHECK(last == 9);
  CU_FAILS(cu.event_record(event.get().object, there.stream()), CuStatus::invalid_handle);
  CU_OK(cu.ctx_disable_peer_access(here.handle()));
  CU_FAILS(cu.ctx_disable_peer_access(here.handle()), CuStatus::peer_access_not_enabled);
}
