// SPDX-License-Identifier: Apache-2.0
// These tests make communicators on several hosts, with threads of one process as ranks. So ThreadSanitizer sees all
// executing threads, sentinels and networks. Hosts are only simulated, and sockets use loopback.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "tests/catch.h"
#include "tests/net/group_world.h"
#include "tests/sanitized.h"
#include "tests/test_clock.h"
#include "tests/unit/allocation_count.h"
#include "transports/net/control_memory.h"

using namespace rondo;
using rondo_test::run_ranks;
using rondo_test::World;

namespace {

const std::vector<uint32_t> three_hosts{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2};

const std::vector<uint32_t> nine_hosts{0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 8};

Result<void> sum(Communicator &comm, std::vector<int32_t> &values) {
  Call call;
  call.signature = {RONDO_ALL_REDUCE, RONDO_INT32, RONDO_SUM, 0, values.size(), 0};
  call.send = values.data();
  call.recv = values.data();
  call.in_place = true;
  return comm.submit(call, {});
}

}  // namespace

TEST_CASE("several hosts: sums are right whatever the placement of the ranks", "[net]") {
  for (const std::vector<uint32_t> &node_of :
       {std::vector<uint32_t>{0, 1}, {0, 0, 2}, {0, 1, 0, 1}, {0, 1, 2}, nine_hosts}) {
    World world(node_of);
    const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
      for (const size_t count : {size_t{1}, size_t{1000}, size_t{0}, size_t{70'000}, size_t{3}}) {
        std::vector<int32_t> values(count);
        for (size_t at = 0; at < count; ++at) values[at] = static_cast<int32_t>(at + rank);
        if (!sum(comm, values).ok()) return false;
        const auto ranks = static_cast<int32_t>(comm.rank_count());
        for (size_t at = 0; at < count; ++at)
          if (values[at] != static_cast<int32_t>(at) * ranks + ranks * (ranks - 1) / 2) return false;
      }
      return comm.finalize().ok();
    });
    CHECK(wrong == std::vector<uint32_t>());
  }
}

TEST_CASE("several hosts: connections that no schedule needs are not made, and every collective has its own", "[net]") {
  World world(three_hosts);
  world.group.oversubscribed = false;  // otherwise small reduce-scatters connect all ranks
  world.settings.wait = WaitMode::sleep;
  std::atomic<uint32_t> linked = 0;
  // Under a sanitizer, a gate runs a quarter of the roots.
  const auto quarter = rondo_test::sanitized() ? rondo_test::gate_quarter() : std::nullopt;
  const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
    for (uint32_t peer = 0; peer < comm.rank_count(); ++peer)
      if (world.group.node_of(peer) != world.group.node_of(rank))
        linked += comm.links().carries_plans(peer) ? 1 : 0;
    const uint32_t ranks = comm.rank_count();
    const std::vector<int32_t> send(size_t{20'000} * ranks, static_cast<int32_t>(rank) + 1);
    std::vector<int32_t> recv(send.size());
    bool right = true;
    // Under a sanitizer, other tests have more tiles.
    const std::vector<size_t> counts = rondo_test::sanitized() ? std::vector<size_t>{1, 3'000}
                                                               : std::vector<size_t>{1, 3'000, 20'000};
    for (const size_t count : counts)
      for (uint32_t collective = RONDO_ALL_REDUCE; collective <= RONDO_REDUCE; ++collective) {
        const auto all = static_cast<int32_t>(ranks * (ranks + 1) / 2);  // the sum over all ranks
        const bool rooted = collective == RONDO_BROADCAST || collective == RONDO_REDUCE;
        for (uint32_t root = 0; root < (rooted ? ranks : 1u); ++root) {
          if (rooted && quarter && root % 4 != *quarter) continue;
          std::memset(recv.data(), 0, count * ranks * sizeof(int32_t));  // a loop takes long under a sanitizer
          Call call;
          call.signature = {collective, RONDO_INT32, RONDO_SUM, 0, count, 0};
          if (rooted) call.signature.root = root;
          call.send = send.data();
          call.recv = recv.data();
          right = comm.submit(call, {}).ok() && right;
          const bool reads = collective != RONDO_REDUCE || rank == root;
          const int32_t expected = collective == RONDO_ALL_GATHER  ? 1
                                   : collective == RONDO_BROADCAST ? static_cast<int32_t>(root) + 1
                                                                   : all;
          right = right && (!reads || (recv[0] == expected && recv[count - 1] == expected));
          if (collective == RONDO_ALL_GATHER)
            right = right && recv[count * ranks - 1] == static_cast<int32_t>(ranks);
        }
      }
    return comm.finalize().ok() && right;
  });
  CHECK(wrong == std::vector<uint32_t>());
  CHECK(linked == 98);  // of 210 ends
}

namespace {

/// Returns the first element of the block that `from` sends to `to`. Each next one is larger by 1.
int32_t first_element(uint32_t from, uint32_t to) { return static_cast<int32_t>(from * 100'003 + to * 1'009); }

/// Exchanges blocks of `count` elements. With `by_counts`, the block for rank `to` has `count` + `to` elements.
bool exchange_blocks(Communicator &comm, size_t count, bool by_counts) {
  const uint32_t rank = comm.rank(), ranks = comm.rank_count();
  const auto size_of = [&](uint32_t to) { return by_counts ? count + to : count; };
  std::vector<int32_t> send, recv, expected;
  BlockLists lists;
  for (uint32_t peer = 0; peer < ranks; ++peer) {
    lists.sends.push_back({send.size() * 4, size_of(peer) * 4});
    lists.receives.push_back({expected.size() * 4, size_of(rank) * 4});
    send.resize(send.size() + size_of(peer));
    std::iota(send.end() - static_cast<ptrdiff_t>(size_of(peer)), send.end(), first_element(rank, peer));
    expected.resize(expected.size() + size_of(rank));
    std::iota(expected.end() - static_cast<ptrdiff_t>(size_of(rank)), expected.end(), first_element(peer, rank));
  }
  recv.assign(expected.size(), -1);
  Call call;
  call.signature = {RONDO_ALL_TO_ALL, RONDO_INT32, RONDO_SUM, 0, count, 0};
  if (by_counts) call.signature.count = 0, call.signature.counts_hash = counts_of_pairs;
  call.send = send.data();
  call.recv = recv.data();
  if (by_counts) call.details = std::make_shared<const CallDetails>(lists);
  return comm.check_block_exchange(RONDO_ALL_TO_ALL).ok() && comm.submit(call, {}).ok() && recv == expected;
}

}  // namespace

TEST_CASE("several hosts: blocks of all_to_all arrive, of equal sizes and of different ones", "[net]") {
  for (const std::vector<uint32_t> &node_of : {std::vector<uint32_t>{0, 1}, {0, 0, 2}, {0, 1, 0, 1}}) {
    World world(node_of);
    const auto wrong = run_ranks(world, [&](uint32_t, Communicator &comm) {
      bool right = true;
      for (const size_t count : {size_t{1}, size_t{0}, size_t{3'000}, size_t{200'000}})
        for (const bool by_counts : {false, true}) right = right && exchange_blocks(comm, count, by_counts);
      return comm.finalize().ok() && right;
    });
    CHECK(wrong == std::vector<uint32_t>());
  }
}

TEST_CASE("several hosts: counts of all_to_all_v that differ are named on all ranks, with both ranks", "[net]") {
  for (const std::vector<uint32_t> &node_of : {std::vector<uint32_t>{0, 1}, {0, 1, 0}, {0, 1, 2}})
    for (const auto &[sent, expected] : {std::pair<size_t, size_t>{100, 96}, {0, 3}, {3, 0}, {50'000, 49'999}}) {
      World world(node_of);
      CAPTURE(node_of, sent, expected);
      std::vector<std::string> told(world.rank_count());
      std::atomic<uint32_t> done = 0;
      const auto wrong = run_ranks(world, [&, sent = sent, expected = expected](uint32_t rank, Communicator &comm) {
        BlockLists lists;
        std::vector<int32_t> send(100'000), recv(100'000);
        for (uint32_t peer = 0; peer < comm.rank_count(); ++peer) {
          lists.sends.push_back({0, 4 * (rank == 1 && peer == 0 ? sent : size_t{5})});
          lists.receives.push_back({size_t{peer} * 4 * 10, 4 * (rank == 0 && peer == 1 ? expected : size_t{5})});
        }
        std::swap(lists.receives[1].begin_bytes, lists.receives.back().begin_bytes);  // the largest stands last
        Call call;
        call.signature = {RONDO_ALL_TO_ALL, RONDO_INT32, RONDO_SUM, 0, 0, counts_of_pairs};
        call.send = send.data();
        call.recv = recv.data();
        call.details = std::make_shared<const CallDetails>(lists);
        auto ended = comm.check_block_exchange(RONDO_ALL_TO_ALL);
        if (ended.ok()) ended = comm.submit(call, {});
        if (ended.ok()) ended = sum(comm, recv);  // rank 2's call is complete before the failure
        if (!ended.ok()) told[rank] = ended.error().message;
        const bool is_mismatch = !ended.ok() && ended.error().status == RONDO_ERROR_MISMATCH;
        for (++done; done < comm.rank_count();) sleep_for_ns(1'000'000);  // bounded by the timeout of the sums
        return is_mismatch;
      });
      CHECK(wrong == std::vector<uint32_t>());
      const std::string part = "operation 1 (all_to_all of int32 in uneven blocks) differs between ranks: rank 1 sends "
                               "rank 0 " + std::to_string(sent) + " elements, rank 0 expects " +
                               std::to_string(expected);
      for (const std::string &message : told) CHECK_THAT(message, Catch::Matchers::Contains(part));
    }
}

TEST_CASE("several hosts: blocks arrive at ranks that no schedule joins, before and after other collectives", "[net]") {
  World world(three_hosts);
  world.group.oversubscribed = false;
  world.settings.wait = WaitMode::sleep;
  const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
    const Links &links = comm.links();
    size_t pairs = 0, unjoined = 0;  // pairs of FIFOs with ranks of other hosts
    for (uint32_t peer = 0; peer < comm.rank_count(); ++peer) {
      if (world.group.node_of(peer) == world.group.node_of(rank)) continue;
      pairs += links.carries_plans(peer) ? links.channel_count() : 1;
      unjoined += links.carries_plans(peer) ? 0 : 1;
    }
    const size_t fifo_bytes = links.network_memory().bytes.size() / pairs / 2;
    bool right = unjoined != 0 && fifo_bytes / 4096 == (links.geometry().bytes() + 4095) / 4096 &&
                 comm.check_block_exchange(RONDO_GATHER).ok() && comm.check_block_exchange(RONDO_SCATTER).ok();
    for (const size_t count : {size_t{1}, size_t{5'000}})
      for (const bool by_counts : {false, true}) {
        std::vector<int32_t> values(1'000, static_cast<int32_t>(rank));
        right = right && exchange_blocks(comm, count, by_counts) && sum(comm, values).ok() && values.back() == 153;
      }
    return comm.finalize().ok() && right;
  });
  CHECK(wrong == std::vector<uint32_t>());
}

TEST_CASE("several hosts: all of 66 ranks refuse to exchange blocks if some are not connected", "[net]") {
  std::vector<uint32_t> node_of(66);
  std::fill(node_of.begin() + 33, node_of.end(), 1);
  World world(node_of);
  world.group.oversubscribed = false;
  world.settings.wait = WaitMode::sleep;
  const auto wrong = run_ranks(world, [&](uint32_t, Communicator &comm) {
    bool as_expected = true;
    for (const auto collective : {RONDO_ALL_TO_ALL, RONDO_GATHER, RONDO_SCATTER}) {
      const auto refused = comm.check_block_exchange(collective);
      as_expected = as_expected && !refused.ok() && refused.error().status == RONDO_ERROR_UNSUPPORTED &&
                    refused.error().message.find("set RONDO_ALGORITHM=one_shot") != std::string::npos;
    }
    return comm.finalize().ok() && as_expected;
  });
  CHECK(wrong == std::vector<uint32_t>());
}

TEST_CASE("several hosts: 2 hosts of 8 ranks have slots of 16 KiB, and at most 32 MiB a rank are registered", "[net]") {
  World world({0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1});
  world.settings.wait = WaitMode::sleep;
  const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
    const Links &links = comm.links();
    size_t slots = 0;  // bytes of all slots of existing links to and from other hosts
    for (uint32_t channel = 0; channel < links.channel_count(); ++channel)
      for (uint32_t peer = 0; peer < comm.rank_count(); ++peer)
        for (const ConnectionView &view : {links.outgoing(channel, peer), links.incoming(channel, peer)}) {
          if (view.base != nullptr && view.geometry.slot_bytes != 16 * 1024) return false;
          if (world.group.node_of(peer) != world.group.node_of(rank) && view.base != nullptr)
            slots += size_t{view.geometry.slot_count} * view.geometry.slot_bytes;
        }
    const size_t registered = links.network_memory().bytes.size();
    // Memory also has counters and headers, and each FIFO fills whole pages.
    const bool fits =
        slots == size_t{8} * 2 * 2 * 4 * 16 * 1024 && registered >= slots && registered <= slots / 16 * 17;
    std::vector<int32_t> values(70'000, 1);
    const bool summed = sum(comm, values).ok() && values.back() == 16;
    return comm.finalize().ok() && summed && fits && registered <= size_t{32} << 20;
  });
  CHECK(wrong == std::vector<uint32_t>());
}

TEST_CASE("several hosts: a plan whose ranks were not connected is refused before it runs", "[net]") {
  TuningRow row;  // this row was unknown when the connections were made
  row.rank_count = static_cast<uint32_t>(three_hosts.size());
  row.several_hosts = true;
  row.choice = {RONDO_ALGORITHM_ONE_SHOT, RONDO_PROTOCOL_SIMPLE, 1, 4096, RONDO_KERNEL_INTERPRETER};
  const auto table = TuningTable::make({row});
  REQUIRE(table.ok());
  World world(three_hosts);
  world.group.oversubscribed = false;
  world.tuning_of_calls = &table.value();
  const auto wrong = run_ranks(world, [](uint32_t, Communicator &comm) {
    std::vector<int32_t> values(10, 1);
    const auto refused = sum(comm, values);
    return !refused.ok() && refused.error().status == RONDO_ERROR_INTERNAL &&
           refused.error().message.find("which were not connected") != std::string::npos;
  });
  CHECK(wrong == std::vector<uint32_t>());
}

TEST_CASE("several hosts: each network that a setting can name is in the table, under that name", "[net]") {
  Settings settings;
  CHECK(std::string(network_name(settings)) == "tcp");
  for (const NetworkChoice choice : {NetworkChoice::tcp, NetworkChoice::ucx, NetworkChoice::verbs}) {
    settings.network = choice;
    CHECK(std::string(network_name(settings)) == network_choice_string(choice));
  }
}

TEST_CASE("several hosts: on the steady path nothing is allocated, neither by calls nor by sentinels", "[net]") {
  World world({0, 1});
  std::atomic<uint64_t> allocations = UINT64_MAX;
  std::optional<rondo_test::HeldClock> clock;
  const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
    std::vector<int32_t> small(2, 1);
    std::vector<int32_t> large(100'000, 1);
    const auto sums = [&](uint32_t count) {
      bool right = true;
      for (uint32_t each = 0; each < count; ++each) right = sum(comm, each % 50 == 0 ? large : small).ok() && right;
      return right;
    };
    if (!sums(1)) return false;  // now both ranks have begun
    // The clock is held, because a rank that waits long queries its peer's state, and a query allocates.
    if (rank == 0) clock.emplace();
    if (!sums(200)) return false;  // makes plans, and lets buffers grow to their size
    if (!sums(1)) return false;  // like a barrier: from now on, both ranks see the held clock
    const uint64_t before = rondo_test::allocation_count();
    if (!sums(700)) return false;  // more calls than between two status reports
    if (rank == 0) allocations = rondo_test::allocation_count() - before;
    if (!sums(1)) return false;
    if (rank == 0) clock.reset();
    return comm.finalize().ok();
  });
  CHECK(wrong == std::vector<uint32_t>());
  CHECK(allocations == 0);
}

TEST_CASE("several hosts: a rank that returns from its last call and waits long lets the others finish", "[net]") {
  World world({0, 1});
  std::atomic<bool> received = false;
  const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
    std::vector<int32_t> values(100'000, 7);
    Call call;
    call.signature = {RONDO_BROADCAST, RONDO_INT32, RONDO_SUM, 0, values.size(), 0};
    call.send = call.recv = values.data();
    call.in_place = true;
    if (!comm.submit(call, {}).ok()) return false;
    if (rank == 1) return received = true, values.back() == 7;
    // Until the other rank has everything, this rank makes no call, and only its sentinel works.
    const uint64_t deadline_ns = now_ns() + 60 * second_ns;
    while (!received && now_ns() < deadline_ns) sleep_for_ns(1'000'000);
    return received.load();
  });
  CHECK(wrong == std::vector<uint32_t>());
}

TEST_CASE("several hosts: a rank that leaves while it is needed is named", "[net]") {
  for (const std::vector<uint32_t> &node_of : {std::vector<uint32_t>{0, 1}, nine_hosts}) {
    World world(node_of);
    const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
      std::vector<int32_t> values(10, 1);
      auto failed = sum(comm, values);
      if (rank == 1) return failed.ok();  // rank 1 then closes
      if (failed.ok()) failed = sum(comm, values);  // if not, another rank's error ended this call
      return !failed.ok() && failed.error().status == RONDO_ERROR_REMOTE && failed.error().peer == 1 &&
             failed.error().message.find("has destroyed its communicator") != std::string::npos;
    });
    CHECK(wrong == std::vector<uint32_t>());
  }
}

TEST_CASE("several hosts: ranks that disagree are told what both have called", "[net]") {
  World world(nine_hosts);
  const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
    std::vector<int32_t> values(rank == 3 ? 20 : 10, 1);
    const auto failed = sum(comm, values);
    return !failed.ok() && failed.error().status == RONDO_ERROR_MISMATCH &&
           failed.error().message.find("all_reduce of 20 int32") != std::string::npos &&
           failed.error().message.find("all_reduce of 10 int32") != std::string::npos;
  });
  CHECK(wrong == std::vector<uint32_t>());
}

TEST_CASE("several hosts: more hosts than a communicator spans are refused, with the bound", "[net]") {
  std::vector<uint32_t> node_of(net::hosts_max + 1);
  for (uint32_t rank = 0; rank < node_of.size(); ++rank) node_of[rank] = rank;
  World world(node_of);
  const auto refused = world.init(0);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().status == RONDO_ERROR_UNSUPPORTED);
  CHECK(refused.error().message.find("ranks on 1025 hosts, but a communicator spans at most 1024") !=
        std::string::npos);
}

TEST_CASE("several hosts: too low a limit of descriptors is told at once, with what is needed", "[net]") {
  std::vector<uint32_t> node_of(300);
  for (uint32_t rank = 0; rank < node_of.size(); ++rank) node_of[rank] = rank;
  World world(node_of);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit low{std::min<rlim_t>(before.rlim_cur, 256), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  const auto refused = world.init(5);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().status == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(refused.error().message.find("rank 5") != std::string::npos);
  CHECK(refused.error().message.find("for its connections with 299 hosts") != std::string::npos);
  CHECK(refused.error().message.find("the limit is 256") != std::string::npos);
}
