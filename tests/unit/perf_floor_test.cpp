// SPDX-License-Identifier: Apache-2.0
// These tests compute the floor that `rondo perf` shows beside results on a device.
#include <cstring>

#include "bench/perf/floor.h"
#include "tests/catch.h"

using namespace rondo::perf;

namespace {

constexpr size_t floor_bytes = 4096;

Case case_for(rondo_collective_t collective, int ranks) { return {collective, RONDO_FLOAT32, RONDO_SUM, 1, ranks}; }

uint64_t sum_of(const Case &what, Placement placement) {
  uint64_t sum = 0;
  for (int rank = 0; rank < what.ranks; ++rank) sum += moved_bytes_min(what, rank, floor_bytes, placement);
  return sum;
}

Member member(const char *host, unsigned char device) {
  Member made;
  std::strcpy(made.host, host);
  made.device.ordinal = device;
  made.device.uuid[0] = device;
  return made;
}

}  // namespace

TEST_CASE("perf floor: every rank reads its input and writes its output, once") {
  for (const auto placement : {Placement::out_of_place, Placement::in_place}) {
    CHECK(sum_of(case_for(RONDO_ALL_REDUCE, 4), placement) == 2 * 4 * floor_bytes);
    CHECK(sum_of(case_for(RONDO_REDUCE_SCATTER, 4), placement) == (4 + 1) * floor_bytes);
    CHECK(sum_of(case_for(RONDO_REDUCE, 4), placement) == (4 + 1) * floor_bytes);
  }
  CHECK(sum_of(case_for(RONDO_ALL_GATHER, 4), Placement::out_of_place) == (1 + 4) * floor_bytes);
  CHECK(sum_of(case_for(RONDO_BROADCAST, 4), Placement::out_of_place) == (1 + 4) * floor_bytes);
}

TEST_CASE("perf floor: what is in its place already need not be written") {
  CHECK(sum_of(case_for(RONDO_ALL_GATHER, 4), Placement::in_place) == (1 + 3) * floor_bytes);
  CHECK(sum_of(case_for(RONDO_BROADCAST, 4), Placement::in_place) == (1 + 3) * floor_bytes);
  for (const auto collective : {RONDO_ALL_REDUCE, RONDO_ALL_GATHER, RONDO_REDUCE_SCATTER})
    CHECK(sum_of(case_for(collective, 1), Placement::in_place) == 0);
  CHECK(sum_of(case_for(RONDO_ALL_REDUCE, 1), Placement::out_of_place) == 2 * floor_bytes);
}

TEST_CASE("perf floor: in place, a rank neither reads nor writes the block that it keeps of an exchange") {
  constexpr uint64_t block = floor_bytes / 4;
  CHECK(sum_of(case_for(RONDO_ALL_TO_ALL, 4), Placement::out_of_place) == 4 * (4 + 4) * block);
  CHECK(sum_of(case_for(RONDO_ALL_TO_ALL, 4), Placement::in_place) == 4 * (3 + 3) * block);
  for (const auto collective : {RONDO_GATHER, RONDO_SCATTER}) {
    CHECK(sum_of(case_for(collective, 4), Placement::out_of_place) == (4 + 4) * block);
    CHECK(sum_of(case_for(collective, 4), Placement::in_place) == (3 + 3) * block);
  }
}

TEST_CASE("perf floor: the busiest device's bytes over its bandwidth") {
  const Case what = case_for(RONDO_ALL_REDUCE, 3);
  const std::vector<Member> members{member("a", 1), member("a", 2), member("a", 1)};
  CHECK(first_on_device(members, 1) == 1);
  CHECK(first_on_device(members, 2) == 0);
  // At 10^9 bytes a second, 4 bytes take 4 ns.
  CHECK(floor_us(what, floor_bytes, Placement::in_place, members, std::vector<double>{1, 1, 1}) ==
        Approx(4.0 * floor_bytes / 1e3));
  CHECK(floor_us(what, floor_bytes, Placement::in_place, members, std::vector<double>{8, 1, 8}) ==
        Approx(2.0 * floor_bytes / 1e3));
}

TEST_CASE("perf floor: devices of equal names on two hosts are two") {
  const std::vector<Member> members{member("a", 1), member("b", 1)};
  CHECK(first_on_device(members, 1) == 1);
}
