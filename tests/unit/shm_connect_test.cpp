// SPDX-License-Identifier: Apache-2.0
// Ranks of one host that meet in shared memory: which rank is named where one goes before it has fetched it.
#include <unistd.h>

#include <thread>

#include "src/base/clock.h"
#include "tests/catch.h"
#include "transports/shm/transport.h"

using namespace rondo;

namespace {

constexpr uint64_t second_ns = 1'000'000'000;

constexpr uint64_t other_process = 1;  // none of ours

std::span<const std::byte> bytes_of(const uint64_t &value) { return std::as_bytes(std::span(&value, 1)); }

/// Two ranks, one of this process and one of another, of which the store hears why it failed at a later look.
class LateStore final : public Store {
 public:
  explicit LateStore(int looks_before) : looks_before_(looks_before) {}
  Result<void> put(std::string_view, std::span<const std::byte> value, uint64_t) override {
    put_.assign(value.begin(), value.end());
    return {};
  }
  Result<Bytes> get(std::string_view, uint64_t) override { return put_; }
  Result<std::vector<Bytes>> gather(std::string_view, uint32_t rank, uint32_t, std::span<const std::byte>,
                                    uint64_t) override {
    const auto own = static_cast<uint64_t>(::getpid());
    std::vector<Bytes> parts(2);
    for (uint32_t each = 0; each < 2; ++each) {
      const auto bytes = bytes_of(each == rank ? own : other_process);
      parts[each].assign(bytes.begin(), bytes.end());
    }
    return parts;
  }
  Result<void> check() override {
    if (looks_before_-- > 0) return {};
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, "rank 0 failed: too few descriptors", -1, 0};
  }
  [[nodiscard]] const Bytes &what_was_put() const { return put_; }
  void will_give(const Bytes &value) { put_ = value; }

 private:
  int looks_before_;
  Bytes put_;
};

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

TEST_CASE("shm: a rank whose segment is not there any more waits for the reason of the one that made it") {
  shm::SegmentTable segments;
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
