// SPDX-License-Identifier: Apache-2.0
// These tests suspend and resume communicators on host memory, and end them while some ranks wait in resume. Devices
// use the same code for this.
#include <pthread.h>

#include <string>
#include <thread>

#include "src/base/clock.h"
#include "src/core/process.h"
#include "src/core/suspend.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/suspend_calls.h"
#include "tests/unit/nonblocking.h"

using namespace rondo_test;

namespace {

constexpr uint64_t head_start_ns = 100'000'000;  // ranks begin to wait this long before the event that ends their wait

rondo_config_t on_host() {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.timeout_ms = 60'000;
  return config;
}

/// Two nonblocking ranks on host memory. The default timeout is longer than a test may take.
struct HostPair : Begun {
  explicit HostPair(uint32_t timeout_ms = 600'000) : Begun(2, 2, config(timeout_ms)) { REQUIRE(both_are(RONDO_OK)); }
  static rondo_config_t config(uint32_t timeout_ms) {
    rondo_config_t config = nonblocking();
    config.timeout_ms = timeout_ms;
    return config;
  }
  [[nodiscard]] bool both_are(rondo_status_t outcome) const {
    return outcome_of(comms[0]) == outcome && outcome_of(comms[1]) == outcome;
  }
  /// Begins to suspend the rank or, if `resumes`, to resume it.
  [[nodiscard]] rondo_status_t change(size_t rank, bool resumes) const {
    return resumes ? resume(0, comms[rank]) : suspend(0, comms[rank]);
  }
  /// Suspends both ranks if they are to be resumed next.
  void prepare(bool resumes) const {
    if (!resumes) return;
    for (size_t rank = 0; rank < 2; ++rank) REQUIRE(change(rank, false) == RONDO_OK);
    REQUIRE(both_are(RONDO_OK));
  }
  void end(size_t rank) {
    CHECK(rondo_comm_destroy(comms[rank]) == RONDO_OK);
    comms[rank] = nullptr;
  }
};

/// While it lives, no thread can be started, since each stack would be larger than all addresses.
class NoThreads {
 public:
  NoThreads() {
    REQUIRE(::pthread_getattr_default_np(&before_) == 0);
    pthread_attr_t huge;
    REQUIRE(::pthread_attr_init(&huge) == 0);
    REQUIRE(::pthread_attr_setstacksize(&huge, size_t{1} << 60) == 0);
    REQUIRE(::pthread_setattr_default_np(&huge) == 0);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads &) = delete;
  NoThreads &operator=(const NoThreads &) = delete;

 private:
  pthread_attr_t before_{};
};

int suspended(rondo_comm_t comm) {
  int answer = -1;
  CHECK(rondo_comm_device_memory(comm, nullptr, nullptr, &answer) == RONDO_OK);
  return answer;
}

}  // namespace

TEST_CASE("suspend: resume on the other ranks ends if a suspended rank aborts or revokes the communicator", "[host]") {
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

TEST_CASE("suspend: resume on the other ranks ends if a suspended rank destroys the communicator", "[host]") {
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

TEST_CASE("suspend: a rank may destroy the communicator as soon as it has resumed", "[host]") {
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

TEST_CASE("suspend: a communicator on host memory has nothing to give back", "[host]") {
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

TEST_CASE("suspend: one thread suspends and resumes nonblocking ranks, which report when it is over", "[host]") {
  const HostPair pair;
  for (int round = 0; round < 2; ++round) {
    CAPTURE(round);
    for (const bool resumes : {false, true}) {
      CAPTURE(resumes);
      const size_t first = round == 0 ? 0 : 1;
      const rondo_comm_t comm = pair.comms[first];
      CHECK(pair.change(first, resumes) == RONDO_OK);
      CHECK(state_of(comm) == RONDO_NOT_READY);
      CHECK(rondo_barrier(comm, nullptr) == RONDO_NOT_READY);
      check_message({"still being suspended or resumed", "rondo_comm_get_async_error"});
      CHECK(rondo_comm_flush(comm) == RONDO_NOT_READY);
      CHECK(rondo_comm_finalize(comm) == RONDO_NOT_READY);
      CHECK(pair.change(first, false) == RONDO_NOT_READY);
      CHECK(pair.change(first, true) == RONDO_NOT_READY);
      CHECK(rondo_group_begin() == RONDO_OK);
      CHECK(rondo_barrier(comm, nullptr) == RONDO_NOT_READY);
      CHECK(rondo_group_end() == RONDO_NOT_READY);
      CHECK(pair.change(1 - first, resumes) == RONDO_OK);
      CHECK(pair.both_are(RONDO_OK));
      CHECK((suspended(pair.comms[0]) == 1) == !resumes);
      CHECK((suspended(pair.comms[1]) == 1) == !resumes);
      if (!resumes) CHECK(rondo_barrier(comm, nullptr) == RONDO_ERROR_INVALID_USAGE);
    }
    int values[] = {1, 2};
    std::thread other([&] {
      static_cast<void>(rondo_all_reduce(&values[1], &values[1], 1, RONDO_INT32, RONDO_SUM, pair.comms[1], nullptr));
    });
    CHECK(rondo_all_reduce(&values[0], &values[0], 1, RONDO_INT32, RONDO_SUM, pair.comms[0], nullptr) == RONDO_OK);
    other.join();
    CHECK((values[0] == 3 && values[1] == 3));
  }
}

TEST_CASE("suspend: abort, revoke and destroy end what a nonblocking rank has begun alone, and the other learns it",
          "[host]") {
  for (const bool resumes : {false, true}) {
    for (const std::string how : {"abort", "revoke", "destroy"}) {
      for (const size_t first : {0, 1}) {
        CAPTURE(resumes, how, first);
        const rondo_status_t expected = how == "revoke" ? RONDO_ERROR_REVOKED : RONDO_ERROR_ABORTED;
        HostPair pair;
        pair.prepare(resumes);
        const rondo_comm_t comm = pair.comms[first];
        REQUIRE(pair.change(first, resumes) == RONDO_OK);
        if (how == "abort") CHECK(rondo_comm_abort(comm) == RONDO_OK);
        if (how == "revoke") CHECK(rondo_comm_revoke(comm) == RONDO_OK);
        if (how == "destroy") pair.end(first);
        else CHECK(outcome_of(comm) == expected);
        CHECK(outcome_of(pair.comms[1 - first]) == expected);
        CHECK(failure_of(pair.comms[1 - first]).peer == static_cast<int32_t>(first));
        CHECK(pair.change(1 - first, resumes) != RONDO_OK);
      }
    }
  }
}

TEST_CASE("suspend: whenever the abort or the destroy comes, the work of nonblocking ranks ends", "[host]") {
  for (int delay_us = 0; delay_us < 4000; delay_us += 100) {
    const bool resumes = delay_us % 200 == 0, aborts = delay_us % 300 == 0;
    CAPTURE(delay_us, resumes, aborts);
    HostPair pair;
    pair.prepare(resumes);
    for (size_t rank = 0; rank < 2; ++rank) REQUIRE(pair.change(rank, resumes) == RONDO_OK);
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    if (aborts) {
      CHECK(rondo_comm_abort(pair.comms[1]) == RONDO_OK);
      CHECK(outcome_of(pair.comms[1]) == RONDO_ERROR_ABORTED);
    } else {
      pair.end(1);
    }
    CHECK(outcome_of(pair.comms[0]) != RONDO_NOT_READY);
  }
}

TEST_CASE("suspend: if no thread can be started, a nonblocking rank is refused, and may try again", "[host]") {
  const HostPair pair;
  for (const bool resumes : {false, true}) {
    CAPTURE(resumes);
    {
      const NoThreads none;
      CHECK(pair.change(0, resumes) == RONDO_ERROR_OUT_OF_RESOURCES);
    }
    check_message({"no thread could be started for a communicator that is suspended or resumed"});
    CHECK(state_of(pair.comms[0]) == RONDO_OK);
    CHECK((suspended(pair.comms[0]) == 1) == resumes);
    for (size_t rank = 0; rank < 2; ++rank) CHECK(pair.change(rank, resumes) == RONDO_OK);
    CHECK(pair.both_are(RONDO_OK));
  }
}

TEST_CASE("suspend: a call that is still in suspend after another thread has destroyed the communicator is refused",
          "[host]") {
  HostPair pair;
  const auto comm = rondo::process().communicators.find(pair.comms[0]);  // as the call has it
  REQUIRE(comm != nullptr);
  pair.end(0);
  const auto late = rondo::suspend(comm);
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().status == RONDO_ERROR_INVALID_HANDLE);
}

TEST_CASE("suspend: whenever another thread destroys the communicator, a call of suspend or resume returns", "[host]") {
  for (int round = 0; round < 40; ++round) {
    const bool resumes = round % 2 == 1;
    CAPTURE(round);
    HostPair pair;
    pair.prepare(resumes);
    const rondo_comm_t comm = pair.comms[0];
    rondo_status_t begun = RONDO_ERROR_INTERNAL;
    std::thread other([&] { begun = resumes ? resume(0, comm) : suspend(0, comm); });
    pair.end(0);
    other.join();
    CAPTURE(begun);
    const bool has_no_meeting = resumes && begun == RONDO_ERROR_INVALID_USAGE;
    CHECK((begun == RONDO_OK || begun == RONDO_ERROR_INVALID_HANDLE || has_no_meeting));
  }
}

TEST_CASE("suspend: what fails on the thread of a nonblocking rank is the communicator's failure", "[host]") {
  const HostPair pair(200);
  CHECK(pair.change(0, false) == RONDO_OK);  // rank 1 never suspends
  CHECK(outcome_of(pair.comms[0]) == RONDO_ERROR_TIMEOUT);
  const rondo_error_t error = failure_of(pair.comms[0]);
  CHECK(error.status == RONDO_ERROR_TIMEOUT);
  CHECK(error.peer == 1);
  CHECK(rondo_barrier(pair.comms[0], nullptr) == RONDO_ERROR_COMM_FAILED);
  CHECK(pair.change(0, true) == RONDO_ERROR_COMM_FAILED);
  CHECK(outcome_of(pair.comms[1]) == RONDO_ERROR_TIMEOUT);
}
