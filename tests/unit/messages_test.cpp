// SPDX-License-Identifier: Apache-2.0
// These tests use messages and groups through the public interface. Ranks are threads.
#include <cstdio>
#include <cstring>
#include <numeric>

#include "tests/catch.h"
#include "tests/unit/ranks.h"

using namespace rondo_test;

namespace {

constexpr size_t sizes[] = {0, 1, 8, 33, 4096, 200'000, 3u << 20};

std::vector<uint8_t> pattern(size_t bytes, int from) {
  std::vector<uint8_t> values(bytes);
  const auto first = static_cast<size_t>(from) * 31;
  for (size_t i = 0; i < bytes; ++i) values[i] = static_cast<uint8_t>(i * 7 + first + (i >> 8));
  return values;
}

/// Sends to the peer and receives from it in one group.
rondo_status_t exchange(const std::vector<uint8_t> &out, std::vector<uint8_t> &in, int peer, rondo_comm_t comm,
                        rondo_stream_t stream = nullptr) {
  if (const auto begun = rondo_group_begin(); begun != RONDO_OK) return begun;
  const auto sent = rondo_send(out.data(), out.size(), RONDO_UINT8, peer, comm, stream);
  const auto received = rondo_recv(in.data(), in.size(), RONDO_UINT8, peer, comm, stream);
  const auto ended = rondo_group_end();
  return sent != RONDO_OK ? sent : received != RONDO_OK ? received : ended;
}

}  // namespace

TEST_CASE("messages: two ranks exchange in a group, whatever the size") {
  Ranks ranks(2);
  REQUIRE(ranks.status() == RONDO_OK);
  for (const size_t bytes : sizes) {
    INFO(bytes);
    CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
      std::vector<uint8_t> in(bytes);
      const auto status = exchange(pattern(bytes, rank), in, 1 - rank, comm);
      return in == pattern(bytes, 1 - rank) ? status : RONDO_ERROR_INTERNAL;
    })));
  }
}

// A test runs this case with RONDO_CHANNELS=1 and RONDO_SLOT_COUNT=2.
TEST_CASE("messages: 64 ranks of a host exchange with all in groups, and their memory is at most 80 MiB", "[.many]") {
  constexpr int size = 64;
  constexpr uint64_t bytes_max = 80u << 20;
  Ranks ranks(size);
  REQUIRE(ranks.status() == RONDO_OK);
  // The last size does not fit into two slots.
  for (const size_t bytes : {size_t{8}, size_t{4096}, size_t{20'000}})
    CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
      std::vector<uint8_t> in(size * bytes);
      const auto out = pattern(bytes, rank);
      static_cast<void>(rondo_group_begin());
      for (int peer = 0; peer < size; ++peer) {
        uint8_t *const block = &in[static_cast<size_t>(peer) * bytes];
        static_cast<void>(rondo_send(out.data(), bytes, RONDO_UINT8, peer, comm, nullptr));
        static_cast<void>(rondo_recv(block, bytes, RONDO_UINT8, peer, comm, nullptr));
      }
      if (const auto ended = rondo_group_end(); ended != RONDO_OK) return ended;
      for (int peer = 0; peer < size; ++peer)
        if (std::memcmp(&in[static_cast<size_t>(peer) * bytes], pattern(bytes, peer).data(), bytes) != 0)
          return RONDO_ERROR_INTERNAL;
      return RONDO_OK;
    })));
  uint64_t reserved_bytes = 0, used_bytes = 0;
  REQUIRE(rondo_comm_memory(ranks[0], &reserved_bytes, &used_bytes) == RONDO_OK);
  std::printf("64 ranks: %llu of %llu bytes are used\n", static_cast<unsigned long long>(used_bytes),
              static_cast<unsigned long long>(reserved_bytes));
  CHECK(used_bytes <= bytes_max);
}

TEST_CASE("messages: registered buffers and memory of rondo_mem_alloc are read in place") {
  constexpr size_t bytes = 1u << 20;
  Ranks ranks(2);
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    void *memory = nullptr;
    if (rondo_mem_alloc(&memory, bytes) != RONDO_OK) return RONDO_ERROR_INTERNAL;
    const auto values = pattern(bytes, rank);
    std::memcpy(memory, values.data(), bytes);
    std::vector<uint8_t> in(bytes);
    static_cast<void>(rondo_group_begin());
    static_cast<void>(rondo_send(memory, bytes, RONDO_UINT8, 1 - rank, comm, nullptr));
    static_cast<void>(rondo_recv(in.data(), bytes, RONDO_UINT8, 1 - rank, comm, nullptr));
    const auto status = rondo_group_end();
    const bool right = in == pattern(bytes, 1 - rank);
    static_cast<void>(rondo_mem_free(memory));
    return right ? status : RONDO_ERROR_INTERNAL;
  })));
}

TEST_CASE("messages: outside a group they keep the order of their calls, and types are not compared") {
  Ranks ranks(3);
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    float values[4] = {1, 2, 3, 4};
    int32_t received[4] = {};
    if (rank == 0) {
      for (float &value : values)
        if (const auto sent = rondo_send(&value, 1, RONDO_FLOAT32, 2, comm, nullptr); sent != RONDO_OK) return sent;
      return RONDO_OK;
    }
    if (rank == 1) return RONDO_OK;
    for (int32_t &each : received)
      if (const auto got = rondo_recv(&each, 1, RONDO_INT32, 0, comm, nullptr); got != RONDO_OK) return got;
    return std::memcmp(values, received, sizeof values) == 0 ? RONDO_OK : RONDO_ERROR_INTERNAL;
  })));
}

TEST_CASE("messages: a probe counts what a rank has sent and this rank has not received") {
  constexpr int message_count = 3;
  Ranks ranks(2);
  std::vector<uint64_t> counts;
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    const uint8_t byte = 1;
    for (int at = 0; rank == 0 && at < message_count; ++at)
      if (const auto sent = rondo_send(&byte, 1, RONDO_UINT8, 1, comm, nullptr); sent != RONDO_OK) return sent;
    if (const auto met = rondo_barrier(comm, nullptr); met != RONDO_OK || rank == 0) return met;
    for (int at = 0; at <= message_count; ++at) {
      uint8_t in = 0;
      if (const auto told = rondo_probe(0, comm, &counts.emplace_back()); told != RONDO_OK) return told;
      if (at == message_count) break;
      if (const auto got = rondo_recv(&in, 1, RONDO_UINT8, 0, comm, nullptr); got != RONDO_OK) return got;
    }
    return RONDO_OK;
  })));
  CHECK(counts == std::vector<uint64_t>{3, 2, 1, 0});
  CHECK(rondo_probe(2, ranks[1], counts.data()) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_probe(0, ranks[1], nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_comm_destroy(ranks[0]) == RONDO_OK);
  ranks.forget(0);
  CHECK(rondo_probe(0, ranks[1], counts.data()) == RONDO_ERROR_REMOTE);
  CHECK_THAT(error_message(ranks[1]), Contains("has left the communicator"));
}

TEST_CASE("messages: a rank sends to itself within a group only, and both ends must fit") {
  Ranks ranks(1);
  const rondo_comm_t comm = ranks[0];
  int32_t out[2] = {4, 5}, in[2] = {};
  CHECK(rondo_send(out, 1, RONDO_INT32, 0, comm, nullptr) == RONDO_ERROR_INVALID_USAGE);
  CHECK_THAT(error_message(), Catch::Matchers::Contains("outside a group"));
  REQUIRE(rondo_group_begin() == RONDO_OK);
  for (int each = 0; each < 2; ++each) {
    CHECK(rondo_recv(&in[each], 1, RONDO_INT32, 0, comm, nullptr) == RONDO_OK);
    CHECK(rondo_send(&out[each], 1, RONDO_INT32, 0, comm, nullptr) == RONDO_OK);
  }
  CHECK(rondo_group_end() == RONDO_OK);
  CHECK(in[0] == 4);
  CHECK(in[1] == 5);
  REQUIRE(rondo_group_begin() == RONDO_OK);
  CHECK(rondo_send(out, 2, RONDO_INT32, 0, comm, nullptr) == RONDO_OK);
  CHECK(rondo_group_end() == RONDO_ERROR_INVALID_USAGE);
  CHECK_THAT(error_message(), Catch::Matchers::Contains("sends itself 1 messages in the group and receives 0"));
  REQUIRE(rondo_group_begin() == RONDO_OK);
  CHECK(rondo_send(out, 2, RONDO_INT32, 0, comm, nullptr) == RONDO_OK);
  CHECK(rondo_recv(in, 1, RONDO_INT32, 0, comm, nullptr) == RONDO_OK);
  CHECK(rondo_group_end() == RONDO_ERROR_INVALID_USAGE);
  CHECK_THAT(error_message(), Catch::Matchers::Contains("is sent as 8 bytes and received as 4 bytes"));
}

TEST_CASE("groups: a call that is refused refuses all of the group, and nothing of it runs") {
  Ranks ranks(2);
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    const auto out = pattern(100, rank);
    std::vector<uint8_t> in(100);
    static_cast<void>(rondo_group_begin());
    static_cast<void>(rondo_send(out.data(), 100, RONDO_UINT8, 1 - rank, comm, nullptr));
    if (rondo_send(out.data(), 100, RONDO_UINT8, 2, comm, nullptr) != RONDO_ERROR_INVALID_ARGUMENT)
      return RONDO_ERROR_INTERNAL;
    if (rondo_recv(nullptr, 100, RONDO_UINT8, 1 - rank, comm, nullptr) != RONDO_ERROR_INVALID_ARGUMENT)
      return RONDO_ERROR_INTERNAL;
    if (rondo_group_end() != RONDO_ERROR_INVALID_ARGUMENT) return RONDO_ERROR_INTERNAL;
    if (error_message().find("peer is 2") == std::string::npos) return RONDO_ERROR_INTERNAL;
    // The refused group must have sent nothing. Otherwise the message of this group would have the wrong number.
    const auto status = exchange(out, in, 1 - rank, comm);
    return in == pattern(100, 1 - rank) ? status : RONDO_ERROR_INTERNAL;
  })));
}

TEST_CASE("groups: they nest, may be given up, and need their beginning") {
  Ranks ranks(1);
  int32_t out = 3, in = 0;
  CHECK(rondo_group_end() == RONDO_ERROR_INVALID_USAGE);
  CHECK_THAT(error_message(), Catch::Matchers::Contains("rondo_group_end: this thread has no group"));
  CHECK(rondo_group_cancel(nullptr) == RONDO_ERROR_INVALID_USAGE);
  CHECK(rondo_group_begin() == RONDO_OK);
  CHECK(rondo_group_end() == RONDO_OK);
  CHECK(rondo_group_begin() == RONDO_OK);
  CHECK(rondo_group_begin() == RONDO_OK);
  CHECK(rondo_send(&out, 1, RONDO_INT32, 0, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_group_end() == RONDO_OK);
  CHECK(rondo_recv(&in, 1, RONDO_INT32, 0, ranks[0], nullptr) == RONDO_OK);
  CHECK(in == 0);
  CHECK(rondo_group_end() == RONDO_OK);
  CHECK(in == 3);
  uint64_t estimated_ns = 0;
  CHECK(rondo_group_begin() == RONDO_OK);
  CHECK(rondo_group_begin() == RONDO_OK);
  CHECK(rondo_send(&out, 1, RONDO_INT32, 0, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_group_cancel(&estimated_ns) == RONDO_ERROR_UNSUPPORTED);
  CHECK(rondo_group_cancel(nullptr) == RONDO_OK);
  CHECK(rondo_group_end() == RONDO_ERROR_INVALID_USAGE);
}

TEST_CASE("groups: one thread drives all ranks, collectives come first, and uneven counts are copied") {
  constexpr int size = 4;
  Ranks ranks(size);
  std::vector<std::vector<int32_t>> sums(size, std::vector<int32_t>(3)), gathered(size, std::vector<int32_t>(6));
  std::vector<int32_t> received(size, -1);
  std::vector<int32_t> values{1, 2, 3, 4};
  REQUIRE(rondo_group_begin() == RONDO_OK);
  for (int rank = 0; rank < size; ++rank) {
    const auto at = static_cast<size_t>(rank);
    size_t counts[size] = {1, 2, 0, 3};
    CHECK(rondo_send(&values[at], 1, RONDO_INT32, (rank + 1) % size, ranks[rank], nullptr) == RONDO_OK);
    CHECK(rondo_all_gather_v(values.data(), gathered[at].data(), counts, nullptr, RONDO_INT32, ranks[rank], nullptr) ==
          RONDO_OK);
    std::fill(counts, counts + size, 1000);
    CHECK(rondo_all_reduce(values.data(), sums[at].data(), 3, RONDO_INT32, RONDO_SUM, ranks[rank], nullptr) ==
          RONDO_OK);
    CHECK(rondo_recv(&received[at], 1, RONDO_INT32, (rank + size - 1) % size, ranks[rank], nullptr) == RONDO_OK);
  }
  CHECK(rondo_group_end() == RONDO_OK);
  CHECK(received == std::vector<int32_t>{4, 1, 2, 3});
  for (int rank = 0; rank < size; ++rank) {
    CHECK(sums[static_cast<size_t>(rank)] == std::vector<int32_t>{4, 8, 12});
    CHECK(gathered[static_cast<size_t>(rank)] == std::vector<int32_t>{1, 1, 2, 1, 2, 3});
  }
}

TEST_CASE("groups: a communicator that was destroyed meanwhile refuses the group") {
  Ranks ranks(1);
  int32_t out = 3, in = 0;
  REQUIRE(rondo_group_begin() == RONDO_OK);
  CHECK(rondo_send(&out, 1, RONDO_INT32, 0, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_recv(&in, 1, RONDO_INT32, 0, ranks[0], nullptr) == RONDO_OK);
  CHECK(rondo_comm_destroy(ranks[0]) == RONDO_OK);
  ranks.forget(0);
  CHECK(rondo_group_end() == RONDO_ERROR_INVALID_HANDLE);
  CHECK(in == 0);
}

TEST_CASE("groups: if one communicator can no longer run its part, no part runs, and the others stay usable") {
  Ranks good(2);
  std::vector<int32_t> values[2] = {{1, 2}, {10, 20}};
  const auto sum = [&](int rank) {
    return rondo_all_reduce(values[rank].data(), values[rank].data(), 2, RONDO_INT32, RONDO_SUM, good[rank], nullptr);
  };
  for (auto *const spoil : {rondo_comm_abort, rondo_comm_revoke, rondo_comm_finalize, rondo_comm_destroy}) {
    Ranks bad(1);
    int32_t out = 3, in = 0;
    const auto before = values[0];
    REQUIRE(rondo_group_begin() == RONDO_OK);
    CHECK(sum(0) == RONDO_OK);
    CHECK(rondo_all_reduce(&out, &in, 1, RONDO_INT32, RONDO_SUM, bad[0], nullptr) == RONDO_OK);
    CHECK(sum(1) == RONDO_OK);
    CHECK(spoil(bad[0]) == RONDO_OK);
    if (spoil == rondo_comm_destroy) bad.forget(0);
    CHECK(rondo_group_end() != RONDO_OK);
    CHECK((in == 0 && values[0] == before));
    REQUIRE(rondo_group_begin() == RONDO_OK);
    CHECK((sum(0) == RONDO_OK && sum(1) == RONDO_OK));
    CHECK(rondo_group_end() == RONDO_OK);
    CHECK((values[0] != before && values[0] == values[1]));
  }
}

TEST_CASE("messages: on host streams they run in the order of the stream, and a group joins its streams") {
  constexpr size_t count = 50'000;
  Ranks ranks(2);
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    rondo_stream_t first = nullptr, second = nullptr;
    if (rondo_stream_create(&first) != RONDO_OK || rondo_stream_create(&second) != RONDO_OK)
      return RONDO_ERROR_INTERNAL;
    std::vector<int32_t> sum(count, rank + 1), in(count);
    // The first stream sends the result that the second stream computes before the group.
    static_cast<void>(rondo_all_reduce(sum.data(), sum.data(), count, RONDO_INT32, RONDO_SUM, comm, second));
    static_cast<void>(rondo_group_begin());
    static_cast<void>(rondo_send(sum.data(), count, RONDO_INT32, 1 - rank, comm, first));
    static_cast<void>(rondo_recv(in.data(), count, RONDO_INT32, 1 - rank, comm, second));
    rondo_status_t status = rondo_group_end();
    if (status == RONDO_OK) status = rondo_stream_synchronize(first);
    const bool right = in == std::vector<int32_t>(count, 3);
    if (status == RONDO_OK) status = rondo_stream_synchronize(second);
    static_cast<void>(rondo_stream_destroy(first));
    static_cast<void>(rondo_stream_destroy(second));
    return right ? status : RONDO_ERROR_INTERNAL;
  })));
}

TEST_CASE("groups: two communicators of one thread may have the same host streams in another order") {
  Ranks ranks(2);
  rondo_stream_t streams[2] = {};
  for (rondo_stream_t &stream : streams) REQUIRE(rondo_stream_create(&stream) == RONDO_OK);
  constexpr size_t bytes = 3u << 20;  // more than the slots hold, so each rank waits for the other one
  std::vector<uint8_t> in[2];
  const std::vector<uint8_t> out[2] = {pattern(bytes, 0), pattern(bytes, 1)};
  REQUIRE(rondo_group_begin() == RONDO_OK);
  for (int rank = 0; rank < 2; ++rank) {
    in[rank].resize(bytes);
    CHECK(rondo_recv(in[rank].data(), bytes, RONDO_UINT8, 1 - rank, ranks[rank], streams[rank]) == RONDO_OK);
    CHECK(rondo_send(out[rank].data(), bytes, RONDO_UINT8, 1 - rank, ranks[rank], streams[1 - rank]) == RONDO_OK);
  }
  CHECK(rondo_group_end() == RONDO_OK);
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(rondo_stream_synchronize(streams[rank]) == RONDO_OK);
    CHECK((in[rank] == out[1 - rank]));  // without printing both
  }
  for (const rondo_stream_t stream : streams) CHECK(rondo_stream_destroy(stream) == RONDO_OK);
}

TEST_CASE("messages: statistics count both ends, and not the collectives") {
  Ranks ranks(2);
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    std::vector<uint8_t> in(1000);
    for (int each = 0; each < 3; ++each)
      if (const auto status = exchange(pattern(1000, rank), in, 1 - rank, comm); status != RONDO_OK) return status;
    // Rank 0 sends one message more, so that the ranks' counts differ.
    const auto status = rank == 0 ? rondo_send(in.data(), 10, RONDO_UINT8, 1, comm, nullptr)
                                  : rondo_recv(in.data(), 10, RONDO_UINT8, 0, comm, nullptr);
    if (status != RONDO_OK) return status;
    rondo_statistics_t statistics = RONDO_STATISTICS_INIT;
    if (const auto told = rondo_comm_statistics(comm, &statistics); told != RONDO_OK) return told;
    const auto has = [&](rondo_collective_t kind, bool one_more) {
      const auto &counted = statistics.collectives[kind];
      return counted.operations == (one_more ? 4u : 3u) && counted.bytes == (one_more ? 3010u : 3000u);
    };
    const bool right = has(RONDO_SEND, rank == 0) && has(RONDO_RECV, rank == 1) &&
                       statistics.collectives[RONDO_ALL_REDUCE].operations == 0;
    return right ? RONDO_OK : RONDO_ERROR_INTERNAL;
  })));
}
