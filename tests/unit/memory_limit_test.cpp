// SPDX-License-Identifier: Apache-2.0
// Communicators whose memory is limited by max_memory_bytes.
#include "src/base/memory_limit.h"

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/ranks.h"
#include "transports/hosts/connect.h"
#include "transports/shm/shm_transport.h"

using rondo::Config;
using rondo::MemoryChoice;
using rondo_test::error_message;
using rondo_test::Ranks;

namespace {

uint64_t bytes_of(uint32_t rank_count, const MemoryChoice &choice) {
  const auto shape = rondo::shm::choose_segment_shape(rank_count, 2, choice.slot_count,
                                                      static_cast<uint32_t>(choice.slot_bytes), choice.halvings);
  return shape.bytes() + shape.message_bytes();
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
  const auto plan = [](const MemoryChoice &choice) {  // 8 slots of 64K need 512 KiB, and half as much is the least
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
    const uint64_t usual = bytes_of(static_cast<uint32_t>(size), {});
    for (const uint64_t limit : {usual, usual - 1, usual / 2, usual / 4}) {
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
