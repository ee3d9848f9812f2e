// SPDX-License-Identifier: Apache-2.0
// These tests run all-reduce on several devices that reach each other. Ranks are threads. If peers can read all ranks'
// buffers, the kernel uses the buffers. Otherwise it uses the ranks' places. The tag "[peers]" needs devices that reach
// each other, "[apart]" needs devices without atomics between them, and "[refused]" needs a driver that refuses peer
// access once.
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cuda/executors/residency.h"
#include "cuda/executors/peer_loss.h"
#include "tests/gpu/collective_buffers.h"
#include "tests/sanitized.h"

using namespace rondo_test;
using namespace rondo::cuda;

namespace {

struct Call {
  size_t count = 0;
  rondo_type_t type = RONDO_FLOAT32;
  rondo_op_t op = RONDO_SUM;
};

/// Elements whose sum depends on the order in which they are added.
std::vector<std::byte> elements_of(const Call &call, uint64_t seed) {
  if (call.type == RONDO_FLOAT32) return bytes_of(fractions(seed, call.count));
  QuickNumbers numbers(seed);
  if (rondo_type_size(call.type) == 1) {  // any integer, or a float8 with an exponent below 8
    const auto mask = static_cast<uint8_t>(call.type == RONDO_INT8 ? 0xFF : 0x8F);
    std::vector<std::byte> elements(call.count);
    std::byte *const all = elements.data();
    for (size_t i = 0; i < call.count; ++i) all[i] = static_cast<std::byte>(numbers.next() >> 24 & mask);
    return elements;
  }
  std::vector<uint16_t> elements(call.count);  // bfloat16 of any sign with a magnitude of about 1
  uint16_t *const all = elements.data();
  for (size_t i = 0; i < call.count; ++i) all[i] = static_cast<uint16_t>(0x3F00u + (numbers.next() >> 16 & 0x80FFu));
  return bytes_of(elements);
}

/// A send and a recv buffer of each rank. `hidden` has a bit for each rank whose recv peers cannot read.
struct CallBuffers {
  CallBuffers(const DeviceRanks &of, const Call &of_call, uint32_t hidden = 0) : group(of), call(of_call) {
    for (int rank = 0; rank < group.ranks.size(); ++rank) {
      const auto bytes = elements_of(call, static_cast<uint64_t>(rank));
      send.emplace_back(group.world_of(rank), bytes, false);
      recv.emplace_back(group.world_of(rank), std::vector<std::byte>(bytes.size()), (hidden >> rank & 1) != 0);
    }
  }
  void fill(uint64_t seed) const {
    for (size_t rank = 0; rank < send.size(); ++rank) send[rank].write(elements_of(call, seed + rank));
  }
  [[nodiscard]] rondo_status_t enqueue(int rank, bool in_place = false) const {
    const auto at = static_cast<size_t>(rank);
    return rondo_all_reduce((in_place ? recv : send)[at].pointer(), recv[at].pointer(), call.count, call.type, call.op,
                            group.ranks[rank], group.stream(rank));
  }
  void enqueue_all(bool in_place = false) const {  // one thread makes all calls, because none waits
    for (int rank = 0; rank < group.ranks.size(); ++rank) REQUIRE(enqueue(rank, in_place) == RONDO_OK);
  }
  void check(const std::vector<std::byte> &expected) const {
    for (const DeviceBuffer &buffer : recv) CHECK((buffer.read() == expected));  // the brackets prevent printing
  }

  const DeviceRanks &group;
  Call call;
  std::vector<DeviceBuffer> send, recv;
};

/// Returns the result of load_store on host memory after `times` calls, all in place except the first.
std::vector<std::byte> on_host(const Call &call, int rank_count, uint64_t seed = 0, int times = 1) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.algorithm = RONDO_ALGORITHM_TWO_SHOT;
  config.kernel = RONDO_KERNEL_LOAD_STORE;
  Ranks host(rank_count, config);
  std::vector<std::vector<std::byte>> memory;
  for (int rank = 0; rank < rank_count; ++rank)
    memory.push_back(elements_of(call, seed + static_cast<uint64_t>(rank)));
  for (int time = 0; time < times; ++time)
    REQUIRE(all_ok(host.run([&](int rank, rondo_comm_t comm) {
      std::byte *const pointer = memory[static_cast<size_t>(rank)].data();
      return rondo_all_reduce(pointer, pointer, call.count, call.type, call.op, comm, nullptr);
    })));
  return memory[0];
}

const std::vector<CuDevice> arrangements[] = {{0, 1}, {0, 1, 1}, {1, 0, 1, 0}, {0, 1, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7}};
constexpr size_t large = 20'003;  // larger than the largest one_shot, and not divisible into equal blocks

}  // namespace

TEST_CASE("peers: an all-reduce is by load_store, above 32 KiB in the ranks' buffers", "[peers]") {
  if (!has_peers(2)) return;
  const DeviceRanks group(on_devices({0, 1}));
  for (const size_t count : {size_t{1}, size_t{8192}, size_t{8193}, size_t{10'000'000}}) {
    const rondo_plan_info_t plan = plan_of(group.ranks[0], count);
    CHECK(plan.kernel == RONDO_KERNEL_LOAD_STORE);
    CHECK(plan.algorithm == (count <= 8192 ? RONDO_ALGORITHM_ONE_SHOT : RONDO_ALGORITHM_TWO_SHOT));
  }
  rondo_config_t simple = on_device();
  simple.protocol = RONDO_PROTOCOL_SIMPLE;
  const DeviceRanks other(on_devices({0, 1}, simple));
  CHECK(plan_of(other.ranks[0], 100'000).protocol == RONDO_PROTOCOL_SIMPLE);
}

TEST_CASE("peers: a sum is bit for bit that of the host, whichever ranks' buffers can be read, in and out of place",
          "[peers]") {
  auto share = GateShare::in_every_build("sums that peers read");
  for (const std::vector<CuDevice> &devices : arrangements) {
    if (!has_peers(devices)) continue;
    const DeviceRanks group(on_devices(devices));
    const auto rank_count = static_cast<int>(devices.size());
    share.skip();  // the next devices have other calls in this quarter
    for (const Call &call : {Call{large}, Call{9001, RONDO_BFLOAT16, RONDO_AVG}, Call{200'001, RONDO_BFLOAT16},
                             Call{70'001, RONDO_INT8}, Call{70'001, RONDO_FLOAT8_E4M3},
                             Call{70'001, RONDO_FLOAT8_E5M2, RONDO_MAX}}) {
      if (!share.has_next()) continue;
      const auto once = on_host(call, rank_count), twice = on_host(call, rank_count, 0, 2);
      for (const uint32_t hidden : {0u, 1u << (rank_count - 1), (1u << rank_count) - 1}) {
        CAPTURE(rank_count, call.count, hidden);
        const AccessCheck checked;
        const CallBuffers buffers(group, call, hidden);
        buffers.enqueue_all();
        group.complete();
        buffers.check(once);
        buffers.enqueue_all(true);
        group.complete();
        buffers.check(twice);
      }
    }
  }
}

TEST_CASE("peers: calls whose buffers can be read or not come in any order, each rank as fast as it can", "[peers]") {
  if (!has_peers(2)) return;
  DeviceRanks group(on_devices({0, 1, 1}));
  constexpr int call_count = 24;
  std::mt19937_64 random(7);
  std::vector<CallBuffers> buffers;
  std::map<size_t, std::vector<std::byte>> expected;
  for (int number = 0; number < call_count; ++number) {
    const size_t count = std::vector<size_t>{0, 100, 8193, large, 70'000}[random() % 5];
    buffers.emplace_back(group, Call{count}, static_cast<uint32_t>(random() % 3 == 0 ? random() % 8 : 0));
    if (!expected.contains(count)) expected[count] = on_host(Call{count}, 3);
  }
  CHECK(all_ok(group.ranks.run([&](int rank, rondo_comm_t) {
    for (const CallBuffers &each : buffers)
      if (const auto status = each.enqueue(rank); status != RONDO_OK) return status;
    return RONDO_OK;
  })));
  group.complete();
  for (const CallBuffers &each : buffers) {
    CAPTURE(each.call.count);
    if (each.call.count > 8192) each.check(expected[each.call.count]);  // shorter calls add in another order
  }
}

TEST_CASE("peers: captured calls are replayed among others, whether buffers can be read or not", "[peers]") {
  if (!has_peers(2)) return;
  for (const uint32_t hidden : {0u, 2u}) {
    CAPTURE(hidden);
    const DeviceRanks group(on_devices({0, 1}));
    const CallBuffers buffers(group, Call{large}, hidden), others(group, Call{50'000}, 2 - hidden);
    std::vector<GraphExec> graphs;
    for (int rank = 0; rank < 2; ++rank)
      graphs.push_back(captured(group.world_of(rank), group.stream(rank), [&] {
        REQUIRE(buffers.enqueue(rank) == RONDO_OK);
        REQUIRE(buffers.enqueue(rank, true) == RONDO_OK);
      }));
    for (uint64_t round = 0; round < 6; ++round) {
      buffers.fill(100 * round);
      if (round % 2 == 1) others.enqueue_all();
      for (int rank = 0; rank < 2; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
      group.complete();
      buffers.check(on_host(buffers.call, 2, 100 * round, 2));
    }
  }
}

TEST_CASE("peers: an abort ends kernels that wait, ranks that disagree are told, one that does not come is named",
          "[peers]") {
  if (!has_peers(2)) return;
  for (const uint32_t hidden : {0u, 2u}) {
    CAPTURE(hidden);
    {
      const DeviceRanks group(on_devices({0, 1}));
      const CallBuffers buffers(group, Call{large}, hidden);
      REQUIRE(buffers.enqueue(0) == RONDO_OK);  // rank 1 never calls
      std::this_thread::sleep_for(conformance::a_while);
      CHECK(rondo_comm_abort(group.ranks[1]) == RONDO_OK);
      group.synchronize();
      for (int rank = 0; rank < 2; ++rank) CHECK(failure_of(group.ranks[rank]).status == RONDO_ERROR_ABORTED);
    }
    {
      const DeviceRanks group(on_devices({0, 1}));
      const CallBuffers buffers(group, Call{large}, hidden), other(group, Call{large - 1}, hidden);
      REQUIRE(buffers.enqueue(0) == RONDO_OK);
      REQUIRE(other.enqueue(1) == RONDO_OK);
      group.synchronize();
      for (int rank = 0; rank < 2; ++rank) CHECK(failure_of(group.ranks[rank]).status == RONDO_ERROR_MISMATCH);
      other.check(std::vector<std::byte>((large - 1) * sizeof(float)));  // no rank wrote to a buffer
    }
    rondo_config_t hasty = on_device();
    hasty.timeout_ms = 300;
    const DeviceRanks late(on_devices({0, 1}, hasty));
    const CallBuffers alone(late, Call{large}, hidden);
    REQUIRE(alone.enqueue(1) == RONDO_OK);
    late.synchronize();
    const rondo_error_t error = failure_of(late.ranks[1]);
    CHECK(error.status == RONDO_ERROR_TIMEOUT);
    CHECK(error.peer == 0);
  }
}

TEST_CASE("peers: a device is lost after three seconds and a thousand looks, whichever comes later", "[peers]") {
  constexpr uint64_t begin_ns = 7'000'000'000;
  PeerLoss slow, stopped;
  for (uint64_t look = 0; look < 2 * lost_looks; ++look) REQUIRE_FALSE(slow.look(1, begin_ns));
  CHECK_FALSE(slow.look(1, begin_ns + lost_patience_ns - 1));
  CHECK(slow.look(1, begin_ns + lost_patience_ns));
  // A kernel that begins later, after other work, waits as long as the first kernel.
  constexpr uint64_t next_ns = begin_ns + 2 * lost_patience_ns;
  for (uint64_t look = 0; look < 2 * lost_looks; ++look) REQUIRE_FALSE(slow.look(2, next_ns));
  CHECK(slow.look(2, next_ns + lost_patience_ns));
  REQUIRE_FALSE(stopped.look(1, begin_ns));  // this process stops here, and continues an hour later
  for (uint64_t look = 2; look < lost_looks; ++look) REQUIRE_FALSE(stopped.look(1, begin_ns + 3'600'000'000'000));
  CHECK(stopped.look(1, begin_ns + 3'600'000'000'000));
}

TEST_CASE("peers: where a device is lost with its kernel, the kernels of others end three seconds after the failure",
          "[peers]") {
  auto *const lose =
      soft_cuda_function<void(uint32_t, uint32_t)>(conformance::loaded_driver().library, "soft_cuda_lose_device");
  auto *const waiting =
      soft_cuda_function<uint64_t(uint32_t)>(conformance::loaded_driver().library, "soft_cuda_waiting_blocks");
  if (acts_apart() || !has_peers(2) || lose == nullptr) return;
  REQUIRE(waiting != nullptr);
  const DeviceRanks group(on_devices({0, 1}));
  const CallBuffers buffers(group, Call{large});
  const uint32_t block_count = plan_of(group.ranks[1], large).channels;
  lose(1, 1);
  struct Found {  // finds the device even if a check fails, since the ranks would never end otherwise
    decltype(lose) tell;
    ~Found() { tell(1, 0); }
  } const found{lose};
  REQUIRE(buffers.enqueue(1) == RONDO_OK);
  REQUIRE(conformance::becomes_true([&] { return waiting(1) == block_count; }));  // stopped at the first gate
  REQUIRE(buffers.enqueue(0) == RONDO_OK);  // all arrive, but rank 1 never leaves
  const auto ended = [&] {
    return group.world.cu.stream_query(static_cast<CuStream>(group.stream(0))) == CuStatus::success;
  };
  CHECK(conformance::becomes_true([&] { return waiting(0) == block_count; }));  // at the last gate
  std::this_thread::sleep_for(conformance::a_while);
  CHECK_FALSE(ended());
  const auto aborted = std::chrono::steady_clock::now();
  CHECK(rondo_comm_abort(group.ranks[0]) == RONDO_OK);
  const auto since = [&] { return std::chrono::steady_clock::now() - aborted; };
  while (!ended() && since() < std::chrono::seconds(60)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(ended());
  CHECK(since() >= std::chrono::milliseconds(2'900));
  CHECK(failure_of(group.ranks[0]).status == RONDO_ERROR_ABORTED);
  lose(1, 0);
  group.synchronize();
}

TEST_CASE("peers: blocks are as many as the fullest device has, on all ranks", "[peers]") {
  if (acts_apart() || !has_peers(2) || !in_software()) return;  // the driver in software has 64 blocks a device
  const DeviceRanks two(on_devices({0, 1})), three(on_devices({0, 1, 1}));
  for (int rank = 0; rank < 2; ++rank) CHECK(plan_of(two.ranks[rank], 10'000'000).channels == 32);
  // The first group left 32 blocks of each device. On device 1, 29 are kept for 29 more ranks, and two ranks share 3.
  for (int rank = 0; rank < 3; ++rank) CHECK(plan_of(three.ranks[rank], 10'000'000).channels == 1);
  const CallBuffers buffers(three, Call{large});
  buffers.enqueue_all();
  three.complete();
  buffers.check(on_host(buffers.call, 3));
}

TEST_CASE("peers: devices without atomics between them go on as before, and so do all where one is refused access",
          "[.][apart][refused]") {
  if (!has_devices(2)) return;
  const DeviceRanks group(on_devices({0, 1, 1}));
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(plan_of(group.ranks[rank], 10'000'000).kernel == RONDO_KERNEL_INTERPRETER);
    REQUIRE(plan_of(group.ranks[rank], large).algorithm == RONDO_ALGORITHM_TWO_SHOT);  // as on_host()
  }
  const AccessCheck checked;
  const CallBuffers buffers(group, Call{large});
  buffers.enqueue_all();
  group.complete();
  buffers.check(on_host(Call{large}, 3));
}

TEST_CASE("load_store: a device serves 128 ranks of processes, however many others begin at once", "[peers]") {
  CudaDevice device;
  device.uuid.bytes[0] = 79;
  const rondo::Settings settings;
  const rondo::GroupInfo group;
  PlacedRequest request{{{0, 2, settings, group}}};
  request.executor = RONDO_DEVICE_EXECUTOR_KERNEL;
  request.shares_regions = true;
  BlockBudget budget;
  budget.multiprocessors = 132;
  budget.blocks = 264;
  const auto fitting = [&](uint32_t processes) {  // returns how many communicators fit
    request.neighbours.in_others = processes - 1;
    request.mps = processes > 1;
    std::vector<BlockClaim> claims;
    for (uint32_t number = 0; number < 300; ++number) {
      request.key_prefix = std::to_string(number);
      const auto joined = ClaimGroup::join(device, "it", request, budget, wanted_channels(request, budget, true));
      if (!joined.ok()) return number;
      CHECK(joined.value()->blocks() <= (processes > 1 ? 4 : 32));
      claims.push_back(joined.value()->take(0));
    }
    return 300u;
  };
  CHECK(fitting(1) >= 128);
  CHECK(fitting(8) >= 16);  // no process knows the claims of other processes
  CHECK(claimed_blocks(device.uuid) == 0);
  request.mps = false;
  request.neighbours.in_others = 0;
  const auto joined = ClaimGroup::join(device, "it", request, budget, wanted_channels(request, budget, true));
  REQUIRE(joined.ok());
  CHECK(joined.value()->blocks() == 32);
  BlockClaim claim = joined.value()->take(0);
  shrink_claim(claim, 8);  // as if a peer had fewer blocks
  CHECK(claimed_blocks(device.uuid) == 8);
}
