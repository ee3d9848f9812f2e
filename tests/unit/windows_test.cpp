// SPDX-License-Identifier: Apache-2.0
// These tests use windows and signals through the public interface. Ranks are threads.
#include <atomic>
#include <cstring>
#include <optional>

#include "src/core/communicator.h"
#include "src/core/process.h"
#include "tests/catch.h"
#include "tests/seeds.h"
#include "tests/sanitized.h"
#include "tests/test_clock.h"
#include "tests/unit/held_window.h"
#include "tests/window_program.h"

using namespace rondo_test;
using Catch::Matchers::Contains;

namespace {

rondo_config_t with_timeout(uint32_t timeout_ms) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.timeout_ms = timeout_ms;
  return config;
}

/// Waits until rank `rank` has begun to register a window.
void wait_until_registering(rondo_comm_t comm, uint32_t rank) {
  const auto object = rondo::process().communicators.find(comm);
  while (object->ranks().notes(rank).empty()) std::this_thread::yield();
}

void run_program(uint64_t seed) {
  INFO("RONDO_SEED=" << seed);
  const auto rank_count = static_cast<uint32_t>(1 + seed % 4);
  Ranks ranks(static_cast<int>(rank_count));
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    WindowProgram program(seed, rank_count);
    Held held(comm, program.window_bytes(), RONDO_WINDOW_SYMMETRIC);
    if (held.status != RONDO_OK) return held.status;
    std::vector<std::byte> source(program.window_bytes());
    rondo_stream_t stream = nullptr;
    if ((seed + static_cast<uint64_t>(rank)) % 3 == 0 && rondo_stream_create(&stream) != RONDO_OK)
      return RONDO_ERROR_INTERNAL;
    WindowMemory memory;
    if (stream != nullptr) memory.synchronize = [&] { return rondo_stream_synchronize(stream); };
    auto status = program.run(static_cast<uint32_t>(rank), comm, stream, held.window, held.memory.data(),
                              source.data(), memory);
    if (stream != nullptr) static_cast<void>(rondo_stream_destroy(stream));
    if (status == RONDO_OK) status = rondo_window_deregister(comm, held.window);
    return status == RONDO_OK ? rondo_comm_finalize(comm) : status;
  })));
}

}  // namespace

TEST_CASE("windows: 200 random programs of puts, signals and waits leave the bytes of the model") {
  GateShare share("programs of windows", std::getenv("RONDO_SEED") == nullptr);
  for_each_seed(200, [&](uint64_t seed) {
    if (share.has_next()) run_program(seed);
  });
}

TEST_CASE("windows: a peer's buffer has an address between threads, and sizes may differ") {
  Ranks ranks(3);
  std::atomic<void *> starts[3] = {};
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    Held held(comm, static_cast<size_t>(rank) * 8);  // rank 0's window is empty
    if (held.status != RONDO_OK) return held.status;
    starts[rank] = rank == 0 ? nullptr : held.memory.data();
    static_cast<void>(rondo_barrier(comm, nullptr));
    for (int peer = 0; peer < 3; ++peer) {
      void *address = &address;
      const auto status = rondo_window_pointer(held.window, peer, &address);
      if (status != RONDO_OK || address != starts[peer]) return RONDO_ERROR_INTERNAL;
    }
    return rondo_barrier(comm, nullptr);
  })));
}

TEST_CASE("windows: refused arguments are named, and leave the communicator usable") {
  Ranks ranks(2);
  const auto told = ranks.each<std::vector<Told>>([](int, rondo_comm_t comm) {
    std::vector<Told> all;
    Held held(comm, 64);
    char data[65] = {};
    void *pointer = nullptr;
    all.push_back(tell(rondo_put_signal(data, 65, 1, held.window, 0, 0, comm, nullptr)));
    all.push_back(tell(rondo_put_signal(data, 8, 1, held.window, 60, 0, comm, nullptr)));
    all.push_back(tell(rondo_put_signal(data, 2, 1, held.window, SIZE_MAX, 0, comm, nullptr)));
    all.push_back(tell(rondo_put_signal(nullptr, 8, 1, held.window, 0, 0, comm, nullptr)));
    all.push_back(tell(rondo_put_signal(data, 8, 2, held.window, 0, 0, comm, nullptr)));
    all.push_back(tell(rondo_signal(-1, 0, comm, nullptr)));
    all.push_back(tell(rondo_wait_signal(0, RONDO_SIGNAL_COUNT, 1, comm, nullptr)));
    all.push_back(tell(rondo_put_signal(data, 8, 1, nullptr, 0, 0, comm, nullptr)));
    all.push_back(tell(rondo_window_pointer(held.window, 7, &pointer)));
    all.push_back(tell(rondo_window_deregister(comm, held.window)));
    all.push_back(tell(rondo_put_signal(data, 8, 1, held.window, 0, 0, comm, nullptr)));
    all.push_back(tell(rondo_window_pointer(held.window, 0, &pointer)));
    all.push_back(tell(rondo_window_register(comm, data, 8, 4, &held.window)));
    static_cast<void>(rondo_group_begin());
    all.push_back(tell(rondo_window_register(comm, data, 8, 0, &held.window)));
    static_cast<void>(rondo_group_end());
    all.push_back(tell(rondo_barrier(comm, nullptr)));
    return all;
  });
  const std::pair<rondo_status_t, const char *> expected[] = {
      {RONDO_ERROR_INVALID_ARGUMENT, "65 bytes at offset 0 exceed the window of rank 1, which has 64 bytes"},
      {RONDO_ERROR_INVALID_ARGUMENT, "8 bytes at offset 60 exceed the window of rank 1"},
      {RONDO_ERROR_INVALID_ARGUMENT, "exceed the window of rank 1"},
      {RONDO_ERROR_INVALID_ARGUMENT, "send is NULL"},
      {RONDO_ERROR_INVALID_ARGUMENT, "peer is 2; it must be a rank, 0 to 1"},
      {RONDO_ERROR_INVALID_ARGUMENT, "peer is -1"},
      {RONDO_ERROR_INVALID_ARGUMENT, "signal is 16; it must be less than RONDO_SIGNAL_COUNT (16)"},
      {RONDO_ERROR_INVALID_HANDLE, "the window is NULL"},
      {RONDO_ERROR_INVALID_ARGUMENT, "peer is 7"},
      {RONDO_OK, ""},
      {RONDO_ERROR_INVALID_HANDLE, "the window was destroyed before this call"},
      {RONDO_ERROR_INVALID_HANDLE, "the window was destroyed before this call"},
      {RONDO_ERROR_INVALID_ARGUMENT, "unknown flags 4"},
      {RONDO_ERROR_INVALID_USAGE, "cannot be in a group"},
      {RONDO_OK, ""}};
  for (const auto &rank : told) {
    REQUIRE(rank.size() == std::size(expected));
    for (size_t call = 0; call < rank.size(); ++call) {
      INFO(call);
      CHECK(rank[call].status == expected[call].first);
      if (rank[call].status != RONDO_OK) CHECK_THAT(rank[call].message, Contains(expected[call].second));
    }
  }
}

TEST_CASE("windows: one of another communicator is refused") {
  Ranks ranks(1), others(1);
  Held held(ranks[0], 64);
  REQUIRE(held.status == RONDO_OK);
  char data[8] = {};
  CHECK(rondo_put_signal(data, 8, 0, held.window, 0, 0, others[0], nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(error_message(), Contains("the window belongs to another communicator"));
  CHECK(rondo_window_deregister(others[0], held.window) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_window_deregister(ranks[0], held.window) == RONDO_OK);
}

TEST_CASE("windows: symmetric sizes that differ, and flags that differ, are named on all ranks") {
  Ranks ranks(3);
  const auto sizes = ranks.each<Told>([](int rank, rondo_comm_t comm) {
    return tell(Held(comm, rank == 2 ? 128 : 64, RONDO_WINDOW_SYMMETRIC).status);
  });
  for (const Told &each : sizes) {
    CHECK(each.status == RONDO_ERROR_MISMATCH);
    CHECK_THAT(each.message, Contains("rank 0 gives 64 bytes, rank 2 gives 128 bytes"));
  }
  const auto flags = ranks.each<Told>([](int rank, rondo_comm_t comm) {
    return tell(Held(comm, 64, rank == 1 ? RONDO_WINDOW_SYMMETRIC : 0).status);
  });
  for (const Told &each : flags) {
    CHECK(each.status == RONDO_ERROR_MISMATCH);
    CHECK_THAT(each.message, Contains("rank 1 gives RONDO_WINDOW_SYMMETRIC, and rank 0 does not"));
  }
  // The communicator is still usable, also for windows.
  CHECK(all_ok(ranks.run([](int, rondo_comm_t comm) {
    const Held held(comm, 64, RONDO_WINDOW_SYMMETRIC);
    return held.status == RONDO_OK ? rondo_barrier(comm, nullptr) : held.status;
  })));
}

TEST_CASE("windows: a rank that does not register is named at the deadline, and a refusal at once") {
  Ranks ranks(3, with_timeout(300));
  std::atomic<int> ended = 0;
  std::optional<HeldClock> clock(std::in_place);
  const auto late = ranks.each<Told>([&](int rank, rondo_comm_t comm) {
    if (rank == 2) {
      for (const uint32_t other : {0u, 1u}) wait_until_registering(comm, other);
      clock.reset();  // now the deadlines of both other ranks begin, and only this rank is missing
    }
    while (rank == 2 && ended != 2) std::this_thread::yield();
    const Told told = tell(Held(comm, 64).status);
    ++ended;
    return told;
  });
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(late[static_cast<size_t>(rank)].status == RONDO_ERROR_TIMEOUT);
    // The rank that waits a moment longer may learn of the failure from the other rank.
    CHECK_THAT(late[static_cast<size_t>(rank)].message,
               (Contains("rank 2 (host") && Contains("has not called it in time")) || Contains("(timeout, rank 2)"));
  }
  CHECK(late[2].status == RONDO_ERROR_TIMEOUT);
  CHECK_THAT(late[2].message, Contains("rank 0 (host") && Contains("has given up (timeout"));
  clock.emplace();  // from here on, no rank may be late
  const auto refused = ranks.each<Told>([](int rank, rondo_comm_t comm) {
    char data[8] = {};
    rondo_window_t window = nullptr;
    const auto status = rondo_window_register(comm, rank == 1 ? nullptr : data, 8, 0, &window);
    const Told told = tell(status);
    static_cast<void>(rondo_barrier(comm, nullptr));  // keeps the buffer of each rank
    return told;
  });
  for (const Told &each : refused) CHECK(each.status == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(refused[0].message, Contains("rank 1 (host") && Contains("has given up (invalid argument)"));
  CHECK(all_ok(ranks.run([](int, rondo_comm_t comm) {
    const Held held(comm, 64);
    return held.status == RONDO_OK ? rondo_barrier(comm, nullptr) : held.status;
  })));
}

TEST_CASE("windows: a rank that has left is named by a register call and by a wait, after its signals count") {
  Ranks ranks(2);
  const auto told = ranks.each<Told>([](int rank, rondo_comm_t comm) {
    if (rank == 1) return tell(rondo_signal(0, 3, comm, nullptr));
    if (const auto came = rondo_wait_signal(1, 3, 1, comm, nullptr); came != RONDO_OK) return tell(came);
    return Told{};
  });
  CHECK((told[0].status == RONDO_OK && told[1].status == RONDO_OK));
  CHECK(rondo_signal(0, 3, ranks[1], nullptr) == RONDO_OK);
  CHECK(rondo_comm_destroy(ranks[1]) == RONDO_OK);
  ranks.forget(1);
  std::vector<char> data(8);
  rondo_window_t window = nullptr;
  CHECK(rondo_window_register(ranks[0], data.data(), 8, 0, &window) == RONDO_ERROR_REMOTE);
  CHECK_THAT(error_message(), Contains("rank 1 (host") && Contains("has destroyed its communicator"));
  CHECK(rondo_wait_signal(1, 3, 1, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_wait_signal(1, 3, 2, ranks[0], nullptr) == RONDO_ERROR_REMOTE);
  CHECK_THAT(error_message(ranks[0]),
             Contains("has destroyed its communicator") &&
                 Contains("rank 0 waits for 2 signals of number 3 from rank 1, and 0 have arrived (2 of 4"));
}

TEST_CASE("windows: a wait whose signals do not arrive names the peer and both counts at the deadline") {
  for (const bool streamed : {false, true}) {
    Ranks ranks(2, with_timeout(300));
    std::atomic<bool> sent = false;
    const auto told = ranks.each<Told>([&](int rank, rondo_comm_t comm) {
      if (rank == 1) {
        const Told signal = tell(rondo_signal(0, 5, comm, nullptr));
        sent = true;
        return signal;
      }
      while (!sent) std::this_thread::yield();
      rondo_stream_t stream = nullptr;
      if (streamed && rondo_stream_create(&stream) != RONDO_OK) return Told{};
      auto status = rondo_wait_signal(1, 5, 3, comm, stream);
      if (streamed) {
        if (status == RONDO_OK) status = rondo_stream_synchronize(stream);  // the deadline ends the stream's wait
        static_cast<void>(rondo_stream_destroy(stream));
      }
      return Told{status, error_message(comm)};
    });
    CHECK(told[1].status == RONDO_OK);
    CHECK(told[0].status == RONDO_ERROR_TIMEOUT);
    CHECK_THAT(told[0].message,
               Contains("rank 0 waits for 3 signals of number 5 from rank 1, and 1 have arrived (1 of 3"));
    CHECK(rondo_signal(0, 5, ranks[1], nullptr) == RONDO_ERROR_TIMEOUT);
    CHECK(rondo_signal(0, 5, ranks[1], nullptr) == RONDO_ERROR_COMM_FAILED);
  }
}

TEST_CASE("windows: an abort ends a wait") {
  Ranks ranks(2);
  std::thread aborter([&] { static_cast<void>(rondo_comm_abort(ranks[1])); });
  CHECK(rondo_wait_signal(1, 0, 1, ranks[0], nullptr) == RONDO_ERROR_ABORTED);
  aborter.join();
}

TEST_CASE("windows: in a group, puts come first and waits last, whatever the order of the calls") {
  Ranks ranks(2);
  CHECK(all_ok(ranks.run([](int rank, rondo_comm_t comm) {
    Held held(comm, 8);
    const uint64_t value = 0x1111u * static_cast<unsigned>(rank + 1);
    float one = 1, sum = 0;
    static_cast<void>(rondo_group_begin());
    static_cast<void>(rondo_wait_signal(1 - rank, 0, 1, comm, nullptr));
    static_cast<void>(rondo_all_reduce(&one, &sum, 1, RONDO_FLOAT32, RONDO_SUM, comm, nullptr));
    static_cast<void>(rondo_put_signal(&value, 8, 1 - rank, held.window, 0, 0, comm, nullptr));
    const auto status = rondo_group_end();
    uint64_t got = 0;
    std::memcpy(&got, held.memory.data(), 8);
    static_cast<void>(rondo_barrier(comm, nullptr));
    return status != RONDO_OK || sum != 2 || got != 0x1111u * static_cast<unsigned>(2 - rank) ? RONDO_ERROR_INTERNAL
                                                                                             : RONDO_OK;
  })));
}

TEST_CASE("windows: a call that is refused in a group leaves no put behind") {
  Ranks ranks(2);
  const auto statuses = ranks.run([](int rank, rondo_comm_t comm) {
    Held held(comm, 8);
    const uint64_t value = 7;
    static_cast<void>(rondo_group_begin());
    static_cast<void>(rondo_put_signal(&value, 8, 1 - rank, held.window, 0, 0, comm, nullptr));
    static_cast<void>(rondo_put_signal(&value, 8, 1 - rank, held.window, 1, 0, comm, nullptr));
    const auto status = rondo_group_end();
    static_cast<void>(rondo_barrier(comm, nullptr));
    return held.memory[0] == std::byte{} ? status : RONDO_ERROR_INTERNAL;
  });
  for (const auto status : statuses) CHECK(status == RONDO_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("windows: after some registrations a shrink works, and so do windows of its ranks") {
  Ranks ranks(3);
  CHECK(all_ok(ranks.run([](int rank, rondo_comm_t comm) {
    for (int each = 0; each < 6; ++each) {  // more windows than the notes that a rank keeps
      const Held held(comm, 64);
      if (held.status != RONDO_OK) return held.status;
      static_cast<void>(rondo_barrier(comm, nullptr));
    }
    const int excluded = 2;
    if (rank == excluded) return RONDO_OK;
    rondo_comm_t rest = nullptr;
    if (const auto made = rondo_comm_shrink(comm, &excluded, 1, 0, nullptr, &rest); made != RONDO_OK) return made;
    Held held(rest, 8);
    const uint64_t value = 9;
    auto status = rondo_put_signal(&value, 8, 1 - rank, held.window, 0, 0, rest, nullptr);
    if (status == RONDO_OK) status = rondo_wait_signal(1 - rank, 0, 1, rest, nullptr);
    if (status == RONDO_OK) status = rondo_comm_finalize(rest);
    static_cast<void>(rondo_comm_destroy(rest));
    return held.memory[0] == std::byte{9} ? status : RONDO_ERROR_INTERNAL;
  })));
}
