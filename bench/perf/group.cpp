// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/group.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <type_traits>

#include "bench/perf/buffers.h"
#include "src/base/cpu.h"

namespace rondo::perf {

uint64_t clock_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

Team::Team(int ranks, uint64_t timeout_ns, bool have_cores)
    : numbers(static_cast<size_t>(ranks)),
      counts(static_cast<size_t>(ranks)),
      members(static_cast<size_t>(ranks)),
      ranks_(ranks),
      timeout_ns_(timeout_ns),
      spins_before_yield_(have_cores ? 8192 : 256) {}

Outcome Team::wait() {
  constexpr uint32_t spins_per_check = 256;
  const uint64_t round = round_.load(std::memory_order_relaxed);  // stays the same until this rank has arrived
  // acq_rel: the last rank to arrive sees what all ranks wrote before. Its store to round_ passes that on.
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_) {
    arrived_.store(0, std::memory_order_relaxed);        // ordered before the next round by round_
    round_.store(round + 1, std::memory_order_release);  // pairs with the acquire below
    return std::nullopt;
  }
  const uint64_t deadline_ns = clock_ns() + timeout_ns_;
  for (uint32_t spin = 1; round_.load(std::memory_order_acquire) == round; ++spin) {  // pairs with the release above
    cpu_pause();
    if (spin % spins_per_check != 0) continue;
    if (failed_.load(std::memory_order_acquire)) return first_failure();  // pairs with the release in fail()
    if (clock_ns() > deadline_ns) {
      const Failure late{
          Exit::communication,
          "a rank did not reach the barrier between two runs in time; check that all ranks run, or raise --timeout"};
      fail(late);
      return late;
    }
    if (spin >= spins_before_yield_) std::this_thread::yield();
  }
  return std::nullopt;
}

void Team::fail(const Failure &failure) {
  const std::lock_guard lock(mutex_);
  if (!first_) first_ = failure;
  failed_.store(true, std::memory_order_release);  // pairs with the acquire in wait()
}

Outcome Team::first_failure() {
  const std::lock_guard lock(mutex_);
  return first_;
}

Outcome Group::barrier() {
  if (team_ != nullptr) return team_->wait();
  const rondo_status_t status = rondo_barrier(comm_, nullptr);
  if (status != RONDO_OK) return communication_failure(comm_, "barrier between two runs", status);
  return std::nullopt;
}

Outcome Group::max(std::span<double> values) {
  if (team_ == nullptr) {
    const rondo_status_t status = rondo_all_reduce(values.data(), values.data(), values.size(), RONDO_FLOAT64,
                                                   RONDO_MAX, comm_, nullptr);
    if (status != RONDO_OK) return communication_failure(comm_, "exchange of times", status);
    return std::nullopt;
  }
  team_->numbers[static_cast<size_t>(rank_)].assign(values.begin(), values.end());
  if (auto failure = team_->wait()) return failure;
  for (const auto &theirs : team_->numbers)
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::max(values[i], theirs[i]);
  return team_->wait();
}

Outcome Group::sum(uint64_t &value) {
  if (team_ == nullptr) {
    const rondo_status_t status = rondo_all_reduce(&value, &value, 1, RONDO_UINT64, RONDO_SUM, comm_, nullptr);
    if (status != RONDO_OK) return communication_failure(comm_, "exchange of counts", status);
    return std::nullopt;
  }
  team_->counts[static_cast<size_t>(rank_)] = value;
  if (auto failure = team_->wait()) return failure;
  value = 0;
  for (const uint64_t count : team_->counts) value += count;
  return team_->wait();
}

Outcome Group::broadcast(std::span<std::byte> bytes) {
  if (team_ == nullptr) {
    const rondo_status_t status =
        rondo_broadcast(bytes.data(), bytes.data(), bytes.size(), RONDO_UINT8, 0, comm_, nullptr);
    if (status != RONDO_OK) return communication_failure(comm_, "exchange of an id", status);
    return std::nullopt;
  }
  if (rank_ == 0) team_->blob.assign(bytes.begin(), bytes.end());
  if (auto failure = team_->wait()) return failure;
  std::copy(team_->blob.begin(), team_->blob.end(), bytes.begin());
  return team_->wait();
}

Outcome Group::gather_members(const DeviceName &device, std::vector<Member> &members) {
  Member mine;
  (void)::gethostname(mine.host, sizeof mine.host - 1);
  mine.process = ::getpid();
  mine.device = device;
  if (team_ != nullptr) {
    team_->members[static_cast<size_t>(rank_)] = mine;
    if (auto failure = team_->wait()) return failure;
    members = team_->members;
    return team_->wait();
  }
  // This is an all-reduce of the rank's own value, with zeros in place of other ranks' values. It is no all-gather,
  // because the algorithm under test may support nothing but an all-reduce.
  static_assert(std::is_trivially_copyable_v<Member>);
  members.resize(static_cast<size_t>(ranks_));
  std::memset(static_cast<void *>(members.data()), 0, members.size() * sizeof mine);
  members[static_cast<size_t>(rank_)] = mine;
  const rondo_status_t status = rondo_all_reduce(members.data(), members.data(), members.size() * sizeof mine,
                                                 RONDO_UINT8, RONDO_SUM, comm_, nullptr);
  if (status != RONDO_OK) return communication_failure(comm_, "exchange of host names", status);
  for (Member &member : members) {
    member.host[sizeof member.host - 1] = '\0';
    member.device.name[sizeof member.device.name - 1] = '\0';
  }
  return std::nullopt;
}

}  // namespace rondo::perf
