// SPDX-License-Identifier: Apache-2.0
// These tests prepare a device's memory for networks. The driver in software sets the properties of the device. Each
// tag has its own environment.
#include "cuda/transport/rdma_memory.h"
#include "tests/gpu/conformance.h"

using namespace rondo;
using namespace rondo::cuda;
using namespace rondo::cuda::conformance;

namespace {

constexpr size_t wanted_bytes = 100'000;

std::shared_ptr<const RdmaMemory> allocated(const World &world) {
  auto memory = allocate_rdma_memory(world.cu.library, 0, wanted_bytes);
  if (!memory.ok()) FAIL(memory.error().message);
  return std::move(memory).value();
}

uint64_t flush_count(const World &world) {
  return soft_cuda_function<uint64_t()>(world.cu.library, "soft_cuda_flush_count")();
}

bool has_room(const RdmaMemory &memory) {
  const auto first = reinterpret_cast<uintptr_t>(memory.bytes().data());
  return first % 4096 == 0 && memory.bytes().size() % 4096 == 0 && memory.bytes().size() >= wanted_bytes;
}

std::string why_not(const World &world) {
  const auto refused = allocate_rdma_memory(world.cu.library, 0, wanted_bytes);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().status == RONDO_ERROR_UNSUPPORTED);
  return refused.error().message;
}

}  // namespace

// This case needs SOFT_CUDA_GPUDIRECT=flush, SOFT_CUDA_DMABUF=on, SOFT_CUDA_HOST_READS=on.
TEST_CASE("rdma memory: a device whose writes the host flushes is flushed, with its context current", "[rdma flush]") {
  const World world;
  const auto memory = allocated(world);
  CHECK(has_room(*memory));
  CHECK(memory->is_in_reach_of_host());
  CHECK(memory->dmabuf() >= 0);
  const uint64_t before = flush_count(world);
  bool flushed = false;
  std::thread([&] { memory->run([&] { flushed = memory->flush().ok(); }); }).join();
  CHECK(flushed);
  CHECK(flush_count(world) == before + 1);
  std::thread([&] { flushed = memory->flush().ok(); }).join();  // that thread has no current context
  CHECK_FALSE(flushed);
}

// This case needs SOFT_CUDA_GPUDIRECT=ordered.
TEST_CASE("rdma memory: a device whose writes are in order is not flushed", "[rdma ordered]") {
  const World world;
  const auto memory = allocated(world);
  CHECK(has_room(*memory));
  CHECK_FALSE(memory->is_in_reach_of_host());
  CHECK(memory->dmabuf() == -1);
  memory->run([&] { CHECK(memory->flush().ok()); });
  CHECK(flush_count(world) == 0);
}

// This case needs SOFT_CUDA_GPUDIRECT=unordered.
TEST_CASE("rdma memory: a device whose writes are in no order and cannot be flushed is refused", "[rdma unordered]") {
  const World world;
  CHECK(why_not(world).find("does not order what network cards write") != std::string::npos);
}

TEST_CASE("rdma memory: a device that lets no network card reach its memory is refused", "[plain]") {
  const World world;
  CHECK(why_not(world).find("does not support GPUDirect RDMA") != std::string::npos);
}
