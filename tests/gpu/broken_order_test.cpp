// SPDX-License-Identifier: Apache-2.0
// These tests run the kernels' bodies without one barrier or release (RONDO_BREAK_ORDER, broken_order.h). A wrong
// result or a report of ThreadSanitizer must show the omission. The program starts itself, and the child runs the
// hidden test case.
//
// From librondo the program uses only plans, because the child must not run code that still has the barrier or release.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cuda/kernels/reduce.h"
#include "tests/catch.h"
#include "tests/gpu/device_world.h"
#include "tests/gpu/settings.h"
#include "tests/soft_cuda/emulated_block.h"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr ConnectionGeometry geometry{2, 256, 256};
constexpr device::LoadStoreGeometry load_store_geometry{0, 0, 6016, 256};
constexpr uint32_t rank_count = 2;
constexpr uint32_t channel_count = 2;  // the lanes of two channels end at different times

#define RONDO_TEXT_2(x) #x
#define RONDO_TEXT(x) RONDO_TEXT_2(x)
#if defined(RONDO_BREAK_ORDER)
const std::string broken = RONDO_TEXT(RONDO_BREAK_ORDER);
#else
const std::string broken = "none";
#endif

int32_t input(uint32_t rank, uint64_t element) { return static_cast<int32_t>(element * 7 + rank * 1000); }

/// The calls with which a test detects a missing barrier or release. A long all-reduce uses slots again, and its lanes
/// end at different times. A short all-reduce uses no slot twice, so only the data that a rank receives orders the
/// earlier writes of the peer's caller. The short one has five elements, or six, for which one_shot makes a short post.
/// In a broadcast the receiver sends nothing back. So only the head orders its reads before the sender's next writes.
struct Traffic {
  rondo_collective_t collective;
  uint64_t count;
};
constexpr Traffic traffics[] = {{RONDO_ALL_REDUCE, 1500}, {RONDO_ALL_REDUCE, 5}, {RONDO_ALL_REDUCE, 6},
                                {RONDO_BROADCAST, 1500}};

int32_t expected(const Traffic &traffic, uint64_t element) {
  return input(0, element) + (traffic.collective == RONDO_ALL_REDUCE ? input(1, element) : 0);
}

/// Runs the call, and reads the result as the host does after a kernel's end. Returns false if the result is wrong.
bool is_right(const Traffic &traffic, rondo_algorithm_t algorithm, rondo_protocol_t protocol, uint32_t lane_threads,
              rondo_kernel_t runs = RONDO_KERNEL_INTERPRETER, bool shares_buffers = false, bool pushes = false) {
  OperationKey key;
  key.signature = {static_cast<uint32_t>(traffic.collective), RONDO_INT32, RONDO_SUM, 0, traffic.count, 0};
  device::LoadStoreGeometry places = load_store_geometry;
  places.pushes = pushes ? 1 : 0;
  const uint64_t number = pushes ? 2 : 1;  // an even operation is as on several devices
  DeviceWorld world(rank_count, channel_count, geometry, 0, places);
  if (shares_buffers) world.share_buffers();
  world.begin_at(1, 0);  // as after one post, because the first post is never a short one
  std::array<std::vector<int32_t>, rank_count> send, recv;
  std::array<std::unique_ptr<Plan>, rank_count> plans;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    plans[rank] =
        std::move(build_plan(key, {algorithm, protocol, channel_count, 256, runs}, geometry, rank, rank_count)).value();
  }
  std::array<bool, rank_count> right{};
  std::array<int, rank_count> note{};  // each caller stores before its call, and its peer loads after it
  const auto run = [&](uint32_t rank) {
    // Each rank's own thread writes its buffers, so peers see these writes only because the kernels order them.
    for (uint64_t i = 0; i < traffic.count; ++i) send[rank].push_back(input(rank, i));
    recv[rank].assign(traffic.count, -1);
    note[rank] = 1;
    Buffers buffers;
    buffers.send.data = reinterpret_cast<std::byte *>(send[rank].data());
    buffers.recv.data = reinterpret_cast<std::byte *>(recv[rank].data());
    buffers.signature = 5;
    std::thread kernel([&] { world.run(rank, *plans[rank], buffers, number, lane_threads); });
    // The host may read results while the kernel's threads still exist, so only `ended` orders the reads.
    while (world.result(rank).number != number) std::this_thread::yield();
    right[rank] = traffic.collective != RONDO_ALL_REDUCE || note[1 - rank] == 1;
    for (uint64_t i = 0; i < traffic.count; ++i) right[rank] = right[rank] && recv[rank][i] == expected(traffic, i);
    kernel.join();
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
  return right[0] && right[1];
}

struct Child {
  int status;
  std::string output;
};

/// Runs this program again, with the hidden test case. The first race ends the child, which might wait for ever after a
/// race. A time limit, which a busy machine does not reach, ends the child in any case.
Child run_child() {
  std::string self(4096, '\0');
  self.resize(static_cast<size_t>(::readlink("/proc/self/exe", self.data(), self.size())));
  const std::string command =
      "TSAN_OPTIONS=\"$TSAN_OPTIONS halt_on_error=1\" timeout 500 '" + self + "' '[child]' 2>&1";
  Child child{-1, {}};
  std::FILE *const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return child;
  std::array<char, 4096> part;
  while (const size_t bytes = std::fread(part.data(), 1, part.size(), pipe)) child.output.append(part.data(), bytes);
  child.status = ::pclose(pipe);
  return child;
}

constexpr soft_cuda::KernelEntry entries[] = {
    {"rondo_run_simple_int32", soft_cuda::run_emulated<device::GroupSimple, device::GroupReducer<Element<int32_t>>>,
     sizeof(device::DeviceOperations)},
    {"rondo_run_ll_int32", soft_cuda::run_emulated<device::GroupLl, device::GroupReducer<Element<int32_t>>>,
     sizeof(device::DeviceOperations)},
    {"rondo_run_simple_copy", soft_cuda::run_emulated<device::GroupSimple, device::GroupCopier>,
     sizeof(device::DeviceOperations)},
    {"rondo_run_ll_copy", soft_cuda::run_emulated<device::GroupLl, device::GroupCopier>,
     sizeof(device::DeviceOperations)},
    {"rondo_run_load_store_int32_sum",
     soft_cuda::run_load_store_emulated<device::RankReduction<Element<int32_t>, SumOp>>,
     sizeof(device::LoadStoreOperation)},
    {"rondo_run_one_shot_int32", soft_cuda::run_load_store_emulated<device::RankReducer<Element<int32_t>>, true>,
     sizeof(device::LoadStoreOperation)},
    {"rondo_run_load_store_copy", soft_cuda::run_load_store_emulated<device::RankCopy>,
     sizeof(device::LoadStoreOperation)},
    {nullptr, nullptr, 0}};

}  // namespace

extern "C" const soft_cuda::KernelEntry *soft_cuda_kernels() { return entries; }

TEST_CASE("order of the kernels: what the child runs", "[.][child]") {
  bool right = true;
  for (uint32_t round = 0; round < 5; ++round)
    for (const Traffic &traffic : traffics)
      for (const uint32_t lane_threads : {4u, 1u}) {
        for (const auto protocol : {RONDO_PROTOCOL_SIMPLE, RONDO_PROTOCOL_LL})
          right = is_right(traffic, RONDO_ALGORITHM_RING, protocol, lane_threads) && right;
        for (const bool pushes : {false, true})
          if (traffic.collective == RONDO_ALL_REDUCE)
            right = is_right(traffic, RONDO_ALGORITHM_ONE_SHOT, RONDO_PROTOCOL_AUTO, lane_threads,
                             RONDO_KERNEL_LOAD_STORE, false, pushes) &&
                    right;
        for (const auto &[shares_buffers, pushes] : {std::pair(false, false), {false, true}, {true, false}})
          right = is_right(traffic, RONDO_ALGORITHM_TWO_SHOT, RONDO_PROTOCOL_AUTO, lane_threads,
                           RONDO_KERNEL_LOAD_STORE, shares_buffers, pushes) &&
                  right;
      }
  if (!right) std::puts("a result is wrong");
  CHECK(right);
}

TEST_CASE("order of the kernels: with a barrier or release taken out, a wrong result or a race is reported") {
  const Child child = run_child();
  CAPTURE(broken, child.status, child.output);
  const bool complained = child.output.find("ThreadSanitizer: data race") != std::string::npos ||
                          child.output.find("a result is wrong") != std::string::npos;
  if (broken == "none") {
    CHECK(child.status == 0);
    CHECK_FALSE(complained);
  } else if (under_thread_sanitizer) {
    CHECK(child.status != 0);
    CHECK(complained);
  } else {
    std::printf("skipped: order of the kernels without %s: needs ThreadSanitizer\n", broken.c_str());
  }
}
