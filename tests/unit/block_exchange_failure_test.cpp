// SPDX-License-Identifier: Apache-2.0
// These tests make all_to_all, gather and scatter fail,
// because ranks disagree or do not call. Ranks are threads.
#include <atomic>
#include <optional>

#include "src/core/communicator.h"
#include "src/core/process.h"
#include "tests/catch.h"
#include "tests/test_clock.h"
#include "tests/unit/ranks.h"

using namespace rondo_test;
using Catch::Matchers::Contains;

namespace {

struct Told {
  rondo_status_t status = RONDO_OK;
  std::string message;
};

using Body = std::function<rondo_status_t(int, rondo_comm_t)>;

/// Runs `body` and then a barrier. Every rank must fail in one of them. Returns the errors.
std::vector<Told> fail_on(Ranks &ranks, const Body &body) {
  return ranks.each<Told>([&](int rank, rondo_comm_t comm) {
    rondo_status_t status = body(rank, comm);
    if (status == RONDO_OK) status = rondo_barrier(comm, nullptr);
    return Told{status, error_message(comm)};
  });
}

void check_all(const std::vector<Told> &told, rondo_status_t status, const std::vector<std::string> &parts) {
  for (const Told &each : told) {
    CHECK(each.status == status);
    for (const std::string &part : parts) CHECK_THAT(each.message, Contains(part));
  }
}

void check_mismatch(int size, const Body &body, const std::vector<std::string> &parts) {
  Ranks ranks(size);
  check_all(fail_on(ranks, body), RONDO_ERROR_MISMATCH, parts);
}

constexpr size_t room = 4 * 50'000;

/// Waits until rank `rank` has entered its first operation.
void wait_until_entered(rondo_comm_t comm, uint32_t rank) {
  const auto object = rondo::process().communicators.find(comm);
  while (object->ranks().latest_operation(rank) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// The buffers of a rank.
struct Own {
  std::vector<float> send = std::vector<float>(room), recv = std::vector<float>(room);
};

}  // namespace

TEST_CASE("all_to_all: ranks that disagree on the call are told, with both calls") {
  check_mismatch(2,
                 [](int rank, rondo_comm_t comm) {
                   Own own;
                   return rondo_all_to_all(own.send.data(), own.recv.data(), rank == 0 ? 8 : 9, RONDO_FLOAT32, comm,
                                           nullptr);
                 },
                 {"operation 1 differs between ranks", "all_to_all of 8 float32", "all_to_all of 9 float32"});
  check_mismatch(2,
                 [](int rank, rondo_comm_t comm) {
                   Own own;
                   const auto type = rank == 0 ? RONDO_FLOAT32 : RONDO_INT32;
                   return rondo_all_to_all(own.send.data(), own.recv.data(), 8, type, comm, nullptr);
                 },
                 {"all_to_all of 8 float32", "all_to_all of 8 int32"});
  check_mismatch(2,
                 [](int rank, rondo_comm_t comm) {
                   Own own;
                   if (rank == 0)
                     return rondo_all_gather(own.send.data(), own.recv.data(), 8, RONDO_FLOAT32, comm, nullptr);
                   return rondo_all_to_all(own.send.data(), own.recv.data(), 8, RONDO_FLOAT32, comm, nullptr);
                 },
                 {"all_gather of 8 float32", "all_to_all of 8 float32"});
  check_mismatch(2,
                 [](int rank, rondo_comm_t comm) {
                   Own own;
                   const size_t each[] = {8, 8};
                   if (rank == 0)
                     return rondo_all_to_all(own.send.data(), own.recv.data(), 8, RONDO_FLOAT32, comm, nullptr);
                   return rondo_all_to_all_v(own.send.data(), each, nullptr, own.recv.data(), each, nullptr,
                                             RONDO_FLOAT32, comm, nullptr);
                 },
                 {"all_to_all of 8 float32", "all_to_all of float32 in uneven blocks"});
}

TEST_CASE("gather and scatter: ranks that disagree on the root or the count are told") {
  check_mismatch(3,
                 [](int rank, rondo_comm_t comm) {
                   Own own;
                   return rondo_gather(own.send.data(), own.recv.data(), 8, RONDO_FLOAT32, rank == 1 ? 1 : 0, comm,
                                       nullptr);
                 },
                 {"gather of 8 float32 to rank 0", "gather of 8 float32 to rank 1"});
  check_mismatch(3,
                 [](int rank, rondo_comm_t comm) {
                   Own own;
                   return rondo_scatter(own.send.data(), own.recv.data(), rank == 2 ? 4 : 8, RONDO_FLOAT32, 1, comm,
                                        nullptr);
                 },
                 {"scatter of 8 float32 from rank 1", "scatter of 4 float32 from rank 1"});
}

TEST_CASE("all_to_all_v: the counts of a pair that differ are named on all ranks, with both ranks") {
  // The last two pairs of counts have equal first slots.
  const std::pair<size_t, size_t> cases[] = {{100, 96}, {0, 3}, {3, 0}, {50'000, 49'999}, {20'000, 40'000}};
  for (const auto &[sent, expected] : cases)
    check_mismatch(3,
                   [sent = sent, expected = expected](int rank, rondo_comm_t comm) {
                     Own own;
                     size_t to[] = {5, 5, 5}, from[] = {5, 5, 5};
                     if (rank == 2) to[0] = sent;
                     if (rank == 0) from[2] = expected;
                     return rondo_all_to_all_v(own.send.data(), to, nullptr, own.recv.data(), from, nullptr,
                                               RONDO_FLOAT32, comm, nullptr);
                   },
                   {"operation 1 (all_to_all of float32 in uneven blocks) differs between ranks: rank 2 sends rank 0 " +
                    std::to_string(sent) + " elements, rank 0 expects " + std::to_string(expected)});
}

TEST_CASE("gather_v and scatter_v: the counts of a pair that differ are named on all ranks") {
  check_mismatch(3,
                 [](int rank, rondo_comm_t comm) {
                   Own own;
                   const size_t all[] = {1, 2, 3};
                   return rondo_gather_v(own.send.data(), rank == 1 ? 7 : all[rank], own.recv.data(), all, nullptr,
                                         RONDO_FLOAT32, 0, comm, nullptr);
                 },
                 {"gather of float32 to rank 0 in uneven blocks", "rank 1 sends rank 0 7 elements, rank 0 expects 2"});
  check_mismatch(3,
                 [](int rank, rondo_comm_t comm) {
                   Own own;
                   const size_t all[] = {1, 2, 0};
                   return rondo_scatter_v(own.send.data(), all, nullptr, own.recv.data(), rank == 2 ? 7 : all[rank],
                                          RONDO_FLOAT32, 0, comm, nullptr);
                 },
                 {"rank 0 sends rank 2 0 elements, rank 2 expects 7"});
}

TEST_CASE("all_to_all: a rank that does not come is named at the deadline") {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.timeout_ms = 300;
  Ranks ranks(3, config);
  std::atomic<int> over = 0;
  std::optional<HeldClock> clock(std::in_place);
  const auto told = ranks.each<Told>([&](int rank, rondo_comm_t comm) {
    Own own;
    if (rank == 2) {
      for (const uint32_t other : {0u, 1u}) wait_until_entered(comm, other);
      clock.reset();  // now the deadlines of both other ranks begin, and only this rank is missing
      while (over < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const auto status = rondo_barrier(comm, nullptr);
      return Told{status, error_message(comm)};
    }
    const auto status = rondo_all_to_all(own.send.data(), own.recv.data(), 20'000, RONDO_FLOAT32, comm, nullptr);
    ++over;
    return Told{status, error_message(comm)};
  });
  check_all(told, RONDO_ERROR_TIMEOUT, {"operation 1 (all_to_all of 20000 float32)", "not arrived: rank 2"});
}

TEST_CASE("gather: a root that has left is reported") {
  Ranks ranks(2);
  std::atomic<bool> left = false;
  const auto told = ranks.each<Told>([&](int rank, rondo_comm_t comm) -> Told {
    if (rank == 0) {
      const auto status = rondo_comm_destroy(comm);
      left = true;
      return {status, ""};
    }
    while (!left) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Own own;
    std::vector<float> much(8u << 20);  // more than the slots of a pair hold
    const auto status = rondo_gather(much.data(), nullptr, much.size(), RONDO_FLOAT32, 0, comm, nullptr);
    return {status, error_message(comm)};
  });
  ranks.forget(0);
  CHECK(told[1].status == RONDO_ERROR_REMOTE);
  CHECK_THAT(told[1].message, Contains("has destroyed its communicator during operation 1 (gather of"));
}

TEST_CASE("all_to_all: a rank that waits in a message for a rank in all_to_all is told, with the circle") {
  check_mismatch(2,
                 [](int rank, rondo_comm_t comm) {
                   Own own;
                   if (rank == 0)
                     return rondo_all_to_all(own.send.data(), own.recv.data(), 8, RONDO_FLOAT32, comm, nullptr);
                   return rondo_recv(own.recv.data(), 8, RONDO_FLOAT32, 0, comm, nullptr);
                 },
                 {"rank 0 waits in operation 1 (all_to_all of 8 float32) for rank 1, which waits in receive 1 from "
                  "rank 0"});
}

TEST_CASE("all_to_all: an abort ends what waits") {
  Ranks ranks(2);
  const auto told = fail_on(ranks, [&](int rank, rondo_comm_t comm) {
    Own own;
    if (rank == 1) return rondo_comm_abort(comm);
    return rondo_all_to_all(own.send.data(), own.recv.data(), 8, RONDO_FLOAT32, comm, nullptr);
  });
  check_all(told, RONDO_ERROR_ABORTED, {"has called rondo_comm_abort"});
}
