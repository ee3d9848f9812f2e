// SPDX-License-Identifier: Apache-2.0
// These tests check which words load_store awaits after the first gate, in shared buffers and in buffers that peers
// cannot read. The test acts as rank 1, and stores the words that the kernel of rank 1 would store.
#include <atomic>
#include <chrono>
#include <optional>

#include "tests/gpu/emulated_draw.h"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr uint32_t call_signature = 9;

/// Rank 0 of two ranks, with one channel.
struct TwoRanks {
  explicit TwoRanks(uint64_t count) {
    EmulatedCase it;
    it.algorithm = RONDO_ALGORITHM_TWO_SHOT;
    it.kernel = RONDO_KERNEL_LOAD_STORE;
    it.shares_buffers = true;
    it.count = count;
    Random random(count);
    own.emplace(make_case_rank(it, drawn_geometry, 0, random));
    world.emplace(2, 1, drawn_geometry, 0, load_store_geometry_for(it));
    world->share_buffers();
  }
  /// Acts as rank 1 when it arrives: stores where its buffers are, and whether peers can read them.
  void arrive(bool can_be_read = false) {
    device::LoadStoreWindow &window = world->place(1).window(0);
    memory::store_relaxed(window.send, reinterpret_cast<uint64_t>(peer_send.data()));
    memory::store_relaxed(window.recv, reinterpret_cast<uint64_t>(peer_recv.data()));
    memory::store_relaxed(window.signature, device::load_store_window(call_signature, can_be_read));
    (void)memory::add<memory::Site::load_store_arrive>(world->place(0).arrived(0), 1);
  }
  void leave(bool had_part = true) {
    const uint64_t arrival = had_part ? 1 : 1 + device::gate_failed;
    (void)memory::add<memory::Site::load_store_leave>(world->place(0).left(0), arrival);
  }
  /// Acts as rank 1 after its work: stores counters as if it had done its part of every chunk.
  void reduce_all() {
    const device::LoadStorePlace place = world->place(1);
    memory::store_release(place.counter(place.geometry.contributed_at(0), 1),
                          device::load_store_counter(1000, call_signature));
    memory::store_release(place.counter(place.geometry.reduced_at(0), 1), device::load_store_counter(1000, 0));
  }
  void run() {
    Buffers buffers = own->buffers(1, false);
    buffers.signature = call_signature;
    world->run(0, *own->plan, buffers, 1, 2);
    ended.store(true);
  }

  std::vector<std::byte> peer_send = std::vector<std::byte>(4096), peer_recv = peer_send;
  std::optional<CaseRank> own;
  std::optional<DeviceWorld> world;
  std::atomic<bool> ended = false;
};

}  // namespace

TEST_CASE("emulated load_store: a rank without elements stays until all have read its window") {
  TwoRanks ranks(0);
  ranks.arrive();
  std::thread kernel([&] { ranks.run(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(ranks.ended.load());
  ranks.leave();
  kernel.join();
  CHECK(ranks.world->result(0).verdict == 0);
}

TEST_CASE("emulated load_store: the host knows that a rank waits behind the first gate, and so looks for deaths") {
  TwoRanks ranks(100);
  ranks.arrive(true);  // then rank 1 dies
  std::thread kernel([&] { ranks.run(); });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (ranks.world->result(0).running == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(ranks.world->result(0).running == 1);
  ranks.world->abort(0, device::abort_lost_peers(1));
  kernel.join();
}

TEST_CASE("emulated load_store: where buffers cannot be read, a rank does not wait for ever for one that gave up") {
  TwoRanks ranks(100);
  ranks.arrive();
  ranks.reduce_all();  // then rank 1 gives up
  ranks.world->abort(0);
  ranks.run();
  CHECK(device::outcome_in(ranks.world->result(0).verdict) == device::Outcome::stopped);
}

TEST_CASE("emulated load_store: a rank behind the first gate waits for one that is late, not for one that is lost") {
  TwoRanks ranks(100);
  ranks.arrive(true);
  ranks.world->abort(0);  // some rank failed, and the peer may still touch this rank's buffers
  SECTION("nothing was lost") {}
  SECTION("what was lost is of another kernel") { ranks.world->abort(0, device::abort_lost_peers(2)); }
  std::thread kernel([&] { ranks.run(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(ranks.ended.load());
  ranks.world->abort(0, device::abort_lost_peers(1));
  kernel.join();
  CHECK(device::outcome_in(ranks.world->result(0).verdict) == device::Outcome::stopped);
}

TEST_CASE("emulated load_store: a rank that finds a region withdrawn stays until those that did not have left") {
  TwoRanks ranks(100);
  ranks.world->withdraw_regions();
  ranks.arrive(true);
  std::thread kernel([&] { ranks.run(); });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (memory::load_acquire(ranks.world->place(0).left(0)) == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(memory::load_acquire(ranks.world->place(0).left(0)) == 1 + device::gate_failed);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(ranks.ended.load());
  ranks.leave();
  kernel.join();
  CHECK(device::fault_in(ranks.world->result(0).verdict) == Fault::withdrawn);
  CHECK(ranks.peer_recv == std::vector<std::byte>(4096));
}

TEST_CASE("emulated load_store: a sum of which a rank has not done its part is none") {
  TwoRanks ranks(100);
  ranks.arrive(true);
  ranks.leave(/*had_part=*/false);
  ranks.run();
  CHECK(device::outcome_in(ranks.world->result(0).verdict) == device::Outcome::stopped);
}
