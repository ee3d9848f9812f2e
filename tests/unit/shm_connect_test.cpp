// SPDX-License-Identifier: Apache-2.0
// Ranks of one host that meet in shared memory: which rank is named where one goes before it has fetched it.
#include <thread>

#include "src/base/clock.h"
#include "tests/catch.h"
#include "tests/unit/late_store.h"
#include "transports/shm/transport.h"

using namespace rondo;
using rondo_test::LateStore;
using rondo_test::other_process;

namespace {

constexpr uint64_t second_ns = 1'000'000'000;

std::span<const std::byte> bytes_of(const uint64_t &value) { return std::as_bytes(std::span(&value, 1)); }

shm::ConnectRequest request_of(uint32_t rank) {
  shm::ConnectRequest request;
  request.rank = rank;
  request.rank_count = 2;
  request.key_prefix = "c";
  request.deadline_ns = now_ns() + 10 * second_ns;
  return request;
}

}  // namespace

TEST_CASE("shm: a rank that goes before it has fetched the segment is named") {
  const Secret secret = random_secret();
  const auto server = start_store_server({"127.0.0.1", 0}, secret);
  REQUIRE(server.ok());
  const Endpoint endpoint = server.value()->endpoint();
  const auto store = connect_store(endpoint, secret, now_ns() + 10 * second_ns);
  const auto store_1 = connect_store(endpoint, secret, now_ns() + 10 * second_ns);
  REQUIRE(store.ok());
  REQUIRE(store_1.ok());
  const uint64_t deadline_ns = now_ns() + 3 * second_ns;
  std::thread rank_1([&] {               // says which process it is, and no more
    static_cast<void>(store_1.value()->gather("c/process", 1, 2, bytes_of(other_process), deadline_ns));
  });
  SegmentTable segments;
  shm::ConnectRequest request;
  request.rank_count = 2;
  request.key_prefix = "c";
  request.deadline_ns = deadline_ns;
  const auto connected = shm::connect(request, *store.value(), segments);
  rank_1.join();
  REQUIRE_FALSE(connected.ok());
  CHECK(connected.error().status == RONDO_ERROR_TIMEOUT);
  CHECK(connected.error().peer == 1);
  CHECK(connected.error().message.find("missing: ranks 1") != std::string::npos);
}

TEST_CASE("shm: a rank whose segment is not there any more waits for the reason of the one that made it") {
  SegmentTable segments;
  LateStore of_owner(0);  // it gives up at once
  REQUIRE_FALSE(shm::connect(request_of(0), of_owner, segments).ok());
  LateStore store(3);
  store.will_give(of_owner.what_was_put());
  const auto connected = shm::connect(request_of(1), store, segments);
  REQUIRE_FALSE(connected.ok());
  CHECK(connected.error().status == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(connected.error().message == "rank 0 failed: too few descriptors");

  LateStore silent(1'000'000);
  silent.will_give(of_owner.what_was_put());
  const auto unexplained = shm::connect(request_of(1), silent, segments);
  REQUIRE_FALSE(unexplained.ok());
  CHECK(unexplained.error().status == RONDO_ERROR_REMOTE);
  CHECK(unexplained.error().peer == 0);
}
