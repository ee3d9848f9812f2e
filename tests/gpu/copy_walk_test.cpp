// SPDX-License-Identifier: Apache-2.0
// These tests cover the decisions of the copy-engine executor before it calls the driver. They check in which order one
// stream does the slices of a plan, and for which words it waits. Other cases check when this executor is chosen.
#include <map>
#include <vector>

#include "cuda/driver/budget.h"
#include "cuda/executors/choose.h"
#include "cuda/executors/connection_shape.h"
#include "cuda/executors/copy_walk.h"
#include "cuda/executors/load_store_shape.h"
#include "cuda/executors/reach.h"
#include "cuda/transport/flags.h"
#include "src/plan/schedule.h"
#include "tests/catch.h"
#include "tests/sanitized.h"

using namespace rondo;
using namespace rondo::cuda;

namespace {

/// All ranks of a plan, each with one stream and counted slots.
class Streams {
 public:
  Streams(const OperationKey &key, const PlanChoice &shape, const ConnectionGeometry &geometry, uint32_t rank_count)
      : slot_count_(geometry.slot_count) {
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      plans_.push_back(std::move(build_plan(key, shape, geometry, rank, rank_count)).value());
      auto &slices = slices_.emplace_back();
      REQUIRE(walk_plan(*plans_.back(), [&](const CopySlice &slice) {
                slices.push_back(slice);
                return Result<void>();
              }).ok());
    }
    next_.resize(rank_count);
  }

  /// Runs each rank in turn as far as it gets. Returns whether all ranks have ended and no slot is full.
  bool end() {
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t rank = 0; rank < slices_.size(); ++rank)
        for (; next_[rank] < slices_[rank].size() && advance(rank, slices_[rank][next_[rank]]); ++next_[rank])
          moved = true;
    }
    for (uint32_t rank = 0; rank < slices_.size(); ++rank)
      if (next_[rank] != slices_[rank].size()) return false;
    for (const auto &[link, full] : full_)
      if (full != 0) return false;
    return true;
  }

 private:
  struct Link {
    uint32_t channel, from, to;
    auto operator<=>(const Link &) const = default;
  };

  bool advance(uint32_t rank, const CopySlice &slice) {
    std::vector<Link> in, out;
    for (const uint16_t link : slice.step->recv_link)
      if ((slice.step->flags & step_recv) != 0 && link != no_link)
        in.push_back({slice.channel, slice.schedule->peers[link], rank});
    for (const uint16_t link : slice.step->send_link)
      if ((slice.step->flags & step_send) != 0 && link != no_link)
        out.push_back({slice.channel, rank, slice.schedule->peers[link]});
    for (const Link &link : in)
      if (full_[link] == 0) return false;
    for (const Link &link : out)
      if (full_[link] == slot_count_) return false;
    for (const Link &link : out) ++full_[link];
    for (const Link &link : in) --full_[link];
    return true;
  }

  uint32_t slot_count_;
  std::vector<std::unique_ptr<Plan>> plans_;
  std::vector<std::vector<CopySlice>> slices_;
  std::vector<size_t> next_;
  std::map<Link, uint32_t> full_;
};

}  // namespace

TEST_CASE("copy walk: one stream a rank does every algorithm to its end, with as few slots as a chunk allows") {
  rondo_test::GateShare share("walks of algorithms by copies");
  for (const Algorithm &algorithm : algorithms())
    for (const rondo_collective_t collective :
         {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER, RONDO_BROADCAST, RONDO_REDUCE}) {
      if (!algorithm.supports(collective)) continue;
      for (uint32_t rank_count = 1; rank_count <= 9; ++rank_count)
        for (const uint32_t slot_count : {2u, 4u})
          for (const uint64_t count : {1u, 100u, 3000u}) {
            if (!share.has_next()) continue;
            const ConnectionGeometry geometry{slot_count, 64, 0};
            OperationKey key;
            key.signature = {static_cast<uint32_t>(collective), RONDO_INT32, RONDO_SUM, rank_count - 1, count, 0};
            if (collective == RONDO_REDUCE_SCATTER || collective == RONDO_ALL_GATHER)
              for (uint32_t rank = 0; rank < rank_count; ++rank) key.blocks.push_back({rank * count, count});
            CAPTURE(rondo_algorithm_string(algorithm.id), rondo_collective_string(collective), rank_count, slot_count,
                    count);
            const uint64_t chunk_bytes = 64 * (slot_count - 1);
            Streams streams(key, {algorithm.id, RONDO_PROTOCOL_SIMPLE, 2, chunk_bytes}, geometry, rank_count);
            CHECK(streams.end());
          }
    }
}

TEST_CASE("copy flags: a signature is met by its equal alone, and every wait by the value that releases it") {
  const auto passes = [](uint64_t word, uint64_t value) { return static_cast<int64_t>(word - value) >= 0; };
  const auto meets = [&](SlotSignature written, SlotSignature expected) {
    return passes(written.value, expected.value) && passes(written.opposite, expected.opposite);
  };
  const uint64_t last = (uint64_t{1} << 29) - 1;
  for (const uint64_t number : {uint64_t{1}, uint64_t{2}, uint64_t{1'000'000'007}, last, UINT64_MAX})
    for (const uint32_t fingerprint : {0u, 1u, 0x12345u, 0xFFFFFFFFu}) {
      const auto expected = SlotSignature::of(number, fingerprint);
      CHECK(meets(expected, expected));
      CHECK_FALSE(meets(SlotSignature::of(number, fingerprint ^ 1), expected));
      CHECK_FALSE(meets(SlotSignature::of(number, fingerprint ^ 0x80000000), expected));
      CHECK_FALSE(meets(SlotSignature::of(number - 1, fingerprint), expected));
      CHECK_FALSE(meets(SlotSignature{}, expected));
      CHECK(meets({flags_released, flags_released}, expected));
    }
  CHECK(passes(flags_released, (uint64_t{1} << 62) - 1));
}

namespace {

PlacementInfo info(unsigned char device, uint64_t process, uint32_t mps = 0) {
  PlacementInfo made;
  made.device.bytes[0] = device;
  made.process = {process, 1};
  made.mps = mps;
  made.can_copy = 1;
  return made;
}

}  // namespace

TEST_CASE("residency: blocks of threads count, and those of other processes that come by MPS") {
  const auto count = [](const std::vector<PlacementInfo> &infos) {
    const Neighbours found = neighbours_of(0, infos);
    CHECK(found.position == 0);
    return std::pair(found.in_process, found.in_others);
  };
  CHECK(count({info(1, 10)}) == std::pair(1u, 0u));
  CHECK(count({info(1, 10), info(1, 10), info(2, 10)}) == std::pair(2u, 0u));
  CHECK(count({info(1, 10), info(1, 11), info(2, 12)}) == std::pair(1u, 0u));
  CHECK(count({info(1, 10, 1), info(1, 11, 1), info(1, 12)}) == std::pair(1u, 1u));
  const Neighbours second = neighbours_of(2, std::vector<PlacementInfo>{info(2, 10), info(1, 10), info(1, 10)});
  CHECK(second.first == 1);
  CHECK(second.position == 1);
}

TEST_CASE("residency: what is claimed on a device is refused to others until it is given back") {
  DeviceUuid device{}, other{};
  device.bytes[0] = 77;
  other.bytes[0] = 78;
  BlockBudget budget;
  budget.blocks = budget.multiprocessors = 8;
  const auto claim = [&](const DeviceUuid &on, uint64_t ranks, uint64_t least, uint64_t most) {
    return claim_blocks(on, budget, {std::vector<uint64_t>(ranks, 1), least, most});
  };
  auto first = claim(device, 2, 3, 3);
  REQUIRE(first.ok());
  REQUIRE(first.value().size() == 2);
  const auto refused = claim(device, 3, 1, 4);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().status == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(refused.error().message == "3 ranks need 3 blocks, 1 each, but of the 8 that can be resident at once 6 belong "
                                   "to 2 ranks of other communicators");
  CHECK(claimed_blocks(device) == 6);
  CHECK(claim(device, 2, 1, 4).ok());  // the claim is given back at once
  CHECK(claim(other, 1, 8, 8).ok());
  shrink_claim(first.value()[0], 1);
  CHECK(claimed_blocks(device) == 4);
  first.value().clear();
  CHECK(claim(device, 8, 1, 1).ok());
  CHECK(claimed_blocks(device) == 0);
}

TEST_CASE("peers: the other devices of one process") {
  const auto on = [](uint32_t ordinal, uint64_t process = 10) {
    PlacementInfo made = info(static_cast<unsigned char>(100 + ordinal), process);
    made.ordinal = ordinal;
    return made;
  };
  const auto peers = [](uint32_t rank, const std::vector<PlacementInfo> &infos) {
    return peer_devices_of(rank, infos);
  };
  const std::vector<PlacementInfo> several{on(0), on(2), on(1), on(2)};
  CHECK(peers(0, several) == std::vector<CuDevice>{1, 2});
  CHECK(peers(1, several) == std::vector<CuDevice>{0, 1});
  CHECK(peers(0, {on(0), on(0)}).empty());      // both ranks have one device
  CHECK(peers(0, {on(0), on(1, 11)}).empty());  // the ranks are in two processes
  std::vector<PlacementInfo> hosts = several;
  hosts[3].node = 1;
  for (uint32_t rank = 0; rank < 4; ++rank) CHECK(peers(rank, hosts).empty());
}

TEST_CASE("reach: the less of what two ranks say holds, and one that does not know believes the other") {
  constexpr auto unknown = PeerReach::unknown, none = PeerReach::none, access = PeerReach::access,
                 atomics = PeerReach::atomics;
  const std::vector<PlacementInfo> infos{info(1, 10), info(2, 11), info(3, 12)};
  CHECK(has_several_devices(infos));
  CHECK_FALSE(has_several_devices(std::vector{info(1, 10), info(1, 11)}));
  CHECK(ReachTable().all_do_atomics());
  const ReachTable all(3, std::vector(9, atomics));
  CHECK((all.all_do_atomics() && all.pairs_apart(infos).empty()));
  const ReachTable some(3, {atomics, unknown, access,  //
                            access, atomics, unknown,  //
                            atomics, unknown, atomics});
  CHECK(some.between(0, 1) == access);
  CHECK(some.between(2, 0) == access);
  CHECK(some.between(1, 2) == none);  // no process knows this pair
  CHECK_FALSE(some.all_do_atomics());
  CHECK(some.pairs_apart(infos) == std::vector<std::pair<uint32_t, uint32_t>>{{1, 2}});
  // A pair is apart even if only one direction is missing.
  const ReachTable off(2, {atomics, none, atomics, atomics});
  CHECK(off.pairs_apart(std::vector{info(1, 10), info(2, 10)}).size() == 1);
  std::vector<PlacementInfo> hosts{info(1, 10), info(2, 10)};
  hosts[1].node = 1;
  CHECK_FALSE(has_several_devices(hosts));
  CHECK(off.pairs_apart(hosts).empty());
}

TEST_CASE("slots: those in the host's memory are smaller") {
  Settings settings;
  settings.channels = 4;  // so that is_frugal() is false
  const GroupInfo group;
  PlacedRequest request{{{0, 8, settings, group}}};
  const auto bytes = [&] {
    const ConnectionGeometry slots = choose_slots(request, 4, BufferPlace::device);
    return uint64_t{8} * 4 * slots.slot_count * slots.slot_bytes;
  };
  CHECK(bytes() > host_slot_memory_bytes);
  request.pairs_apart = {{0, 1}};
  CHECK(bytes() == host_slot_memory_bytes);
}

TEST_CASE("load_store: ranks whose devices do not reach each other have none, whatever was measured") {
  const Settings settings;
  const GroupInfo group;
  PlacedRequest request{{{0, 2, settings, group}}};
  request.executor = RONDO_DEVICE_EXECUTOR_KERNEL;
  request.measured_load_store = true;
  CHECK(wants_load_store(request));
  request.pairs_apart = {{0, 1}};
  CHECK_FALSE(wants_load_store(request));
}

TEST_CASE("memory: descriptors where all devices have them, unless asked for otherwise") {
  std::vector<PlacementInfo> infos{info(1, 10), info(2, 11)};
  std::vector<PlacementInfo> threads{info(1, 10), info(1, 10)};
  for (PlacementInfo &it : threads) it.can_vmm = 1;
  CHECK(choose_handles(DeviceHandles::automatic, threads).value() == DeviceHandles::ipc);
  CHECK(choose_handles(DeviceHandles::vmm, threads).value() == DeviceHandles::vmm);
  infos[0].can_vmm = 1;
  CHECK(choose_handles(DeviceHandles::automatic, infos).value() == DeviceHandles::ipc);
  const auto refused = choose_handles(DeviceHandles::vmm, infos);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("rank 1") != std::string::npos);
  infos[1].can_vmm = 1;
  CHECK(choose_handles(DeviceHandles::automatic, infos).value() == DeviceHandles::vmm);
  CHECK(choose_handles(DeviceHandles::ipc, infos).value() == DeviceHandles::ipc);
}

TEST_CASE("executor: copies are chosen where processes take turns on a device, unless one is asked for") {
  const auto choice = [](const std::vector<PlacementInfo> &infos) {
    return choose_executor(RONDO_DEVICE_EXECUTOR_AUTO, infos);
  };
  const std::vector<PlacementInfo> shared{info(1, 10), info(1, 11)};
  CHECK(choice({info(1, 10)}) == RONDO_DEVICE_EXECUTOR_KERNEL);
  CHECK(choice({info(1, 10), info(1, 10)}) == RONDO_DEVICE_EXECUTOR_KERNEL);  // ranks are threads
  CHECK(choice({info(1, 10), info(2, 11)}) == RONDO_DEVICE_EXECUTOR_KERNEL);  // each process has a device
  CHECK(choice(shared) == RONDO_DEVICE_EXECUTOR_COPY);
  CHECK(choice({info(1, 10), info(2, 11), info(2, 12)}) == RONDO_DEVICE_EXECUTOR_COPY);
  CHECK(choice({info(1, 10, 1), info(1, 11, 1)}) == RONDO_DEVICE_EXECUTOR_KERNEL);
  CHECK(choice({info(1, 10, 1), info(1, 11)}) == RONDO_DEVICE_EXECUTOR_COPY);
  std::vector<PlacementInfo> unable = shared;
  unable[1].can_copy = 0;
  CHECK(choice(unable) == RONDO_DEVICE_EXECUTOR_KERNEL);
  CHECK(choose_executor(RONDO_DEVICE_EXECUTOR_KERNEL, shared) == RONDO_DEVICE_EXECUTOR_KERNEL);
  CHECK(choose_executor(RONDO_DEVICE_EXECUTOR_COPY, unable) == RONDO_DEVICE_EXECUTOR_COPY);
}
