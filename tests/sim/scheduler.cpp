// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/scheduler.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

// AddressSanitizer must know the current stack. Without AddressSanitizer, these functions are null.
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *address, size_t bytes);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void *fake_stack, const void **bottom, size_t *bytes);
}

namespace rondo::sim {
namespace {

constexpr size_t guard_bytes = 4096;
constexpr uint64_t late_max_ns = 13 * ms;  // a turn is not later than this unless the rank was stopped
Scheduler *current_scheduler = nullptr;

bool later(uint64_t a_ns, uint64_t a_number, uint64_t b_ns, uint64_t b_number) {
  return a_ns != b_ns ? a_ns > b_ns : a_number > b_number;
}

}  // namespace

StackPool::~StackPool() {
  for (void *const stack : free_) ::munmap(static_cast<std::byte *>(stack) - guard_bytes, stack_bytes + guard_bytes);
}

void *StackPool::take() {
  if (!free_.empty()) {
    void *const stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void *const memory = ::mmap(nullptr, stack_bytes + guard_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || ::mprotect(memory, guard_bytes, PROT_NONE) != 0) std::abort();
  return static_cast<std::byte *>(memory) + guard_bytes;
}

Scheduler::Scheduler(uint64_t seed, uint32_t rank_count, StackPool &stacks)
    : random_(seed), stacks_(stacks), ranks_(rank_count) {
  current_scheduler = this;
}

Scheduler::~Scheduler() {
  for (const auto &fiber : fibers_)
    if (fiber->stack != nullptr) stacks_.give_back(fiber->stack);
  current_scheduler = nullptr;
}

Scheduler *Scheduler::current() { return current_scheduler; }

uint64_t Scheduler::read_clock() {
  if (frozen_ns_ != 0) return frozen_ns_;
  if (in_fiber()) now_ns_ += 50;
  return now_ns_;
}

void Scheduler::mix(uint64_t word) { hash_ = (hash_ ^ word) * 0x100'0000'01B3u + (hash_ >> 29); }

/// Returns a delay. Most delays are short. But sometimes other processes use the core for a whole time slice.
uint64_t Scheduler::delay_ns() {
  const uint64_t kind = random_.next() % 1000;
  if (kind < 700) return random_.between(0, 5 * us);
  if (kind < 950) return random_.between(0, 100 * us);
  if (kind < 995) return random_.between(0, 1 * ms);
  return random_.between(0, 12 * ms);
}

void Scheduler::spawn(uint32_t rank, std::function<void()> body) {
  auto fiber = std::make_unique<Fiber>();
  fiber->rank = rank;
  fiber->body = std::move(body);
  fiber->wanted_ns = now_ns_;
  fiber->wake_ns = now_ns_ + delay_ns();
  fibers_.push_back(std::move(fiber));
}

void Scheduler::pause(uint64_t pause_ns) {
  if (std::uncaught_exceptions() != 0) return;  // while unwinding, nothing waits any more
  running_->wanted_ns = now_ns_ + pause_ns;
  running_->wake_ns = running_->wanted_ns + delay_ns();
  switch_out(false);
}

void Scheduler::await(const uint32_t &word, uint32_t value, uint64_t timeout_ns) {
  if (word != value) return pause(0);
  running_->word = &word;
  pause(timeout_ns);
}

void Scheduler::rouse(const uint32_t &word) {
  for (const auto &fiber : fibers_) {
    if (fiber->word != &word) continue;
    fiber->word = nullptr;
    fiber->wanted_ns = now_ns_;
    fiber->wake_ns = now_ns_ + delay_ns();
    return;
  }
}

void Scheduler::stop(uint32_t rank, uint64_t until_ns) {
  ranks_[rank].stopped_until_ns = std::max(ranks_[rank].stopped_until_ns, until_ns);
}

void Scheduler::after_switches(uint32_t rank, uint64_t count, std::function<void()> action) {
  ranks_[rank].actions.emplace_back(ranks_[rank].switch_count + count, std::move(action));
}

void Scheduler::at(uint64_t when_ns, std::function<void()> action) {
  timed_.push_back({when_ns, timed_count_++, std::move(action)});
  std::push_heap(timed_.begin(), timed_.end(),
                 [](const Timed &a, const Timed &b) { return later(a.when_ns, a.number, b.when_ns, b.number); });
}

bool Scheduler::act(uint64_t before_ns) {
  if (timed_.empty() || timed_.front().when_ns > before_ns) return false;
  std::pop_heap(timed_.begin(), timed_.end(),
                [](const Timed &a, const Timed &b) { return later(a.when_ns, a.number, b.when_ns, b.number); });
  const Timed timed = std::move(timed_.back());
  timed_.pop_back();
  now_ns_ = std::max(now_ns_, timed.when_ns);
  timed.action();
  return true;
}

bool Scheduler::act_on(Rank &rank) {
  const auto due = std::find_if(rank.actions.begin(), rank.actions.end(),
                                [&](const auto &action) { return rank.switch_count > action.first; });
  if (due == rank.actions.end()) return false;
  const std::function<void()> action = std::move(due->second);
  rank.actions.erase(due);
  action();
  return true;
}

uint64_t Scheduler::turn_of(const Fiber &fiber) const {
  return std::max(fiber.wake_ns, ranks_[fiber.rank].stopped_until_ns);
}

Scheduler::Fiber *Scheduler::next() {
  Fiber *first = nullptr;
  for (const auto &fiber : fibers_) {
    if (fiber->done || ranks_[fiber->rank].killed || turn_of(*fiber) == never_ns) continue;
    if (first == nullptr || turn_of(*fiber) < turn_of(*first)) first = fiber.get();
  }
  return first;
}

Scheduler::Outcome Scheduler::run(uint64_t deadline_ns, uint64_t switch_count_max) {
  while (true) {  // ends, because time advances, and turns are limited
    Fiber *const fiber = next();
    if (fiber == nullptr) return Outcome::over;
    if (act(turn_of(*fiber))) continue;
    if (turn_of(*fiber) > deadline_ns) return Outcome::hang;
    if (++switch_count_ > switch_count_max) return Outcome::too_many_switches;
    now_ns_ = std::max(now_ns_, turn_of(*fiber));
    Rank &rank = ranks_[fiber->rank];
    ++rank.switch_count;
    if (act_on(rank)) continue;
    const uint64_t late_ns = now_ns_ - fiber->wanted_ns;
    if (late_ns > late_max_ns) rank.lost_ns += late_ns;
    mix(now_ns_ << 8 ^ fiber->rank);
    fiber->word = nullptr;
    resume(*fiber);
  }
}

void Scheduler::unwind() {
  unwinding_ = true;
  for (size_t i = 0; i < fibers_.size(); ++i)
    if (fibers_[i]->begun && !fibers_[i]->done) resume(*fibers_[i]);
}

void Scheduler::start(Fiber &fiber) {
  fiber.begun = true;
  fiber.stack = stacks_.take();
  if (__asan_unpoison_memory_region != nullptr)  // earlier fibers have left marks
    __asan_unpoison_memory_region(fiber.stack, StackPool::stack_bytes);
  fiber.context.prepare(static_cast<std::byte *>(fiber.stack), StackPool::stack_bytes, &Scheduler::enter);
}

void Scheduler::enter() {
  Scheduler &self = *current_scheduler;
  if (__sanitizer_finish_switch_fiber != nullptr)
    __sanitizer_finish_switch_fiber(nullptr, &self.main_stack_, &self.main_stack_bytes_);
  try {
    self.running_->body();
  } catch (const Unwound &) {  // as if killed
  }
  self.running_->body = nullptr;
  self.running_->done = true;
  self.switch_out(true);
}

void Scheduler::resume(Fiber &fiber) {
  if (!fiber.begun) start(fiber);
  running_ = &fiber;
  if (__sanitizer_start_switch_fiber != nullptr)
    __sanitizer_start_switch_fiber(&main_fake_stack_, fiber.stack, StackPool::stack_bytes);
  rondo_test::StackContext::change(main_, fiber.context);
  if (__sanitizer_finish_switch_fiber != nullptr) __sanitizer_finish_switch_fiber(main_fake_stack_, nullptr, nullptr);
  running_ = nullptr;
  if (!fiber.done) return;
  stacks_.give_back(std::exchange(fiber.stack, nullptr));
}

void Scheduler::switch_out(bool last) {
  Fiber &fiber = *running_;
  if (__sanitizer_start_switch_fiber != nullptr)
    __sanitizer_start_switch_fiber(last ? nullptr : &fiber.fake_stack, main_stack_, main_stack_bytes_);
  rondo_test::StackContext::change(fiber.context, main_);
  if (__sanitizer_finish_switch_fiber != nullptr)
    __sanitizer_finish_switch_fiber(fiber.fake_stack, &main_stack_, &main_stack_bytes_);
  if (unwinding_) throw Unwound{};
}

}  // namespace rondo::sim
