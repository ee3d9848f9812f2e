// SPDX-License-Identifier: Apache-2.0
// This scheduler has one thread and virtual time. Each rank is a fiber. When a fiber waits (src/base/clock.h), the
// scheduler runs the fiber with the earliest turn. The seed decides each fiber's delay, and so also the order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/random.h"
#include "tests/switch_stack.h"

namespace rondo::sim {

inline constexpr uint64_t never_ns = UINT64_MAX;
inline constexpr uint64_t us = 1'000;
inline constexpr uint64_t ms = 1'000'000;
inline constexpr uint64_t second = 1'000'000'000;

/// Memory for the stacks of fibers, which is reused in later lives. A page that faults lies below each stack.
class StackPool {
 public:
  static constexpr size_t stack_bytes = size_t{256} << 10;
  StackPool() = default;
  StackPool(const StackPool &) = delete;
  StackPool &operator=(const StackPool &) = delete;
  ~StackPool();
  [[nodiscard]] void *take();
  void give_back(void *stack) { free_.push_back(stack); }

 private:
  std::vector<void *> free_;
};

/// An exception that unwinds the stack of a killed or stopped fiber at the end of the life.
struct Unwound {};

class Scheduler {
 public:
  enum class Outcome { over, hang, too_many_switches };

  Scheduler(uint64_t seed, uint32_t rank_count, StackPool &stacks);
  ~Scheduler();
  Scheduler(const Scheduler &) = delete;
  Scheduler &operator=(const Scheduler &) = delete;

  /// Returns the scheduler that is running. The simulated src/base/clock.h uses this function.
  [[nodiscard]] static Scheduler *current();

  [[nodiscard]] uint64_t now_ns() const { return now_ns_; }
  /// Returns the time, and lets a moment pass. A frozen clock always shows the same time. This is a defect that the
  /// simulation must detect.
  [[nodiscard]] uint64_t read_clock();
  void freeze_clock() { frozen_ns_ = now_ns_; }
  /// Loses some wakes: a fiber that misses its wake sleeps for ever. The simulation must detect this defect.
  void lose_wakes() { loses_wakes_ = true; }
  [[nodiscard]] bool loses_wakes() const { return loses_wakes_; }
  [[nodiscard]] bool loses_this_wake() { return loses_wakes_ && random_.chance(30); }

  void spawn(uint32_t rank, std::function<void()> body);
  [[nodiscard]] bool in_fiber() const { return running_ != nullptr; }
  [[nodiscard]] uint32_t running_rank() const { return running_->rank; }

  // Fibers call these functions.
  /// Lets other fibers run for at least that long.
  void pause(uint64_t pause_ns);
  /// Waits until `word` has changed from `value` and somebody wakes the fiber, or the time has passed.
  void await(const uint32_t &word, uint32_t value, uint64_t timeout_ns);
  void rouse(const uint32_t &word);

  // These functions make faults.
  void kill(uint32_t rank) { ranks_[rank].killed = true; }
  [[nodiscard]] bool killed(uint32_t rank) const { return ranks_[rank].killed; }
  /// Stops the rank until `until_ns`; never_ns means for good.
  void stop(uint32_t rank, uint64_t until_ns);
  [[nodiscard]] bool stopped_for_good(uint32_t rank) const { return ranks_[rank].stopped_until_ns == never_ns; }
  /// Runs `action` when the rank's fibers have run `count` more times.
  void after_switches(uint32_t rank, uint64_t count, std::function<void()> action);
  void at(uint64_t when_ns, std::function<void()> action);

  /// Runs until every fiber that can end has ended, or until the deadline.
  Outcome run(uint64_t deadline_ns, uint64_t switch_count_max);
  /// Unwinds the remaining fibers, so that their stacks hold no objects any more.
  void unwind();

  /// Returns how long the rank was stopped although it could have run. Limits do not count that time.
  [[nodiscard]] uint64_t lost_ns(uint32_t rank) const { return ranks_[rank].lost_ns; }
  [[nodiscard]] uint64_t switch_count() const { return switch_count_; }
  [[nodiscard]] uint64_t hash() const { return hash_; }
  void mix(uint64_t word);

 private:
  struct Fiber {
    uint32_t rank = 0;
    std::function<void()> body;
    void *stack = nullptr;
    rondo_test::StackContext context;
    uint64_t wanted_ns = 0;  ///< when it could continue
    uint64_t wake_ns = 0;    ///< when it does continue
    const uint32_t *word = nullptr;
    bool begun = false;
    bool done = false;
    void *fake_stack = nullptr;  ///< for AddressSanitizer
  };
  struct Rank {
    bool killed = false;
    uint64_t stopped_until_ns = 0;
    uint64_t switch_count = 0;
    uint64_t lost_ns = 0;
    std::vector<std::pair<uint64_t, std::function<void()>>> actions;  ///< at which switch, what
  };
  struct Timed {
    uint64_t when_ns;
    uint64_t number;
    std::function<void()> action;
  };

  static void enter();
  [[nodiscard]] uint64_t delay_ns();
  [[nodiscard]] uint64_t turn_of(const Fiber &fiber) const;
  [[nodiscard]] Fiber *next();
  [[nodiscard]] bool act(uint64_t before_ns);
  [[nodiscard]] bool act_on(Rank &rank);
  void resume(Fiber &fiber);
  void switch_out(bool last);
  void start(Fiber &fiber);

  Random random_;
  StackPool &stacks_;
  std::vector<Rank> ranks_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Timed> timed_;  ///< a heap with the next one first
  uint64_t timed_count_ = 0;
  Fiber *running_ = nullptr;
  rondo_test::StackContext main_;
  uint64_t now_ns_ = second;
  uint64_t frozen_ns_ = 0;
  bool loses_wakes_ = false;
  bool unwinding_ = false;
  uint64_t switch_count_ = 0;
  uint64_t hash_ = 0;
  void *main_fake_stack_ = nullptr;
  const void *main_stack_ = nullptr;
  size_t main_stack_bytes_ = 0;
};

}  // namespace rondo::sim
