// SPDX-License-Identifier: Apache-2.0
// These tests shrink a communicator whose ranks are threads, and use rondo_comm_revoke() and rondo_comm_flush(). Other
// tests, in tests/proc and tests/net, shrink communicators of processes and of hosts in which ranks die.
#include "src/core/derive.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/core/regroup_note.h"
#include "tests/catch.h"
#include "tests/unit/nonblocking.h"
#include "tests/unit/ranks.h"

using rondo::Note;
using rondo::RankSet;
using rondo::RegroupNote;
using rondo::RegroupPhase;
using rondo_test::error_message;
using rondo_test::outcome_of;
using rondo_test::Ranks;
using rondo_test::state_of;

namespace {

/// Returns the configuration of a nonblocking communicator. No call on it times out during a test.
rondo_config_t nonblocking() {
  rondo_config_t config = rondo_test::nonblocking();
  config.timeout_ms = config.init_timeout_ms;
  return config;
}

/// Returns the sum of `value` over the ranks, or -1 after a failure.
int sum(rondo_comm_t comm, int value) {
  int result = 0;
  return rondo_all_reduce(&value, &result, 1, RONDO_INT32, RONDO_SUM, comm, nullptr) == RONDO_OK ? result : -1;
}

/// Begins a shrink that does not wait.
rondo_comm_t begin(rondo_comm_t comm, const std::vector<int> &excluded) {
  const rondo_config_t config = nonblocking();
  rondo_comm_t rest = nullptr;
  REQUIRE(rondo_comm_shrink(comm, excluded.data(), static_cast<int>(excluded.size()), 0, &config, &rest) == RONDO_OK);
  return rest;
}

/// The result of a shrink for one rank. `sum` adds up the members' ranks in the parent.
struct Rest {
  rondo_status_t status = RONDO_ERROR_INTERNAL;
  int rank = -1, size = -1, sum = -1;

  bool operator==(const Rest &) const = default;
};

Rest shrink_and_sum(int rank, rondo_comm_t comm, const std::vector<int> &excluded, unsigned flags) {
  rondo_comm_t comm_of_rest = nullptr;
  Rest rest;
  rest.status = rondo_comm_shrink(comm, excluded.data(), static_cast<int>(excluded.size()), flags, nullptr,
                                  &comm_of_rest);
  if (rest.status != RONDO_OK) return rest;
  static_cast<void>(rondo_comm_rank(comm_of_rest, &rest.rank));
  static_cast<void>(rondo_comm_size(comm_of_rest, &rest.size));
  rest.sum = sum(comm_of_rest, rank);
  if (rondo_comm_destroy(comm_of_rest) != RONDO_OK) rest.status = RONDO_ERROR_INTERNAL;
  return rest;
}

}  // namespace

TEST_CASE("shrink: a note holds any call, and words of no call are refused") {
  RegroupNote shrink;
  for (const uint32_t rank : {0u, 63u, 64u, RankSet::rank_count_max - 1}) shrink.wanted.excluded.insert(rank);
  shrink.occurrence = 7;
  shrink.phase = RegroupPhase::failed;
  shrink.port = 65535;
  shrink.nonce = ~uint64_t{0};
  shrink.status = RONDO_ERROR_REVOKED;
  shrink.peer = 9;
  Note note;
  rondo::write_words(shrink, note);
  const auto read = rondo::regroup_note_of(note);
  REQUIRE(read);
  CHECK((read->matches(shrink) && read->phase == shrink.phase && read->port == shrink.port));
  CHECK((read->nonce == shrink.nonce && read->status == shrink.status && read->peer == 9));
  CHECK(read->wanted.excluded.ranks() == std::vector<uint32_t>{0, 63, 64, 2047});
  CHECK(read->wanted.excluded.describe() == "{0, 63, 64, 2047}");
  CHECK(RankSet().describe() == "{}");
  const std::vector<std::pair<size_t, uint64_t>> wrong{{0, 0}, {0, 4}, {1, 16}, {2, 65536}};
  for (const auto &[word, value] : wrong) {
    Note other = note;
    other.words[word] = value;
    CHECK_FALSE(rondo::regroup_note_of(other));
  }
}

TEST_CASE("shrink: the ranks that are left keep their order, and the parent computes on") {
  for (const int size : {1, 2, 5}) {
    CAPTURE(size);
    Ranks ranks(size);
    REQUIRE(ranks.status() == RONDO_OK);
    for (int excluded = -1; excluded < size && size > 1; ++excluded) {
      const std::vector<int> list = excluded < 0 ? std::vector<int>{} : std::vector<int>{excluded};
      const auto rests = ranks.each<Rest>([&](int rank, rondo_comm_t comm) {
        return rank == excluded ? Rest{} : shrink_and_sum(rank, comm, list, 0);
      });
      const int left = excluded < 0 ? size : size - 1;
      const int total = size * (size - 1) / 2 - std::max(excluded, 0);
      for (int rank = 0; rank < size; ++rank)
        if (rank != excluded)
          CHECK(rests[static_cast<size_t>(rank)] ==
                Rest{RONDO_OK, rank - (excluded >= 0 && rank > excluded ? 1 : 0), left, total});
    }
    CHECK(ranks.each<int>([](int rank, rondo_comm_t comm) { return sum(comm, rank); })[0] == size * (size - 1) / 2);
  }
}

TEST_CASE("shrink: wrong arguments are refused, and change nothing") {
  Ranks ranks(2);
  rondo_comm_t rest = nullptr;
  const int others[] = {1, 2}, own = 0, negative = -1;
  CHECK(rondo_comm_shrink(nullptr, others, 1, 0, nullptr, &rest) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_comm_shrink(ranks[0], others, 1, 0, nullptr, nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(error_message(), Contains("rest is NULL"));
  CHECK(rondo_comm_shrink(ranks[0], nullptr, 1, 0, nullptr, &rest) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(error_message(), Contains("excluded is NULL"));
  CHECK(rondo_comm_shrink(ranks[0], others, -1, 0, nullptr, &rest) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_comm_shrink(ranks[0], others, 2, 0, nullptr, &rest) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(error_message(), Contains("excluded has rank 2; the communicator has ranks 0 to 1"));
  CHECK(rondo_comm_shrink(ranks[0], &negative, 1, 0, nullptr, &rest) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_comm_shrink(ranks[0], &own, 1, 0, nullptr, &rest) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(error_message(), Contains("excluded has this rank, 0"));
  CHECK(rondo_comm_shrink(ranks[0], others, 1, 6, nullptr, &rest) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(error_message(), Contains("unknown flags 6"));
  CHECK(rondo_group_begin() == RONDO_OK);
  CHECK(rondo_comm_shrink(ranks[0], others, 1, 0, nullptr, &rest) == RONDO_ERROR_INVALID_USAGE);
  CHECK(rondo_group_end() == RONDO_ERROR_INVALID_USAGE);
  CHECK(rest == nullptr);
  CHECK(ranks.each<int>([](int rank, rondo_comm_t comm) { return sum(comm, rank); }) == std::vector<int>(2, 1));
  Ranks alone(1);
  CHECK(rondo_comm_finalize(alone[0]) == RONDO_OK);
  CHECK(rondo_comm_shrink(alone[0], nullptr, 0, 0, nullptr, &rest) == RONDO_ERROR_INVALID_HANDLE);
}

TEST_CASE("shrink: one that never completes is aborted at once, the others hear of it, and the next one works") {
  for (const int aborted : {0, 1}) {  // rank 0 would serve the store of the shrunk communicator
    CAPTURE(aborted);
    Ranks ranks(3);
    rondo_comm_t rest = begin(ranks[aborted], {2});
    CHECK(state_of(rest) == RONDO_NOT_READY);
    const rondo_config_t config = nonblocking();
    rondo_comm_t second = nullptr;
    CHECK(rondo_comm_shrink(ranks[aborted], nullptr, 0, 0, &config, &second) == RONDO_ERROR_INVALID_USAGE);
    CHECK_THAT(error_message(), Contains("before this one is still running"));
    CHECK(rondo_comm_abort(rest) == RONDO_OK);
    CHECK(outcome_of(rest) == RONDO_ERROR_ABORTED);
    CHECK_THAT(error_message(rest), Contains("rondo_comm_shrink without {2} was aborted here"));
    CHECK(rondo_comm_destroy(rest) == RONDO_OK);
    rest = begin(ranks[1 - aborted], {2});
    CHECK(outcome_of(rest) == RONDO_ERROR_ABORTED);
    CHECK_THAT(error_message(rest), Contains("has given up (aborted)"));
    CHECK(rondo_comm_destroy(rest) == RONDO_OK);
    const auto rests = ranks.each<Rest>([](int rank, rondo_comm_t comm) {
      return rank == 2 ? Rest{} : shrink_and_sum(rank, comm, {2}, 0);
    });
    CHECK((rests[0] == Rest{RONDO_OK, 0, 2, 1} && rests[1] == Rest{RONDO_OK, 1, 2, 1}));
  }
}

TEST_CASE("shrink: whenever the abort comes, the attempt ends, and the parent goes on") {
  Ranks ranks(2);
  for (int delay_us = 0; delay_us < 4000; delay_us += 200) {
    CAPTURE(delay_us);
    std::vector<rondo_comm_t> rests{begin(ranks[0], {}), begin(ranks[1], {})};
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    CHECK(rondo_comm_abort(rests[1]) == RONDO_OK);
    CHECK(outcome_of(rests[1]) == RONDO_ERROR_ABORTED);
    const rondo_status_t other = outcome_of(rests[0]);
    CAPTURE(other);  // REMOTE: the aborted rank had entered, and has left
    CHECK((other == RONDO_OK || other == RONDO_ERROR_ABORTED || other == RONDO_ERROR_REMOTE));
    for (const rondo_comm_t rest : rests) CHECK(rondo_comm_destroy(rest) == RONDO_OK);
  }
  CHECK(ranks.each<int>([](int rank, rondo_comm_t comm) { return sum(comm, rank); }) == std::vector<int>(2, 1));
}

TEST_CASE("shrink: ranks that call it with other ranks are told, and the next call of all works") {
  Ranks ranks(3);
  rondo_comm_t rest = begin(ranks[0], {2}), other = begin(ranks[1], {});
  for (const rondo_comm_t each : {rest, other}) {
    CHECK(outcome_of(each) == RONDO_ERROR_MISMATCH);
    CHECK(rondo_comm_destroy(each) == RONDO_OK);
  }
  rest = begin(ranks[0], {2});  // rank 0's second shrink meets rank 1's first
  other = begin(ranks[1], {2});
  CHECK((outcome_of(rest) == RONDO_OK && outcome_of(other) == RONDO_OK));
  for (const rondo_comm_t each : {rest, other}) CHECK(rondo_comm_destroy(each) == RONDO_OK);
  rest = begin(ranks[0], {2});
  CHECK(rondo_comm_abort(rest) == RONDO_OK);
  CHECK(rondo_comm_destroy(rest) == RONDO_OK);
  other = begin(ranks[1], {2});  // both ranks have begun equally many, so rank 1 learns of the failure
  CHECK(outcome_of(other) == RONDO_ERROR_ABORTED);
  CHECK(rondo_comm_destroy(other) == RONDO_OK);
}

TEST_CASE("shrink: the destruction of a member's parent ends it") {
  Ranks ranks(2);
  rondo_comm_t rest = begin(ranks[0], {});
  CHECK(rondo_comm_destroy(ranks[1]) == RONDO_OK);
  ranks.forget(1);
  CHECK(outcome_of(rest) == RONDO_ERROR_REMOTE);
  CHECK_THAT(error_message(rest), Contains("has left the communicator"));
  CHECK(rondo_comm_destroy(rest) == RONDO_OK);
}

TEST_CASE("revoke: a rank that waits is woken, every later call says so, and the ranks shrink") {
  Ranks ranks(3);
  const auto statuses = ranks.each<rondo_status_t>([](int rank, rondo_comm_t comm) {
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (rondo_comm_revoke(comm) != RONDO_OK) return RONDO_ERROR_INTERNAL;
    }
    for (int call = 0; call < 2; ++call)
      if (const rondo_status_t status = rondo_barrier(comm, nullptr); status != RONDO_ERROR_REVOKED) return status;
    return rondo_comm_flush(comm);
  });
  CHECK(statuses == std::vector<rondo_status_t>(3, RONDO_ERROR_REVOKED));
  CHECK_THAT(error_message(ranks[0]), Contains("rank 2 revoked the communicator"));
  CHECK(std::string(rondo_status_string(RONDO_ERROR_REVOKED)) == "revoked");
  const auto rests = ranks.each<Rest>(
      [](int rank, rondo_comm_t comm) { return shrink_and_sum(rank, comm, {}, RONDO_SHRINK_ABORT); });
  for (int rank = 0; rank < 3; ++rank) CHECK(rests[static_cast<size_t>(rank)] == Rest{RONDO_OK, rank, 3, 3});
}

TEST_CASE("shrink: with RONDO_SHRINK_ABORT, an excluded rank that waits gets RONDO_ERROR_REVOKED") {
  Ranks ranks(3);
  const auto rests = ranks.each<Rest>([](int rank, rondo_comm_t comm) {
    return rank == 2 ? Rest{rondo_barrier(comm, nullptr)} : shrink_and_sum(rank, comm, {2}, RONDO_SHRINK_ABORT);
  });
  CHECK((rests[0] == Rest{RONDO_OK, 0, 2, 1} && rests[1] == Rest{RONDO_OK, 1, 2, 1}));
  CHECK(rests[2].status == RONDO_ERROR_REVOKED);
}

TEST_CASE("flush: waits for what was enqueued on this rank alone, and the communicator stays usable") {
  Ranks ranks(2);
  const auto sums = ranks.each<int>([](int rank, rondo_comm_t comm) {
    rondo_stream_t stream = nullptr;
    int value = rank + 1, result = 0;
    if (rondo_stream_create(&stream) != RONDO_OK) return -1;
    if (rondo_all_reduce(&value, &result, 1, RONDO_INT32, RONDO_SUM, comm, stream) != RONDO_OK) return -2;
    if (rondo_comm_flush(comm) != RONDO_OK || result != 3) return -3;
    if (rondo_comm_flush(comm) != RONDO_OK || rondo_stream_destroy(stream) != RONDO_OK) return -4;
    return sum(comm, rank);
  });
  CHECK(sums == std::vector<int>(2, 1));
  CHECK(rondo_comm_flush(nullptr) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_comm_revoke(nullptr) == RONDO_ERROR_INVALID_HANDLE);
}
