// SPDX-License-Identifier: Apache-2.0
// The hierarchical all-reduce among several hosts: proven for even and uneven ones, and what crosses the network.
#include <map>
#include <numeric>
#include <vector>

#include "src/plan/algorithm.h"
#include "src/plan/verifier.h"
#include "tests/catch.h"

using namespace rondo;

namespace {

using Layout = std::vector<uint32_t>;  // by rank: its host

const std::vector<Layout> layouts = {
    {0, 1},
    {0, 0, 1, 1},
    {0, 1, 0, 1},
    {0, 0, 1},
    {0, 1, 1, 1, 2},
    {0, 0, 0, 1, 1, 1, 2, 2, 2},
    {2, 0, 1, 2, 0, 1, 2, 2},
    {0, 1, 2, 3, 4},
    {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3},
};

std::vector<Schedule> build_all(const Layout &layout, bool in_place) {
  std::vector<Schedule> schedules;
  for (uint32_t rank = 0; rank < layout.size(); ++rank) {
    ScheduleArgs args;
    args.rank = rank;
    args.rank_count = static_cast<uint32_t>(layout.size());
    args.in_place = in_place;
    args.node_of = layout;
    auto schedule = build_schedule(RONDO_ALGORITHM_HIERARCHICAL, args);
    REQUIRE(schedule.ok());
    schedules.push_back(std::move(schedule).value());
  }
  return schedules;
}

/// Chunks that cross the network, by (from host, to host).
std::map<std::pair<uint32_t, uint32_t>, uint32_t> crossings(const Layout &layout) {
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> counts;
  const auto schedules = build_all(layout, false);
  for (uint32_t rank = 0; rank < layout.size(); ++rank)
    for (const Lane &lane : schedules[rank].lanes)
      for (const Step &step : lane)
        for (const LinkIndex link : step.send_link) {
          if ((step.flags & step_send) == 0 || link == no_link) continue;
          const uint32_t peer = schedules[rank].peers[link];
          if (layout[peer] != layout[rank]) ++counts[{layout[rank], layout[peer]}];
        }
  return counts;
}

}  // namespace

TEST_CASE("hierarchical: proven for even and uneven hosts, in and out of place, by copy and by reference") {
  for (const Layout &layout : layouts)
    for (const bool in_place : {false, true})
      for (const bool by_reference : {false, true})
        for (const uint32_t slot_count : {2u, 4u}) {
          const auto schedules = build_all(layout, in_place);
          VerifyArgs args;
          args.schedules = schedules;
          args.partition.chunk_count = schedules[0].chunk_count;
          args.partition.chunk_elements = 3 * (slot_count - 1);
          args.partition.whole = {0, 2 * args.partition.chunk_elements * args.partition.chunk_count + 5};
          args.partition.tile_count = args.partition.count_tiles();
          args.slot_count = slot_count;
          args.slot_elements = 3;
          args.in_place.assign(layout.size(), in_place);
          // A network reads no rank's own buffer; inside of a host a peer may.
          args.by_reference.assign(layout.size(), by_reference);
          const auto violation = verify(args);
          CAPTURE(layout, in_place, by_reference, slot_count);
          REQUIRE((violation ? to_string(*violation) : "") == "");
        }
}

TEST_CASE("hierarchical: two hosts send each other the vector once, however many ranks they have") {
  for (const Layout &layout : {Layout{0, 1}, Layout{0, 0, 1, 1}, Layout{0, 1, 0, 1}, Layout{0, 0, 0, 1, 1},
                               Layout{0, 0, 0, 0, 1, 1, 1, 1}}) {
    const uint32_t chunk_count = build_all(layout, false)[0].chunk_count;
    const auto counts = crossings(layout);
    CHECK(counts.at({0, 1}) == chunk_count);
    CHECK(counts.at({1, 0}) == chunk_count);
  }
}

TEST_CASE("hierarchical: among h hosts each sends 2 (h - 1) / h of the vector") {
  const Layout layout{0, 0, 1, 1, 2, 2, 3, 3};
  const uint32_t chunk_count = build_all(layout, false)[0].chunk_count;
  std::map<uint32_t, uint32_t> sent;
  for (const auto &[hosts, chunks] : crossings(layout)) sent[hosts.first] += chunks;
  for (const auto &[host, chunks] : sent) CHECK(chunks * 4 == 2 * 3 * chunk_count);
  CHECK(sent.size() == 4);
}
