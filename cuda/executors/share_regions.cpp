// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/share_regions.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/parse.h"
#include "src/engine/device_executor.h"

namespace rondo::cuda {
namespace {

/// An idle rank opens announced memory within 10 ms. A busy rank opens it later, and until then calls use places. A
/// busy rank may also close memory later: its collective may wait for the very rank that waits here.
constexpr uint64_t open_patience_ns = 100'000'000;
constexpr uint64_t close_patience_ns = 200'000'000;
constexpr uint64_t last_patience_ns = 2'000'000'000;  // for ranks of processes that were as busy as this one
constexpr uint64_t region_look_ns = 500'000;
constexpr uint32_t looks_per_death_check = 40;
constexpr auto wait_look_interval = std::chrono::milliseconds(1);  // a failure sends no notification

/// Calls find(dead) until it finds no holder. After the patience, returns the holder that is left.
template <class Find>
std::optional<uint32_t> wait_for_holders(const RankQueries &ranks, uint64_t patience_ns, const Find &find) {
  const uint64_t deadline_ns = now_ns() + patience_ns;
  std::vector<uint32_t> dead;
  for (uint32_t look = 1;; ++look) {
    const std::optional<uint32_t> holder = find(dead);
    if (!holder || now_ns() >= deadline_ns) return holder;
    sleep_for_ns(region_look_ns);
    if (look % looks_per_death_check == 0) dead = ranks.find_dead();
  }
}

/// Returns the thread of all followers of the process. The followers wake the thread for each round.
SharedThread &follower_thread() {
  constexpr auto interval = std::chrono::hours(1);
  static auto *const thread = new SharedThread(interval, interval);
  return *thread;
}

std::string still_open(const RankQueries &ranks, uint32_t holder) {
  return ranks.describe(holder) + " still has it open, because work is in flight in its process or on its device";
}

}  // namespace

void share_region(Regions &regions, uint32_t rank, const void *first, size_t bytes) {
  const auto announced = regions.announce(first, bytes);
  if (!announced.ok()) {
    log::info({log::Subsystem::memory, rank},
              "a registered buffer of " + show_bytes(bytes) + " is not shared: " + announced.error().message);
    return;
  }
  const uint64_t deadline_ns = now_ns() + open_patience_ns;
  while (!regions.posted(first, bytes) && now_ns() < deadline_ns) sleep_for_ns(region_look_ns);
}

Result<void> withdraw_region(Regions &regions, const RankQueries &ranks, const void *first) {
  if (!regions.withdraw(first)) return {};
  const auto holder = wait_for_holders(
      ranks, close_patience_ns, [&](const std::vector<uint32_t> &dead) { return regions.find_holder(first, dead); });
  if (!holder) return {};
  Error error{RONDO_NOT_READY, "no later call uses the registered buffer, but " + still_open(ranks, *holder) +
                                   ". Do not free it yet: run one more collective, then deregister it again"};
  error.peer = static_cast<int32_t>(*holder);
  return error;
}

bool leave_regions(Regions &regions, RegionFollower &follower, const RankQueries &ranks, uint32_t rank) {
  regions.withdraw_all();
  const auto find = [&](const std::vector<uint32_t> &dead) {
    if (!regions.leaves()) follower.wake(RegionRound::leave_if_quiet);
    return regions.find_other_holder(dead);
  };
  auto holder = wait_for_holders(ranks, quiesce_patience_ns, find);
  // The follower may wait for work of other communicators, and of the application.
  const bool left = follower.end(now_ns() + quiesce_patience_ns);
  // Ranks of equally busy processes close this rank's memory at about this time, so a second wait helps.
  if (holder) holder = wait_for_holders(ranks, last_patience_ns, find);
  if (holder)
    log::warning({log::Subsystem::memory, rank},
                 "a registered buffer must not be freed yet: " + still_open(ranks, *holder) +
                     "; free it after that process has closed it or ended");
  return left || follower.end(0);
}

Result<std::unique_ptr<RegionFollower>> RegionFollower::start(std::function<void(RegionRound)> run_round) {
  auto follower = std::make_unique<RegionFollower>(std::move(run_round));
  try {
    follower_thread().add(*follower);
  } catch (const std::system_error &error) {
    follower->ended_ = true;
    return Error{RONDO_ERROR_OUT_OF_RESOURCES,
                 std::string("no thread could be started for what ranks share on devices: ") + error.what() +
                     "; raise the limit on threads (ulimit -u)"};
  }
  return follower;
}

RegionFollower::~RegionFollower() {
  while (!end(now_ns() + quiesce_patience_ns)) continue;  // as long as the driver waits
  follower_thread().remove(*this);
}

bool RegionFollower::end(uint64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  next_ = RegionRound::leave;
  follower_thread().wake();
  const uint64_t now = now_ns();
  const std::chrono::nanoseconds patience(deadline_ns > now ? deadline_ns - now : 0);
  return done_.wait_for(lock, patience, [this] { return ended_; });
}

void RegionFollower::wake(RegionRound round) {
  {
    const std::lock_guard lock(mutex_);
    next_ = std::max(next_, round);
    ++asked_count_;
  }
  follower_thread().wake();
}

bool RegionFollower::follow(EnqueueWait &wait) {
  std::unique_lock lock(mutex_);
  const uint64_t number = ++asked_count_;
  follower_thread().wake();
  const auto is_done = [&] { return done_count_ >= number; };
  for (bool over = false; !over && !done_.wait_for(lock, wait_look_interval, is_done);) {
    lock.unlock();  // is_over() checks the other ranks
    over = wait.is_over();
    lock.lock();
  }
  return is_done();
}

/// Runs a round if one was requested. A request during a round causes another round, because the running round may have
/// missed the reason for the request.
bool RegionFollower::work_once() {
  std::unique_lock lock(mutex_);
  if (ended_ || (asked_count_ == done_count_ && next_ != RegionRound::leave)) return false;
  const uint64_t asked = asked_count_;
  const RegionRound round = next_;
  lock.unlock();
  run_round_(round);
  lock.lock();
  done_count_ = asked;
  ended_ = round == RegionRound::leave;
  done_.notify_all();
  return false;
}

}  // namespace rondo::cuda
