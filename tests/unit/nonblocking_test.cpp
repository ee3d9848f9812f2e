// SPDX-License-Identifier: Apache-2.0
// These tests make communicators without waiting. They check what the handles report meanwhile, and how an attempt is
// ended. Unless a case says otherwise, the initialisation's timeout is longer than a test may take, so it ends no case.
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/bootstrap/store/store.h"
#include "tests/catch.h"
#include "tests/seconds.h"
#include "tests/test_clock.h"
#include "tests/unit/nonblocking.h"
#include "tests/unit/ranks.h"
#include "tests/unit/store_visitor.h"

using rondo_test::Begun;
using rondo_test::error_message;
using rondo_test::nonblocking;
using rondo_test::outcome_of;
using rondo_test::state_of;

namespace {

rondo_status_t sum(rondo_comm_t comm, int *value) {
  return rondo_all_reduce(value, value, 1, RONDO_INT32, RONDO_SUM, comm, nullptr);
}

}  // namespace

TEST_CASE("nonblocking: one thread begins all ranks, which are ready soon, and compute") {
  Begun begun(3, 3);
  for (const rondo_comm_t comm : begun.comms) CHECK(outcome_of(comm) == RONDO_OK);
  std::vector<int> values{1, 2, 4};
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] { static_cast<void>(sum(begun.comms[rank], &values[rank])); });
  for (std::thread &thread : threads) thread.join();
  CHECK(values == std::vector<int>{7, 7, 7});
}

TEST_CASE("nonblocking: a rank that waits in its call and one that does not meet") {
  rondo_unique_id_t id{};
  REQUIRE(rondo_get_unique_id(&id, nullptr) == RONDO_OK);
  const rondo_config_t config = nonblocking();
  rondo_comm_t waits = nullptr, begun = nullptr;
  REQUIRE(rondo_comm_init(&begun, &id, 0, 2, &config) == RONDO_OK);
  CHECK(rondo_comm_init(&waits, &id, 1, 2, nullptr) == RONDO_OK);
  CHECK(outcome_of(begun) == RONDO_OK);
  CHECK(rondo_comm_destroy(begun) == RONDO_OK);
  CHECK(rondo_comm_destroy(waits) == RONDO_OK);
}

TEST_CASE("nonblocking: while it is being made every call is refused with that, and destroy ends it") {
  Begun begun(2, 1);
  const rondo_comm_t comm = begun.comms[0];
  int value = 1, number = -1;
  CHECK(state_of(comm) == RONDO_NOT_READY);
  CHECK(sum(comm, &value) == RONDO_NOT_READY);
  CHECK_THAT(error_message(), Contains("is still being made; rondo_comm_get_async_error()"));
  CHECK(rondo_comm_rank(comm, &number) == RONDO_NOT_READY);
  CHECK(rondo_comm_finalize(comm) == RONDO_NOT_READY);
  CHECK((value == 1 && number == -1));
  CHECK(rondo_comm_destroy(comm) == RONDO_OK);
  CHECK(rondo_comm_destroy(comm) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_comm_rank(comm, &number) == RONDO_ERROR_INVALID_HANDLE);
  begun.comms.clear();
}

TEST_CASE("nonblocking: an abort ends the attempt, on the ranks that have come, too") {
  Begun begun(4, 2);
  std::optional<rondo_test::HeldClock> clock(std::in_place);
  const auto rank_2 = rondo_test::wait_until_missing(begun.id, 2, 4, "rank 3 (1 of 4)");  // ranks 0 and 1 have come
  clock.reset();
  CHECK(rondo_comm_abort(begun.comms[1]) == RONDO_OK);
  CHECK(outcome_of(begun.comms[1]) == RONDO_ERROR_ABORTED);
  CHECK_THAT(error_message(begun.comms[1]), Contains("rank 1 of 4 could not initialise its communicator"));
  CHECK_THAT(rondo_last_error_message(begun.comms[1]), Contains("aborted here before the communicator was made"));
  int value = 1;
  CHECK(sum(begun.comms[1], &value) == RONDO_ERROR_ABORTED);
  CHECK(rondo_comm_abort(begun.comms[1]) == RONDO_OK);  // again: there is nothing to end
  CHECK(outcome_of(begun.comms[0]) == RONDO_ERROR_ABORTED);
  CHECK_THAT(error_message(begun.comms[0]), Contains("rank 1"));
}

TEST_CASE("nonblocking: an abort does not wait for ranks that have not come, and they hear of it") {
  for (const bool has_entered : {false, true}) {
    CAPTURE(has_entered);
    Begun begun(3, 1);
    const rondo_test::HeldClock clock;  // so the store never gives up waiting for ranks that must learn of the abort
    std::unique_ptr<rondo::Store> rank_2;
    if (has_entered) rank_2 = rondo_test::wait_until_missing(begun.id, 2, 3, "rank 1 (1 of 3)");
    CHECK(rondo_comm_abort(begun.comms[0]) == RONDO_OK);
    CHECK(outcome_of(begun.comms[0]) == RONDO_ERROR_ABORTED);
    for (const int rank : {1, 2}) {
      if (rank == 2 && has_entered) continue;
      rondo_comm_t late = nullptr;
      CHECK(rondo_comm_init(&late, &begun.id, rank, 3, nullptr) == RONDO_ERROR_ABORTED);
      CHECK_THAT(error_message(), Contains("rank 0 failed: it was aborted here"));
    }
  }
}

TEST_CASE("nonblocking: whenever the abort comes, the attempt ends, and the handle can be destroyed") {
  for (int delay_us = 0; delay_us < 4000; delay_us += 100) {
    CAPTURE(delay_us);
    Begun begun(2, 2);
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    CHECK(rondo_comm_abort(begun.comms[1]) == RONDO_OK);
    CHECK(outcome_of(begun.comms[1]) == RONDO_ERROR_ABORTED);
  }
}

TEST_CASE("nonblocking: a failure is told by every call, with what a call that waits would have returned") {
  rondo_config_t config = nonblocking();
  config.init_timeout_ms = 200;
  Begun begun(2, 1, config);
  CHECK(outcome_of(begun.comms[0]) == RONDO_ERROR_TIMEOUT);
  CHECK_THAT(error_message(begun.comms[0]), Contains("took longer than the 0.2 s of init_timeout_ms"));
  int value = 1;
  CHECK(sum(begun.comms[0], &value) == RONDO_ERROR_TIMEOUT);
}

TEST_CASE("nonblocking: what is wrong with the arguments is told at once") {
  rondo_unique_id_t id{};
  REQUIRE(rondo_get_unique_id(&id, nullptr) == RONDO_OK);
  rondo_config_t config = nonblocking();
  rondo_comm_t comm = nullptr;
  CHECK(rondo_comm_init(&comm, &id, 2, 2, &config) == RONDO_ERROR_INVALID_ARGUMENT);
  config.channels = 99;
  CHECK(rondo_comm_init(&comm, &id, 0, 2, &config) == RONDO_ERROR_INVALID_ARGUMENT);
  config = nonblocking();
  config.nonblocking = 2;
  CHECK(rondo_comm_init(&comm, &id, 0, 2, &config) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(error_message(), Contains("nonblocking is 2; it takes 0 or 1"));
  CHECK(comm == nullptr);
  config = nonblocking();
  CHECK(rondo_comm_init_all(&comm, 1, &config) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(error_message(), Contains("rondo_comm_init_all() waits for its ranks"));
  CHECK(rondo_unique_id_free(&id) == RONDO_OK);
}

TEST_CASE("nonblocking: a caller whose struct ends before the field waits") {
  rondo_unique_id_t id{};
  REQUIRE(rondo_get_unique_id(&id, nullptr) == RONDO_OK);
  rondo_config_t config = nonblocking();
  config.size = offsetof(rondo_config_t, nonblocking);
  rondo_comm_t comm = nullptr;
  REQUIRE(rondo_comm_init(&comm, &id, 0, 1, &config) == RONDO_OK);
  int size = 0;
  CHECK(rondo_comm_size(comm, &size) == RONDO_OK);
  CHECK(size == 1);
  CHECK(rondo_comm_destroy(comm) == RONDO_OK);
}

TEST_CASE("cancel: neither a store that nobody runs nor a rank that does not come is waited for any longer") {
  using namespace rondo;
  const Secret secret = random_secret();
  const uint64_t deadline_ns = now_ns() + 120 * second_ns;
  const auto cancelled_soon = [](Cancel &cancel, const auto &wait) {
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      cancel.request();
    });
    const Error error = wait();
    canceller.join();
    CHECK(error.status == RONDO_ERROR_ABORTED);
  };
  auto nobody = Cancel::make(), absent = Cancel::make();
  REQUIRE((nobody.ok() && absent.ok()));
  cancelled_soon(*nobody.value(), [&] {
    return connect_store({"127.0.0.1", 1}, secret, deadline_ns, std::nullopt, {}, nobody.value().get()).error();
  });
  const auto server = start_store_server({"127.0.0.1", 0}, secret);
  REQUIRE(server.ok());
  const Endpoint endpoint = server.value()->endpoint();
  const auto store = connect_store(endpoint, secret, deadline_ns, Membership{"g", 0, 2}, {}, absent.value().get());
  REQUIRE(store.ok());
  cancelled_soon(*absent.value(), [&] { return store.value()->gather("join", 0, 2, {}, deadline_ns).error(); });
  CHECK(store.value()->check().error().status == RONDO_ERROR_ABORTED);
  store.value()->leave(store.value()->check().error());
  // The rank has sent that it leaves, so the other rank does not wait for it.
  const auto other = connect_store(endpoint, secret, deadline_ns, Membership{"g", 1, 2});
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().status == RONDO_ERROR_ABORTED);
  CHECK(other.error().peer == 0);
}
