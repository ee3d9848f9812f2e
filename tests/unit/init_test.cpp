// SPDX-License-Identifier: Apache-2.0
// The last wait of an initialisation, with ranks and a store that say what the test wants.
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/core/init.h"
#include "tests/catch.h"

using namespace rondo;

namespace {

constexpr uint64_t second_ns = 1'000'000'000;

/// A process that ran the store died; so rank 2 gave up and ended; rank 1 looks at last.
class Scene final : public Store {
 public:
  [[nodiscard]] Result<void> check() override {
    if (!store_died_) return {};
    Error error{RONDO_ERROR_REMOTE, "the store has ended"};
    error.peer = 0;
    return error;
  }
  Result<void> put(std::string_view, std::span<const std::byte>, uint64_t) override { return {}; }
  Result<Bytes> get(std::string_view, uint64_t) override { return Bytes(); }
  Result<std::vector<Bytes>> gather(std::string_view, uint32_t, uint32_t, std::span<const std::byte>,
                                    uint64_t) override {
    return std::vector<Bytes>();
  }
  void let_store_die() { store_died_ = true; }

 private:
  bool store_died_ = false;
};

class SceneRanks final : public Ranks {
 public:
  SceneRanks(Scene &scene, bool store_dies) : scene_(scene), store_dies_(store_dies) {}

  void enter(uint64_t, const OperationInfo &) override {}
  void complete(uint64_t, const OperationCost &) override {}
  void fail(uint64_t) override {}
  void set_state(RankState) override {}
  [[nodiscard]] std::optional<OperationInfo> entered(uint32_t, uint64_t) const override { return std::nullopt; }
  [[nodiscard]] uint64_t latest_operation(uint32_t) const override { return 0; }
  [[nodiscard]] uint64_t completed_operation(uint32_t) const override { return 0; }
  [[nodiscard]] RankState state(uint32_t peer) const override {
    return peer == 2 ? RankState::absent : RankState::alive;
  }
  void raise(const Error &) override {}
  [[nodiscard]] bool failed() const override { return false; }
  [[nodiscard]] Error failure() const override { return Error{RONDO_ERROR_INTERNAL, ""}; }
  /// Both have died since the store was asked.
  [[nodiscard]] std::vector<uint32_t> find_dead() const override {
    if (store_dies_) scene_.let_store_die();
    return store_dies_ ? std::vector<uint32_t>{0, 2} : std::vector<uint32_t>{2};
  }
  [[nodiscard]] std::string describe_rank(uint32_t peer) const override { return "rank " + std::to_string(peer); }

 private:
  Scene &scene_;
  bool store_dies_;
};

int32_t blamed(bool store_dies) {
  Scene scene;
  const SceneRanks ranks(scene, store_dies);
  const auto waited = wait_for_all(ranks, 3, scene, now_ns() + 20 * second_ns);
  REQUIRE_FALSE(waited.ok());
  CHECK(waited.error().status == RONDO_ERROR_REMOTE);
  return waited.error().peer;
}

}  // namespace

TEST_CASE("a rank that ended because the store's process had is not blamed for it") { CHECK(blamed(true) == 0); }

TEST_CASE("a rank that ended while the store stands is named") { CHECK(blamed(false) == 2); }
