// SPDX-License-Identifier: Apache-2.0
// Tests the kernel load_store in plain memory, with ranks as threads. Long runs mix its algorithms, because successive
// calls share areas and counters. Buffers are exported, copied, or both. Results must have the same bits as the
// documented order of reduction.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "src/engine/load_store.h"
#include "src/plan/plan.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/executor_world.h"
#include "tests/unit/rank_order_reference.h"

using namespace rondo;
using reduction_test::Bits;

namespace {

constexpr uint32_t chunk_bytes = 256;
constexpr uint32_t post_bytes = 128;

enum class Export { none, some, all };
enum class Placement { in_place, apart, mixed };  // mixed: each rank decides

/// One all-reduce, the same on every rank.
struct Call {
  PlanChoice choice;
  rondo_type_t type = RONDO_FLOAT32;
  rondo_op_t op = RONDO_SUM;
  uint64_t count = 0;
  Export exporting = Export::none;
  Placement placement = Placement::apart;
  uint64_t seed = 0;
};

Call random_call(std::mt19937_64 &random) {
  Call call;
  call.type = std::array{RONDO_FLOAT32, RONDO_BFLOAT16, RONDO_FLOAT8_E4M3}[random() % 3];
  call.op = std::array{RONDO_SUM, RONDO_AVG, RONDO_MIN}[random() % 3];
  call.count = random() % 4 == 0 ? random() % 20 : random() % 900;
  call.choice = {RONDO_ALGORITHM_RING, RONDO_PROTOCOL_AUTO, 1, random() % 2 == 0 ? 64u : chunk_bytes,
                RONDO_KERNEL_LOAD_STORE};
  const uint64_t which = random() % 4;  // half of them rings
  if (which == 0) call.choice.algorithm = RONDO_ALGORITHM_TWO_SHOT;
  if (which == 1) {
    call.choice.algorithm = RONDO_ALGORITHM_ONE_SHOT;
    call.count %= post_bytes / rondo_type_size(call.type) + 1;
  }
  call.exporting = static_cast<Export>(random() % 3);
  call.placement = static_cast<Placement>(random() % 3);
  call.seed = random();
  return call;
}

using Buffer = std::vector<std::byte>;

Buffer input_of(const Call &call, uint32_t rank) {
  std::mt19937_64 random(call.seed + rank);
  const size_t size = rondo_type_size(call.type);
  const reduction_test::NumberTable *const table = reduction_test::number_table(call.type);
  Buffer buffer(call.count * size);
  for (uint64_t i = 0; i < call.count; ++i) {
    const double value = (static_cast<double>(random() % 2'000'001) - 1e6) / 3e5;
    const Bits bits = table != nullptr ? table->encode(value) : reduction_test::bits(static_cast<float>(value));
    std::memcpy(buffer.data() + i * size, &bits, size);
  }
  return buffer;
}

Buffer expected_of(const Call &call, const Plan &plan, uint32_t rank_count) {
  const size_t size = rondo_type_size(call.type);
  std::vector<Buffer> inputs;
  for (uint32_t rank = 0; rank < rank_count; ++rank) inputs.push_back(input_of(call, rank));
  Buffer result(call.count * size);
  const Partition &partition = plan.lanes.front().program.partition;
  for (uint64_t tile = 0; tile < partition.tile_count; ++tile)
    for (uint32_t chunk = 0; chunk < partition.chunk_count; ++chunk) {
      const Range range = partition.range(tile, chunk);
      const auto reduce = test::reduction_order(call.choice.algorithm, RONDO_ALL_REDUCE, rank_count, 0, 0, chunk,
                                                call.choice.kernel);
      for (uint64_t i = range.begin; i < range.begin + range.count; ++i) {
        const Bits bits = reduction_test::rank_order_reference(
            call.type, call.op, rank_count, reduce,
            [&](uint32_t rank) { return reduction_test::element_at(inputs[rank].data(), i, size); });
        std::memcpy(result.data() + i * size, &bits, size);
      }
    }
  return result;
}

/// Sometimes delays a rank right after it has published a counter, when the other ranks may already continue.
class UnevenPeers final : public test::LocalPeers {
 public:
  explicit UnevenPeers(uint64_t seed) : next_seed_(seed) {}
  /// Hides a buffer, so that a rank that imports it gets other memory.
  void hide(const std::byte *buffer) {
    const std::scoped_lock lock(mutex_);
    hidden_.insert(reinterpret_cast<uint64_t>(buffer));
  }
  void show(const std::byte *buffer) {
    const std::scoped_lock lock(mutex_);
    hidden_.erase(reinterpret_cast<uint64_t>(buffer));
  }
  const std::byte *import_payload(uint32_t rank, const SlotHeader &header, std::byte *buffer) override {
    const std::scoped_lock lock(mutex_);
    return hidden_.contains(header.address) ? poison_.data() : LocalPeers::import_payload(rank, header, buffer);
  }
  void wake(uint32_t) override {
    std::minstd_rand random(static_cast<uint32_t>(next_seed_.fetch_add(1, std::memory_order_relaxed)));
    random.discard(2);  // adjacent seeds have similar first numbers
    if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
  }

 private:
  std::atomic<uint64_t> next_seed_;
  std::mutex mutex_;
  std::set<uint64_t> hidden_;
  std::vector<std::byte> poison_ = std::vector<std::byte>(16384, std::byte{0x5A});
};

/// The watch of a communicator that has already failed.
class FailedWatch final : public Watch {
 public:
  bool stopped() override { return true; }
  bool look(uint64_t) override { return true; }
};

/// Ranks that share an exchange, and have no other links.
class ExchangeWorld {
 public:
  ExchangeWorld(uint32_t rank_count, uint64_t seed, bool wake, uint64_t cache_bytes)
      : rank_count_(rank_count), peers_(seed) {
    const ExchangeGeometry geometry{rank_count, post_bytes, chunk_bytes, exchange_area_count_min};
    memory_.resize(geometry.bytes() + cache_line_bytes);
    auto *const base = reinterpret_cast<std::byte *>(
        (reinterpret_cast<uintptr_t>(memory_.data()) + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes);
    const std::vector<uint32_t> readable(rank_count, kind_bit(PayloadKind::address));
    for (uint32_t rank = 0; rank < rank_count; ++rank)
      ends_.emplace_back(ExchangeView{base, geometry}, rank, readable, peers_, wake, cache_bytes);
  }

  /// Hides results, so that from now on no rank can read another rank's recv buffer.
  void hide_results() { hides_results_ = true; }

  /// Makes the communicator fail from now on. If a rank did not check for failures, it would poll for ever.
  void fail() { failed_ = true; }

  /// Makes all calls of one rank. Returns how many failed or had a result other than `expected`.
  uint32_t live(uint32_t rank, const std::vector<Call> &calls, const std::vector<Buffer> &expected, uint64_t seed) {
    std::mt19937_64 random(seed + rank);
    uint32_t wrong = 0;
    for (size_t number = 0; number < calls.size(); ++number) {
      const Call &call = calls[number];
      const bool in_place =
          call.placement == Placement::mixed ? random() % 2 == 0 : call.placement == Placement::in_place;
      const auto plan = plan_of(call, rank, in_place);
      const Buffer input = input_of(call, rank);
      Buffer send = input, recv(send.size(), std::byte{0xAB});
      std::byte *const target = in_place ? send.data() : recv.data();
      Buffers buffers{{send.data(), 0, {}}, {target, 0, {}}, fingerprint(extend_history(number, plan->identity))};
      const auto offers = [&] {
        return call.exporting == Export::all || (call.exporting == Export::some && random() % 2 == 0);
      };
      buffers.send.handle.exported = offers();
      buffers.recv.handle.exported = in_place ? buffers.send.handle.exported : offers();
      for (uint64_t turns = random() % 4 == 0 ? random() % 30 : 0; turns > 0; --turns) std::this_thread::yield();
      const HostReducer reducer{reduce_function(call.type, call.op), reduce_function(call.type, call.op),
                                call.op == RONDO_AVG ? rank_count_ : 0};
      test::Patience patience;
      FailedWatch failed;
      Waiter waiter = failed_ ? Waiter(WaitPolicy{UINT32_MAX, 0, UINT32_MAX, false}, peers_, failed)
                              : Waiter(WaitPolicy{4, 0, UINT32_MAX, false}, peers_, patience);
      if (hides_results_) peers_.hide(target);
      const RunOutcome outcome = ends_[rank].run(*plan, buffers, reducer, waiter);
      peers_.show(target);
      if (outcome.kind != RunOutcome::Kind::done) return wrong + 1;  // the other ranks end at their own deadlines
      if (call.count != 0 && std::memcmp(target, expected[number].data(), expected[number].size()) != 0) ++wrong;
      if (!in_place && send != input) ++wrong;
    }
    return wrong;
  }

  [[nodiscard]] std::unique_ptr<Plan> plan_of(const Call &call, uint32_t rank, bool in_place) const {
    OperationKey key;
    key.signature = {
        RONDO_ALL_REDUCE, static_cast<uint32_t>(call.type), static_cast<uint32_t>(call.op), 0, call.count, 0};
    key.in_place = in_place;
    return build_plan(key, call.choice, ConnectionGeometry{4, 64, 64}, rank, rank_count_).value();
  }

 private:
  uint32_t rank_count_;
  bool hides_results_ = false;
  bool failed_ = false;
  std::vector<std::byte> memory_;
  UnevenPeers peers_;
  std::vector<ExchangeEnd> ends_;
};

/// Runs all calls on all ranks. Returns how many were wrong, by rank.
std::vector<uint32_t> wrong_calls(ExchangeWorld &world, uint32_t rank_count, const std::vector<Call> &calls,
                                  uint64_t seed) {
  std::vector<Buffer> expected;
  for (const Call &call : calls) expected.push_back(expected_of(call, *world.plan_of(call, 0, false), rank_count));
  std::vector<uint32_t> wrong(rank_count);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < rank_count; ++rank)
    threads.emplace_back([&, rank] { wrong[rank] = world.live(rank, calls, expected, seed); });
  for (std::thread &thread : threads) thread.join();
  return wrong;
}

}  // namespace

TEST_CASE(
    "load_store: mixed runs of one_shot, two_shot and ring, exported or copied, are bit-equal to the reduction order") {
  const uint64_t seed = reduction_test::seed_from_environment();
  CAPTURE(seed);  // RONDO_SEED selects it again
  const size_t call_count = rondo_test::sanitized() ? 60 : 400;
  if (rondo_test::sanitized())
    std::puts("skipped: 340 of 400 calls: take a minute under a sanitizer; done without one");
  auto share = rondo_test::GateShare::in_every_build("mixed runs of load_store");
  for (const uint32_t rank_count : {2u, 3u, 4u, 5u, 8u}) {
    share.skip();                            // so that a quarter has both kinds of waiting
    for (const bool wake : {true, false}) {  // whether ranks share cores
      if (!share.has_next()) continue;
      CAPTURE(rank_count, wake);
      std::mt19937_64 random(seed);
      std::vector<Call> calls;
      while (calls.size() < call_count) calls.push_back(random_call(random));
      ExchangeWorld world(rank_count, seed, wake, chunk_bytes * 2);  // most results do not fit in the cache
      CHECK(wrong_calls(world, rank_count, calls, seed) == std::vector<uint32_t>(rank_count, 0));
    }
  }
}

TEST_CASE("load_store: two ranks that export out of place reduce everything for themselves, where that is cheap") {
  const auto wrong_with = [](rondo_type_t type, rondo_op_t op, bool wake) {
    std::vector<Call> calls;
    for (const uint64_t count : {1u, 63u, 64u, 300u, 2000u}) {
      Call call{
          {RONDO_ALGORITHM_RING, RONDO_PROTOCOL_AUTO, 1, 64, RONDO_KERNEL_LOAD_STORE}, type, op, count, Export::all};
      call.seed = count;
      calls.push_back(call);
    }
    ExchangeWorld world(2, 1, wake, UINT64_MAX);
    world.hide_results();
    const std::vector<uint32_t> wrong = wrong_calls(world, 2, calls, 1);
    return wrong[0] + wrong[1];
  };
  CHECK(wrong_with(RONDO_FLOAT32, RONDO_SUM, false) == 0);
  CHECK(wrong_with(RONDO_BFLOAT16, RONDO_AVG, false) == 0);
  CHECK(wrong_with(RONDO_FLOAT8_E4M3, RONDO_SUM, false) > 0);  // in this case, ranks do read each other's results
  CHECK(wrong_with(RONDO_FLOAT32, RONDO_SUM, true) > 0);
}

TEST_CASE("load_store: a rank that never has to wait notices that the communicator failed") {
  for (const rondo_algorithm_t algorithm : {RONDO_ALGORITHM_RING, RONDO_ALGORITHM_TWO_SHOT}) {
    for (const Export exporting : {Export::none, Export::all}) {
      CAPTURE(rondo_algorithm_string(algorithm), static_cast<int>(exporting));
      Call call{
          {algorithm, RONDO_PROTOCOL_AUTO, 1, 64, RONDO_KERNEL_LOAD_STORE}, RONDO_FLOAT32, RONDO_SUM, 2000, exporting};
      ExchangeWorld world(2, 1, false, 4096);
      world.fail();
      CHECK(wrong_calls(world, 2, {call}, 1) == std::vector<uint32_t>{1, 1});
    }
  }
}
