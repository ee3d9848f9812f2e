// SPDX-License-Identifier: Apache-2.0
// These tests abort a communicator on a rank that has nothing in flight. That rank only leaves: operations that do not
// need it complete, and those that need it name it.
#include <array>
#include <thread>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/ranks.h"

using rondo_test::all_ok;
using rondo_test::error_message;
using rondo_test::Ranks;

namespace {

rondo_status_t sum(rondo_comm_t comm) {
  std::array<int, 4> values{};
  return rondo_all_reduce(values.data(), values.data(), values.size(), RONDO_INT32, RONDO_SUM, comm, nullptr);
}

/// Aborts and destroys the communicator of a rank.
void abort_and_destroy(Ranks &ranks, int rank) {
  CHECK(rondo_comm_abort(ranks[rank]) == RONDO_OK);
  CHECK(rondo_comm_destroy(ranks[rank]) == RONDO_OK);
  ranks.forget(rank);
}

rondo_status_t async_error(rondo_comm_t comm) {
  rondo_status_t status = RONDO_ERROR_INTERNAL;
  return rondo_comm_get_async_error(comm, &status) == RONDO_OK ? status : RONDO_ERROR_INTERNAL;
}

/// Checks that `status` is the error of a call of rank 1 that needs rank 0, which has aborted.
void check_needs_rank_0(rondo_status_t status, rondo_comm_t comm) {
  CHECK(status == RONDO_ERROR_ABORTED);
  rondo_error_t error = RONDO_ERROR_INIT;
  REQUIRE(rondo_comm_last_error(comm, &error) == RONDO_OK);
  CHECK(error.peer == 0);
  CHECK_THAT(std::string(error.message), Contains("rank 0 (host") && Contains("has called rondo_comm_abort"));
}

}  // namespace

TEST_CASE(
    "abort: a collective whose data the aborting rank has given completes on the others, and the next one fails") {
  for (const bool destroys : {true, false}) {
    Ranks ranks(3);
    int value = 7;
    CHECK(rondo_broadcast(&value, &value, 1, RONDO_INT32, 0, ranks[0], nullptr) == RONDO_OK);
    if (destroys)
      abort_and_destroy(ranks, 0);
    else
      CHECK(rondo_comm_abort(ranks[0]) == RONDO_OK);
    for (int rank = 1; rank < 3; ++rank) {
      int got = 0;
      CHECK(rondo_broadcast(&got, &got, 1, RONDO_INT32, 0, ranks[rank], nullptr) == RONDO_OK);
      CHECK(got == 7);
      CHECK(async_error(ranks[rank]) == RONDO_OK);
    }
    check_needs_rank_0(sum(ranks[1]), ranks[1]);
    CHECK(async_error(ranks[2]) == RONDO_ERROR_ABORTED);  // rank 1 has failed the communicator by now
  }
}

TEST_CASE("abort: after a healthy run, no rank is told of the others' aborts") {
  Ranks ranks(4);
  CHECK(all_ok(ranks.run([](int rank, rondo_comm_t comm) {
    for (int call = 0; call < 100; ++call)
      if (const rondo_status_t status = sum(comm); status != RONDO_OK) return status;
    int value = rank;  // its end reaches the ranks one after the other
    const rondo_status_t last = rondo_reduce(&value, &value, 1, RONDO_INT32, RONDO_SUM, 3, comm, nullptr);
    static_cast<void>(rondo_comm_abort(comm));
    return last;
  })));
}

TEST_CASE("abort: messages that were sent before still arrive, and the next receive fails") {
  Ranks ranks(3);
  int value = 7, got = 0;
  CHECK(rondo_send(&value, 1, RONDO_INT32, 1, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_send(&value, 1, RONDO_INT32, 2, ranks[1], nullptr) == RONDO_OK);
  CHECK(rondo_signal(1, 0, ranks[0], nullptr) == RONDO_OK);
  abort_and_destroy(ranks, 0);
  CHECK(rondo_wait_signal(0, 0, 1, ranks[1], nullptr) == RONDO_OK);
  CHECK(rondo_recv(&got, 1, RONDO_INT32, 0, ranks[1], nullptr) == RONDO_OK);
  CHECK(std::exchange(got, 0) == 7);
  CHECK(rondo_recv(&got, 1, RONDO_INT32, 1, ranks[2], nullptr) == RONDO_OK);  // rank 0 is no end of it
  CHECK(got == 7);
  check_needs_rank_0(rondo_recv(&got, 1, RONDO_INT32, 0, ranks[1], nullptr), ranks[1]);
  Ranks others(2);
  abort_and_destroy(others, 0);
  check_needs_rank_0(rondo_wait_signal(0, 0, 1, others[1], nullptr), others[1]);
}

TEST_CASE("abort: on the rank that has left, every call fails, and none of them fails the others") {
  Ranks ranks(3);
  REQUIRE(rondo_comm_abort(ranks[0]) == RONDO_OK);
  rondo_comm_t const comm = ranks[0];
  CHECK(async_error(comm) == RONDO_ERROR_ABORTED);
  CHECK(sum(comm) == RONDO_ERROR_ABORTED);
  CHECK(sum(comm) == RONDO_ERROR_COMM_FAILED);
  CHECK_THAT(error_message(comm),
             Contains("rank 0 (host") && Contains("has called rondo_comm_abort; only rondo_comm_destroy is"));
  int value = 0;
  CHECK(rondo_send(&value, 1, RONDO_INT32, 1, comm, nullptr) == RONDO_ERROR_COMM_FAILED);
  CHECK(rondo_signal(1, 0, comm, nullptr) == RONDO_ERROR_COMM_FAILED);
  CHECK(rondo_comm_flush(comm) == RONDO_ERROR_COMM_FAILED);
  CHECK(rondo_comm_finalize(comm) == RONDO_ERROR_COMM_FAILED);
  rondo_comm_t part = nullptr;
  CHECK(rondo_comm_split(comm, 0, 0, nullptr, &part) == RONDO_ERROR_COMM_FAILED);
  CHECK(rondo_comm_suspend(comm, RONDO_SUSPEND_MEMORY) == RONDO_ERROR_COMM_FAILED);
  const int excluded = 1;
  CHECK(rondo_comm_shrink(comm, &excluded, 1, RONDO_SHRINK_ABORT, nullptr, &part) == RONDO_ERROR_ABORTED);
  rondo_window_t window = nullptr;
  CHECK(rondo_window_register(comm, &value, sizeof value, 0, &window) == RONDO_ERROR_COMM_FAILED);
  CHECK(rondo_group_begin() == RONDO_OK);
  CHECK(rondo_all_reduce(&value, &value, 1, RONDO_INT32, RONDO_SUM, comm, nullptr) == RONDO_OK);
  CHECK(rondo_group_end() == RONDO_ERROR_COMM_FAILED);
  CHECK(rondo_comm_revoke(comm) == RONDO_OK);
  CHECK(rondo_comm_abort(comm) == RONDO_OK);
  for (int rank = 1; rank < 3; ++rank) CHECK(async_error(ranks[rank]) == RONDO_OK);
  CHECK(rondo_send(&value, 1, RONDO_INT32, 2, ranks[1], nullptr) == RONDO_OK);
  CHECK(rondo_recv(&value, 1, RONDO_INT32, 1, ranks[2], nullptr) == RONDO_OK);
  const int left = 0;
  const auto sums = ranks.each<rondo_status_t>([&](int rank, rondo_comm_t parent) {
    rondo_comm_t rest = nullptr;
    if (rank == 0) return RONDO_OK;
    const rondo_status_t made = rondo_comm_shrink(parent, &left, 1, 0, nullptr, &rest);
    if (made != RONDO_OK) return made;
    const rondo_status_t status = sum(rest);
    static_cast<void>(rondo_comm_destroy(rest));
    return status;
  });
  CHECK(all_ok(sums));
}

TEST_CASE("abort: with an operation in flight, the communicator fails on every rank at once") {
  Ranks ranks(3);
  rondo_stream_t stream = nullptr;
  REQUIRE(rondo_stream_create(&stream) == RONDO_OK);
  CHECK(rondo_barrier(ranks[1], stream) == RONDO_OK);  // waits for ranks 0 and 2
  CHECK(rondo_comm_abort(ranks[1]) == RONDO_OK);
  for (int rank = 0; rank < 3; ++rank) CHECK(async_error(ranks[rank]) == RONDO_ERROR_ABORTED);
  CHECK_THAT(error_message(ranks[2]), Contains("rank 1 (host"));
  CHECK(rondo_stream_synchronize(stream) == RONDO_ERROR_ABORTED);
  CHECK(rondo_stream_destroy(stream) == RONDO_OK);
}

TEST_CASE("abort: another thread ends a call that waits for other ranks outside of operations") {
  for (const bool registers : {true, false}) {
    Ranks ranks(2);
    std::array<int, 4> values{};
    rondo_status_t status = RONDO_OK;
    std::thread caller([&] {
      rondo_window_t window = nullptr;
      status = registers ? rondo_window_register(ranks[0], values.data(), sizeof values, 0, &window) : sum(ranks[0]);
    });
    CHECK(rondo_comm_abort(ranks[0]) == RONDO_OK);  // before the call, or during it
    caller.join();
    CHECK(status == RONDO_ERROR_ABORTED);
  }
}

TEST_CASE("abort: the parent and its parts leave apart from each other") {
  rondo_config_t config = RONDO_CONFIG_INIT;
  Ranks ranks(2);
  for (const bool nonblocking : {false, true}) {
    config.nonblocking = nonblocking;
    const auto parts = ranks.each<rondo_comm_t>([&](int, rondo_comm_t comm) {
      rondo_comm_t part = nullptr;
      static_cast<void>(rondo_comm_split(comm, 0, 0, &config, &part));
      while (async_error(part) == RONDO_NOT_READY) std::this_thread::yield();  // ends at the split's deadline
      return part;
    });
    int value = 7, got = 0;
    CHECK(rondo_broadcast(&value, &value, 1, RONDO_INT32, 0, parts[0], nullptr) == RONDO_OK);
    CHECK(rondo_comm_abort(parts[0]) == RONDO_OK);
    CHECK(rondo_comm_destroy(parts[0]) == RONDO_OK);
    CHECK(rondo_broadcast(&got, &got, 1, RONDO_INT32, 0, parts[1], nullptr) == RONDO_OK);
    CHECK(got == 7);
    check_needs_rank_0(sum(parts[1]), parts[1]);
    CHECK(rondo_comm_destroy(parts[1]) == RONDO_OK);
    CHECK(all_ok(ranks.run([](int, rondo_comm_t comm) { return sum(comm); })));
  }
  const auto parts = ranks.each<rondo_comm_t>([&](int, rondo_comm_t comm) {
    rondo_comm_t part = nullptr;
    static_cast<void>(rondo_comm_split(comm, 0, 0, nullptr, &part));
    static_cast<void>(rondo_comm_abort(comm));
    static_cast<void>(sum(part));
    return part;
  });
  for (const rondo_comm_t part : parts) {
    CHECK(async_error(part) == RONDO_OK);
    CHECK(rondo_comm_destroy(part) == RONDO_OK);
  }
}
