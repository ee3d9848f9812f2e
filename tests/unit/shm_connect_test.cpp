// SPDX-License-Identifier: Apache-2.0
// In these tests, ranks of one host meet in shared memory. If a rank ends before it has fetched the memory, the error
// must name that rank.
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "tests/catch.h"
#include "tests/seconds.h"
#include "tests/test_clock.h"
#include "tests/unit/late_store.h"
#include "transports/shm/shm_transport.h"

using namespace rondo;
using rondo_test::LateStore;
using rondo_test::other_process;

namespace {

/// The store of two ranks. The other rank publishes only its process.
class SilentRank final : public Store {
 public:
  Result<void> put(std::string_view, std::span<const std::byte>, uint64_t) override { return {}; }
  Result<Bytes> get(std::string_view key, uint64_t) override {
    return Error{RONDO_ERROR_TIMEOUT, "nobody has put '" + std::string(key) + "'"};
  }
  Result<std::optional<Bytes>> try_get(std::string_view) override { return std::optional<Bytes>(); }
  Result<std::vector<Bytes>> gather(std::string_view, uint32_t, uint32_t, std::span<const std::byte> own,
                                    uint64_t) override {
    const auto other = std::as_bytes(std::span(&other_process, 1));
    return std::vector<Bytes>{Bytes(own.begin(), own.end()), Bytes(other.begin(), other.end())};
  }
  Result<void> check() override { return {}; }
};

shm::ConnectRequest request_of(uint32_t rank) {
  shm::ConnectRequest request;
  request.rank = rank;
  request.rank_count = 2;
  request.key_prefix = "c";
  request.deadline_ns = now_ns() + 120 * second_ns;
  return request;
}

}  // namespace

TEST_CASE("shm: a rank that goes before it has fetched the segment is named") {
  SilentRank store;
  SegmentTable segments;
  shm::ConnectRequest request = request_of(0);
  request.deadline_ns = now_ns() + second_ns / 20;
  const auto connected = shm::connect(request, store, segments);
  REQUIRE_FALSE(connected.ok());
  CHECK(connected.error().status == RONDO_ERROR_TIMEOUT);
  CHECK(connected.error().peer == 1);
  CHECK(connected.error().message.find("missing: ranks 1") != std::string::npos);
}

TEST_CASE("shm: a rank whose segment is not there any more waits for the reason of the one that made it") {
  SegmentTable segments;
  LateStore of_owner(0);  // rank 0 gives up at once
  REQUIRE_FALSE(shm::connect(request_of(0), of_owner, segments).ok());
  LateStore store(3);
  store.will_give(of_owner.what_was_put());
  std::optional<rondo_test::HeldClock> clock(std::in_place);  // no deadline passes before the reason arrives
  const auto connected = shm::connect(request_of(1), store, segments);
  clock.reset();
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
