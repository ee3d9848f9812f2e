// SPDX-License-Identifier: Apache-2.0
// These tests use the C interface with threads as ranks: uneven blocks, streams, failures, and calls without
// allocation.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/test_clock.h"
#include "tests/unit/allocation_count.h"
#include "tests/unit/ranks.h"

using rondo_test::all_ok;
using rondo_test::error_message;
using rondo_test::Ranks;

TEST_CASE("all_gather_v and reduce_scatter_v: uneven, empty and displaced blocks arrive where they belong") {
  Ranks ranks(4);
  REQUIRE(ranks.status() == RONDO_OK);
  const std::vector<size_t> counts{3, 0, 700, 41};
  const std::vector<size_t> displacements{900, 0, 5, 850};
  const auto gathered = ranks.each<std::vector<int>>([&](int rank, rondo_comm_t comm) {
    const auto own = static_cast<size_t>(rank);
    std::vector<int> send(counts[own]);
    std::iota(send.begin(), send.end(), rank * 10'000);
    std::vector<int> recv(1000, -1);
    const auto status =
        rondo_all_gather_v(send.data(), recv.data(), counts.data(), displacements.data(), RONDO_INT32, comm, nullptr);
    return status == RONDO_OK ? recv : std::vector<int>();
  });
  std::vector<int> expected(1000, -1);
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t i = 0; i < counts[rank]; ++i) expected[displacements[rank] + i] = static_cast<int>(rank * 10'000 + i);
  for (const auto &recv : gathered) CHECK(recv == expected);

  const auto scattered = ranks.each<std::vector<int>>([&](int rank, rondo_comm_t comm) {
    std::vector<int> send(744);
    std::iota(send.begin(), send.end(), rank);
    std::vector<int> recv(counts[static_cast<size_t>(rank)], -1);
    const auto status =
        rondo_reduce_scatter_v(send.data(), recv.data(), counts.data(), RONDO_INT32, RONDO_SUM, comm, nullptr);
    return status == RONDO_OK ? recv : std::vector<int>(1, -99);
  });
  size_t begin = 0;
  for (size_t rank = 0; rank < 4; begin += counts[rank++])
    for (size_t i = 0; i < counts[rank]; ++i) REQUIRE(scattered[rank][i] == static_cast<int>(4 * (begin + i) + 6));
}

TEST_CASE("all_gather_v: the displacement of an empty block is ignored, also where it differs between ranks") {
  Ranks ranks(3);
  constexpr size_t most = std::numeric_limits<size_t>::max();
  const size_t counts[3] = {2, 0, 3};
  const auto gathered = ranks.each<std::vector<int>>([&](int rank, rondo_comm_t comm) {
    const size_t ignored[3] = {0, most, 1};  // by rank: beyond the address space on rank 1, in rank 0's block on rank 2
    const size_t displacements[3] = {0, ignored[rank], 4};
    const std::vector<int> send(counts[rank], 10 + rank);
    std::vector<int> recv(8, -1);
    const auto status = rondo_all_gather_v(send.data(), recv.data(), counts, displacements, RONDO_INT32, comm, nullptr);
    if (status != RONDO_OK) WARN(error_message(comm));
    return status == RONDO_OK ? recv : std::vector<int>();
  });
  for (const auto &recv : gathered) CHECK(recv == std::vector<int>{10, 10, -1, -1, 12, 12, 12, -1});
}

TEST_CASE("streams: operations of one communicator run in the order of the calls, whatever stream they are on") {
  Ranks ranks(3);
  const auto statuses = ranks.run([](int rank, rondo_comm_t comm) {
    rondo_stream_t streams[2] = {nullptr, nullptr};
    rondo_event_t event = nullptr;
    std::vector<double> values(5000, rank + 1.0);
    rondo_status_t status = rondo_stream_create(&streams[0]);
    if (status == RONDO_OK) status = rondo_stream_create(&streams[1]);
    if (status == RONDO_OK) status = rondo_event_create(&event);
    for (int round = 0; round < 100 && status == RONDO_OK; ++round) {
      // Each operation needs the result of the operation before it: a sum, then a mean or a maximum of equal values.
      // Some operations have no stream.
      status = rondo_all_reduce(values.data(), values.data(), values.size(), RONDO_FLOAT64, RONDO_SUM, comm,
                                round % 3 == 2 ? nullptr : streams[round % 2]);
      if (status == RONDO_OK)
        status = rondo_all_reduce(values.data(), values.data(), values.size(), RONDO_FLOAT64,
                                  round == 0 ? RONDO_AVG : RONDO_MAX, comm, streams[(round + 1) % 2]);
      if (status == RONDO_OK) status = rondo_stream_synchronize(streams[(round + 1) % 2]);
      for (double &value : values) value /= 3;
    }
    for (const double value : values)
      if (value != 2.0) status = RONDO_ERROR_INTERNAL;
    uint64_t before = 0;
    uint64_t after = 0;
    if (status == RONDO_OK) status = rondo_event_record(event, streams[0]);
    if (status == RONDO_OK) status = rondo_event_synchronize(event);
    if (status == RONDO_OK) status = rondo_event_timestamp_ns(event, &before);
    if (status == RONDO_OK) status = rondo_barrier(comm, streams[0]);
    if (status == RONDO_OK) status = rondo_event_record(event, streams[0]);
    if (status == RONDO_OK) status = rondo_event_synchronize(event);
    if (status == RONDO_OK) status = rondo_event_timestamp_ns(event, &after);
    if (status == RONDO_OK && after <= before) status = RONDO_ERROR_INTERNAL;
    for (const rondo_stream_t stream : streams) static_cast<void>(rondo_stream_destroy(stream));
    static_cast<void>(rondo_event_destroy(event));
    return status;
  });
  CHECK(all_ok(statuses));
}

TEST_CASE("failure: after an abort each rank is told once, and destroy works") {
  Ranks ranks(3);
  const auto statuses = ranks.each<std::vector<rondo_status_t>>([](int rank, rondo_comm_t comm) {
    std::vector<rondo_status_t> seen;
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      seen.push_back(rondo_comm_abort(comm));
    } else {
      seen.push_back(RONDO_OK);
    }
    seen.push_back(rondo_barrier(comm, nullptr));
    seen.push_back(rondo_barrier(comm, nullptr));
    rondo_status_t now = RONDO_OK;
    seen.push_back(rondo_comm_get_async_error(comm, &now));
    seen.push_back(now);
    return seen;
  });
  for (const auto &seen : statuses)
    CHECK(seen == std::vector<rondo_status_t>{RONDO_OK, RONDO_ERROR_ABORTED, RONDO_ERROR_COMM_FAILED, RONDO_OK,
                                              RONDO_ERROR_ABORTED});
  CHECK_THAT(error_message(ranks[2]), Contains("has called rondo_comm_abort"));
}

TEST_CASE("failure: a failed operation on a stream is the stream's and the communicator's") {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.timeout_ms = 200;
  Ranks ranks(2, config);
  rondo_stream_t stream = nullptr;
  REQUIRE(rondo_stream_create(&stream) == RONDO_OK);
  CHECK(rondo_barrier(ranks[0], stream) == RONDO_OK);
  CHECK(rondo_stream_synchronize(stream) == RONDO_ERROR_TIMEOUT);
  rondo_error_t error = RONDO_ERROR_INIT;
  REQUIRE(rondo_comm_last_error(ranks[1], &error) == RONDO_OK);
  CHECK(error.status == RONDO_ERROR_TIMEOUT);
  CHECK(error.rank == 0);
  CHECK(error.peer == 1);
  CHECK(error.operation == 1);
  CHECK_THAT(std::string(error.message), Contains("rank 1 (host") && Contains("RONDO_TIMEOUT"));
  CHECK(std::string(rondo_last_error_message(ranks[1])) == error.message);
  CHECK_THAT(std::string(rondo_last_error_message(reinterpret_cast<rondo_comm_t>(8))), Contains("handle"));
  CHECK(rondo_stream_destroy(stream) == RONDO_OK);
}

TEST_CASE("failure: a refused call's own message comes before the communicator's failure, until that is told") {
  Ranks ranks(2);
  REQUIRE(rondo_comm_abort(ranks[0]) == RONDO_OK);
  rondo_comm_t const comm = ranks[0];
  rondo_error_t error = RONDO_ERROR_INIT;
  const auto message = [&] {
    const std::string text = rondo_last_error_message(comm);
    CHECK(rondo_comm_last_error(comm, &error) == RONDO_OK);
    CHECK(text == error.message);
    return text;
  };
  const auto refuse = [](rondo_comm_t by) {
    return rondo_all_reduce(nullptr, nullptr, 4, RONDO_INT32, RONDO_SUM, by, nullptr);
  };
  CHECK_THAT(message(), Contains("abort"));
  CHECK(refuse(comm) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(message(), Contains("NULL"));
  std::string elsewhere;
  std::thread([&] { elsewhere = rondo_last_error_message(comm); }).join();
  CHECK_THAT(elsewhere, Contains("abort"));
  rondo_status_t now = RONDO_OK;
  CHECK(rondo_comm_get_async_error(comm, &now) == RONDO_OK);
  CHECK(now == RONDO_ERROR_ABORTED);
  CHECK_THAT(message(), Contains("abort"));
  CHECK(refuse(comm) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_barrier(comm, nullptr) == RONDO_ERROR_ABORTED);  // this call is the first to report the failure
  CHECK_THAT(message(), Contains("abort"));
  CHECK(refuse(comm) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_barrier(comm, nullptr) == RONDO_ERROR_COMM_FAILED);
  CHECK_THAT(message(), Contains("abort"));
}

TEST_CASE("failure: once a call has returned, no rank reads its buffers any more") {
  constexpr size_t bytes = size_t{4} << 20;
  rondo_test::GateShare share("calls whose buffers are unmapped");
  for (int round = 0; round < 40; ++round) {
    if (!share.has_next()) continue;
    Ranks ranks(3);
    const rondo_test::HeldClock clock;  // a failed call's second for readers must not pass while a reader has no core
    const auto statuses = ranks.run([round](int rank, rondo_comm_t comm) {
      rondo_status_t status = RONDO_OK;
      for (int call = 0; status == RONDO_OK; ++call) {
        if (rank == 0 && call == 1 + round % 3) {
          std::this_thread::sleep_for(std::chrono::microseconds(37 * round));
          return rondo_comm_revoke(comm);
        }
        // The pages are unmapped as soon as the call returns, so a peer that still read them would die.
        void *memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        status = rondo_all_reduce(memory, memory, bytes / 4, RONDO_FLOAT32, RONDO_SUM, comm, nullptr);
        ::munmap(memory, bytes);
      }
      return status;
    });
    CHECK(statuses[1] == RONDO_ERROR_REVOKED);
    CHECK(statuses[2] == RONDO_ERROR_REVOKED);
  }
}

TEST_CASE("barrier: nobody leaves before the last has come") {
  Ranks ranks(4);
  std::atomic<int> arrived = 0;  // seq_cst: this test checks the count itself
  const auto early = ranks.each<int>([&](int rank, rondo_comm_t comm) {
    int left_early = 0;
    for (int round = 1; round <= 50; ++round) {
      if (rank == round % 4) std::this_thread::sleep_for(std::chrono::microseconds(200));
      arrived.fetch_add(1);
      if (rondo_barrier(comm, nullptr) != RONDO_OK) return -1;
      if (arrived.load() < 4 * round) ++left_early;
    }
    return left_early;
  });
  for (const int count : early) CHECK(count == 0);
}

TEST_CASE("plans: more shapes than the cache holds, on a stream and without, all give the right sum") {
  Ranks ranks(2);
  const auto wrong = ranks.each<int>([](int rank, rondo_comm_t comm) {
    rondo_stream_t stream = nullptr;
    if (rondo_stream_create(&stream) != RONDO_OK) return -1;
    int wrong_count = 0;
    for (int pass = 0; pass < 2; ++pass) {
      std::vector<std::vector<int>> buffers;
      for (size_t count = 1; count <= 400; ++count) {
        buffers.emplace_back(count, rank + static_cast<int>(count));
        auto &buffer = buffers.back();
        if (rondo_all_reduce(buffer.data(), buffer.data(), count, RONDO_INT32, RONDO_SUM, comm,
                             pass == 0 ? stream : nullptr) != RONDO_OK)
          return -1;
      }
      if (rondo_stream_synchronize(stream) != RONDO_OK) return -1;
      for (const auto &buffer : buffers)
        for (const int value : buffer) wrong_count += value != 1 + 2 * static_cast<int>(buffer.size()) ? 1 : 0;
    }
    static_cast<void>(rondo_stream_destroy(stream));
    return wrong_count;
  });
  for (const int count : wrong) CHECK(count == 0);
}

TEST_CASE("finalize: a finalized communicator takes nothing more, and a barrier is not a finalize") {
  Ranks ranks(2);
  CHECK(all_ok(ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); })));
  CHECK(rondo_barrier(ranks[0], nullptr) == RONDO_ERROR_INVALID_HANDLE);
  Ranks others(2);
  const auto statuses = others.run(
      [](int rank, rondo_comm_t comm) { return rank == 0 ? rondo_comm_finalize(comm) : rondo_barrier(comm, nullptr); });
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(statuses[static_cast<size_t>(rank)] == RONDO_ERROR_REMOTE);  // rank 0 has left although it was needed
    rondo_error_t error = RONDO_ERROR_INIT;
    REQUIRE(rondo_comm_last_error(others[rank], &error) == RONDO_OK);
    CHECK(error.peer == 0);
    CHECK(std::string(error.message).find("rondo_comm_finalize") != std::string::npos);
  }
}

TEST_CASE("disagreement: calls of 0 elements do not carry a rank further than others can tell what it called") {
  constexpr int far = 3 * 1024;  // more calls than the flight recorder keeps
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.timeout_ms = 120'000;
  // Rank 0 makes `far` calls first. Then both ranks wait for data that neither sends or, if `meets`, call all_reduce.
  for (const bool meets : {false, true}) {
    Ranks ranks(2, config);
    const auto statuses = ranks.run([&](int rank, rondo_comm_t comm) {
      std::vector<int> values(8);
      rondo_status_t status = RONDO_OK;
      for (int call = 0; rank == 0 && call < far && status == RONDO_OK; ++call)
        status = rondo_broadcast(nullptr, nullptr, 0, RONDO_INT32, 0, comm, nullptr);
      if (status != RONDO_OK) return status;
      if (meets) return rondo_all_reduce(values.data(), values.data(), 8, RONDO_INT32, RONDO_SUM, comm, nullptr);
      return rondo_broadcast(values.data(), values.data(), 8, RONDO_INT32, 1 - rank, comm, nullptr);
    });
    for (int rank = 0; rank < 2; ++rank) {
      rondo_error_t error = RONDO_ERROR_INIT;
      CHECK(rondo_comm_last_error(ranks[rank], &error) == RONDO_OK);
      CHECK(statuses[static_cast<size_t>(rank)] == RONDO_ERROR_MISMATCH);
      CHECK(error.operation == 1);
      CHECK_THAT(error.message, Contains("broadcast of 0 int32 from rank 0"));
      CHECK_THAT(error.message, Contains(meets ? "all_reduce of 8 int32 (sum)" : "broadcast of 8 int32 from rank 0"));
    }
  }
}

TEST_CASE("memory: 8 ranks reserve at most 16 MiB, use what they have touched of it, and all tell the same") {
  Ranks ranks(8);
  REQUIRE(ranks.status() == RONDO_OK);
  rondo_comm_properties_t properties = RONDO_COMM_PROPERTIES_INIT;
  REQUIRE(rondo_comm_get_properties(ranks[0], &properties) == RONDO_OK);
  uint64_t before = 0;
  REQUIRE(rondo_comm_memory(ranks[0], nullptr, &before) == RONDO_OK);  // either pointer may be null
  CHECK(all_ok(ranks.run([](int, rondo_comm_t comm) {
    std::vector<float> values(100'000);
    return rondo_all_reduce(values.data(), values.data(), values.size(), RONDO_FLOAT32, RONDO_SUM, comm, nullptr);
  })));
  uint64_t first_used = 0;
  REQUIRE(rondo_comm_memory(ranks[0], nullptr, &first_used) == RONDO_OK);
  CHECK(first_used > before);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    uint64_t reserved = 0, used = 0;
    CHECK(rondo_comm_memory(ranks[rank], &reserved, &used) == RONDO_OK);
    CHECK(reserved == properties.shared_bytes);
    CHECK(reserved <= 16u << 20);
    CHECK(used == first_used);
    CHECK(used <= reserved);
    reserved = 0;
    CHECK(rondo_comm_memory(ranks[rank], &reserved, nullptr) == RONDO_OK);
    CHECK(reserved == properties.shared_bytes);
  }
  uint64_t untouched = 7;
  CHECK(rondo_comm_memory(nullptr, &untouched, &untouched) == RONDO_ERROR_INVALID_HANDLE);
  CHECK_THAT(error_message(), Contains("NULL"));
  CHECK(untouched == 7);
  CHECK(rondo_comm_memory(ranks[0], nullptr, nullptr) == RONDO_OK);
}

TEST_CASE("steady path: calls of known shape allocate nothing") {
  Ranks ranks(2);
  std::atomic<uint64_t> counted = 0;
  const auto statuses = ranks.run([&](int rank, rondo_comm_t comm) {
    std::vector<float> send(40'000, 1.0F);
    std::vector<float> recv(80'000);
    const size_t counts[2] = {300, 5};
    const size_t displacements[2] = {700, 2};
    const auto calls = [&] {
      const auto type = RONDO_FLOAT32;
      rondo_status_t status = rondo_all_reduce(send.data(), recv.data(), 2, type, RONDO_SUM, comm, nullptr);
      if (status == RONDO_OK)
        status = rondo_all_reduce(send.data(), recv.data(), 40'000, type, RONDO_SUM, comm, nullptr);
      if (status == RONDO_OK) status = rondo_all_gather(send.data(), recv.data(), 999, type, comm, nullptr);
      if (status == RONDO_OK)
        status = rondo_reduce_scatter(send.data(), recv.data(), 999, type, RONDO_SUM, comm, nullptr);
      if (status == RONDO_OK) status = rondo_broadcast(send.data(), recv.data(), 999, type, 1, comm, nullptr);
      if (status == RONDO_OK)
        status = rondo_all_gather_v(send.data(), recv.data(), counts, displacements, type, comm, nullptr);
      if (status == RONDO_OK)
        status = rondo_reduce_scatter_v(send.data(), recv.data(), counts, type, RONDO_SUM, comm, nullptr);
      if (status == RONDO_OK) status = rondo_reduce(send.data(), recv.data(), 999, type, RONDO_SUM, 0, comm, nullptr);
      if (status == RONDO_OK) status = rondo_barrier(comm, nullptr);
      return status;
    };
    rondo_status_t status = calls();
    if (status == RONDO_OK) status = rondo_barrier(comm, nullptr);
    const uint64_t before = rondo_test::allocation_count();
    for (int round = 0; round < 500 && status == RONDO_OK; ++round) status = calls();
    if (rank == 0) counted = rondo_test::allocation_count() - before;
    if (status == RONDO_OK) status = rondo_barrier(comm, nullptr);
    return status;
  });
  CHECK(all_ok(statuses));
  CHECK(counted == 0);
}
