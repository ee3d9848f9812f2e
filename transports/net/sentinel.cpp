// SPDX-License-Identifier: Apache-2.0
#include "transports/net/sentinel.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/start_thread.h"

namespace rondo::net {
namespace {

constexpr int charge_look_ms = 10;
constexpr uint64_t lost_link_patience_ns = 1'000'000'000;  // in which the control plane has the word
constexpr int idle_look_ms = static_cast<int>(heartbeat_ns / 1'000'000);

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
  [[maybe_unused]] const ssize_t written = ::write(bell_.get(), &one, sizeof one);  // full: it rings already
}

bool Sentinel::step() {
  const std::unique_lock lock(links_mutex_, std::try_to_lock);
  return lock.owns_lock() && progress_.step();
}

bool Sentinel::flush(uint64_t patience_ns) {
  const std::lock_guard lock(links_mutex_);
  if (progress_.flushed()) return true;  // mostly: a step would ask the network in vain
  progress_.step();
  const uint64_t deadline_ns = now_ns() + patience_ns;
  while (!progress_.flushed() && now_ns() < deadline_ns)
    if (!progress_.step()) yield_core();
  return progress_.flushed();
}

void Sentinel::run() {
  while (!stopped_.load(std::memory_order_relaxed)) {
    const bool in_charge = away_.load(std::memory_order_acquire);  // pairs with set_away()
    if (in_charge) {
      const std::lock_guard lock(links_mutex_);
      while (progress_.step()) hooks_.ring();  // bounded by the slots of the links
    }
    control_.step(now_ns());
    look_for_lost_links(now_ns());
    report_failure();
    wait(in_charge);
  }
}

void Sentinel::wait(bool in_charge) {
  descriptors_.clear();
  descriptors_.push_back({bell_.get(), POLLIN, 0});
  control_.watch(descriptors_);
  if (in_charge) {
    const std::lock_guard lock(links_mutex_);
    progress_.watch(descriptors_);
  }
  ::poll(descriptors_.data(), descriptors_.size(), in_charge ? idle_look_ms : charge_look_ms);
  uint64_t rung = 0;
  [[maybe_unused]] const ssize_t read = ::read(bell_.get(), &rung, sizeof rung);
}

/// Links end with their process, of which the control plane knows more: that it left, or how it ended. Where it knows
/// of no end, the links alone have broken, and what was under way on them will never come.
void Sentinel::look_for_lost_links(uint64_t now_ns) {
  std::optional<Error> error;
  {
    const std::lock_guard lock(links_mutex_);
    for (const uint32_t peer : progress_.lost())
      if (!error && !hooks_.gone(peer)) error = progress_.why_lost(peer);
  }
  if (!error) links_lost_ns_ = 0;
  if (error && links_lost_ns_ == 0) links_lost_ns_ = now_ns;
  if (error && now_ns - links_lost_ns_ >= lost_link_patience_ns && !failure_told_.load(std::memory_order_relaxed))
    hooks_.raise(*error);
}

void Sentinel::report_failure() {
  if (failure_told_.load(std::memory_order_relaxed)) return;
  const auto failure = hooks_.failure();
  if (!failure || failure_told_.exchange(true, std::memory_order_relaxed)) return;
  control_.report_failure(*failure);
}

}  // namespace rondo::net
