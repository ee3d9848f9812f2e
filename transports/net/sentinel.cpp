// SPDX-License-Identifier: Apache-2.0
#include "transports/net/sentinel.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "src/base/clock.h"
#include "src/base/start_thread.h"

namespace rondo::net {
namespace {

constexpr uint64_t charge_look_ns = 10'000'000;
constexpr uint32_t rounds_max = 256;  // over the links before it serves the control plane; a peer may put without end
constexpr uint64_t lost_link_patience_ns = 1'000'000'000;  // time for the control plane to report the reason
constexpr uint64_t reset_patience_ns = 100'000'000;  // in this time after a reset, an ended process's links end
// These times are for the links of a device, for which no thread rings the bell.
constexpr uint64_t eager_ns = 100'000;         // this long after something moved, it still polls without a pause
constexpr uint64_t eager_max_ns = 2'000'000;  // after polling for this long, it serves the control plane
constexpr uint64_t busy_ns = 20'000'000, busy_look_ns = 20'000, waiting_look_ns = 100'000;
constexpr uint64_t control_look_ns = 5'000'000;
constexpr uint64_t delivery_look_ns = 50'000;
constexpr uint64_t replay_look_ns = 1'000'000;  // a graph's replay does not ring

}  // namespace

Result<std::unique_ptr<Sentinel>> Sentinel::start(Control &control, Progress &progress, Hooks hooks) {
  std::unique_ptr<Sentinel> sentinel(new Sentinel(control, progress, std::move(hooks)));
  sentinel->bell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!sentinel->bell_.valid()) return system_error("eventfd", errno);
  RONDO_TRY_ASSIGN(sentinel->thread_, start_thread("links to other hosts", [at = sentinel.get()] { at->run(); }));
  return sentinel;
}

Sentinel::~Sentinel() {
  stopped_.store(true, std::memory_order_relaxed);
  kick();
  if (thread_.joinable()) thread_.join();
}

void Sentinel::kick() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(bell_.get(), &one, sizeof one);  // if full, it rings already
}

void Sentinel::open_blocks() {
  const std::lock_guard lock(links_mutex_);
  progress_.open_blocks();
}

void Sentinel::open_messages() {
  const std::lock_guard lock(links_mutex_);
  progress_.open_messages();
}

void Sentinel::open_puts() {
  const std::lock_guard lock(links_mutex_);
  progress_.open_puts();
}

bool Sentinel::has_lost(uint32_t peer) const {
  const std::lock_guard lock(links_mutex_);
  return std::ranges::find(progress_.lost(), peer) != progress_.lost().end();
}

bool Sentinel::step() {
  const std::unique_lock lock(links_mutex_, std::try_to_lock);
  return lock.owns_lock() && progress_.step();
}

bool Sentinel::flush(uint64_t patience_ns) {
  const std::lock_guard lock(links_mutex_);
  if (progress_.flushed()) return true;  // usually true: a step would poll the network in vain
  progress_.step();
  const uint64_t deadline_ns = now_ns() + patience_ns;
  while (!progress_.flushed() && now_ns() < deadline_ns)
    if (!progress_.step()) yield_core();
  return progress_.flushed();
}

void Sentinel::deliver(uint64_t patience_ns) {
  const uint64_t deadline_ns = now_ns() + patience_ns;
  const auto waits = [&] {
    const std::lock_guard lock(links_mutex_);
    while (!progress_.delivered())  // bounded by what the peers still send
      if (!progress_.step()) return true;
    return false;
  };
  while (waits() && !hooks_.failed() && now_ns() < deadline_ns) sleep_for_ns(delivery_look_ns);
}

/// Wakes the sentinel if it polls seldom. If it misses this wake-up, it polls after one interval.
void Sentinel::expect_posts() {
  if (looks_seldom_.load()) kick();
}

void Sentinel::run() {
  if (hooks_.in_flight) static_cast<void>(::prctl(PR_SET_TIMERSLACK, 1));  // for this thread's short pauses
  bool serves_puts = false;
  while (!stopped_.load(std::memory_order_relaxed)) {
    const bool in_charge = away_.load(std::memory_order_acquire);  // pairs with set_away()
    const bool has_more = in_charge && serve_links();
    const uint64_t now = now_ns();
    if (!hooks_.in_flight || now >= next_control_ns_) {
      control_.step(now);
      next_control_ns_ = now + control_look_ns;
    }
    if (!serves_puts && control_.wants_puts()) {
      open_puts();
      serves_puts = true;
    }
    look_for_failures(now);
    report_failure();
    if (!has_more) wait(in_charge);
  }
}

bool Sentinel::serve_links() {
  if (!hooks_.in_flight) {
    const std::lock_guard lock(links_mutex_);
    for (uint32_t round = 0; round < rounds_max; ++round) {
      if (!progress_.step()) return false;
      hooks_.ring();
    }
    return true;
  }
  const uint64_t begun_ns = now_ns();
  for (uint64_t now = begun_ns; now - begun_ns < eager_max_ns; now = now_ns()) {
    if (step())
      moved_ns_ = now;
    else if (now - moved_ns_ >= eager_ns)
      break;
    else
      yield_core();
  }
  return false;
}

uint64_t Sentinel::look_interval_ns(bool in_charge) const {
  if (!in_charge) return charge_look_ns;
  if (failure_told_.load(std::memory_order_relaxed)) return heartbeat_ns;
  if (!hooks_.in_flight) return reset_ns_ == 0 ? heartbeat_ns : charge_look_ns;
  if (now_ns() - moved_ns_ < busy_ns) return busy_look_ns;
  return hooks_.in_flight() ? waiting_look_ns : replay_look_ns;
}

void Sentinel::wait(bool in_charge) {
  descriptors_.clear();
  descriptors_.push_back({bell_.get(), POLLIN, 0});
  control_.watch(descriptors_);
  const size_t control_end = descriptors_.size();
  if (in_charge) {
    const std::lock_guard lock(links_mutex_);
    progress_.watch(descriptors_);
  }
  looks_seldom_.store(hooks_.in_flight != nullptr);
  const uint64_t interval_ns = look_interval_ns(in_charge);
  if (interval_ns == busy_look_ns) looks_seldom_.store(false);
  const timespec interval{0, static_cast<long>(interval_ns)};
  ::ppoll(descriptors_.data(), descriptors_.size(), &interval, nullptr);
  looks_seldom_.store(false);
  uint64_t rung = 0;
  if (::read(bell_.get(), &rung, sizeof rung) > 0) moved_ns_ = now_ns();  // a call expects a device to post
  for (size_t index = 1; index < control_end; ++index)
    if (descriptors_[index].revents != 0) next_control_ns_ = 0;
}

/// Raises failures of links. A failure of this rank itself is raised at once, because no other rank knows more about
/// it. If a link breaks because the peer's process ended, the control plane soon knows that, so the sentinel waits. If
/// the control plane then reports no end, only the link is broken, and data in flight will never arrive.
void Sentinel::look_for_failures(uint64_t now_ns) {
  std::optional<Error> own, lost;
  std::optional<uint32_t> reset;
  {
    const std::lock_guard lock(links_mutex_);
    own = progress_.failure();
    for (const uint32_t peer : progress_.lost())
      if (!lost && !control_.gone(peer)) lost = progress_.why_lost(peer);
    reset = progress_.find_reached([this](uint32_t peer) { return control_.was_reset(peer); });
  }
  if (!lost) links_lost_ns_ = 0;
  if (lost && links_lost_ns_ == 0) links_lost_ns_ = now_ns;
  if (!reset) reset_ns_ = 0;
  if (reset && reset_ns_ == 0) reset_ns_ = now_ns;
  if (failure_told_.load(std::memory_order_relaxed)) return;
  if (own) hooks_.raise_own(std::move(*own));
  if (lost && now_ns - links_lost_ns_ >= lost_link_patience_ns) hooks_.raise(*lost);
  // Operations do not find this failure: as long as the links work, perhaps no operation waits long enough to check for
  // ended ranks.
  if (reset && now_ns - reset_ns_ >= reset_patience_ns) hooks_.raise_reset(*reset);
}

void Sentinel::report_failure() {
  if (failure_told_.load(std::memory_order_relaxed)) return;
  if (!hooks_.failed() || failure_told_.exchange(true, std::memory_order_relaxed)) return;
  control_.pass_on_failure();
}

}  // namespace rondo::net
