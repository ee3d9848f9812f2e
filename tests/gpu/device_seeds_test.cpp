// SPDX-License-Identifier: Apache-2.0
// Each seed gives a life of ranks that are threads. One rank fails at a random moment: it aborts, makes no call, or
// makes another call. Then every rank must get an error, and its kernels must end. RONDO_SEED is the first seed.
// RONDO_SEED_COUNT (20) lives run, on RONDO_TEST_DEVICES (1) devices. On several, peers cannot read some ranks' memory.
#include <cstdio>
#include <cstdlib>

#include "tests/gpu/device_case.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/random_elements.h"
#include "tests/gpu/settings.h"
#include "tests/timed.h"

using namespace rondo::cuda;
using namespace rondo_test;
using rondo::test::Random;
using Clock = std::chrono::steady_clock;

namespace {

constexpr uint32_t timeout_ms = 200;

enum class Fate { aborts, stays_away, disagrees };

struct Life {
  explicit Life(uint64_t of_seed) : random(of_seed), seed(of_seed) {
    rank_count = 2 + static_cast<int>(random() % 3);
    victim = static_cast<int>(random() % static_cast<uint64_t>(rank_count));
    fate = static_cast<Fate>(random() % 3);
    round = static_cast<int>(random() % 8);
    count = size_t{1} << random() % 17;
    collective = static_cast<rondo_collective_t>(random() % RONDO_BARRIER);
    delay = std::chrono::microseconds(random() % 3'000);
    hidden = devices_of_environment() > 1 && random() % 2 == 0 ? random() : 0;
  }
  Random random;
  uint64_t seed;
  int rank_count, victim, round;
  Fate fate;
  size_t count;  ///< elements of the vector; a block has its share
  rondo_collective_t collective;
  std::chrono::microseconds delay;
  uint64_t hidden;  ///< a bit for each rank whose memory peers cannot read
};

class LifeOfRanks {
 public:
  explicit LifeOfRanks(const Life &life) : life_(life), group_(configs_of(life)) {
    for (int rank = 0; rank < life.rank_count; ++rank)
      buffers_.emplace_back(group_.world_of(rank), bytes_of(std::vector<float>(life.count + 8, 1)),
                            (life.hidden >> rank & 1) != 0);
    if (!all_wait(life.collective)) collective_ = RONDO_ALL_REDUCE;
  }

  /// Runs the life until every stream has ended. Returns the nanoseconds since the victim's fault.
  uint64_t run() {
    std::vector<std::thread> others;  // a call may wait for other ranks (RONDO_DEVICE_LAUNCH)
    for (int rank = 0; rank < life_.rank_count; ++rank)
      if (rank != life_.victim) others.emplace_back([this, rank] { call_rounds(rank, life_.round + 1); });
    call_rounds(life_.victim, life_.round);
    std::this_thread::sleep_for(life_.delay);
    const auto begin = Clock::now();
    if (life_.fate == Fate::aborts) static_cast<void>(rondo_comm_abort(group_.ranks[life_.victim]));
    if (life_.fate == Fate::disagrees) call(life_.victim, life_.count + 1);
    for (std::thread &other : others) other.join();
    wait();
    return static_cast<uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
  }

  [[nodiscard]] rondo_status_t told(int rank) const { return failure_of(group_.ranks[rank]).status; }

 private:
  /// Returns whether no rank ends a call before all have called. In the interpreter, a root need not wait for others.
  [[nodiscard]] bool all_wait(rondo_collective_t collective) const {
    rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
    REQUIRE(rondo_comm_query_plan(group_.ranks[0], collective, count_of(collective, life_.count), RONDO_FLOAT32,
                                  &plan) == RONDO_OK);
    return plan.kernel == RONDO_KERNEL_LOAD_STORE;
  }
  /// Returns the count of the call, or of a block if the collective has blocks. The result is odd if `count` is odd, so
  /// n and n + 1 give different results.
  [[nodiscard]] size_t count_of(rondo_collective_t collective, size_t count) const {
    return in_blocks(collective) ? count / static_cast<size_t>(life_.rank_count) / 2 * 2 + count % 2 : count;
  }
  static std::vector<rondo_config_t> configs_of(const Life &life) {
    rondo_config_t config = on_device();
    if (life.fate == Fate::stays_away) config.timeout_ms = timeout_ms;
    return on_devices_in_turn(life.rank_count, config);
  }
  void call_rounds(int rank, int rounds) {
    for (int round = 0; round < rounds; ++round) call(rank, life_.count);
  }
  void call(int rank, size_t count) {  // may fail: a rank's fault may be known already
    auto *const pointer = static_cast<std::byte *>(buffers_[static_cast<size_t>(rank)].pointer());
    DeviceCase it{collective_};
    it.count = count_of(it.collective, count);
    it.in_place = true;
    static_cast<void>(rondo_test::call(it, rank, group_.ranks[rank], group_.stream(rank), pointer, pointer));
  }
  void wait() const {
    for (const Stream &stream : group_.streams) {
      const auto ended = [&] { return group_.world.cu.stream_query(stream.get().object) != CuStatus::not_ready; };
      if (rondo::cuda::conformance::becomes_true(ended)) continue;
      std::fprintf(stderr, "RONDO_SEED=%llu: a kernel has not ended\n", static_cast<unsigned long long>(life_.seed));
      std::fflush(nullptr);
      std::_Exit(1);  // running kernels prevent a clean end
    }
  }

  const Life &life_;
  rondo_collective_t collective_ = life_.collective;
  DeviceRanks group_;
  std::vector<DeviceBuffer> buffers_;
};

}  // namespace

TEST_CASE("device seeds: a rank that aborts, stays away or disagrees ends the kernels of all, and all are told") {
  const char *const wanted = std::getenv("RONDO_SEED_COUNT");
  const uint64_t seed_count = wanted == nullptr ? 20 : std::strtoull(wanted, nullptr, 10);
  const uint64_t first = rondo::test::seed_from_environment();
  uint64_t longest_ns = 0;
  for (uint64_t seed = first; seed < first + seed_count; ++seed) {
    const Life life(seed);
    CAPTURE(seed, life.rank_count, life.victim, life.round, life.count, static_cast<int>(life.collective),
            static_cast<int>(life.fate));
    LifeOfRanks ranks(life);
    const uint64_t ended_ns = ranks.run();
    for (int rank = 0; rank < life.rank_count; ++rank) {
      if (rank == life.victim && life.fate == Fate::stays_away) continue;  // no call of this rank failed
      CHECK(ranks.told(rank) != RONDO_OK);
    }
    if (life.fate != Fate::stays_away) longest_ns = std::max(longest_ns, ended_ns);
  }
  std::printf("%llu lives, the longest from a fault to the end of all kernels: %.1f ms\n",
              static_cast<unsigned long long>(seed_count), static_cast<double>(longest_ns) * 1e-6);
}

TEST_CASE("device seeds: all kernels end within a second of a fault, or of the timeout that notices it", "[.timed]") {
  constexpr uint64_t second_ns = 1'000'000'000, timeout_ns = timeout_ms * 1'000'000;
  for (const Fate fate : {Fate::aborts, Fate::stays_away, Fate::disagrees}) {
    uint64_t seed = 0;
    const auto next_life = [&] {
      while (Life(++seed).fate != fate) {
      }
      const Life life(seed);
      return LifeOfRanks(life).run();
    };
    constexpr const char *names[] = {"aborts", "stays away", "disagrees"};
    check_timed(std::string("end of all kernels after a rank ") + names[static_cast<int>(fate)],
                (fate == Fate::stays_away ? timeout_ns : 0) + second_ns, next_life);
  }
}
