// SPDX-License-Identifier: Apache-2.0
// These tests suspend and resume communicators on host memory, and end them while some ranks wait in resume. Devices
// use the same code for this.
#include "src/base/clock.h"
#include "tests/gpu/device_ranks.h"

using namespace rondo_test;

namespace {

constexpr uint64_t head_start_ns = 100'000'000;  // ranks begin to wait this long before the event that ends their wait

rondo_config_t on_host() {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.timeout_ms = 60'000;
  return config;
}

rondo_status_t suspend(int, rondo_comm_t comm) { return rondo_comm_suspend(comm, RONDO_SUSPEND_MEMORY); }
rondo_status_t resume(int, rondo_comm_t comm) { return rondo_comm_resume(comm); }

}  // namespace

TEST_CASE("suspend: resume on the other ranks ends if a suspended rank aborts or revokes the communicator") {
  for (const bool aborts : {true, false}) {
    CAPTURE(aborts);
    Ranks ranks(3, on_host());
    REQUIRE(ranks.status() == RONDO_OK);
    REQUIRE(all_ok(ranks.run(suspend)));
    const auto statuses = ranks.run([&](int rank, rondo_comm_t comm) {
      if (rank != 1) return rondo_comm_resume(comm);
      rondo::sleep_for_ns(head_start_ns);
      return aborts ? rondo_comm_abort(comm) : rondo_comm_revoke(comm);
    });
    CHECK(statuses[1] == RONDO_OK);
    const rondo_status_t expected = aborts ? RONDO_ERROR_ABORTED : RONDO_ERROR_REVOKED;
    CHECK(statuses[0] == expected);
    CHECK(statuses[2] == expected);
    CHECK(failure_of(ranks[0]).peer == 1);
  }
}

TEST_CASE("suspend: resume on the other ranks ends if a suspended rank destroys the communicator") {
  for (const int leaver : {0, 1}) {  // rank 0 serves the store in which the ranks meet
    CAPTURE(leaver);
    Ranks ranks(3, on_host());
    REQUIRE(ranks.status() == RONDO_OK);
    REQUIRE(all_ok(ranks.run(suspend)));
    const auto statuses = ranks.run([&](int rank, rondo_comm_t comm) {
      if (rank != leaver) return rondo_comm_resume(comm);
      rondo::sleep_for_ns(head_start_ns);
      return rondo_comm_destroy(comm);
    });
    ranks.forget(leaver);
    CHECK(statuses[static_cast<size_t>(leaver)] == RONDO_OK);
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == leaver) continue;
      const rondo_error_t error = failure_of(ranks[rank]);
      CAPTURE(rank, error.message);
      CHECK(statuses[static_cast<size_t>(rank)] == RONDO_ERROR_REMOTE);
      CHECK(error.peer == leaver);
    }
  }
}

TEST_CASE("suspend: a rank may destroy the communicator as soon as it has resumed") {
  Ranks ranks(4, on_host());
  REQUIRE(ranks.status() == RONDO_OK);
  REQUIRE(all_ok(ranks.run(suspend)));
  const auto statuses = ranks.run([](int, rondo_comm_t comm) {
    const rondo_status_t resumed = rondo_comm_resume(comm);
    const rondo_status_t destroyed = rondo_comm_destroy(comm);
    return resumed == RONDO_OK ? destroyed : resumed;
  });
  for (int rank = 0; rank < 4; ++rank) ranks.forget(rank);
  CHECK(all_ok(statuses));
}

TEST_CASE("suspend: a communicator on host memory has nothing to give back") {
  Ranks ranks(2);
  REQUIRE(ranks.status() == RONDO_OK);
  REQUIRE(all_ok(ranks.run(suspend)));
  uint64_t suspendable = 1, persistent = 1;
  int suspended = 0;
  CHECK(rondo_comm_device_memory(ranks[1], &suspendable, &persistent, &suspended) == RONDO_OK);
  CHECK(suspendable + persistent == 0);
  CHECK(suspended == 1);
  CHECK(rondo_barrier(ranks[0], nullptr) == RONDO_ERROR_INVALID_USAGE);
  REQUIRE(all_ok(ranks.run(resume)));
  CHECK(all_ok(ranks.run([](int, rondo_comm_t comm) { return rondo_barrier(comm, nullptr); })));
}
