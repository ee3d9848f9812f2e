// SPDX-License-Identifier: Apache-2.0
// These tests use all_to_all, gather and scatter through the public interface. Ranks are threads.
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/block_values.h"
#include "tests/unit/ranks.h"

using namespace rondo_test;
using Catch::Matchers::Contains;

namespace {

// Blocks of up to 8 elements go by ll. Blocks of 2,048 elements are exported, and 50,000 need more than a slot.
constexpr size_t counts[] = {0, 1, 8, 9, 257, 2'048, 50'000, 300'001};

/// Returns the number of elements of the block from `from` to `to` in the tests of _v. Some blocks are empty.
size_t uneven(int from, int to, size_t unit) {
  const auto which = static_cast<size_t>(from * 3 + to * 5);
  return which % 4 == 0 ? 0 : unit * (which % 4) + which;
}

/// Blocks with a gap of 3 elements before each, in reverse order of ranks.
struct Spread {
  std::vector<size_t> counts, displacements;
  size_t elements = 0;

  explicit Spread(std::vector<size_t> of) : counts(std::move(of)), displacements(counts.size()) {
    for (size_t rank = counts.size(); rank-- > 0;) {
      displacements[rank] = elements + 3;
      elements += 3 + counts[rank];
    }
  }
};

}  // namespace

TEST_CASE("all_to_all: every block arrives, whatever the size and the number of ranks") {
  rondo_test::GateShare share("sizes of all_to_all");
  for (const int size : {1, 2, 3, 5}) {
    Ranks ranks(size);
    REQUIRE(ranks.status() == RONDO_OK);
    for (const size_t count : counts) {
      if (!share.has_next()) continue;
      INFO(size << " ranks, " << count << " elements");
      CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
        const Values send = blocks(rank, size, count, false);
        Values recv(send.size(), -1);
        const auto status = rondo_all_to_all(send.data(), recv.data(), count, RONDO_INT32, comm, nullptr);
        return right(recv == blocks(rank, size, count, true) && send == blocks(rank, size, count, false), status);
      })));
    }
  }
}

TEST_CASE("all_to_all: in place a block goes where the block of that rank comes from, in shared memory as well") {
  rondo_test::GateShare share("sizes of all_to_all in place");
  for (const int size : {1, 2, 4}) {
    Ranks ranks(size);
    for (const size_t count : counts) {
      if (!share.has_next()) continue;
      INFO(size << " ranks, " << count << " elements");
      CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
        Values own = blocks(rank, size, count, false);
        const auto status = rondo_all_to_all(own.data(), own.data(), count, RONDO_INT32, comm, nullptr);
        return right(own == blocks(rank, size, count, true), status);
      })));
      CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
        // Rank 0 has two buffers, because each rank decides for itself whether it works in place.
        const Shared send(blocks(rank, size, count, false));
        const Shared other(Values(static_cast<size_t>(size) * count, -1));
        const Shared &recv = rank == 0 ? other : send;
        const auto status = rondo_all_to_all(send.data(), recv.data(), count, RONDO_INT32, comm, nullptr);
        return right(recv.holds(blocks(rank, size, count, true)), status);
      })));
    }
  }
}

TEST_CASE("gather and scatter: from every root, in place and not; buffers that others ignore may be null") {
  rondo_test::GateShare share("sizes of gather and scatter");
  for (const int size : {1, 2, 4}) {
    Ranks ranks(size);
    for (const size_t count : counts) {
      for (int root = 0; root < size; ++root) {
        if (!share.has_next()) continue;
        INFO(size << " ranks, " << count << " elements, root " << root);
        for (const bool in_place : {false, true}) {
          CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
            const bool is_root = rank == root;
            Values own, all(is_root ? count * static_cast<size_t>(size) : 0, -1);
            put(own, rank, root, count);
            int32_t *const place = is_root ? all.data() + count * static_cast<size_t>(root) : nullptr;
            if (is_root && in_place) std::copy(own.begin(), own.end(), place);
            const auto status = rondo_gather(is_root && in_place ? place : own.data(), is_root ? all.data() : nullptr,
                                             count, RONDO_INT32, root, comm, nullptr);
            return right(!is_root || all == blocks(root, size, count, true), status);
          })));
          CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
            const bool is_root = rank == root;
            Values expected, own(count, -1), all = is_root ? blocks(root, size, count, false) : Values();
            put(expected, root, rank, count);
            int32_t *const place = is_root ? all.data() + count * static_cast<size_t>(root) : nullptr;
            int32_t *const recv = is_root && in_place ? place : own.data();
            const auto status =
                rondo_scatter(is_root ? all.data() : nullptr, recv, count, RONDO_INT32, root, comm, nullptr);
            return right(std::equal(expected.begin(), expected.end(), recv), status);
          })));
        }
      }
    }
  }
}

TEST_CASE("all_to_all_v: blocks of different sizes, some empty, with gaps and without") {
  for (const int size : {1, 2, 4}) {
    Ranks ranks(size);
    for (const size_t unit : {size_t{1}, size_t{3'000}, size_t{60'000}}) {
      INFO(size << " ranks, " << unit);
      CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
        std::vector<size_t> sent, received;
        Values send, expected;
        for (int peer = 0; peer < size; ++peer) {
          sent.push_back(uneven(rank, peer, unit));
          received.push_back(uneven(peer, rank, unit));
          put(send, rank, peer, sent.back());
        }
        const Spread spread(received);
        Values recv(spread.elements, -1);
        const auto status = rondo_all_to_all_v(send.data(), sent.data(), nullptr, recv.data(), spread.counts.data(),
                                               spread.displacements.data(), RONDO_INT32, comm, nullptr);
        bool as_expected = std::count(recv.begin(), recv.end(), -1) == 3 * size;
        for (int peer = 0; peer < size; ++peer)
          for (size_t i = 0; i < received[static_cast<size_t>(peer)]; ++i)
            as_expected &= recv[spread.displacements[static_cast<size_t>(peer)] + i] == element(peer, rank, i);
        return right(as_expected, status);
      })));
    }
  }
}

TEST_CASE("gather_v and scatter_v: the root alone knows all counts, in place and not") {
  constexpr int size = 4;
  Ranks ranks(size);
  for (const size_t unit : {size_t{1}, size_t{3'000}, size_t{60'000}}) {
    for (int root = 0; root < size; ++root) {
      INFO(unit << ", root " << root);
      const bool in_place = root % 2 == 0;
      CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
        std::vector<size_t> all_counts;
        for (int peer = 0; peer < size; ++peer) all_counts.push_back(uneven(peer, root, unit));
        const Spread spread(all_counts);
        const auto at = [&](int peer) { return spread.displacements[static_cast<size_t>(peer)]; };
        const bool is_root = rank == root;
        const size_t own_count = uneven(rank, root, unit);
        Values own, all(spread.elements, -1);
        put(own, rank, root, own_count);
        if (is_root && in_place) std::copy(own.begin(), own.end(), all.data() + at(root));
        const auto gathered = rondo_gather_v(is_root && in_place ? all.data() + at(root) : own.data(), own_count,
                                             is_root ? all.data() : nullptr, is_root ? spread.counts.data() : nullptr,
                                             is_root ? spread.displacements.data() : nullptr, RONDO_INT32, root, comm,
                                             nullptr);
        bool as_expected = true;
        for (int peer = 0; peer < size; ++peer)
          for (size_t i = 0; is_root && i < spread.counts[static_cast<size_t>(peer)]; ++i)
            as_expected &= all[at(peer) + i] == element(peer, root, i);
        if (gathered != RONDO_OK || !as_expected) return right(false, gathered);
        // The blocks are sent back to their senders.
        Values back(own_count, -1);
        const auto scattered = rondo_scatter_v(is_root ? all.data() : nullptr, is_root ? spread.counts.data() : nullptr,
                                               is_root ? spread.displacements.data() : nullptr, back.data(), own_count,
                                               RONDO_INT32, root, comm, nullptr);
        return right(back == own, scattered);
      })));
    }
  }
}

TEST_CASE("all_to_all_v, gather_v: the displacement of an empty block is ignored") {
  Ranks ranks(2);
  constexpr size_t most = std::numeric_limits<size_t>::max();
  CHECK(all_ok(ranks.run([](int rank, rondo_comm_t comm) {
    const size_t from_first[2] = {0, 2}, from_second[2] = {0, 0};
    const size_t *const sent = rank == 0 ? from_first : from_second;
    const size_t received[2] = {rank == 0 ? 0u : 2u, 0};
    const size_t displacements[2] = {rank == 0 ? most : 1, most};
    Values send(2, 7), recv(4, -1), all(3, -1);
    const auto exchanged = rondo_all_to_all_v(send.data(), sent, nullptr, recv.data(), received, displacements,
                                              RONDO_INT32, comm, nullptr);
    const bool as_expected = recv == (rank == 0 ? Values{-1, -1, -1, -1} : Values{-1, 7, 7, -1});
    if (exchanged != RONDO_OK || !as_expected) return right(false, exchanged);
    const size_t shares[2] = {0, 2}, places[2] = {most, 1};
    const auto gathered = rondo_gather_v(send.data(), shares[rank], all.data(), shares, places, RONDO_INT32, 0, comm,
                                         nullptr);
    return right(all == (rank == 0 ? Values{-1, 7, 7} : Values(3, -1)), gathered);
  })));
}

TEST_CASE("all_to_all: one thread drives all ranks in a group, and counts may change after the call") {
  constexpr int size = 3;
  Ranks ranks(size);
  std::vector<Values> send, recv;
  for (int rank = 0; rank < size; ++rank) {
    send.push_back(blocks(rank, size, 100, false));
    recv.emplace_back(send.back().size(), -1);
  }
  std::vector<size_t> each(size, 100);
  REQUIRE(rondo_group_begin() == RONDO_OK);
  for (int rank = 0; rank < size; ++rank) {
    const auto at = static_cast<size_t>(rank);
    std::fill(each.begin(), each.end(), 100);
    CHECK(rondo_all_to_all_v(send[at].data(), each.data(), nullptr, recv[at].data(), each.data(), nullptr, RONDO_INT32,
                             ranks[rank], nullptr) == RONDO_OK);
    std::fill(each.begin(), each.end(), 7);
  }
  CHECK(rondo_group_end() == RONDO_OK);
  for (int rank = 0; rank < size; ++rank) CHECK(recv[static_cast<size_t>(rank)] == blocks(rank, size, 100, true));
}

TEST_CASE("all_to_all: on a host stream it runs in the order of the stream, among other collectives") {
  constexpr int size = 2;
  constexpr size_t count = 20'000;
  Ranks ranks(size);
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    rondo_stream_t stream = nullptr;
    if (rondo_stream_create(&stream) != RONDO_OK) return RONDO_ERROR_INTERNAL;
    Values own(count * size, rank + 1), recv(own.size(), -1);
    const std::vector<size_t> each(size, count);
    // The first sum makes each element 1 + 2 = 3. Two exchanges move the elements, and the last sum adds them again.
    static_cast<void>(rondo_all_reduce(own.data(), own.data(), own.size(), RONDO_INT32, RONDO_SUM, comm, stream));
    static_cast<void>(rondo_all_to_all(own.data(), own.data(), count, RONDO_INT32, comm, stream));
    static_cast<void>(rondo_all_to_all_v(own.data(), each.data(), nullptr, recv.data(), each.data(), nullptr,
                                         RONDO_INT32, comm, stream));
    static_cast<void>(rondo_all_reduce(recv.data(), recv.data(), recv.size(), RONDO_INT32, RONDO_SUM, comm, stream));
    const auto status = rondo_stream_synchronize(stream);
    static_cast<void>(rondo_stream_destroy(stream));
    return right(recv == Values(own.size(), 6), status);
  })));
}

TEST_CASE("all_to_all: a message that was sent before it may be received after it") {
  Ranks ranks(2);
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    // The message has the size of a block, so only its FIFO distinguishes the message from a block.
    const Values send = blocks(rank, 2, 2, false), message{71, 72};
    Values recv(send.size(), -1), received(2, -1);
    rondo_status_t sent = RONDO_OK, got = RONDO_OK;
    if (rank == 0) sent = rondo_send(message.data(), 2, RONDO_INT32, 1, comm, nullptr);
    const auto status = rondo_all_to_all(send.data(), recv.data(), 2, RONDO_INT32, comm, nullptr);
    if (rank == 1) got = rondo_recv(received.data(), 2, RONDO_INT32, 0, comm, nullptr);
    const bool as_expected = recv == blocks(rank, 2, 2, true) && (rank == 0 || received == message);
    return right(as_expected && sent == RONDO_OK && got == RONDO_OK, status);
  })));
}

TEST_CASE("all_to_all, gather and scatter: statistics count them by name, with the bytes of all blocks") {
  constexpr int size = 2;
  Ranks ranks(size);
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    Values all(200), own(200);
    const size_t to[] = {10, rank == 0 ? 20u : 30u}, from[] = {rank == 0 ? 10u : 20u, rank == 0 ? 10u : 30u};
    rondo_status_t status = rondo_all_to_all(all.data(), own.data(), 100, RONDO_INT32, comm, nullptr);
    if (status == RONDO_OK)
      status = rondo_all_to_all_v(all.data(), to, nullptr, own.data(), from, nullptr, RONDO_INT32, comm, nullptr);
    if (status == RONDO_OK) status = rondo_gather(own.data(), all.data(), 50, RONDO_INT32, 1, comm, nullptr);
    if (status == RONDO_OK) status = rondo_scatter(all.data(), own.data(), 25, RONDO_INT32, 0, comm, nullptr);
    rondo_statistics_t statistics = RONDO_STATISTICS_INIT;
    if (status == RONDO_OK) status = rondo_comm_statistics(comm, &statistics);
    const auto &exchanged = statistics.collectives[RONDO_ALL_TO_ALL];
    const auto &gathered = statistics.collectives[RONDO_GATHER], &scattered = statistics.collectives[RONDO_SCATTER];
    return right(exchanged.operations == 2 && exchanged.bytes == 800 + (rank == 0 ? 120 : 160) &&
                     gathered.operations == 1 && gathered.bytes == 400 && scattered.operations == 1 &&
                     scattered.bytes == 200,
                 status);
  })));
}

TEST_CASE("all_to_all, gather and scatter: their plan is one_shot, by ll for small blocks") {
  Ranks ranks(2);
  rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
  for (const auto collective : {RONDO_ALL_TO_ALL, RONDO_GATHER, RONDO_SCATTER}) {
    for (const size_t count : {size_t{8}, size_t{9}}) {
      INFO(rondo_collective_string(collective) << ", " << count);
      CHECK(rondo_comm_query_plan(ranks[0], collective, count, RONDO_FLOAT32, &plan) == RONDO_OK);
      CHECK(plan.algorithm == RONDO_ALGORITHM_ONE_SHOT);
      CHECK(plan.protocol == (count == 8 ? RONDO_PROTOCOL_LL : RONDO_PROTOCOL_SIMPLE));
    }
  }
  CHECK(rondo_comm_query_plan(ranks[0], RONDO_SEND, 1, RONDO_FLOAT32, &plan) == RONDO_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("all_to_all, gather and scatter: bad arguments are refused, and the communicator stays usable") {
  Ranks ranks(1);
  const rondo_comm_t comm = ranks[0];
  int32_t a[8] = {}, b[8] = {};
  const size_t one[] = {2}, other[] = {3}, huge[] = {SIZE_MAX / 2}, far[] = {SIZE_MAX};
  const auto refused = [](rondo_status_t status, const char *part) {
    CHECK(status == RONDO_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(error_message(), Contains(part));
  };
  refused(rondo_all_to_all(nullptr, b, 1, RONDO_INT32, comm, nullptr), "send is NULL");
  refused(rondo_all_to_all(a, nullptr, 1, RONDO_INT32, comm, nullptr), "recv is NULL");
  refused(rondo_all_to_all(a, a + 1, 2, RONDO_INT32, comm, nullptr), "overlap");
  refused(rondo_all_to_all(a, b, SIZE_MAX / 2, RONDO_INT32, comm, nullptr), "overflows");
  refused(rondo_all_to_all(a, b, 1, static_cast<rondo_type_t>(15), comm, nullptr), "unknown type");
  refused(rondo_gather(a, b, 1, RONDO_INT32, 1, comm, nullptr), "root is 1");
  refused(rondo_gather(a, nullptr, 1, RONDO_INT32, 0, comm, nullptr), "recv is NULL");
  refused(rondo_gather(a + 1, a, 2, RONDO_INT32, 0, comm, nullptr), "overlap");
  refused(rondo_scatter(a, b, 1, RONDO_INT32, -1, comm, nullptr), "root is -1");
  refused(rondo_scatter(nullptr, b, 1, RONDO_INT32, 0, comm, nullptr), "send is NULL");
  refused(rondo_all_to_all_v(a, nullptr, nullptr, b, one, nullptr, RONDO_INT32, comm, nullptr), "send_counts is NULL");
  refused(rondo_all_to_all_v(a, one, nullptr, b, nullptr, nullptr, RONDO_INT32, comm, nullptr), "recv_counts is NULL");
  refused(rondo_all_to_all_v(a, one, nullptr, a, one, nullptr, RONDO_INT32, comm, nullptr), "overlap");
  refused(rondo_all_to_all_v(a, one, nullptr, b, other, nullptr, RONDO_INT32, comm, nullptr),
          "rank 0 sends itself 2 elements and expects 3");
  refused(rondo_all_to_all_v(a, huge, nullptr, b, huge, nullptr, RONDO_INT32, comm, nullptr), "in send_counts");
  refused(rondo_all_to_all_v(a, one, nullptr, b, one, far, RONDO_INT32, comm, nullptr), "in recv_counts");
  refused(rondo_gather_v(a, 2, b, nullptr, nullptr, RONDO_INT32, 0, comm, nullptr), "counts is NULL");
  refused(rondo_gather_v(a, 2, b, other, nullptr, RONDO_INT32, 0, comm, nullptr), "sends itself 2 elements");
  refused(rondo_scatter_v(a, other, nullptr, b, 2, RONDO_INT32, 0, comm, nullptr), "sends itself 3 elements");
  refused(rondo_scatter_v(a, one, nullptr, nullptr, 2, RONDO_INT32, 0, comm, nullptr), "recv is NULL");
  CHECK(rondo_all_to_all(a, b, 1, RONDO_INT32, nullptr, nullptr) == RONDO_ERROR_INVALID_HANDLE);
  const size_t none[] = {0}, behind[] = {7};
  CHECK(rondo_all_to_all_v(nullptr, none, nullptr, nullptr, none, nullptr, RONDO_INT32, comm, nullptr) == RONDO_OK);
  CHECK(rondo_all_to_all_v(nullptr, none, behind, nullptr, none, far, RONDO_INT32, comm, nullptr) == RONDO_OK);
  refused(rondo_all_to_all_v(nullptr, one, behind, b, one, nullptr, RONDO_INT32, comm, nullptr), "send is NULL");
  a[0] = 5;
  CHECK(rondo_all_to_all(a, b, 1, RONDO_INT32, comm, nullptr) == RONDO_OK);
  CHECK(b[0] == 5);
}

TEST_CASE("gather_v: blocks that overlap on the root are refused") {
  Ranks ranks(2);
  CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    const size_t each[] = {2, 2}, overlapping[] = {0, 1};
    Values own(2, rank), all(4, -1);
    if (rank == 0) {
      const auto refused = rondo_gather_v(own.data(), 2, all.data(), each, overlapping, RONDO_INT32, 0, comm, nullptr);
      if (refused != RONDO_ERROR_INVALID_ARGUMENT) return RONDO_ERROR_INTERNAL;
    }
    const auto status = rondo_gather_v(own.data(), 2, all.data(), each, nullptr, RONDO_INT32, 0, comm, nullptr);
    return right(rank != 0 || all == Values{0, 0, 1, 1}, status);
  })));
}
