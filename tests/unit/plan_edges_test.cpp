// SPDX-License-Identifier: Apache-2.0
// A rank's permitted peers must include all peers in every schedule that the tuner may choose. Both ends must agree.
#include <algorithm>
#include <random>
#include <string>

#include "src/plan/schedule.h"
#include "src/plan/tuner.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "transports/hosts/connect.h"
#include "transports/net/net_transport.h"

using namespace rondo;

namespace {

constexpr uint32_t channel_count = 3;

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  uint32_t below(uint32_t count) { return static_cast<uint32_t>(random_() % count); }
  bool one_in(uint32_t count) { return below(count) == 0; }
  /// Draws as many small numbers as large ones.
  uint64_t bytes() { return random_() >> (24 + below(40)); }

 private:
  std::mt19937_64 random_;
};

std::vector<uint32_t> draw_layout(Draw &draw) {
  std::vector<uint32_t> node_of(2 + draw.below(39) + (draw.one_in(4) ? 50 : 0));
  const uint32_t nodes = 1 + draw.below(6);
  const bool in_blocks = draw.one_in(2);
  for (uint32_t rank = 0; rank < node_of.size(); ++rank)
    node_of[rank] = in_blocks ? rank * nodes / static_cast<uint32_t>(node_of.size()) : draw.below(nodes);
  return node_of;
}

PlanChoice draw_overrides(Draw &draw) {
  PlanChoice overrides;
  if (draw.one_in(3)) overrides.algorithm = static_cast<rondo_algorithm_t>(draw.below(8));
  if (draw.one_in(4)) overrides.channels = 1 + draw.below(channel_count);
  if (draw.one_in(4)) overrides.protocol = draw.one_in(2) ? RONDO_PROTOCOL_SIMPLE : RONDO_PROTOCOL_LL;
  if (draw.one_in(6)) overrides.kernel = RONDO_KERNEL_INTERPRETER;
  return overrides;
}

/// Returns rows that begin and end between powers of two.
TuningTable odd_table(uint32_t rank_count, rondo_protocol_t last_protocol = RONDO_PROTOCOL_SIMPLE,
                      bool several_hosts = true) {
  std::vector<TuningRow> rows;
  for (const auto &[bytes_max, algorithm] :
       std::vector<std::pair<uint64_t, rondo_algorithm_t>>{{5'000, RONDO_ALGORITHM_RING},
                                                           {6'000, RONDO_ALGORITHM_ONE_SHOT},
                                                           {7'000, RONDO_ALGORITHM_TREE},
                                                           {TuningRow::any_bytes, RONDO_ALGORITHM_RING}}) {
    TuningRow row;
    row.rank_count = rank_count;
    row.bytes_max = bytes_max;
    const bool last = bytes_max == TuningRow::any_bytes;
    row.choice = {algorithm, last ? last_protocol : RONDO_PROTOCOL_SIMPLE, 1, 4096, RONDO_KERNEL_INTERPRETER};
    row.several_hosts = several_hosts;
    rows.push_back(row);
  }
  auto table = TuningTable::make(std::move(rows));
  REQUIRE(table.ok());
  return std::move(table).value();
}

/// Makes the input as Communicator::choose() does, for host memory. `has_ll` says whether the executor has ll. Between
/// hosts, `has_ll` is ignored.
TunerInput input_of(const EdgeRequest &request, rondo_collective_t collective, uint64_t bytes, bool has_ll) {
  const auto rank_count = static_cast<uint32_t>(request.node_of.size());
  std::vector<uint32_t> nodes(request.node_of.begin(), request.node_of.end());
  std::ranges::sort(nodes);
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  TunerInput input;
  input.collective = collective;
  input.rank_count = rank_count;
  input.bytes = collective == RONDO_BARRIER ? 1 : bytes;
  input.oversubscribed = request.oversubscribed;
  input.host_count = static_cast<uint32_t>(nodes.size());
  input.slot_count = 8;
  input.slot_bytes = 131'072;
  if (has_ll && !input.several_hosts()) input.ll_slot_bytes = 16'384;
  if (collective != RONDO_BARRIER) input.overrides = request.overrides;
  input.table = request.table;
  return input;
}

std::vector<std::vector<bool>> permitted_of_all(const EdgeRequest &request) {
  std::vector<std::vector<bool>> permitted;
  for (uint32_t rank = 0; rank < request.node_of.size(); ++rank) permitted.push_back(permitted_peers(request, rank));
  return permitted;
}

/// Returns a text with the peers of an operation that are not permitted, or "" if there are none.
std::string find_forbidden(const EdgeRequest &request, const std::vector<std::vector<bool>> &permitted, Draw &draw) {
  const auto rank_count = static_cast<uint32_t>(request.node_of.size());
  const auto collective = static_cast<rondo_collective_t>(draw.below(RONDO_BARRIER + 1));
  TunerInput input = input_of(request, collective, draw.bytes(), draw.one_in(2));
  if (draw.one_in(2)) input.buffers = BufferPlace::device;
  if (input.buffers == BufferPlace::device && draw.one_in(2)) input.connection_channels = channel_count;  // kernels
  const auto choice = choose_plan(input);
  if (!choice.ok()) return {};
  const uint32_t root = draw.below(rank_count);
  for (uint32_t rank = 0; rank < rank_count; ++rank)
    for (uint32_t channel = 0; channel < std::min(choice.value().channels, channel_count); ++channel) {
      const auto schedule = build_schedule(choice.value().algorithm, {collective, rank, rank_count, root, channel,
                                                                      draw.one_in(2), request.node_of});
      REQUIRE(schedule.ok());
      for (const uint32_t peer : schedule.value().peers)
        if (!permitted[rank][peer])
          return std::string(rondo_collective_string(collective)) + " by " +
                 rondo_algorithm_string(choice.value().algorithm) + ", rank " + std::to_string(rank) + ", peer " +
                 std::to_string(peer) + ", root " + std::to_string(root);
    }
  return {};
}

}  // namespace

TEST_CASE("edges: every schedule that can be chosen runs between permitted peers, and both ends permit it", "[plan]") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  Draw draw(seed);
  auto share = rondo_test::GateShare::in_every_build("drawn layouts of hosts");
  const uint64_t operation_count = rondo_test::sanitized() ? rondo_test::gate_count(100) : 100;
  for (int round = 0; round < 60; ++round) {
    if (!share.has_next()) continue;
    const std::vector<uint32_t> node_of = draw_layout(draw);
    const auto rank_count = static_cast<uint32_t>(node_of.size());
    // Every call ignores a row whose protocol does not exist on networks.
    const bool several_hosts = std::ranges::count(node_of, node_of[0]) != std::ranges::ssize(node_of);
    const TuningTable table =
        odd_table(rank_count, draw.one_in(2) ? RONDO_PROTOCOL_LL : RONDO_PROTOCOL_SIMPLE, several_hosts);
    const EdgeRequest request{node_of, channel_count, draw.one_in(2), draw_overrides(draw),
                              draw.one_in(3) ? &table : nullptr};
    CAPTURE(node_of, request.oversubscribed, request.overrides.algorithm, request.table != nullptr);
    const auto permitted = permitted_of_all(request);
    bool symmetric = true;
    for (uint32_t rank = 0; rank < rank_count; ++rank)
      for (uint32_t peer = 0; peer < rank_count; ++peer) symmetric &= permitted[rank][peer] == permitted[peer][rank];
    REQUIRE(symmetric);
    for (uint64_t operation = 0; operation < operation_count; ++operation)
      REQUIRE(find_forbidden(request, permitted, draw) == "");
  }
}

TEST_CASE("edges: a row of the measured table adds its algorithm's peers", "[plan]") {
  std::vector<uint32_t> node_of;
  for (uint32_t rank = 0; rank < 32; ++rank) node_of.push_back(rank / 8);
  const TuningTable table = odd_table(32);
  EdgeRequest request{node_of, 2, false, {}, nullptr};
  const auto without = permitted_peers(request, 9);
  request.table = &table;
  const auto with = permitted_peers(request, 9);
  CHECK(std::ranges::find(without, false) != without.end());
  CHECK(std::ranges::find(with, false) == with.end());  // one_shot connects all ranks
}

TEST_CASE("edges: a row whose protocol no network has does not take the place of the built-in choice", "[plan]") {
  std::vector<uint32_t> node_of;
  for (uint32_t rank = 0; rank < 32; ++rank) node_of.push_back(rank / 8);
  TuningRow row;
  row.rank_count = 32;
  row.several_hosts = true;
  row.choice = {RONDO_ALGORITHM_RING, RONDO_PROTOCOL_LL, 1, 4096, RONDO_KERNEL_INTERPRETER};
  const auto table = TuningTable::make({row});
  REQUIRE(table.ok());
  EdgeRequest request{node_of, 2, false, {}, nullptr};
  const auto without = permitted_peers(request, 9);
  request.table = &table.value();
  CHECK(permitted_peers(request, 9) == without);
}

TEST_CASE("edges: what copies choose on a device is permitted beside what kernels do there", "[plan]") {
  TuningRow row;  // only for host memory
  row.rank_count = 32;
  row.choice = {RONDO_ALGORITHM_RING, RONDO_PROTOCOL_SIMPLE, 1, 4096, RONDO_KERNEL_INTERPRETER};
  const auto table = TuningTable::make({row});
  REQUIRE(table.ok());
  const std::vector<uint32_t> node_of(32, 0);
  const EdgeRequest request{node_of, 4, false, {}, &table.value()};
  TunerInput input = input_of(request, RONDO_ALL_REDUCE, 512, false);
  input.buffers = BufferPlace::device;
  REQUIRE(choose_plan(input).value().algorithm == RONDO_ALGORITHM_ONE_SHOT);  // this connects all ranks
  input.connection_channels = 4;
  REQUIRE(choose_plan(input).value().algorithm == RONDO_ALGORITHM_TREE);
  CHECK(std::ranges::count(permitted_peers(request, 9), false) <= 1);  // only itself
}

TEST_CASE("edges: of 4 hosts with 8 ranks each, what is connected and registered", "[plan]") {
  std::vector<uint32_t> node_of;
  for (uint32_t rank = 0; rank < 32; ++rank) node_of.push_back(rank / 8);
  ConnectionGeometry geometry = hosts::choose_slots({32, 8, 8}, 2, 0, 0);
  geometry.ll_slot_bytes = 0;
  struct Sums {
    uint32_t ends, ends_max;
    size_t bytes;
    bool operator==(const Sums &) const = default;
  };
  const auto sums_with = [&](bool oversubscribed) {
    const auto permitted = permitted_of_all({node_of, 2, oversubscribed, {}, nullptr});
    Sums sums{};
    for (uint32_t rank = 0; rank < 32; ++rank) {
      std::vector<bool> linked = permitted[rank];
      for (uint32_t peer = 0; peer < 32; ++peer) linked[peer] = linked[peer] && node_of[peer] != node_of[rank];
      const auto ends = static_cast<uint32_t>(std::ranges::count(linked, true));
      sums.ends += ends;
      sums.ends_max = std::max(sums.ends_max, ends);
      const auto memory = net::NearMemory::make(linked, 2, geometry);
      REQUIRE(memory.ok());
      sums.bytes += memory.value().memory().bytes.size();
    }
    return sums;
  };
  // The sums count both ends of each connection: 216 ends in place of 768, and 12 in place of 24 for the busiest rank.
  const Sums all = sums_with(true);  // if oversubscribed, small reduce-scatters are direct
  const Sums needed = sums_with(false);
  CHECK(all == Sums{768, 24, all.bytes});
  CHECK(needed == Sums{216, 12, all.bytes / 768 * 216});
  CHECK(all.bytes == 768 * 4 * 69'632);  // a FIFO each way on two channels: 204 MiB, where 57.4 are needed
}

TEST_CASE("slots between hosts: not below 16 KiB where memory allows, and at most 32 MiB are registered a rank",
          "[plan]") {
  struct Case {
    hosts::Spread spread;
    uint32_t slot_bytes;
    uint32_t slot_count = 4;
  };
  const Case cases[] = {{{2, 1, 1}, 512 << 10},  // two ranks have memory for larger ones
                        {{2, 1, 1, NetworkChoice::verbs}, 512 << 10, 2},
                        {{2, 1, 1, NetworkChoice::verbs, 2}, 128 << 10},  // two queue pairs
                        {{4, 2, 2}, 64 << 10},
                        {{16, 8, 8}, 16 << 10},
                        {{32, 8, 8}, 16 << 10},
                        {{18, 9, 9}, 8 << 10},   // in a host's own segment, larger slots have no room
                        {{32, 31, 1}, 4 << 10},
                        {{120, 1, 1}, 16 << 10},
                        {{128, 1, 1}, 8 << 10},  // larger slots for 127 others would not fit in a rank's memory
                        {{256, 1, 1}, 4 << 10}};
  for (const auto &[spread, slot_bytes, slot_count] : cases) {
    CAPTURE(spread.rank_count, spread.host_ranks_max, spread.host_ranks_min);
    ConnectionGeometry geometry = hosts::choose_slots(spread, 2, 0, 0);
    CHECK(geometry.slot_bytes == slot_bytes);
    CHECK(geometry.slot_count == slot_count);
    geometry.ll_slot_bytes = 0;
    std::vector<bool> linked(spread.rank_count);
    std::fill(linked.begin() + spread.host_ranks_min, linked.end(), true);
    const auto memory = net::NearMemory::make(linked, 2, geometry);
    REQUIRE(memory.ok());
    CHECK(memory.value().memory().bytes.size() <= size_t{32} << 20);
    if (spread.network == NetworkChoice::verbs) CHECK(memory.value().memory().bytes.size() < size_t{5} << 20);
  }
  CHECK(hosts::choose_slots({16, 8, 8}, 2, 8, 4096).slot_bytes == 4096);  // the requested size
  CHECK(hosts::choose_slots({16, 8, 8}, 2, 8, 4096).slot_count == 8);
  CHECK(hosts::choose_slots({2, 1, 1, NetworkChoice::verbs}, 2, 8, 0).slot_count == 8);
  CHECK(hosts::choose_slots({2, 1, 1, NetworkChoice::verbs}, 2, 0, 131072).slot_count == 4);
}
