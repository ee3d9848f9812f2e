// SPDX-License-Identifier: Apache-2.0
// These tests check that the driver in software refuses peer access where the settings exclude it. They also check that
// a process sees only its visible devices. Each tag has its own environment.
#include <utility>

#include "cuda/transport/shared_memory.h"
#include "tests/gpu/conformance.h"

using namespace rondo;
using namespace rondo::cuda;
using namespace rondo::cuda::conformance;

namespace {

/// Returns whether the device of `of` maps memory of the device of `owner`.
bool can_map(const World &of, const World &owner) {
  const auto memory = SharedMemory::allocate(owner.context(), 4096, DeviceHandles::vmm);
  if (!memory.ok()) FAIL(memory.error().message);
  auto descriptor = memory.value()->descriptor();
  if (!descriptor.ok()) FAIL(descriptor.error().message);
  return open_vmm(of.context(), std::move(descriptor).value(), memory.value()->bytes()).ok();
}

}  // namespace

// This case needs SOFT_CUDA_DEVICES=2, SOFT_CUDA_PEERS=off.
TEST_CASE("soft cuda: devices without peers say so, and refuse access", "[no peers]") {
  World here(0), there(1);
  const CudaDriver &cu = there.cu;
  int value = 1;
  CU_OK(cu.device_can_access_peer(&value, 0, 1));
  CHECK(value == 0);
  for (const auto attribute : {PeerAttribute::access_supported, PeerAttribute::native_atomics_supported}) {
    value = 1;
    CU_OK(cu.device_get_p2p_attribute(&value, attribute, 0, 1));
    CHECK(value == 0);
  }
  CHECK_FALSE(has_native_atomics(cu, 0, 1));
  CU_FAILS(cu.ctx_enable_peer_access(here.handle(), 0), CuStatus::peer_access_unsupported);
  CHECK_FALSE(can_map(there, here));
  CHECK(can_map(here, here));
}

// This case needs SOFT_CUDA_DEVICES=3, SOFT_CUDA_PEERS=0-1.
TEST_CASE("soft cuda: some devices reach each other, others do not", "[some peers]") {
  World first(0), second(1), third(2);
  const CudaDriver &cu = first.cu;
  const auto can_access = [&](CuDevice from, CuDevice to) {
    int value = -1;
    CU_OK(cu.device_can_access_peer(&value, from, to));
    return value == 1;
  };
  CHECK((can_access(0, 1) && can_access(1, 0)));
  CHECK_FALSE((can_access(0, 2) || can_access(2, 0) || can_access(1, 2) || can_access(2, 1)));
  CHECK((can_map(first, second) && can_map(second, first)));
  CHECK_FALSE((can_map(first, third) || can_map(third, first) || can_map(second, third)));
}

// This case needs SOFT_CUDA_DEVICES=3, SOFT_CUDA_VISIBLE=2,0.
TEST_CASE("soft cuda: a process sees the devices that it is to see, in its order", "[hidden]") {
  World first(0);
  const auto devices = cuda_devices(first.cu).value();
  REQUIRE(devices.size() == 2);
  CHECK(devices[0].pci_bus_id == "0000:03:00.0");
  CHECK(devices[1].pci_bus_id == "0000:01:00.0");
  CHECK(devices[0].uuid.bytes[15] == 2);
  CHECK(devices[1].uuid.bytes[15] == 0);
}
