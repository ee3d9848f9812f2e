// SPDX-License-Identifier: Apache-2.0
// These tests make messages fail in each way that docs/messages.md lists. Ranks are threads.
#include <unistd.h>

#include <atomic>
#include <chrono>

#include "src/base/clock.h"
#include "src/core/diagnostics/recorder.h"
#include "tests/catch.h"
#include "tests/timed.h"
#include "tests/unit/ranks.h"
#include "transports/shm/recorder.h"

using namespace rondo_test;
using Catch::Matchers::Contains;

namespace {

constexpr size_t large = 8u << 20;  // more than the slots of a pair hold

struct Told {
  rondo_status_t status = RONDO_OK;
  std::string message;
};

/// Returns the errors of `body`, which must fail on all ranks.
std::vector<Told> fail_on(Ranks &ranks, const std::function<rondo_status_t(int, rondo_comm_t)> &body) {
  return ranks.each<Told>([&](int rank, rondo_comm_t comm) {
    const rondo_status_t status = body(rank, comm);
    return Told{status, error_message(comm)};
  });
}

rondo_config_t with_timeout(uint32_t timeout_ms) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.timeout_ms = timeout_ms;
  return config;
}

/// Returns whether a rank of this process's only communicator waits in a message.
bool has_message(size_t rank) {
  const auto observed = rondo::shm::observe_process(::getpid());
  return observed.ok() && rondo::look_at_ranks(*observed.value().recordings.at(0))[rank].message.has_value();
}

/// Checks that all ranks have the status, and a message that contains `part`.
void check_all(const std::vector<Told> &told, rondo_status_t status, const std::string &part) {
  for (const Told &each : told) {
    CHECK(each.status == status);
    CHECK_THAT(each.message, Contains(part));
  }
}

/// Checks that all of three ranks get the error within a second. A rank whose `body` succeeds goes to a barrier.
void check_soon(const std::string &what, const std::function<rondo_status_t(int, rondo_comm_t)> &body) {
  constexpr uint64_t second_ns = 1'000'000'000;
  check_timed("messages: " + what, second_ns, [&] {
    Ranks ranks(3);
    REQUIRE(all_ok(ranks.run([](int, rondo_comm_t comm) { return rondo_barrier(comm, nullptr); })));
    const uint64_t begin_ns = rondo::now_ns();
    const auto told = fail_on(ranks, [&](int rank, rondo_comm_t comm) {
      const rondo_status_t status = body(rank, comm);
      return status == RONDO_OK ? rondo_barrier(comm, nullptr) : status;
    });
    const uint64_t end_ns = rondo::now_ns();
    check_all(told, RONDO_ERROR_MISMATCH, "rank 0");
    return end_ns - begin_ns;
  });
}

}  // namespace

TEST_CASE("messages: ends of different sizes are told on both ranks, with both sizes") {
  Ranks ranks(2);
  check_all(fail_on(ranks,
                    [&](int rank, rondo_comm_t comm) {
                      std::vector<char> own(8192);
                      for (int each = 0; each < 2; ++each) {
                        const auto status = rank == 0 ? rondo_send(own.data(), 16, RONDO_INT8, 1, comm, nullptr)
                                                      : rondo_recv(own.data(), 16, RONDO_INT8, 0, comm, nullptr);
                        if (status != RONDO_OK) return status;
                      }
                      if (rank == 1) return rondo_recv(own.data(), 1024, RONDO_FLOAT32, 0, comm, nullptr);
                      const auto sent = rondo_send(own.data(), 4096, RONDO_FLOAT16, 1, comm, nullptr);
                      return sent != RONDO_OK ? sent : rondo_barrier(comm, nullptr);
                    }),
            RONDO_ERROR_MISMATCH,
            "rank 1 receives message 3 from rank 0 as 4096 bytes (float32), rank 0 sent 8192 bytes (float16)");
}

TEST_CASE("messages: 0 bytes do not match 1 byte") {
  Ranks ranks(2);
  check_all(fail_on(ranks,
                    [&](int rank, rondo_comm_t comm) {
                      char own = 0;
                      if (rank == 1) return rondo_recv(&own, 1, RONDO_INT8, 0, comm, nullptr);
                      const auto sent = rondo_send(nullptr, 0, RONDO_INT8, 1, comm, nullptr);
                      return sent != RONDO_OK ? sent : rondo_barrier(comm, nullptr);
                    }),
            RONDO_ERROR_MISMATCH, "as 1 bytes (int8), rank 0 sent 0 bytes (int8)");
}

TEST_CASE("messages: without a counterpart the deadline tells what the peer has called, and what it does") {
  Ranks ranks(2, with_timeout(300));
  std::atomic<bool> has_sent = false, over = false;
  const auto told = fail_on(ranks, [&](int rank, rondo_comm_t comm) {
    char own = 0;
    if (rank == 1) {
      const auto sent = rondo_send(&own, 1, RONDO_INT8, 0, comm, nullptr);
      has_sent = true;
      if (sent != RONDO_OK) return sent;
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return rondo_barrier(comm, nullptr);
    }
    while (!has_sent) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    static_cast<void>(rondo_recv(&own, 1, RONDO_INT8, 1, comm, nullptr));
    const auto status = rondo_recv(&own, 1, RONDO_INT8, 1, comm, nullptr);
    over = true;
    return status;
  });
  check_all(told, RONDO_ERROR_TIMEOUT, "receive 2 from rank 1 on rank 0 timed out");
  CHECK_THAT(told[0].message, Contains("has called rondo_send 1 times to rank 0"));
  CHECK_THAT(told[0].message, Contains("is in no operation; it has completed 0 collectives and 1 batches"));
}

TEST_CASE("messages: the deadline tells in which message the late peer is") {
  Ranks ranks({with_timeout(300), with_timeout(60'000), with_timeout(60'000)});
  std::atomic<bool> over = false;
  const auto told = fail_on(ranks, [&](int rank, rondo_comm_t comm) {
    char own = 0;
    if (rank == 1) return rondo_recv(&own, 1, RONDO_INT8, 2, comm, nullptr);
    while (rank == 0 && !has_message(1)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto status = rank == 0 ? rondo_recv(&own, 1, RONDO_INT8, 1, comm, nullptr) : RONDO_OK;
    if (rank == 0) over = true;
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return rank == 0 ? status : rondo_barrier(comm, nullptr);
  });
  check_all(told, RONDO_ERROR_TIMEOUT, "receive 1 from rank 1 on rank 0 timed out");
  CHECK_THAT(told[0].message, Contains("has called rondo_send 0 times to rank 0, and is in receive 1 from rank 2;"));
}

TEST_CASE("messages: what a rank sent before it left is received, then its end is told") {
  Ranks ranks(2);
  std::atomic<bool> left = false;
  const auto told = ranks.each<Told>([&](int rank, rondo_comm_t comm) -> Told {
    int32_t values[3] = {7, 8, 9};
    if (rank == 1) {
      for (int32_t &value : values)
        if (rondo_send(&value, 1, RONDO_INT32, 0, comm, nullptr) != RONDO_OK) return {RONDO_ERROR_INTERNAL, ""};
      const auto status = rondo_comm_destroy(comm);
      left = true;
      return {status, ""};
    }
    while (!left) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (const int32_t value : values) {
      int32_t received = 0;
      const auto status = rondo_recv(&received, 1, RONDO_INT32, 1, comm, nullptr);
      if (status != RONDO_OK || received != value) return {RONDO_ERROR_INTERNAL, error_message(comm)};
    }
    const auto status = rondo_recv(values, 1, RONDO_INT32, 1, comm, nullptr);
    return {status, error_message(comm)};
  });
  ranks.forget(1);
  CHECK(told[1].status == RONDO_OK);
  CHECK(told[0].status == RONDO_ERROR_REMOTE);
  CHECK_THAT(told[0].message, Contains("has destroyed its communicator; rank 0 waits in receive 4 from rank 1"));
}

TEST_CASE("messages: ranks that wait for each other are told, with the circle") {
  Ranks ranks(2);
  const auto told = fail_on(ranks, [&](int rank, rondo_comm_t comm) {
    std::vector<char> own(large);
    const auto sent = rondo_send(own.data(), large, RONDO_INT8, 1 - rank, comm, nullptr);
    return sent != RONDO_OK ? sent : rondo_recv(own.data(), large, RONDO_INT8, 1 - rank, comm, nullptr);
  });
  check_all(told, RONDO_ERROR_MISMATCH,
            "rank 0 waits in send 1 to rank 1, which waits in send 1 to rank 0; put messages that cross into one "
            "group");
}

TEST_CASE("messages: a circle of three ranks, two of which receive and one is in a collective") {
  Ranks ranks(3);
  const auto told = fail_on(ranks, [&](int rank, rondo_comm_t comm) {
    int32_t own = 0;
    if (rank == 2) return rondo_all_reduce(&own, &own, 1, RONDO_INT32, RONDO_SUM, comm, nullptr);
    return rondo_recv(&own, 1, RONDO_INT32, rank + 1, comm, nullptr);
  });
  // The collective waits for both other ranks, so the reported circle may lead through either of them.
  check_all(told, RONDO_ERROR_MISMATCH, "waits in receive 1 from rank 2, which waits in operation 1 (all_reduce");
}

TEST_CASE("messages: ranks that are slow, or that wait for one that computes, are not accused") {
  Ranks ranks(3);
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    std::vector<char> own(large);
    // Rank 0 waits for rank 1, and rank 1 waits for rank 2, which computes longer than several searches for circles.
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(600));
    if (rank != 0)
      if (const auto sent = rondo_send(own.data(), large, RONDO_INT8, rank - 1, comm, nullptr); rank == 2) return sent;
    return rondo_recv(own.data(), large, RONDO_INT8, rank + 1, comm, nullptr);
  })));
}

TEST_CASE("messages: one that nobody receives is told by finalize, on all ranks") {
  Ranks ranks(3);
  check_all(fail_on(ranks,
                    [&](int rank, rondo_comm_t comm) {
                      int32_t own = 0;
                      if (rank == 0)
                        for (int each = 0; each < 2; ++each)
                          static_cast<void>(rondo_send(&own, 1, RONDO_INT32, 1, comm, nullptr));
                      if (rank == 1) static_cast<void>(rondo_recv(&own, 1, RONDO_INT32, 0, comm, nullptr));
                      return rondo_comm_finalize(comm);
                    }),
            RONDO_ERROR_MISMATCH, "sent 2 messages to rank 1, which received 1 of them");
}

TEST_CASE("messages: after all were received finalize is content") {
  Ranks ranks(2);
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    int32_t own = 0;
    const auto status = rank == 0 ? rondo_send(&own, 1, RONDO_INT32, 1, comm, nullptr)
                                  : rondo_recv(&own, 1, RONDO_INT32, 0, comm, nullptr);
    return status != RONDO_OK ? status : rondo_comm_finalize(comm);
  })));
}

TEST_CASE("messages: an abort ends what waits") {
  Ranks ranks(2);
  const auto told = fail_on(ranks, [&](int rank, rondo_comm_t comm) {
    int32_t own = 0;
    if (rank == 0) return rondo_recv(&own, 1, RONDO_INT32, 1, comm, nullptr);
    static_cast<void>(rondo_comm_abort(comm));
    return rondo_send(&own, 1, RONDO_INT32, 0, comm, nullptr);
  });
  check_all(told, RONDO_ERROR_ABORTED, "has called rondo_comm_abort");
}

TEST_CASE("messages: each mistake is told to all ranks within a second", "[.timed]") {
  std::vector<char> buffers[3];
  for (std::vector<char> &own : buffers) own.resize(large);
  check_soon("ends of different sizes", [&](int rank, rondo_comm_t comm) {
    if (rank == 0) return rondo_send(buffers[0].data(), 8, RONDO_INT8, 1, comm, nullptr);
    return rank == 1 ? rondo_recv(buffers[1].data(), 9, RONDO_INT8, 0, comm, nullptr) : RONDO_OK;
  });
  check_soon("a circle", [&](int rank, rondo_comm_t comm) {
    return rank == 2 ? RONDO_OK : rondo_send(buffers[rank].data(), large, RONDO_INT8, 1 - rank, comm, nullptr);
  });
  check_soon("counts of all_to_all_v", [&](int rank, rondo_comm_t comm) {
    const size_t to[] = {3, rank == 0 ? 4u : 3u, 3}, from[] = {3, 3, 3}, at[] = {0, 8, 16};
    return rondo_all_to_all_v(buffers[rank].data(), to, at, buffers[rank].data() + 64, from, at, RONDO_INT8, comm,
                              nullptr);
  });
  check_soon("a message that nobody receives, at finalize", [&](int rank, rondo_comm_t comm) {
    const auto sent = rank == 0 ? rondo_send(buffers[0].data(), 8, RONDO_INT8, 1, comm, nullptr) : RONDO_OK;
    return sent == RONDO_OK ? rondo_comm_finalize(comm) : sent;
  });
}
