// SPDX-License-Identifier: Apache-2.0
// These tests use windows and signals between ranks of several hosts, which are threads of one process (group_world.h).
// They check what puts write, random programs, and each way in which an operation fails.
#include <atomic>
#include <cstring>
#include <functional>
#include <optional>

#include "src/core/process.h"
#include "src/links/remote_memory.h"
#include "tests/catch.h"
#include "tests/net/group_world.h"
#include "tests/sanitized.h"
#include "tests/seeds.h"
#include "tests/test_clock.h"
#include "tests/unit/held_window.h"
#include "tests/window_program.h"
#include "transports/hosts/connect.h"
#include "transports/net/far_windows.h"

using namespace rondo;
using Catch::Matchers::Contains;
using rondo_test::Held;
using rondo_test::HeldClock;
using rondo_test::run_ranks;
using rondo_test::Told;
using rondo_test::WindowProgram;
using rondo_test::World;

namespace {

/// A handle for a communicator of the world, as the API takes it.
class Handle {
 public:
  explicit Handle(Communicator &comm)
      : handle_(static_cast<rondo_comm_t>(process().communicators.insert(comm.shared_from_this()))) {}
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;
  ~Handle() { static_cast<void>(process().communicators.remove(handle_)); }
  [[nodiscard]] rondo_comm_t get() const { return handle_; }

 private:
  const rondo_comm_t handle_;
};

Told tell(rondo_status_t status) { return {status, rondo_test::error_message()}; }
void nap() { sleep_for_ns(1'000'000); }

/// Runs `body` on each rank. Returns the results by rank. A rank stays until `body` has ended on all ranks.
std::vector<Told> told_by(World &world, const std::function<Told(uint32_t, Communicator &, rondo_comm_t)> &body) {
  std::vector<Told> told(world.rank_count());
  std::atomic<uint32_t> done = 0;
  const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
    const Handle handle(comm);
    told[rank] = body(rank, comm, handle.get());
    ++done;
    while (done < world.rank_count()) nap();  // bounded by the timeout of the operations
    return true;
  });
  CHECK(wrong.empty());
  return told;
}

void check_all(const std::vector<Told> &told, rondo_status_t status, const std::string &part) {
  for (const Told &each : told) {
    CHECK(each.status == status);
    CHECK_THAT(each.message, Contains(part));
  }
}

void check_ok(const std::vector<Told> &told) {
  for (const Told &each : told) {
    INFO(each.message);
    CHECK(each.status == RONDO_OK);
  }
}

void run_program(uint64_t seed, const std::vector<uint32_t> &node_of) {
  INFO("RONDO_SEED=" << seed);
  World world(node_of);
  if (seed % 3 == 0) world.settings.slot_bytes = 256;
  if (seed % 5 == 0) world.settings.sockets = 2;
  const auto told = told_by(world, [&](uint32_t rank, Communicator &, rondo_comm_t comm) {
    WindowProgram program(seed, world.rank_count());
    Held held(comm, program.window_bytes(), RONDO_WINDOW_SYMMETRIC);
    if (held.status != RONDO_OK) return tell(held.status);
    std::vector<std::byte> source(program.window_bytes());
    rondo_stream_t stream = nullptr;
    if ((seed + rank) % 3 == 0 && rondo_stream_create(&stream) != RONDO_OK) return Told{RONDO_ERROR_INTERNAL, ""};
    rondo_test::WindowMemory memory;
    if (stream != nullptr) memory.synchronize = [&] { return rondo_stream_synchronize(stream); };
    auto status = program.run(rank, comm, stream, held.window, held.memory.data(), source.data(), memory);
    if (stream != nullptr) static_cast<void>(rondo_stream_destroy(stream));
    if (status == RONDO_OK) status = rondo_window_deregister(comm, held.window);
    return tell(status == RONDO_OK ? rondo_comm_finalize(comm) : status);
  });
  check_ok(told);
}

}  // namespace

TEST_CASE("windows between hosts: random programs leave the bytes of the model", "[net]") {
  const std::vector<uint32_t> placements[] = {{0, 1}, {0, 0, 1, 1}, {0, 1, 0, 2, 1}};
  rondo_test::GateShare share("programs of windows between hosts", std::getenv("RONDO_SEED") == nullptr);
  rondo_test::for_each_seed(60, [&](uint64_t seed) {
    if (share.has_next()) run_program(seed, placements[seed % 3]);
  });
}

TEST_CASE("windows between hosts: the target calls nothing, and a complete put is in its window", "[net]") {
  constexpr size_t bytes = size_t{5} << 20;  // more than the slots of a pair hold
  World world({0, 1, 1});
  std::atomic<uint32_t> ready = 0, put = 0;
  const auto told = told_by(world, [&](uint32_t rank, Communicator &, rondo_comm_t comm) {
    Held held(comm, rank == 1 ? bytes : 8);
    if (held.status != RONDO_OK) return tell(held.status);
    void *addresses[3] = {};
    for (int peer = 0; peer < 3; ++peer) static_cast<void>(rondo_window_pointer(held.window, peer, &addresses[peer]));
    for (uint32_t peer = 0; peer < 3; ++peer)
      if ((addresses[peer] != nullptr) != ((rank == 0) == (peer == 0))) return Told{RONDO_ERROR_INTERNAL, "address"};
    ++ready;
    if (rank == 0) {
      const std::vector<std::byte> data(bytes, std::byte{7});
      while (ready < 3) nap();
      const auto status = rondo_put_signal(data.data(), bytes, 1, held.window, 0, 2, comm, nullptr);
      put = 1;
      return tell(status);
    }
    while (put == 0) nap();  // this thread has called nothing since the registration
    if (rank == 2) return Told{};
    const Told waited = tell(rondo_wait_signal(0, 2, 1, comm, nullptr));
    const bool right = held.memory == std::vector<std::byte>(bytes, std::byte{7});
    return right ? waited : Told{RONDO_ERROR_INTERNAL, "data"};
  });
  check_ok(told);
}

TEST_CASE("windows between hosts: signals need no window and no call of their target", "[net]") {
  World world({0, 1, 1});
  std::atomic<bool> sent = false;
  const auto told = told_by(world, [&](uint32_t rank, Communicator &, rondo_comm_t comm) {
    if (rank == 0) {
      auto status = RONDO_OK;
      for (int each = 0; each < 200 && status == RONDO_OK; ++each)  // more than the slots hold
        status = rondo_signal(1 + each % 2, 3, comm, nullptr);
      sent = true;
      return tell(status);
    }
    while (!sent) nap();
    return tell(rondo_wait_signal(0, 3, 100, comm, nullptr));
  });
  check_ok(told);
}

TEST_CASE("windows between hosts: ranks that put to each other at once, with large pieces, do not block", "[net]") {
  constexpr size_t bytes = size_t{3} << 20;
  World world({0, 1});
  const auto told = told_by(world, [&](uint32_t rank, Communicator &, rondo_comm_t comm) {
    Held held(comm, bytes);
    if (held.status != RONDO_OK) return tell(held.status);
    const std::vector<std::byte> data(bytes, static_cast<std::byte>(rank + 1));
    const int peer = 1 - static_cast<int>(rank);
    auto status = RONDO_OK;
    for (int each = 0; each < 4 && status == RONDO_OK; ++each)
      status = rondo_put_signal(data.data(), bytes, peer, held.window, 0, 0, comm, nullptr);
    if (status == RONDO_OK) status = rondo_wait_signal(peer, 0, 4, comm, nullptr);
    if (status == RONDO_OK && held.memory != std::vector<std::byte>(bytes, static_cast<std::byte>(2 - rank)))
      return Told{RONDO_ERROR_INTERNAL, "data"};
    return tell(status == RONDO_OK ? rondo_barrier(comm, nullptr) : status);
  });
  check_ok(told);
}

TEST_CASE("windows between hosts: a wait whose signals do not arrive names the peer and both counts", "[net]") {
  World world({0, 1});
  world.settings.timeout_ns = 2 * second_ns;
  std::atomic<bool> here = false;
  std::optional<HeldClock> clock;
  const auto told = told_by(world, [&](uint32_t rank, Communicator &, rondo_comm_t comm) {
    if (rank == 1) {
      here = true;
      const Told signal = tell(rondo_signal(0, 5, comm, nullptr));
      return signal.status == RONDO_OK ? tell(rondo_signal(0, 6, comm, nullptr)) : signal;
    }
    while (!here) nap();
    clock.emplace();
    if (const auto came = rondo_wait_signal(1, 6, 1, comm, nullptr); came != RONDO_OK) return tell(came);
    clock.reset();  // signal 5 was sent before signal 6, so it has arrived, too; now the deadline passes
    const auto status = rondo_wait_signal(1, 5, 3, comm, nullptr);
    return Told{status, rondo_test::error_message(comm)};
  });
  CHECK(told[1].status == RONDO_OK);
  CHECK(told[0].status == RONDO_ERROR_TIMEOUT);
  CHECK_THAT(told[0].message,
             Contains("rank 0 waits for 3 signals of number 5 from rank 1, and 1 have arrived (1 of 3"));
}

TEST_CASE("windows between hosts: an abort ends a wait", "[net]") {
  World world({0, 1});
  const auto told = told_by(world, [&](uint32_t rank, Communicator &comm, rondo_comm_t handle) {
    if (rank == 1) comm.abort();
    return tell(rondo_wait_signal(1 - static_cast<int>(rank), 0, 1, handle, nullptr));
  });
  check_all(told, RONDO_ERROR_ABORTED, "has called rondo_comm_abort");
}

TEST_CASE("windows between hosts: after a rank has left, its signals count, and then it is named", "[net]") {
  World world({0, 1});
  std::atomic<int> left = 0;
  std::optional<HeldClock> clock;
  std::vector<Told> told;
  const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
    const Handle handle(comm);
    const int64_t value = 77;
    Held held(handle.get(), 8);
    if (held.status != RONDO_OK) return false;
    if (rank == 1) {
      const auto put = rondo_put_signal(&value, 8, 0, held.window, 0, 4, handle.get(), nullptr);
      comm.close();
      left = 1;
      while (left < 2) nap();
      return put == RONDO_OK;
    }
    while (left == 0 || comm.ranks().state(1) != RankState::left) nap();
    clock.emplace();  // a wait lasts half a second for data of an ended rank, which may take longer
    told.push_back(tell(rondo_wait_signal(1, 4, 1, handle.get(), nullptr)));
    clock.reset();
    told.push_back(tell(rondo_signal(1, 0, handle.get(), nullptr)));  // the ended rank does not wait for it
    told.push_back(tell(rondo_put_signal(&value, 8, 1, held.window, 0, 0, handle.get(), nullptr)));
    left = 2;
    return std::memcmp(held.memory.data(), &value, 8) == 0;
  });
  CHECK(wrong.empty());
  REQUIRE(told.size() == 3);
  CHECK(told[0].status == RONDO_OK);
  CHECK(told[1].status == RONDO_OK);
  CHECK(told[2].status == RONDO_ERROR_REMOTE);
  CHECK_THAT(told[2].message, Contains("rank 1") && Contains("has destroyed its communicator; rank 0 puts 8 bytes"));
}

TEST_CASE("windows between hosts: a put into a window that has ended there writes nothing, and is told", "[net]") {
  World world({0, 1});
  std::atomic<bool> over = false;
  const auto told = told_by(world, [&](uint32_t rank, Communicator &, rondo_comm_t comm) {
    Held held(comm, 64);
    if (held.status != RONDO_OK) return tell(held.status);
    if (rank == 1 && rondo_window_deregister(comm, held.window) != RONDO_OK) return Told{};
    if (const auto met = rondo_barrier(comm, nullptr); met != RONDO_OK) return tell(met);
    const std::vector<std::byte> data(64, std::byte{9});
    if (rank == 0) {
      static_cast<void>(rondo_put_signal(data.data(), 64, 1, held.window, 0, 0, comm, nullptr));
      over = true;
    }
    while (!over) nap();
    if (held.memory != std::vector<std::byte>(64)) return Told{RONDO_ERROR_INTERNAL, "written"};
    const auto status = rondo_wait_signal(1 - static_cast<int>(rank), 0, 1, comm, nullptr);
    rondo_error_t error = RONDO_ERROR_INIT;
    static_cast<void>(rondo_comm_last_error(comm, &error));
    return Told{status == RONDO_OK ? status : error.status, error.message};
  });
  check_all(told, RONDO_ERROR_SYSTEM, "has put 64 bytes at offset 0 of window 1, which has ended here");
}

TEST_CASE("windows between hosts: sizes that differ are named on all ranks, and a rank that does not call", "[net]") {
  World world({0, 1, 0});
  const auto sizes = told_by(world, [&](uint32_t rank, Communicator &, rondo_comm_t comm) {
    return tell(Held(comm, rank == 2 ? 128 : 64, RONDO_WINDOW_SYMMETRIC).status);
  });
  check_all(sizes, RONDO_ERROR_MISMATCH, "rank 0 gives 64 bytes, rank 2 gives 128 bytes");
  World hasty({0, 1, 0});
  hasty.settings.timeout_ns = 2 * second_ns;
  std::atomic<uint32_t> ended = 0;
  std::atomic<uint32_t> here = 0;
  std::atomic<bool> holds = false;
  std::atomic<const Communicator *> of_rank_0 = nullptr;
  std::optional<HeldClock> clock;
  const auto late = told_by(hasty, [&](uint32_t rank, Communicator &own, rondo_comm_t comm) {
    if (rank == 0) of_rank_0 = &own;
    ++here;
    if (rank == 1) {
      while (here < 3) nap();
      clock.emplace();
      holds = true;
      for (const uint32_t other : {0u, 2u})
        while (of_rank_0.load()->ranks().notes(other).empty()) nap();
      clock.reset();  // now the deadlines of both other ranks begin, and only this rank is missing
      while (ended < 2) nap();
    }
    while (!holds) nap();
    const Told told = tell(Held(comm, 64).status);
    ++ended;
    return told;
  });
  check_all(late, RONDO_ERROR_TIMEOUT, "");
  for (const uint32_t rank : {0u, 2u})
    CHECK_THAT(late[rank].message, (Contains("rank 1") && Contains("has not called it in time")) ||
                                       Contains("(timeout, rank 1)"));
}

TEST_CASE("windows between hosts: above 64 ranks they are refused at the call", "[net]") {
  std::vector<uint32_t> node_of(message_ranks_max + 1, 0);
  node_of.back() = 1;
  World world(node_of);
  check_all(told_by(world, [](uint32_t, Communicator &, rondo_comm_t comm) { return tell(Held(comm, 8).status); }),
            RONDO_ERROR_UNSUPPORTED, "windows and signals between hosts take at most 64 ranks");
}

/// Lets rank 1 put `bytes` bytes of value 1. Returns whether the windows take the slot.
static bool take(net::FarWindows &windows, const PutFrame &frame, size_t bytes) {
  std::vector<std::byte> slot(sizeof frame + bytes, std::byte{1});
  std::memcpy(slot.data(), &frame, sizeof frame);
  return windows.take(1, slot);
}

TEST_CASE("windows between hosts: a range that a peer has computed wrong is never written", "[net]") {
  size_t refusals = 0;
  const auto raise = [&](uint32_t peer, rondo_status_t, const std::string &) { refusals += peer == 1 ? 1 : 0; };
  std::vector<std::byte> memory(96);
  constexpr uint32_t none = signal_count;
  for (const auto &[frame, bytes] : std::vector<std::pair<PutFrame, size_t>>{
           {{1, 64, 0, none}, 1}, {{1, 60, 0, none}, 5}, {{1, UINT64_MAX, 0, none}, 2}, {{1, 0, 0, none}, 65},
           {{2, 0, 0, none}, 1}, {{1, UINT64_MAX - 15, 1, 0}, 32}}) {
    net::FarWindows windows(2, raise);
    windows.expose(1, std::span(memory).subspan(16, 64));
    CHECK_FALSE(take(windows, frame, bytes));
    CHECK_FALSE(take(windows, {1, 0, 1, 0}, 1));  // a rank that has refused a put takes nothing more
    CHECK(windows.signals(1)[0] == 0);
  }
  CHECK(refusals == 6);
  CHECK(memory == std::vector<std::byte>(96));

  net::FarWindows windows(2, raise);
  CHECK_FALSE(windows.take(1, std::vector<std::byte>(sizeof(PutFrame) - 1)));
  CHECK(refusals == 7);
}

TEST_CASE("windows between hosts: a put is written until the window ends, and then refused", "[net]") {
  size_t refusals = 0;
  net::FarWindows windows(2, [&](uint32_t, rondo_status_t, const std::string &) { ++refusals; });
  std::vector<std::byte> memory(8);
  windows.expose(1, memory);
  CHECK(take(windows, {1, 7, 5, 2}, 1));
  CHECK(take(windows, {0, 0, 6, UINT32_MAX}, 0));  // it sets no signal
  CHECK((memory[7] == std::byte{1} && windows.signals(1)[2] == 5 && refusals == 0));
  windows.withdraw(1);
  CHECK_FALSE(take(windows, {1, 0, 6, 2}, 1));
  CHECK((refusals == 1 && windows.signals(1)[2] == 5));
  windows.close();
  CHECK_FALSE(take(windows, {1, 0, 6, 2}, 1));
  CHECK(refusals == 1);
}

TEST_CASE("windows between hosts: slots for puts hold a frame, and verbs registers few bytes", "[net]") {
  for (const uint32_t slot_bytes : {64u, 4096u, 512u * 1024})
    for (const NetworkChoice network : {NetworkChoice::tcp, NetworkChoice::verbs}) {
      const ConnectionGeometry chosen = hosts::choose_put_slots({4, slot_bytes, 0}, network);
      CHECK(chosen.slot_count == 4);
      CHECK(chosen.slot_bytes >= 4 * sizeof(PutFrame));
      CHECK(chosen.slot_bytes <= (network == NetworkChoice::verbs ? 4096 : std::max(slot_bytes, 256u)));
    }
}
