// SPDX-License-Identifier: Apache-2.0
// These tests split a communicator whose ranks are threads. tests/proc/split_test.py and tests/net/split_hosts_test.py
// split communicators of processes and of hosts.
#include "src/core/derive.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "src/api/lookup.h"
#include "tests/catch.h"
#include "tests/test_clock.h"
#include "tests/unit/nonblocking.h"
#include "tests/unit/ranks.h"

using rondo::SplitCall;
using rondo_test::error_message;
using rondo_test::nonblocking;
using rondo_test::outcome_of;
using rondo_test::Ranks;
using rondo_test::state_of;

namespace {

/// Returns the sum of `value` over the ranks, or -1 after a failure.
int sum(rondo_comm_t comm, int value) {
  int result = 0;
  return rondo_all_reduce(&value, &result, 1, RONDO_INT32, RONDO_SUM, comm, nullptr) == RONDO_OK ? result : -1;
}

/// The result of a split for one rank. `sum` adds up the members' ranks in the parent.
struct Part {
  rondo_status_t status = RONDO_ERROR_INTERNAL;
  bool has_part = false;
  int rank = -1, size = -1, sum = -1;

  bool operator==(const Part &) const = default;
};

Part split_and_sum(int rank, rondo_comm_t comm, int color, int key) {
  auto *comm_of_part = reinterpret_cast<rondo_comm_t>(&rank);  // not null, so that only the call can make it null
  Part part;
  part.status = rondo_comm_split(comm, color, key, nullptr, &comm_of_part);
  part.has_part = part.status == RONDO_OK && comm_of_part != nullptr;
  if (!part.has_part) return part;
  static_cast<void>(rondo_comm_rank(comm_of_part, &part.rank));
  static_cast<void>(rondo_comm_size(comm_of_part, &part.size));
  part.sum = sum(comm_of_part, rank);
  if (rondo_comm_destroy(comm_of_part) != RONDO_OK) part.status = RONDO_ERROR_INTERNAL;
  return part;
}

}  // namespace

TEST_CASE("split: members have the order of their keys, then of their ranks") {
  const std::vector<SplitCall> calls{{1, 5}, {2, 0}, {1, -5}, {RONDO_NO_COLOR, 0}, {1, 5}, {2, 0}, {1, INT32_MIN}};
  CHECK(rondo::members_of(calls, 1) == std::vector<uint32_t>{6, 2, 0, 4});
  CHECK(rondo::members_of(calls, 2) == std::vector<uint32_t>{1, 5});
  CHECK(rondo::members_of(calls, 3).empty());
}

TEST_CASE("split: a record holds any call, and is of no other operation") {
  for (const SplitCall &call : {SplitCall{0, 0, 65535, ~uint64_t{0}}, SplitCall{INT32_MAX, INT32_MIN, 1, 7},
                                SplitCall{RONDO_NO_COLOR, -1, 0, 0}})
    CHECK(rondo::split_call_of(rondo::record_of(call)) == call);
  CHECK_FALSE(rondo::split_call_of(rondo::finalize_signature));
  CHECK_FALSE(rondo::split_call_of(rondo::Signature{RONDO_BARRIER, RONDO_UINT8, RONDO_MAX, 0, 1, 0}));
  CHECK(rondo::describe(rondo::record_of({3, -4, 9, 9})) == "rondo_comm_split with color 3 and key -4");
}

TEST_CASE("split: parts have the ranks of their color, and sum over them") {
  for (const int size : {1, 2, 4, 8}) {
    CAPTURE(size);
    Ranks ranks(size);
    REQUIRE(ranks.status() == RONDO_OK);
    for (const int colors : {1, 2, 3, 8}) {
      CAPTURE(colors);
      const auto parts = ranks.each<Part>(
          [&](int rank, rondo_comm_t comm) { return split_and_sum(rank, comm, rank % colors, -rank); });
      for (int rank = 0; rank < size; ++rank) {
        int members = 0, above = 0, total = 0;
        for (int other = rank % colors; other < size; other += colors) {
          ++members;
          above += other > rank ? 1 : 0;
          total += other;
        }
        CHECK(parts[static_cast<size_t>(rank)] == Part{RONDO_OK, true, above, members, total});
      }
    }
    CHECK(ranks.each<int>([&](int rank, rondo_comm_t comm) { return sum(comm, rank); })[0] == size * (size - 1) / 2);
  }
}

TEST_CASE("split: a rank without a color gets NULL, and so may all") {
  Ranks ranks(4);
  for (const int left_out : {1, 4}) {
    const auto parts = ranks.each<Part>([&](int rank, rondo_comm_t comm) {
      return split_and_sum(rank, comm, rank < left_out ? RONDO_NO_COLOR : 0, 0);
    });
    for (int rank = 0; rank < 4; ++rank)
      CHECK(parts[static_cast<size_t>(rank)] ==
            (rank < left_out ? Part{RONDO_OK, false} : Part{RONDO_OK, true, rank - 1, 3, 6}));
  }
}

TEST_CASE("split: each part has a secret of its own, also if the first member is the same") {
  Ranks ranks(2);
  const auto secrets = ranks.each<std::vector<std::vector<std::byte>>>([](int, rondo_comm_t comm) {
    std::vector<std::vector<std::byte>> found;
    for (int split = 0; split < 2; ++split) {
      rondo_comm_t part = nullptr;
      if (rondo_comm_split(comm, 0, 0, nullptr, &part) != RONDO_OK) break;
      {
        const auto made = rondo::communicator_of(part);
        const auto &bytes = made.value()->secret().bytes;
        found.emplace_back(bytes.begin(), bytes.end());
      }
      if (rondo_comm_destroy(part) != RONDO_OK) break;
    }
    return found;
  });
  REQUIRE(secrets[0].size() == 2);
  CHECK(secrets[0][0] != secrets[0][1]);
  CHECK(secrets[0] == secrets[1]);
}

TEST_CASE("split: part and parent compute beside each other, and the part outlives the parent") {
  Ranks ranks(4);
  std::vector<rondo_comm_t> parts(4);
  CHECK(rondo_test::all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    return rondo_comm_split(comm, rank / 2, 0, nullptr, &parts[static_cast<size_t>(rank)]);
  })));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      for (int round = 0; round < 200; ++round) wrong += sum(ranks[rank], rank + round) == 6 + 4 * round ? 0 : 1;
    });
    threads.emplace_back([&, rank] {
      for (int round = 0; round < 200; ++round)
        wrong += sum(parts[static_cast<size_t>(rank)], rank + round) == 2 * round + (rank < 2 ? 1 : 5) ? 0 : 1;
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK(wrong == 0);
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(rondo_comm_destroy(ranks[rank]) == RONDO_OK);
    ranks.forget(rank);
  }
  Ranks none(1);
  const auto after = none.each<int>([&](int, rondo_comm_t) {
    int first = 0;
    std::thread other([&] { static_cast<void>(sum(parts[0], 1)); });
    first = sum(parts[1], 2);
    other.join();
    return first;
  });
  CHECK(after[0] == 3);
  for (const rondo_comm_t part : parts) CHECK(rondo_comm_destroy(part) == RONDO_OK);
}

TEST_CASE("split: the configuration of the parent is inherited, and another one can be given") {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.chunk_bytes = 4096;
  config.kernel = RONDO_KERNEL_INTERPRETER;
  Ranks ranks(2, config);
  REQUIRE(ranks.status() == RONDO_OK);
  rondo_config_t other = RONDO_CONFIG_INIT;
  other.chunk_bytes = 8192;
  other.kernel = RONDO_KERNEL_INTERPRETER;
  const auto chunk_of = [&](rondo_comm_t comm, const rondo_config_t *given) -> uint64_t {
    rondo_comm_t part = nullptr;
    rondo_plan_info_t info = RONDO_PLAN_INFO_INIT;
    if (rondo_comm_split(comm, 0, 0, given, &part) != RONDO_OK) return 0;
    const rondo_status_t asked = rondo_comm_query_plan(part, RONDO_ALL_REDUCE, 1 << 20, RONDO_FLOAT32, &info);
    return rondo_comm_destroy(part) == RONDO_OK && asked == RONDO_OK ? info.chunk_bytes : 0;
  };
  for (const rondo_config_t *given : {static_cast<const rondo_config_t *>(nullptr), &std::as_const(other)})
    CHECK(ranks.each<uint64_t>([&](int, rondo_comm_t comm) { return chunk_of(comm, given); }) ==
          std::vector<uint64_t>(2, given == nullptr ? 4096 : 8192));
}

TEST_CASE("split: wrong arguments are refused, and change nothing") {
  Ranks ranks(1);
  rondo_comm_t part = nullptr;
  CHECK(rondo_comm_split(nullptr, 0, 0, nullptr, &part) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_comm_split(ranks[0], 0, 0, nullptr, nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(error_message(), Contains("part is NULL"));
  CHECK(rondo_comm_split(ranks[0], -2, 0, nullptr, &part) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(error_message(), Contains("color is -2; it must be 0 or more, or RONDO_NO_COLOR"));
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.channels = 99;
  CHECK(rondo_comm_split(ranks[0], 0, 0, &config, &part) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(error_message(), Contains("RONDO_CHANNELS: '99' is not a number from 1 to 8"));
  CHECK(rondo_group_begin() == RONDO_OK);
  CHECK(rondo_comm_split(ranks[0], 0, 0, nullptr, &part) == RONDO_ERROR_INVALID_USAGE);
  CHECK(rondo_group_end() == RONDO_ERROR_INVALID_USAGE);
  CHECK_THAT(error_message(), Contains("rondo_comm_split cannot be part of a group"));
  CHECK(part == nullptr);
  CHECK(sum(ranks[0], 3) == 3);
  CHECK(rondo_comm_finalize(ranks[0]) == RONDO_OK);
  CHECK(rondo_comm_split(ranks[0], 0, 0, nullptr, &part) == RONDO_ERROR_INVALID_HANDLE);
}

TEST_CASE("split: ranks of a part that differ in configuration get both values, and the parent goes on") {
  Ranks ranks(3);
  const auto messages = ranks.each<std::string>([](int rank, rondo_comm_t comm) -> std::string {
    rondo_config_t config = RONDO_CONFIG_INIT;
    config.chunk_bytes = rank == 1 ? 8192 : 4096;
    rondo_comm_t part = nullptr;
    const bool differs = rondo_comm_split(comm, rank == 0 ? 0 : 5, 0, &config, &part) == RONDO_ERROR_MISMATCH;
    const std::string message = differs ? error_message(comm) : "made";
    if (part != nullptr && rondo_comm_destroy(part) != RONDO_OK) return "not destroyed";
    return sum(comm, 1) == 3 ? message : "wrong sum";
  });
  CHECK(messages[0] == "made");
  for (const size_t rank : {1u, 2u}) {
    CHECK_THAT(messages[rank], Contains("rondo_comm_split with color 5 (1, 2 of the parent): "));
    CHECK_THAT(messages[rank], Contains("rondo_config_t.chunk_bytes: 8K and 4K"));
  }
}

TEST_CASE("split: without waiting, the call returns before the others have called, and the parent keeps its order") {
  Ranks ranks(2);
  const rondo_config_t config = nonblocking();
  std::vector<rondo_comm_t> parts(2);
  int first = -1;
  REQUIRE(rondo_comm_split(ranks[0], 0, 0, &config, &parts[0]) == RONDO_OK);
  CHECK(state_of(parts[0]) == RONDO_NOT_READY);
  std::thread rank_0([&] { first = sum(ranks[0], 5); });
  REQUIRE(rondo_comm_split(ranks[1], 0, 0, &config, &parts[1]) == RONDO_OK);
  CHECK(sum(ranks[1], 6) == 11);
  rank_0.join();
  CHECK(first == 11);
  CHECK((outcome_of(parts[0]) == RONDO_OK && outcome_of(parts[1]) == RONDO_OK));
  std::thread part_0([&] { first = sum(parts[0], 1); });
  CHECK(sum(parts[1], 2) == 3);
  part_0.join();
  for (const rondo_comm_t part : parts) CHECK(rondo_comm_destroy(part) == RONDO_OK);
  rondo_comm_t none = parts[0];
  REQUIRE(rondo_comm_split(ranks[0], RONDO_NO_COLOR, 0, &config, &none) == RONDO_OK);  // does not wait for others
  CHECK(none == nullptr);
  REQUIRE(rondo_comm_split(ranks[1], 1, 0, &config, &parts[1]) == RONDO_OK);
  CHECK(outcome_of(parts[1]) == RONDO_OK);
  CHECK(rondo_comm_destroy(parts[1]) == RONDO_OK);
}

TEST_CASE("split: what is aborted before the others have called ends at once, and they hear of it") {
  for (const int key : {0, 10}) {  // rank 0's key decides whether it serves the part's store
    CAPTURE(key);
    Ranks ranks(3);
    const rondo_test::HeldClock clock;  // an ending store waits a second for those that must still learn of the abort
    const rondo_config_t config = nonblocking();
    std::vector<rondo_comm_t> parts(3);
    REQUIRE(rondo_comm_split(ranks[0], 0, key, &config, &parts[0]) == RONDO_OK);
    CHECK(rondo_comm_abort(parts[0]) == RONDO_OK);
    CHECK(outcome_of(parts[0]) == RONDO_ERROR_ABORTED);
    CHECK_THAT(error_message(parts[0]), Contains("rondo_comm_split was aborted here before all ranks had called it"));
    CHECK(rondo_comm_destroy(parts[0]) == RONDO_OK);
    for (const size_t rank : {1u, 2u})
      REQUIRE(rondo_comm_split(ranks[static_cast<int>(rank)], 0, 5, &config, &parts[rank]) == RONDO_OK);
    for (const size_t rank : {1u, 2u}) {
      CHECK(outcome_of(parts[rank]) == RONDO_ERROR_ABORTED);
      CHECK_THAT(error_message(parts[rank]), Contains("was aborted"));
      CHECK(rondo_comm_destroy(parts[rank]) == RONDO_OK);
    }
    CHECK(ranks.each<int>([](int rank, rondo_comm_t comm) { return sum(comm, rank); }) == std::vector<int>(3, 3));
  }
}

TEST_CASE("split: whenever the abort comes, the attempt ends, and the parent goes on") {
  Ranks ranks(2);
  const rondo_config_t config = nonblocking();
  for (int delay_us = 0; delay_us < 4000; delay_us += 200) {
    CAPTURE(delay_us);
    std::vector<rondo_comm_t> parts(2);
    for (const int rank : {0, 1})
      REQUIRE(rondo_comm_split(ranks[rank], 0, 0, &config, &parts[static_cast<size_t>(rank)]) == RONDO_OK);
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    CHECK(rondo_comm_abort(parts[1]) == RONDO_OK);
    CHECK(outcome_of(parts[1]) == RONDO_ERROR_ABORTED);
    const rondo_status_t other = outcome_of(parts[0]);
    CAPTURE(other);  // REMOTE: the aborted rank had entered, and has left
    CHECK((other == RONDO_OK || other == RONDO_ERROR_ABORTED || other == RONDO_ERROR_REMOTE));
    for (const rondo_comm_t part : parts) CHECK(rondo_comm_destroy(part) == RONDO_OK);
  }
  CHECK(ranks.each<int>([](int rank, rondo_comm_t comm) { return sum(comm, rank); }) == std::vector<int>(2, 1));
}

TEST_CASE("split: an abort of the parent ends it, and so does its destruction on a rank that did not call") {
  for (const bool aborts : {true, false}) {
    Ranks ranks(2);
    const rondo_config_t config = nonblocking();
    rondo_comm_t part = nullptr;
    REQUIRE(rondo_comm_split(ranks[0], 0, 0, &config, &part) == RONDO_OK);
    CHECK((aborts ? rondo_comm_abort(ranks[1]) : rondo_comm_destroy(ranks[1])) == RONDO_OK);
    if (!aborts) ranks.forget(1);
    const rondo_status_t outcome = outcome_of(part);
    CHECK(outcome == (aborts ? RONDO_ERROR_ABORTED : RONDO_ERROR_REMOTE));
    CHECK(rondo_comm_destroy(part) == RONDO_OK);
  }
}
