// SPDX-License-Identifier: Apache-2.0
// These tests cover the driver's devices, contexts, memory, pointers and copies.
#include <cstdio>
#include <cstring>

#include "tests/gpu/conformance.h"

using namespace rondo;
using namespace rondo::cuda;
using namespace rondo::cuda::conformance;

namespace {

std::vector<unsigned char> read_back(const World &world, DevicePointer from, size_t bytes) {
  std::vector<unsigned char> host(bytes);
  CU_OK(world.cu.memcpy_dtoh_async(host.data(), from, bytes, world.stream()));
  CU_OK(world.cu.stream_synchronize(world.stream()));
  return host;
}

}  // namespace

TEST_CASE("driver: devices tell their names and sizes") {
  const CudaDriver &cu = loaded_driver();
  CHECK(cu.version >= driver_version_min);
  const auto devices = cuda_devices(cu);
  REQUIRE(devices.ok());
  REQUIRE_FALSE(devices.value().empty());
  for (const CudaDevice &device : devices.value()) {
    CHECK_FALSE(device.name.empty());
    CHECK(device.memory_bytes >= (1u << 20));
    CHECK(device.compute_capability >= 50);
    CHECK(device.multiprocessor_count > 0);
    CHECK(device.pci_bus_id.size() == 12);
    CHECK(device_attribute(cu, device.ordinal, DeviceAttribute::unified_addressing).value() == 1);
  }
  CuDevice device = 0;
  CU_FAILS(cu.device_get(&device, static_cast<int>(devices.value().size())), CuStatus::invalid_device);
  CU_FAILS(cu.device_get(&device, -1), CuStatus::invalid_device);
  CHECK(cuda_error(cu, CuStatus::out_of_memory, "a test").message.find("a test: CUDA_ERROR_OUT_OF_MEMORY (2)") == 0);
  CHECK(cuda_error(cu, CuStatus::out_of_memory, "").status == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(cuda_error(cu, static_cast<CuStatus>(12345), "x").message == "x: CUDA error (12345): unknown to this driver");
}

TEST_CASE("primary context: it is one per device, counts its references, and guards leave no trace") {
  const CudaDriver &cu = loaded_driver();
  CuContext current = nullptr;
  CU_OK(cu.ctx_get_current(&current));
  REQUIRE(current == nullptr);
  DevicePointer none = 0;
  CU_FAILS(cu.mem_alloc(&none, 64), CuStatus::invalid_context);
  {
    const PrimaryContext first = retain_primary_context(cu, 0).value();
    const PrimaryContext second = retain_primary_context(cu, 0).value();
    CHECK(first.get().context == second.get().context);
    {
      const ContextGuard outer(cu, first.get().context);
      const ContextGuard inner(cu, first.get().context);
      CU_OK(cu.ctx_get_current(&current));
      CHECK(current == first.get().context);
      CuDevice device = -1;
      CU_OK(cu.ctx_get_device(&device));
      CHECK(device == 0);
      unsigned flags = 0;
      int active = 0;
      CU_OK(cu.primary_ctx_get_state(0, &flags, &active));
      CHECK(active == 1);
      CU_OK(cu.ctx_synchronize());
    }
    CU_OK(cu.ctx_get_current(&current));
    CHECK(current == nullptr);
  }
  CU_FAILS(cu.ctx_pop_current(&current), CuStatus::invalid_context);
}

TEST_CASE("device memory: is allocated, counted, found by its addresses and freed once") {
  World world;
  const CudaDriver &cu = world.cu;
  size_t free_before = 0;
  size_t total = 0;
  CU_OK(cu.mem_get_info(&free_before, &total));
  CHECK(free_before <= total);
  constexpr size_t bytes = size_t{8} << 20;
  DevicePointer pointer = 0;
  CU_OK(cu.mem_alloc(&pointer, bytes));
  CHECK(pointer % 256 == 0);
  DevicePointer base = 0;
  size_t range_bytes = 0;
  CU_OK(cu.mem_get_address_range(&base, &range_bytes, pointer + 4097));
  CHECK(base == pointer);
  CHECK(range_bytes == bytes);
  CU_OK(cu.mem_free(pointer));
  CU_FAILS(cu.mem_free(pointer), CuStatus::invalid_value);
  size_t free_after = 0;
  CU_OK(cu.mem_get_info(&free_after, &total));
  CHECK(free_after == free_before);
  CU_OK(cu.mem_free(0));
  CU_FAILS(cu.mem_alloc(&pointer, 0), CuStatus::invalid_value);
  CU_FAILS(cu.mem_alloc(&pointer, total + (size_t{1} << 30)), CuStatus::out_of_memory);
}

TEST_CASE("pointer attributes: device, pinned, registered and ordinary memory are told apart") {
  World world;
  const CudaDriver &cu = world.cu;
  const DeviceMemory device = world.memory(1000);
  const HostMemory pinned = world.pinned(1000);
  std::vector<char> ordinary(100'000);
  char *const page = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(ordinary.data()) + 4095) / 4096 * 4096);
  const auto *const on_device = reinterpret_cast<const char *>(device.get().object);
  const PointerInfo known = pointer_info(cu, on_device + 999).value();
  CHECK(known.type == MemoryType::device);
  CHECK(known.device == 0);
  CHECK(known.range_start == device.get().object);
  CHECK(known.range_bytes == 1000);
  CHECK(known.legacy_ipc_capable);
  CHECK(known.buffer_id == pointer_info(cu, on_device).value().buffer_id);
  CHECK(pointer_info(cu, pinned.get().object).value().type == MemoryType::host);
  CHECK(pointer_info(cu, page).value().type == MemoryType::unknown);
  CHECK(pointer_info(cu, page).value().device == -1);
  CHECK(pointer_info(cu, nullptr).value().type == MemoryType::unknown);
  CU_OK(cu.mem_host_register(page, 8192, host_register_portable | host_register_device_map));
  CHECK(pointer_info(cu, page + 5000).value().type == MemoryType::host);
  DevicePointer seen = 0;
  CU_OK(cu.mem_host_get_device_pointer(&seen, page, 0));
  CHECK(seen != 0);
  CU_FAILS(cu.mem_host_register(page, 8192, 0), CuStatus::host_memory_already_registered);
  CU_OK(cu.mem_host_unregister(page));
  CU_FAILS(cu.mem_host_unregister(page), CuStatus::host_memory_not_registered);
  CHECK(pointer_info(cu, page).value().type == MemoryType::unknown);
  CU_FAILS(cu.mem_host_get_device_pointer(&seen, page, 0), CuStatus::invalid_value);
}

TEST_CASE("copies: between device, pinned and ordinary memory, each way, at odd offsets") {
  World world;
  const CudaDriver &cu = world.cu;
  constexpr size_t bytes = 100'003;
  const DeviceMemory one = world.memory(bytes + 16);
  const DeviceMemory two = world.memory(bytes + 16);
  const HostMemory pinned = world.pinned(bytes + 16);
  std::vector<unsigned char> wanted(bytes);
  for (size_t i = 0; i < bytes; ++i) wanted[i] = static_cast<unsigned char>(i * 7 + 3);
  for (const size_t offset : {size_t{0}, size_t{1}, size_t{13}}) {
    const DevicePointer first = one.get().object + offset;
    const DevicePointer second = two.get().object + 16 - offset;
    auto *const host = static_cast<unsigned char *>(pinned.get().object) + offset;
    CU_OK(cu.memcpy_htod_async(first, wanted.data(), bytes, world.stream()));
    CU_OK(cu.memcpy_dtod_async(second, first, bytes, world.stream()));
    CU_OK(cu.memcpy_async(reinterpret_cast<DevicePointer>(host), second, bytes, world.stream()));
    CU_OK(cu.memset_d8_async(first, 0xEE, bytes, world.stream()));
    CU_OK(cu.stream_synchronize(world.stream()));
    CHECK(std::memcmp(host, wanted.data(), bytes) == 0);
    CHECK(read_back(world, first, bytes) == std::vector<unsigned char>(bytes, 0xEE));
    CU_OK(cu.memcpy_async(first, reinterpret_cast<DevicePointer>(host), bytes, world.stream()));
    CHECK(read_back(world, first, bytes) == wanted);
  }
  CU_OK(cu.memset_d32_async(one.get().object, 0x01020304, 3, world.stream()));
  CHECK(read_back(world, one.get().object, 5) == std::vector<unsigned char>{4, 3, 2, 1, 4});
  CU_OK(cu.memcpy_dtod_async(one.get().object, two.get().object, 0, world.stream()));
}

TEST_CASE("copies: what runs out of its allocation, or is no device memory, is refused") {
  World world;
  const CudaDriver &cu = world.cu;
  const DeviceMemory memory = world.memory(size_t{2} << 20);
  const DevicePointer base = memory.get().object;
  std::vector<char> host(64);
  const auto ordinary = reinterpret_cast<DevicePointer>(host.data());
  CU_FAILS(cu.memcpy_htod_async(ordinary, host.data(), 64, world.stream()), CuStatus::invalid_value);
  CU_FAILS(cu.memset_d8_async(ordinary, 0, 64, world.stream()), CuStatus::invalid_value);
  CU_FAILS(cu.memset_d8_async(base, 0, size_t{1} << 40, world.stream()), CuStatus::invalid_value);
  CU_FAILS(cu.memset_d32_async(base + 2, 0, 4, world.stream()), CuStatus::invalid_value);
  CU_OK(cu.stream_synchronize(world.stream()));
}
