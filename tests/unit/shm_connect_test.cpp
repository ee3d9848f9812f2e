// SPDX-License-Identifier: Apache-2.0
// Ranks of one host that meet in shared memory: who is named where one goes before it has fetched it.
#include <thread>

#include "src/base/clock.h"
#include "tests/catch.h"
#include "transports/shm/transport.h"

using namespace rondo;

namespace {

constexpr uint64_t second_ns = 1'000'000'000;

std::span<const std::byte> bytes_of(const uint64_t &value) { return std::as_bytes(std::span(&value, 1)); }

}  // namespace

TEST_CASE("shm: a rank that goes before it has fetched the segment is named") {
  const Secret secret = random_secret();
  const auto server = start_store_server({"127.0.0.1", 0}, secret);
  REQUIRE(server.ok());
  const Endpoint endpoint = server.value()->endpoint();
  constexpr uint64_t other_process = 1;  // none of ours
  std::thread rank_1([&] {               // says which process it is, and no more
    const auto store = connect_store(endpoint, secret, now_ns() + 10 * second_ns);
    if (store.ok())
      static_cast<void>(store.value()->gather("c/process", 1, 2, bytes_of(other_process), now_ns() + second_ns));
  });
  const auto store = connect_store(endpoint, secret, now_ns() + 10 * second_ns);
  REQUIRE(store.ok());
  shm::SegmentTable segments;
  shm::ConnectRequest request;
  request.rank_count = 2;
  request.key_prefix = "c";
  request.deadline_ns = now_ns() + second_ns;
  const auto connected = shm::connect(request, *store.value(), segments);
  rank_1.join();
  REQUIRE_FALSE(connected.ok());
  CHECK(connected.error().status == RONDO_ERROR_TIMEOUT);
  CHECK(connected.error().peer == 1);
  CHECK(connected.error().message.find("missing: ranks 1") != std::string::npos);
}
