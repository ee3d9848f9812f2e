// SPDX-License-Identifier: Apache-2.0
// These tests limit a communicator's memory by max_memory_bytes.
#include "src/base/memory_limit.h"

#include <string>
#include <vector>

#include "src/plan/schedule.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/ranks.h"
#include "transports/hosts/connect.h"
#include "transports/shm/shm_transport.h"

using rondo::Config;
using rondo::MemoryChoice;
using rondo_test::error_message;
using rondo_test::Ranks;

namespace {

rondo::shm::SegmentShape shape_of(uint32_t rank_count, const MemoryChoice &choice) {
  return rondo::shm::choose_segment_shape(rank_count, 2, choice.slot_count, static_cast<uint32_t>(choice.slot_bytes),
                                          choice.halvings);
}

uint64_t bytes_of(uint32_t rank_count, const MemoryChoice &choice) {
  const auto shape = shape_of(rank_count, choice);
  return shape.bytes() + shape.message_bytes();
}

/// Exchanges blocks of equal sizes out of place and in place, and blocks of different sizes. Returns the number of
/// mistakes, or -1 after a failure.
int exchange(int rank, rondo_comm_t comm, int size, size_t count) {
  const auto ranks = static_cast<size_t>(size);
  const auto block_of = [&](int from, int to) { return from * 100 + to + 1; };
  std::vector<int32_t> send, expected;
  std::vector<size_t> sent, received;
  for (int peer = 0; peer < size; ++peer) {
    send.insert(send.end(), count, block_of(rank, peer));
    expected.insert(expected.end(), count, block_of(peer, rank));
    sent.push_back(count - static_cast<size_t>(rank + peer) % count);
    received.push_back(count - static_cast<size_t>(rank + peer) % count);
  }
  std::vector<int32_t> recv(ranks * count, -1), own = send, uneven_send, uneven, uneven_expected;
  for (int peer = 0; peer < size; ++peer) {
    uneven_send.insert(uneven_send.end(), sent[static_cast<size_t>(peer)], block_of(rank, peer));
    uneven_expected.insert(uneven_expected.end(), received[static_cast<size_t>(peer)], block_of(peer, rank));
  }
  uneven.assign(uneven_expected.size(), -1);
  if (rondo_all_to_all(send.data(), recv.data(), count, RONDO_INT32, comm, nullptr) != RONDO_OK ||
      rondo_all_to_all(own.data(), own.data(), count, RONDO_INT32, comm, nullptr) != RONDO_OK ||
      rondo_all_to_all_v(uneven_send.data(), sent.data(), nullptr, uneven.data(), received.data(), nullptr, RONDO_INT32,
                         comm, nullptr) != RONDO_OK)
    return -1;
  return (recv == expected ? 0 : 1) + (own == expected ? 0 : 1) + (uneven == uneven_expected ? 0 : 1);
}

/// Sums vectors and sends messages around. Returns the number of mistakes, or -1 after a failure.
int use(int rank, rondo_comm_t comm, int size) {
  int wrong = 0;
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{100'000}}) {
    std::vector<int32_t> values(count, rank + 1), got(count);
    if (rondo_all_reduce(values.data(), values.data(), count, RONDO_INT32, RONDO_SUM, comm, nullptr) != RONDO_OK)
      return -1;
    for (const int32_t value : values) wrong += value == size * (size + 1) / 2 ? 0 : 1;
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    values.assign(count, rank);
    if (rondo_group_begin() != RONDO_OK ||
        rondo_send(values.data(), count, RONDO_INT32, next, comm, nullptr) != RONDO_OK ||
        rondo_recv(got.data(), count, RONDO_INT32, previous, comm, nullptr) != RONDO_OK ||
        rondo_group_end() != RONDO_OK)
      return -1;
    for (const int32_t value : got) wrong += value == previous ? 0 : 1;
  }
  return wrong;
}

}  // namespace

TEST_CASE("memory limit: the plan with the fewest halvings is chosen, and a refusal says what would fit") {
  const auto plan = [](const MemoryChoice &choice) {  // 8 slots of 64K need 512 KiB; two halvings are the most
    const uint64_t slots = choice.slot_count != 0 ? choice.slot_count : 8;
    const uint64_t bytes = choice.slot_bytes != 0 ? choice.slot_bytes : (64 << 10) >> std::min(choice.halvings, 2u);
    return slots * bytes;
  };
  Config config;
  CHECK(rondo::choose_memory(config, "of it", plan).value().halvings == 0);
  config.max_memory_bytes = 512 << 10;
  CHECK(rondo::choose_memory(config, "of it", plan).value().halvings == 0);
  config.max_memory_bytes -= 1;
  CHECK(rondo::choose_memory(config, "of it", plan).value().halvings == 1);
  config.max_memory_bytes = 128 << 10;
  CHECK(rondo::choose_memory(config, "of it", plan).value().halvings == 2);
  const auto refusal = [&](uint32_t slot_count, uint64_t slot_bytes) {
    config.slot_count = slot_count;
    config.slot_bytes = slot_bytes;
    const auto refused = rondo::choose_memory(config, "of it", plan);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().status == RONDO_ERROR_OUT_OF_RESOURCES);
    return refused.error().message;
  };
  const std::string begin = "max_memory_bytes (RONDO_MAX_MEMORY_BYTES) is 128 KiB, and this communicator needs ";
  CHECK(refusal(16, 0) == begin + "256 KiB of it with 16 slots; with 8 slots, 128 KiB would fit");
  CHECK(refusal(16, 16 << 10) == begin + "256 KiB of it with 16 slots of 16K bytes; with 8 slots of 16K bytes, "
                                         "128 KiB would fit");
  CHECK(refusal(0, 64 << 10) == begin + "512 KiB of it with slots of 64K bytes; with slots of 16K bytes, 128 KiB "
                                        "would fit");
  config.max_memory_bytes = 100 << 10;
  CHECK_THAT(refusal(0, 0), Contains("needs 128 KiB of it; raise the limit, or use fewer ranks or channels"));
}

TEST_CASE("memory limit: a communicator stays within it, on one host and on several, and works") {
  for (const int size : {1, 2, 5}) {
    const auto rank_count = static_cast<uint32_t>(size);
    const uint64_t usual = bytes_of(rank_count, {}), least = bytes_of(rank_count, {0, 0, 16});
    for (const uint64_t limit : {usual, usual - 1, usual / 2, usual / 4, least}) {
      CAPTURE(size, usual, limit);
      rondo_config_t config = RONDO_CONFIG_INIT;
      config.max_memory_bytes = limit;
      Ranks ranks(size, config);
      REQUIRE(ranks.status() == RONDO_OK);
      CHECK(ranks.each<int>([&](int rank, rondo_comm_t comm) { return use(rank, comm, size); }) ==
            std::vector<int>(static_cast<size_t>(size), 0));
      uint64_t reserved = 0;
      CHECK(rondo_comm_memory(ranks[0], &reserved, nullptr) == RONDO_OK);
      CHECK(reserved <= limit);
      CHECK(reserved >= limit / 4);
    }
  }
  for (const bool messages : {false, true}) {
    const rondo::hosts::Spread spread{16, 8, 8};
    Config config;
    config.max_memory_bytes = 64 << 20;
    const auto choice = rondo::hosts::choose_hosts_memory(spread, 2, config, messages);
    REQUIRE(choice.ok());
    config.max_memory_bytes /= 8;
    const auto tight = rondo::hosts::choose_hosts_memory(spread, 2, config, messages);
    REQUIRE(tight.ok());
    CHECK(tight.value().halvings > choice.value().halvings);
    const auto slots = rondo::hosts::choose_slots(spread, 2, 0, 0, tight.value().halvings);
    CHECK(slots.slot_bytes < rondo::hosts::choose_slots(spread, 2, 0, 0).slot_bytes);
  }
}

TEST_CASE("memory limit: with the smallest slots, every algorithm and protocol, blocks and messages work") {
  rondo_test::GateShare share("communicators with the smallest slots");
  for (const int size : {2, 3, 4}) {
    for (const uint32_t halvings : {12u, 16u}) {
      share.skip();  // so that each quarter has all algorithms and protocols
      const auto rank_count = static_cast<uint32_t>(size);
      const auto shape = shape_of(rank_count, {0, 0, halvings});
      CHECK(shape.geometry.slot_count == 2);
      CHECK(shape.geometry.slot_bytes == 1024);
      rondo_config_t config = RONDO_CONFIG_INIT;
      config.max_memory_bytes = bytes_of(rank_count, {0, 0, halvings});
      config.kernel = RONDO_KERNEL_INTERPRETER;
      for (const rondo::Algorithm &algorithm : rondo::algorithms()) {
        if (rank_count > algorithm.rank_count_max) continue;
        for (const auto protocol : {RONDO_PROTOCOL_SIMPLE, RONDO_PROTOCOL_LL}) {
          if (!share.has_next()) continue;
          CAPTURE(size, halvings, rondo_algorithm_string(algorithm.id), rondo_protocol_string(protocol));
          config.algorithm = algorithm.id;
          config.protocol = protocol;
          Ranks ranks(size, config);
          REQUIRE(ranks.status() == RONDO_OK);
          rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
          CHECK(rondo_comm_query_plan(ranks[0], RONDO_ALL_REDUCE, 1000, RONDO_INT32, &plan) == RONDO_OK);
          CHECK((plan.algorithm == algorithm.id && plan.protocol == protocol));
          CHECK(ranks.each<int>([&](int rank, rondo_comm_t comm) {
            const int wrong = use(rank, comm, size);
            const int few = exchange(rank, comm, size, 7), many = exchange(rank, comm, size, 3001);
            return wrong < 0 || few < 0 || many < 0 ? -1 : wrong + few + many;
          }) == std::vector<int>(static_cast<size_t>(size), 0));
          uint64_t reserved = 0;
          CHECK(rondo_comm_memory(ranks[0], &reserved, nullptr) == RONDO_OK);
          CHECK(reserved <= config.max_memory_bytes);
        }
      }
    }
  }
}

TEST_CASE("memory limit: a communicator that cannot keep it is refused with what it needs") {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.max_memory_bytes = 64 << 10;
  Ranks ranks(4, config);
  CHECK(ranks.status() == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK_THAT(error_message(), Contains("max_memory_bytes (RONDO_MAX_MEMORY_BYTES) is 64 KiB"));
  CHECK_THAT(error_message(), Contains("of a host's memory; raise the limit"));
  config.max_memory_bytes = 1;
  Ranks wrong(1, config);
  CHECK(wrong.status() == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(error_message(), Contains("rondo_config_t.max_memory_bytes is 1"));
}
