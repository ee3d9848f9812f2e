// SPDX-License-Identifier: Apache-2.0
// These tests grow a communicator whose ranks are threads. Other tests, in tests/proc and tests/net, grow communicators
// of processes and of hosts in which ranks die.
#include "src/core/derive.h"

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/core/regroup_note.h"
#include "tests/catch.h"
#include "tests/test_clock.h"
#include "tests/unit/nonblocking.h"
#include "tests/unit/ranks.h"
#include "tests/unit/store_visitor.h"

using rondo_test::error_message;
using rondo_test::HeldClock;
using rondo_test::nonblocking;
using rondo_test::outcome_of;
using rondo_test::Ranks;
using rondo_test::state_of;
using rondo_test::wait_until_missing;

namespace {

/// Returns the sum of `value` over the ranks, or -1 after a failure.
int sum(rondo_comm_t comm, int value) {
  int result = 0;
  return rondo_all_reduce(&value, &result, 1, RONDO_INT32, RONDO_SUM, comm, nullptr) == RONDO_OK ? result : -1;
}

rondo_unique_id_t id_of(rondo_comm_t comm) {
  rondo_unique_id_t id{};
  REQUIRE(rondo_comm_grow_id(comm, &id) == RONDO_OK);
  return id;
}

/// The result of one rank. `sum` is the sum of the ranks' numbers.
struct Grown {
  rondo_status_t status = RONDO_ERROR_INTERNAL;
  int rank = -1, size = -1, sum = -1;
  rondo_error_t error = RONDO_ERROR_INIT;
};

/// The arguments of one rank.
struct Asked {
  rondo_comm_t comm = nullptr;  ///< null on a new rank
  const rondo_unique_id_t *id = nullptr;
  int rank = -1, size = 0;
  std::optional<rondo_config_t> config{};
};

Grown grow_and_sum(const Asked &asked) {
  rondo_comm_t comm = nullptr;
  Grown grown;
  grown.status = rondo_comm_grow(asked.comm, asked.id, asked.rank, asked.size,
                                 asked.config ? &*asked.config : nullptr, &comm);
  static_cast<void>(rondo_comm_last_error(nullptr, &grown.error));
  if (grown.status != RONDO_OK) return grown;
  static_cast<void>(rondo_comm_rank(comm, &grown.rank));
  static_cast<void>(rondo_comm_size(comm, &grown.size));
  grown.sum = sum(comm, grown.rank);
  if (rondo_comm_destroy(comm) != RONDO_OK) grown.status = RONDO_ERROR_INTERNAL;
  return grown;
}

/// Grows on all ranks at the same time, each on a thread of its own.
std::vector<Grown> grow_all(const std::vector<Asked> &asked) {
  std::vector<Grown> grown(asked.size());
  std::vector<std::thread> threads;
  for (size_t at = 0; at < asked.size(); ++at)
    threads.emplace_back([&, at] { grown[at] = grow_and_sum(asked[at]); });
  for (std::thread &thread : threads) thread.join();
  return grown;
}

/// Grows on all ranks. Their deadlines begin to pass when the store misses only `missing`. Rank `visitor` also enters
/// the store, since the store reports the missing ranks to it.
std::vector<Grown> grow_late(const std::vector<Asked> &asked, const rondo_unique_id_t &id, uint32_t visitor,
                             uint32_t size, const std::string &missing) {
  std::optional<HeldClock> clock(std::in_place);
  std::vector<Grown> grown;
  std::thread calls([&] { grown = grow_all(asked); });
  const auto entered = wait_until_missing(id, visitor, size, missing);
  clock.reset();
  calls.join();
  return grown;
}

/// Begins a nonblocking grow on an old rank.
rondo_comm_t begin(rondo_comm_t comm, int size) {
  const rondo_config_t config = nonblocking();
  rondo_comm_t grown = nullptr;
  REQUIRE(rondo_comm_grow(comm, nullptr, -1, size, &config, &grown) == RONDO_OK);
  return grown;
}

/// Checks that the begun call fails with `status`, and that its message contains `words`.
void check_fails(rondo_comm_t begun, rondo_status_t status, const std::string &words) {
  CHECK(outcome_of(begun) == status);
  CHECK_THAT(error_message(begun), Contains(words));
  CHECK(rondo_comm_destroy(begun) == RONDO_OK);
}

/// Begins the grow on `first`, and only then grows on the other old ranks and on one new rank. Checks that all succeed.
void grow_by_one(Ranks &ranks, int first) {
  const int before = ranks.size();
  const rondo_unique_id_t id = id_of(ranks[0]);
  const rondo_comm_t begun = begin(ranks[first], before + 1);
  std::vector<rondo_comm_t> grown{begun};
  for (int rank = 0; rank < before; ++rank)
    if (rank != first) grown.push_back(begin(ranks[rank], before + 1));
  const rondo_config_t config = nonblocking();
  rondo_comm_t entered = nullptr;
  REQUIRE(rondo_comm_grow(nullptr, &id, before, before + 1, &config, &entered) == RONDO_OK);
  grown.push_back(entered);
  for (const rondo_comm_t each : grown) {
    CHECK(outcome_of(each) == RONDO_OK);
    CHECK(rondo_comm_destroy(each) == RONDO_OK);
  }
}

std::vector<Asked> old_ranks(const Ranks &ranks, int size) {
  std::vector<Asked> asked;
  for (int rank = 0; rank < ranks.size(); ++rank) asked.push_back({ranks[rank], nullptr, -1, size});
  return asked;
}

rondo_config_t with_init_timeout(uint32_t milliseconds) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.init_timeout_ms = milliseconds;
  return config;
}

void check_usable(Ranks &ranks) {
  const int total = ranks.size() * (ranks.size() - 1) / 2;
  const auto sums = ranks.each<int>([](int rank, rondo_comm_t comm) { return sum(comm, rank); });
  CHECK(sums == std::vector<int>(static_cast<size_t>(ranks.size()), total));
}

/// Checks that all ranks failed with the status, and that their messages contain the words. The last `late` ranks may
/// have called too late to learn the reason.
void check_failed(const std::vector<Grown> &grown, rondo_status_t status, const std::string &words, size_t late = 0) {
  for (size_t at = 0; at < grown.size(); ++at) {
    const Grown &each = grown[at];
    CAPTURE(at, each.error.message);
    if (at + late >= grown.size() && each.status == RONDO_ERROR_REMOTE) continue;
    CHECK(each.status == status);
    CHECK_THAT(std::string(each.error.message), Contains(words));
  }
}

}  // namespace

TEST_CASE("grow: a note holds an address and the tag of an id, and no secret") {
  rondo::RegroupNote grow;
  grow.wanted.grown_size = 70'000;
  grow.port = 65535;
  grow.nonce = 7;
  grow.id_tag = ~uint64_t{0};
  for (size_t at = 0; at < grow.place.size(); ++at) grow.place[at] = at + 1;
  rondo::Note note;
  rondo::write_words(grow, note);
  const auto read = rondo::regroup_note_of(note);
  REQUIRE(read);
  CHECK((read->matches(grow) && read->place == grow.place && read->id_tag == grow.id_tag && read->port == 65535));
  CHECK(read->wanted.describe() == "grows it to 70000 ranks");
  rondo::RegroupNote shrink;
  CHECK_FALSE(read->matches(shrink));
}

TEST_CASE("grow: old ranks keep their numbers, new ranks have what they give, and the parent computes on") {
  for (const int before : {1, 3}) {
    for (const int maker : {0, before - 1}) {
      CAPTURE(before, maker);
      Ranks ranks(before);
      const int size = before + 2;
      const rondo_unique_id_t id = id_of(ranks[maker]);
      std::vector<Asked> asked = old_ranks(ranks, size);
      if (maker == 0) asked[0].id = &id;  // old ranks may pass the id, too
      asked.push_back({nullptr, &id, size - 1, size});
      asked.push_back({nullptr, &id, size - 2, size});
      const auto grown = grow_all(asked);
      for (int at = 0; at < size; ++at) {
        const Grown &each = grown[static_cast<size_t>(at)];
        CAPTURE(at, each.error.message);
        CHECK(each.status == RONDO_OK);
        CHECK(each.rank == (at < before ? at : at == before ? size - 1 : size - 2));
        CHECK((each.size == size && each.sum == size * (size - 1) / 2));
      }
      check_usable(ranks);
      const rondo_unique_id_t next = id_of(ranks[maker]);  // the same parent grows once more
      asked = old_ranks(ranks, before + 1);
      asked.push_back({nullptr, &next, before, before + 1});
      for (const Grown &each : grow_all(asked)) CHECK(each.sum == before * (before + 1) / 2);
    }
  }
}

TEST_CASE("grow: the secret of an id is not that of the parent, and each id has its own") {
  Ranks ranks(1);
  const auto first = rondo::decode_unique_id(id_of(ranks[0]));
  rondo_unique_id_t again;
  CHECK(rondo_comm_grow_id(ranks[0], &again) == RONDO_ERROR_INVALID_USAGE);
  CHECK_THAT(error_message(), Contains("is not used yet"));
  const auto encoded = rondo::encode_unique_id(first.value());
  CHECK(rondo_unique_id_free(&encoded.value()) == RONDO_OK);
  const auto second = rondo::decode_unique_id(id_of(ranks[0]));
  REQUIRE((first.ok() && second.ok()));
  CHECK(!(first.value().secret == second.value().secret));
  CHECK(first.value().group != second.value().group);
}

TEST_CASE("grow: wrong arguments are refused, and change nothing") {
  Ranks ranks(2);
  rondo_comm_t grown = nullptr;
  rondo_unique_id_t id{};
  const auto refused = [&](rondo_comm_t comm, const rondo_unique_id_t *given, int rank, int size) {
    CHECK(rondo_comm_grow(comm, given, rank, size, nullptr, &grown) == RONDO_ERROR_INVALID_ARGUMENT);
    return error_message();
  };
  CHECK(rondo_comm_grow_id(ranks[0], nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_comm_grow_id(nullptr, &id) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_comm_grow(ranks[0], nullptr, -1, 3, nullptr, nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(refused(ranks[0], nullptr, -1, 2), Contains("size is 2; the communicator has 2 ranks, and grows"));
  CHECK_THAT(refused(ranks[0], nullptr, -1, 4097), Contains("size is 4097; a communicator has at most 4096 ranks"));
  CHECK_THAT(refused(ranks[0], nullptr, 0, 3), Contains("rank is 0; the ranks of comm keep their numbers"));
  CHECK_THAT(refused(ranks[0], &id, -1, 3), Contains("unique id: this is not one"));
  CHECK_THAT(refused(nullptr, nullptr, 2, 3), Contains("id is NULL; a new rank needs"));
  CHECK_THAT(refused(nullptr, &id, 3, 3), Contains("rank is 3; it must be 0 to 2"));
  CHECK(rondo_group_begin() == RONDO_OK);
  CHECK(rondo_comm_grow(ranks[0], nullptr, -1, 3, nullptr, &grown) == RONDO_ERROR_INVALID_USAGE);
  CHECK(rondo_group_end() == RONDO_ERROR_INVALID_USAGE);
  CHECK(grown == nullptr);
  check_usable(ranks);
  Ranks alone(1);
  CHECK(rondo_comm_finalize(alone[0]) == RONDO_OK);
  CHECK(rondo_comm_grow_id(alone[0], &id) == RONDO_ERROR_INVALID_HANDLE);
}

TEST_CASE("grow: old ranks that disagree are named, new ranks hear of it, and the parent computes on") {
  Ranks ranks(3);
  check_failed(grow_all(old_ranks(ranks, 4)), RONDO_ERROR_INVALID_USAGE, "no rank has an unused id");
  const auto fail = [&](const rondo_unique_id_t &id, std::vector<Asked> asked, const std::string &words) {
    asked.push_back({nullptr, &id, 3, 4});
    check_failed(grow_all(asked), RONDO_ERROR_MISMATCH, words, 1);
    check_usable(ranks);
  };
  rondo_unique_id_t id = id_of(ranks[0]), other = id_of(ranks[2]);
  fail(id, old_ranks(ranks, 4), "have both called rondo_comm_grow_id");
  id = id_of(ranks[1]);
  std::vector<Asked> asked = old_ranks(ranks, 4);
  asked[2].id = &other;
  fail(id, asked, "rank 2");
}

TEST_CASE("grow: after a wrong size, a late rank hears of the two sizes, and the right size works") {
  Ranks ranks(3);
  const rondo_unique_id_t id = id_of(ranks[1]);
  const rondo_comm_t right = begin(ranks[0], 4), wrong = begin(ranks[1], 5);
  const rondo_config_t config = nonblocking();
  rondo_comm_t entered = nullptr;
  REQUIRE(rondo_comm_grow(nullptr, &id, 4, 5, &config, &entered) == RONDO_OK);
  check_fails(right, RONDO_ERROR_MISMATCH, "rank 1");
  check_fails(wrong, RONDO_ERROR_MISMATCH, "grows it to 4 ranks");
  const rondo_status_t told = outcome_of(entered);
  CHECK((told == RONDO_ERROR_MISMATCH || told == RONDO_ERROR_REMOTE));  // REMOTE: the store ended before this rank came
  CHECK(rondo_comm_destroy(entered) == RONDO_OK);
  check_fails(begin(ranks[2], 4), RONDO_ERROR_MISMATCH, "grows it to 5 ranks");
  grow_by_one(ranks, 0);
  grow_by_one(ranks, 1);
  check_usable(ranks);
}

TEST_CASE("grow: ranks that have called less often join the latest call") {
  for (const int rank_count : {2, 3}) {
    CAPTURE(rank_count);
    Ranks ranks(rank_count);
    rondo_comm_t grown = nullptr;
    for (int failures = 0; failures < 2; ++failures) {  // only rank 0 calls
      CHECK(rondo_comm_grow(ranks[1], nullptr, -1, rank_count, nullptr, &grown) == RONDO_ERROR_INVALID_ARGUMENT);
      grown = begin(ranks[0], rank_count + 2 - failures);
      CHECK(rondo_comm_abort(grown) == RONDO_OK);
      check_fails(grown, RONDO_ERROR_ABORTED, "was aborted here");
    }
    if (rank_count == 3) check_fails(begin(ranks[2], 4), RONDO_ERROR_ABORTED, "has given up (aborted)");
    grow_by_one(ranks, 0);
    grow_by_one(ranks, 1);
    check_usable(ranks);
  }
}

TEST_CASE("grow: a new rank that disagrees fails all ranks, and the parent computes on") {
  Ranks ranks(2);
  rondo_unique_id_t id = id_of(ranks[0]);
  std::vector<Asked> asked = old_ranks(ranks, 3);
  asked.push_back({nullptr, &id, 2, 4});
  check_failed(grow_all(asked), RONDO_ERROR_MISMATCH, "give the same size to all");
  id = id_of(ranks[0]);
  asked = old_ranks(ranks, 3);
  asked.push_back({nullptr, &id, 1, 3});  // rank 1 is an old rank
  check_failed(grow_all(asked), RONDO_ERROR_MISMATCH, "rank 1 joined twice");
  id = id_of(ranks[1]);
  asked = old_ranks(ranks, 3);
  asked.push_back({nullptr, &id, 2, 3, with_init_timeout(0)});
  asked.back().config->algorithm = RONDO_ALGORITHM_RING;
  check_failed(grow_all(asked), RONDO_ERROR_MISMATCH, "RONDO_ALGORITHM");
  check_usable(ranks);
}

TEST_CASE("grow: ranks that do not come are a timeout that names them") {
  Ranks ranks(2);
  rondo_unique_id_t id = id_of(ranks[0]);
  std::vector<Asked> asked = old_ranks(ranks, 4);
  for (Asked &each : asked) each.config = with_init_timeout(300);
  check_failed(grow_late(asked, id, 2, 4, "rank 3 (1 of 4)"), RONDO_ERROR_TIMEOUT,
               "rondo_comm_grow to 4 ranks (0, 1 of the parent)");
  asked = old_ranks(ranks, 5);
  id = id_of(ranks[1]);
  for (Asked &each : asked) each.config = with_init_timeout(300);
  asked.push_back({nullptr, &id, 3, 5, with_init_timeout(300)});
  check_failed(grow_late(asked, id, 2, 5, "rank 4 (1 of 5)"), RONDO_ERROR_TIMEOUT, "rank 4");
  check_usable(ranks);
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.timeout_ms = 300;
  Ranks impatient(2, config);
  id = id_of(impatient[0]);
  std::vector<Grown> grown(2);
  std::optional<HeldClock> clock(std::in_place);
  std::thread new_rank([&] { grown[1] = grow_and_sum({nullptr, &id, 2, 3}); });
  const auto rank_1 = wait_until_missing(id, 1, 3, "rank 0 (1 of 3)");  // the new rank has come
  clock.reset();
  grown[0] = grow_and_sum({impatient[0], nullptr, -1, 3});
  new_rank.join();
  check_failed(grown, RONDO_ERROR_TIMEOUT, "has not called it in time");
}

TEST_CASE("grow: one that is not waited for becomes ready, and one that never completes is aborted") {
  Ranks ranks(2);
  const rondo_config_t config = nonblocking();
  rondo_unique_id_t id = id_of(ranks[0]);
  std::vector<rondo_comm_t> grown(3);
  for (int rank = 0; rank < 2; ++rank)
    REQUIRE(rondo_comm_grow(ranks[rank], nullptr, -1, 3, &config, &grown[static_cast<size_t>(rank)]) == RONDO_OK);
  CHECK(state_of(grown[0]) == RONDO_NOT_READY);
  REQUIRE(rondo_comm_grow(nullptr, &id, 2, 3, &config, &grown[2]) == RONDO_OK);
  for (const rondo_comm_t each : grown) CHECK(outcome_of(each) == RONDO_OK);
  for (const rondo_comm_t each : grown) CHECK(rondo_comm_destroy(each) == RONDO_OK);
  for (const bool all : {false, true}) {  // if `all`, the other old rank has called, too
    CAPTURE(all);
    id = id_of(ranks[0]);
    REQUIRE(rondo_comm_grow(ranks[0], nullptr, -1, 3, &config, &grown[0]) == RONDO_OK);
    if (all) REQUIRE(rondo_comm_grow(ranks[1], nullptr, -1, 3, &config, &grown[1]) == RONDO_OK);
    CHECK(rondo_comm_abort(grown[0]) == RONDO_OK);
    CHECK(outcome_of(grown[0]) == RONDO_ERROR_ABORTED);
    CHECK(rondo_comm_destroy(grown[0]) == RONDO_OK);
    if (!all) REQUIRE(rondo_comm_grow(ranks[1], nullptr, -1, 3, &config, &grown[1]) == RONDO_OK);
    const rondo_status_t other = outcome_of(grown[1]);
    CHECK((other == RONDO_ERROR_ABORTED || other == RONDO_ERROR_REMOTE));  // REMOTE: the store had ended
    CHECK(rondo_comm_destroy(grown[1]) == RONDO_OK);
    const rondo_status_t late = rondo_comm_grow(nullptr, &id, 2, 3, nullptr, &grown[2]);  // its id is used up
    CHECK((late == RONDO_ERROR_ABORTED || late == RONDO_ERROR_REMOTE));  // REMOTE: the store had ended
  }
  check_usable(ranks);
}

TEST_CASE("grow: it does not mix with a shrink, and the end of a parent ends it and its id") {
  Ranks ranks(3);
  rondo_unique_id_t id = id_of(ranks[1]);
  std::optional<Grown> grown;
  std::thread thread([&] { grown = grow_and_sum({ranks[0], nullptr, -1, 4}); });
  rondo_comm_t rest = nullptr;
  CHECK(rondo_comm_shrink(ranks[1], nullptr, 0, 0, nullptr, &rest) == RONDO_ERROR_MISMATCH);
  thread.join();
  check_failed({*grown}, RONDO_ERROR_MISMATCH, "excludes {}");
  // Rank 2 calls late. It waits a while for rank 1's grow, which would report why rank 0 has given up.
  check_failed({grow_and_sum({ranks[2], nullptr, -1, 4})}, RONDO_ERROR_MISMATCH, "has given up (ranks disagree)");
  // All ranks have called now, and rank 1 finds no fault with the calls of the others.
  check_failed({grow_and_sum({ranks[1], nullptr, -1, 4})}, RONDO_ERROR_MISMATCH, "has given up (ranks disagree)");
  id = id_of(ranks[0]);
  CHECK(rondo_comm_destroy(ranks[1]) == RONDO_OK);
  check_failed({grow_and_sum({ranks[0], nullptr, -1, 4})}, RONDO_ERROR_REMOTE, "has left the communicator");
  ranks.forget(1);
  id = id_of(ranks[0]);
  CHECK(rondo_comm_destroy(ranks[0]) == RONDO_OK);
  ranks.forget(0);
  check_failed({grow_and_sum({nullptr, &id, 3, 4})}, RONDO_ERROR_REMOTE, "made the unique id");
}
