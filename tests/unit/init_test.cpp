// SPDX-License-Identifier: Apache-2.0
// These tests cover the last wait of an initialisation. The test determines what ranks and store answer.
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/core/init.h"
#include "tests/catch.h"
#include "tests/seconds.h"

using namespace rondo;

namespace {

/// The events that precede rank 1's last check.
enum class Plot {
  store_died,      ///< rank 0's process, which ran the store, died; so rank 2 gave up and ended
  rank_died,       ///< rank 2 died
  store_then_rank  ///< rank 0 knew that all were present, and ended the store; then rank 2 died
};

class Scene final : public Store {
 public:
  [[nodiscard]] Result<void> check() override {
    if (!store_gone_) return {};
    Error error{RONDO_ERROR_REMOTE, "the store has ended"};
    error.peer = 0;
    return error;
  }
  [[nodiscard]] bool gone() const override { return store_gone_; }
  Result<void> put(std::string_view, std::span<const std::byte>, uint64_t) override { return {}; }
  Result<Bytes> get(std::string_view, uint64_t) override { return Bytes(); }
  Result<std::optional<Bytes>> try_get(std::string_view) override { return std::optional<Bytes>(); }
  Result<std::vector<Bytes>> gather(std::string_view, uint32_t, uint32_t, std::span<const std::byte>,
                                    uint64_t) override {
    return std::vector<Bytes>();
  }
  void let_store_go() { store_gone_ = true; }

 private:
  bool store_gone_ = false;
};

class SceneRanks final : public Ranks {
 public:
  SceneRanks(Scene &scene, Plot plot) : scene_(scene), plot_(plot) {}

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
  /// Returns the ranks that are found dead. In two plots, the store ends first. In store_then_rank, rank 2 dies late.
  [[nodiscard]] std::vector<uint32_t> find_dead() const override {
    if (plot_ == Plot::rank_died) return {2};
    scene_.let_store_go();
    if (plot_ == Plot::store_died) return {0, 2};
    return ++looks_ < looks_before_death ? std::vector<uint32_t>{} : std::vector<uint32_t>{2};
  }
  [[nodiscard]] std::string describe_rank(uint32_t peer) const override { return "rank " + std::to_string(peer); }

 private:
  static constexpr int looks_before_death = 20;
  Scene &scene_;
  Plot plot_;
  mutable int looks_ = 0;
};

int32_t blamed(Plot plot) {
  Scene scene;
  const SceneRanks ranks(scene, plot);
  const auto waited = wait_for_all(ranks, 3, scene, now_ns() + 120 * second_ns);
  REQUIRE_FALSE(waited.ok());
  CHECK(waited.error().status == RONDO_ERROR_REMOTE);
  return waited.error().peer;
}

}  // namespace

TEST_CASE("a rank that ended because the store's process had is not blamed for it") {
  CHECK(blamed(Plot::store_died) == 0);
}

TEST_CASE("a rank that ended while the store stands is named") { CHECK(blamed(Plot::rank_died) == 2); }

TEST_CASE("a rank that ran the store and is ready is not blamed for its end, but the one that died later") {
  CHECK(blamed(Plot::store_then_rank) == 2);
}
