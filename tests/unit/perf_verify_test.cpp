// SPDX-License-Identifier: Apache-2.0
// These tests cover the checker of `rondo perf`. It must accept the buffers of a right collective. It must count each
// wrong element, each changed guard byte and each buffer that should be unchanged.
#include <cstring>
#include <vector>

#include "bench/perf/options.h"
#include "bench/perf/verify.h"
#include "tests/catch.h"

using namespace rondo::perf;

namespace {

constexpr int ranks = 4;
constexpr size_t size_bytes = 4000;
constexpr uint64_t table_seed = 11, run_seed = 5;

/// One rank's buffers before and after a collective that this test carries out by itself.
struct Rank {
  Rank(const Case &of, int number, Placement placement)
      : what(of), rank(number), shape(shape_of(of, number, size_bytes)), workspace(of, number, table_seed, arenas) {
    Options options;
    options.collective = what.collective;
    options.max_bytes = size_bytes;
    REQUIRE_FALSE(arenas.allocate(options, ranks, nullptr).has_value());
    workspace.select(shape, placement);
    REQUIRE_FALSE(workspace.prepare(run_seed).has_value());
  }

  /// Writes the results of a right collective, computed from the formula of the inputs.
  void complete() {
    if (!writes_recv(what, rank)) return;
    const Sequence output = make_data(what, rank, table_seed).output.with_seed(run_seed);
    if (what.collective != RONDO_ALL_TO_ALL) return output.write(workspace.pointers().recv, shape.recv);
    for (int peer = 0; peer < ranks; ++peer)  // block `rank` of each peer
      output.write(workspace.pointers().recv + static_cast<size_t>(peer) * shape.bytes / ranks,
                   {static_cast<uint64_t>(peer * ranks + rank) * shape.count, shape.count});
  }

  uint64_t count_wrong() {
    uint64_t wrong = 0;
    REQUIRE_FALSE(workspace.count_wrong(wrong).has_value());
    return wrong;
  }

  Case what;
  int rank;
  Shape shape;
  Arenas arenas;
  Workspace workspace;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto collective :
       {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER, RONDO_BROADCAST, RONDO_REDUCE, RONDO_ALL_TO_ALL,
        RONDO_GATHER, RONDO_SCATTER, sendrecv, hypercube})
    for (const auto type : {RONDO_INT8, RONDO_FLOAT16, RONDO_FLOAT32, RONDO_INT64})
      cases.push_back({collective, type, RONDO_SUM, 2, ranks});
  return cases;
}

void spoil(std::byte *at) { *at ^= std::byte{0x41}; }

}  // namespace

TEST_CASE("perf verify: what a right collective leaves is not counted; what nobody wrote is, element by element") {
  for (const Case &what : all_cases()) {
    for (const Placement placement : {Placement::out_of_place, Placement::in_place}) {
      if (placement == Placement::in_place && what.collective == sendrecv) continue;  // sendrecv is never in place
      for (int number = 0; number < ranks; ++number) {
        CAPTURE(rondo_collective_string(what.collective), rondo_type_string(what.type), number);
        Rank rank(what, number, placement);
        const bool from_root = what.collective == RONDO_BROADCAST || what.collective == RONDO_SCATTER;
        const bool sending_root = from_root && number == what.root;  // in place, the root already has its result
        const uint64_t untouched = rank.count_wrong();
        if (placement == Placement::out_of_place) {
          CHECK(untouched == (writes_recv(what, number) ? rank.shape.recv.count : 0));
        } else if (writes_recv(what, number) && !sending_root) {
          CHECK(untouched > rank.shape.recv.count / 2);  // an input may by chance be equal to its result
        }
        rank.complete();
        CHECK(rank.count_wrong() == 0);
      }
    }
  }
}

TEST_CASE("perf verify: every spoilt element of recv, changed element of send and guard byte is counted") {
  for (const Case &what : all_cases()) {
    CAPTURE(rondo_collective_string(what.collective), rondo_type_string(what.type));
    Rank rank(what, 1, Placement::out_of_place);
    rank.complete();
    const size_t element_bytes = rondo_type_size(what.type);
    const size_t send_bytes = rank.shape.send.count * element_bytes, recv_bytes = rank.shape.recv.count * element_bytes;
    const auto [send, recv] = rank.workspace.pointers();
    uint64_t spoilt = 0;
    for (std::byte *at : {recv, recv + recv_bytes - 1, recv + recv_bytes / 2, send, send + send_bytes - 1,
                          recv - 1, recv + recv_bytes, send - guard_bytes, send + send_bytes + guard_bytes - 1}) {
      spoil(at);
      CHECK(rank.count_wrong() == ++spoilt);
    }
  }
}

TEST_CASE("perf verify: in place, the blocks that are not this rank's must stay") {
  Rank rank({RONDO_REDUCE_SCATTER, RONDO_FLOAT32, RONDO_SUM, 0, ranks}, 2, Placement::in_place);
  rank.complete();
  CHECK(rank.count_wrong() == 0);
  spoil(rank.workspace.pointers().send);                                    // block 0
  spoil(rank.workspace.pointers().recv + rank.shape.count * sizeof(float));  // block 3
  CHECK(rank.count_wrong() == 2);
  Rank scatter({RONDO_SCATTER, RONDO_FLOAT32, RONDO_SUM, 0, ranks}, 2, Placement::in_place);
  scatter.complete();
  CHECK(scatter.count_wrong() == 0);
  spoil(scatter.workspace.pointers().send);  // block 0
  CHECK(scatter.count_wrong() == 1);
  Rank other({RONDO_REDUCE, RONDO_FLOAT32, RONDO_SUM, 0, ranks}, 1, Placement::in_place);
  CHECK(other.count_wrong() == 0);
  spoil(other.workspace.pointers().recv + 40);
  CHECK(other.count_wrong() == 1);
}

TEST_CASE("perf verify: another run's results and a result shifted by one element are wrong") {
  Rank rank({RONDO_ALL_REDUCE, RONDO_FLOAT32, RONDO_SUM, 0, ranks}, 0, Placement::out_of_place);
  const Sequence output = make_data(rank.what, 0, table_seed).output;
  output.with_seed(run_seed - 1).write(rank.workspace.pointers().recv, rank.shape.recv);
  CHECK(rank.count_wrong() > rank.shape.count * 9 / 10);
  output.with_seed(run_seed).write(rank.workspace.pointers().recv, {1, rank.shape.count});
  CHECK(rank.count_wrong() > rank.shape.count * 9 / 10);
}

TEST_CASE("perf verify: a message from another rank than the previous one is wrong") {
  const Case what{sendrecv, RONDO_FLOAT32, RONDO_SUM, 0, ranks};
  Rank rank(what, 2, Placement::out_of_place);
  const auto receive_from = [&](int sender) {
    const Sequence sent = make_data(what, sender, table_seed).input.with_seed(run_seed);
    sent.write(rank.workspace.pointers().recv, rank.shape.recv);
    return rank.count_wrong();
  };
  CHECK(receive_from(1) == 0);
  for (const int sender : {0, 2, 3}) CHECK(receive_from(sender) > rank.shape.count * 9 / 10);
}

TEST_CASE("perf memory: sizes that do not fit are refused, with what to change") {
  Options options;
  options.max_bytes = size_t{1} << 30;
  const ArenaSizes sizes = arena_sizes(options, 4);
  CHECK(sizes.send_bytes + sizes.recv_bytes == size_t{2} << 30);
  CHECK_FALSE(check_memory(sizes, 4, uint64_t{9} << 30).has_value());
  const Outcome refused = check_memory(sizes, 4, uint64_t{8} << 30);  // the guards no longer fit
  REQUIRE(refused.has_value());
  CHECK(refused->exit == Exit::usage);
  CHECK_THAT(refused->message, Contains("lower --maxbytes"));
  options.collective = RONDO_ALL_GATHER;
  CHECK(arena_sizes(options, 4).send_bytes == size_t{256} << 20);
  options.out_of_place = false;
  CHECK(arena_sizes(options, 4).send_bytes == 0);
  CHECK(parse_meminfo("MemTotal: 5 kB\nMemAvailable:   2048 kB\n") == 2048 * 1024);
  CHECK(parse_meminfo("MemTotal: 5 kB\n") == 0);
}
