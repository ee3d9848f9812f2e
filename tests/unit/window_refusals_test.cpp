// SPDX-License-Identifier: Apache-2.0
// These tests make calls on windows that are refused, and check what other ranks learn of a refusal. Ranks are threads.
#include <atomic>
#include <cstdio>

#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/held_window.h"

using namespace rondo_test;
using Catch::Matchers::Contains;

TEST_CASE("windows: registrations that one rank refuses fail at once everywhere, and later ones work") {
  Ranks ranks(2);
  const auto refuse = [](int kind, rondo_comm_t comm) {
    char data[8] = {};
    rondo_window_t window = nullptr;
    if (kind == 0) return rondo_window_register(comm, data, 8, 0, nullptr);
    if (kind == 1) return rondo_window_register(comm, nullptr, 8, 0, &window);
    if (kind == 2) return rondo_window_register(comm, data, 8, 64, &window);
    static_cast<void>(rondo_group_begin());
    const auto status = rondo_window_register(comm, data, 8, 0, &window);
    static_cast<void>(rondo_group_end());
    return status;
  };
  const auto told = ranks.each<std::vector<Told>>([&](int rank, rondo_comm_t comm) {
    std::vector<Told> all;
    for (int kind = 0; kind < 4; ++kind) {
      all.push_back(tell(rank == 1 ? refuse(kind, comm) : Held(comm, 8).status));
      static_cast<void>(rondo_barrier(comm, nullptr));
      const Held held(comm, 8);
      all.push_back(tell(held.status));
      static_cast<void>(rondo_barrier(comm, nullptr));
    }
    return all;
  });
  for (size_t call = 0; call < 8; call += 2) {
    INFO(call);
    const auto wanted = call == 6 ? RONDO_ERROR_INVALID_USAGE : RONDO_ERROR_INVALID_ARGUMENT;
    CHECK((told[0][call].status == wanted && told[1][call].status == wanted));
    CHECK_THAT(told[0][call].message, Contains("rank 1 (host") && Contains("has given up"));
    CHECK((told[0][call + 1].status == RONDO_OK && told[1][call + 1].status == RONDO_OK));
  }
}

TEST_CASE("windows: a rank that lags behind several refused registrations learns of each, and later ones work") {
  Ranks ranks(2);
  std::atomic<bool> refused = false;
  const auto told = ranks.each<std::vector<Told>>([&](int rank, rondo_comm_t comm) {
    std::vector<Told> all;
    while (rank == 0 && !refused) std::this_thread::yield();
    for (int call = 0; call < 5; ++call)
      all.push_back(tell(rank == 1 ? rondo_window_register(comm, nullptr, 8, 0, nullptr) : Held(comm, 8).status));
    refused = true;
    const Held held(comm, 8);
    all.push_back(tell(held.status));
    static_cast<void>(rondo_barrier(comm, nullptr));
    return all;
  });
  for (size_t call = 0; call < 5; ++call) {
    INFO(call);
    CHECK(told[1][call].status == RONDO_ERROR_INVALID_ARGUMENT);
    // Only a rank's latest two notes are kept, and the later of these may be about its sixth call.
    const bool is_kept = call == 4 || (call == 3 && told[0][call].status == RONDO_ERROR_INVALID_ARGUMENT);
    CHECK(told[0][call].status == (is_kept ? RONDO_ERROR_INVALID_ARGUMENT : RONDO_ERROR_MISMATCH));
    CHECK_THAT(told[0][call].message, Contains("rank 1 (host") && Contains("has given up"));
  }
  CHECK((told[0][5].status == RONDO_OK && told[1][5].status == RONDO_OK));
}

TEST_CASE("windows: registrations of one rank leave the note of a shrink that waits for another one") {
  Ranks ranks(2);
  std::atomic<int> registered = 0;
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    std::atomic<bool> shrunk = false;
    std::thread other;
    if (rank == 1)
      other = std::thread([&] {
        while (!shrunk) {
          char data[8] = {};
          rondo_window_t window = nullptr;
          static_cast<void>(rondo_window_register(comm, data, 8, 64, &window));  // the flag is refused
          ++registered;
        }
      });
    while (rank == 0 && registered < 1000) std::this_thread::yield();
    rondo_comm_t made = nullptr;
    const auto status = rondo_comm_shrink(comm, nullptr, 0, 0, nullptr, &made);
    shrunk = true;
    if (other.joinable()) other.join();
    if (made != nullptr) static_cast<void>(rondo_comm_destroy(made));
    return status;
  })));
}

TEST_CASE("windows: if one rank has no handle left, no rank has the window") {
  // One thread makes all handles, which takes long under a sanitizer. So one gate of four does it there.
  if (rondo_test::sanitized() && rondo_test::gate_quarter().value_or(0) != 0) {
    std::puts("skipped: windows: all handles of a rank: take long under a sanitizer; done without one");
    return;
  }
  constexpr int all_handles = 65'536;
  Ranks single(1), ranks(2);
  std::vector<rondo_window_t> windows(all_handles - 1);
  bool filled = true;
  for (rondo_window_t &window : windows) filled &= rondo_window_register(single[0], nullptr, 0, 0, &window) == RONDO_OK;
  REQUIRE(filled);  // one slot is left
  const auto told = ranks.each<Told>([](int, rondo_comm_t comm) { return tell(Held(comm, 8).status); });
  for (const Told &each : told) CHECK(each.status == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(rondo_window_deregister(single[0], windows[0]) == RONDO_OK);
  CHECK(all_ok(ranks.run([](int, rondo_comm_t comm) {
    const Held held(comm, 8);
    return held.status == RONDO_OK ? rondo_barrier(comm, nullptr) : held.status;
  })));
}

TEST_CASE("windows: counts that reach 2^62 are refused, also in a group, and a wait for 0 signals waits for nothing") {
  Ranks ranks(1);
  constexpr uint64_t end = uint64_t{1} << 62;
  Held held(ranks[0], 8);
  const uint64_t value = 5;
  for (const uint64_t count : {end, UINT64_MAX, UINT64_MAX - 1}) {
    CHECK(rondo_wait_signal(0, 2, count, ranks[0], nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(error_message(), Contains("count is " + std::to_string(count)) && Contains("less than 2^62"));
  }
  CHECK(rondo_wait_signal(0, 2, 0, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_signal(0, 2, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_wait_signal(0, 2, 1, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_wait_signal(0, 2, 0, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_wait_signal(0, 2, end - 1, ranks[0], nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(error_message(), Contains("earlier waits want 1 signals of number 2 from rank 0"));
  // In a group, the sum of all waits counts. If a wait is refused, the group's put does not run, either.
  static_cast<void>(rondo_group_begin());
  CHECK(rondo_put_signal(&value, 8, 0, held.window, 0, 2, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_wait_signal(0, 2, 1, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_wait_signal(0, 2, end - 2, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_group_end() == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(held.memory[0] == std::byte{});
  CHECK(rondo_signal(0, 2, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_wait_signal(0, 2, 1, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_comm_finalize(ranks[0]) == RONDO_OK);
}

TEST_CASE("windows: after finalize, every call is refused as other calls are") {
  Ranks ranks(1);
  Held held(ranks[0], 8);
  char data[8] = {};
  rondo_window_t other = nullptr;
  CHECK(rondo_comm_finalize(ranks[0]) == RONDO_OK);
  for (const auto status :
       {rondo_window_register(ranks[0], data, 8, 0, &other), rondo_signal(0, 0, ranks[0], nullptr),
        rondo_put_signal(data, 8, 0, held.window, 0, 0, ranks[0], nullptr), rondo_barrier(ranks[0], nullptr),
        rondo_wait_signal(0, 0, 0, ranks[0], nullptr)})
    CHECK(status == RONDO_ERROR_INVALID_HANDLE);
  CHECK(other == nullptr);
}

TEST_CASE("windows: a suspended communicator refuses every call, and has windows after resume") {
  Ranks ranks(2);
  const auto told = ranks.each<std::vector<Told>>([](int, rondo_comm_t comm) {
    std::vector<Told> all;
    char data[8] = {};
    all.push_back(tell(rondo_comm_suspend(comm, RONDO_SUSPEND_MEMORY)));
    all.push_back(tell(Held(comm, 8).status));
    all.push_back(tell(rondo_signal(0, 0, comm, nullptr)));
    all.push_back(tell(rondo_wait_signal(0, 0, 0, comm, nullptr)));
    all.push_back(tell(rondo_comm_resume(comm)));
    rondo_window_t window = nullptr;
    all.push_back(tell(rondo_window_register(comm, data, 8, 0, &window)));
    all.push_back(tell(rondo_barrier(comm, nullptr)));
    return all;
  });
  for (const auto &rank : told)
    for (size_t call = 0; call < rank.size(); ++call) {
      INFO(call);
      const bool is_suspended = call >= 1 && call <= 3;
      CHECK(rank[call].status == (is_suspended ? RONDO_ERROR_INVALID_USAGE : RONDO_OK));
      if (is_suspended) CHECK_THAT(rank[call].message, Contains("suspended"));
    }
}
