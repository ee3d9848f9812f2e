// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_cuda/counting.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

thread_local constinit soft_cuda::Counter *rondo::memory::Policy::counter = nullptr;

namespace soft_cuda {

using rondo::memory::Access;
using rondo::memory::Policy;

namespace {

/// The number of bytes for each of the first few devices.
using DeviceBytes = std::array<uint64_t, counted_device_count>;

}  // namespace

class Counter {
 public:
  Counter(const Block &of_block, uint64_t of_round) : block(of_block), round(of_round) {}

  void count(Access access, const void *at, size_t bytes);

  const Block &block;
  const uint64_t round;
  AccessCounts counts;
  DeviceBytes read_from{}, written_to{};
  bool batch_is_remote = false;  ///< the batch has a load from another device

 private:
  [[nodiscard]] const MemoryExtent &extent_of(const void *at);

  std::array<MemoryExtent, 8> extents_{};
  size_t next_extent_ = 0;
};

namespace {

/// The totals of the process. They are never destroyed, because kernels may run until the process ends.
struct Totals {
  std::mutex mutex;
  std::map<const void *, AccessCounts> ranks;
  std::array<DeviceBytes, counted_device_count> moved{};  ///< bytes by soft_cuda_moved_bytes()
  std::atomic<uint64_t> round = 0;  ///< 0 while nothing is counted; grows each time that counting begins
  uint64_t last_round = 0;
};
Totals &totals() {
  static auto *const all = new Totals;
  return *all;
}

/// Adds the counts of one thread to the sums of its rank.
void add_counts(AccessCounts &to, const AccessCounts &from) {
  to.operations += from.operations;
  to.blocks += from.blocks;
  for (uint32_t kind = 0; kind < memory_kind_count; ++kind) {
    to.read_bytes[kind] += from.read_bytes[kind];
    to.written_bytes[kind] += from.written_bytes[kind];
    to.flag_loads[kind] += from.flag_loads[kind];
  }
  to.flag_acquires += from.flag_acquires;
  to.remote_turns = std::max(to.remote_turns, from.remote_turns);
}

}  // namespace

const MemoryExtent &Counter::extent_of(const void *at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  for (const MemoryExtent &known : extents_)
    if (address >= known.begin && address < known.end) return known;
  MemoryExtent &found = extents_[next_extent_++ % extents_.size()];
  found = {address, address + 1, MemoryExtent::none};
  if (block.find_memory != nullptr) block.find_memory(address, found);
  return found;
}

void Counter::count(Access access, const void *at, size_t bytes) {
  const MemoryExtent &extent = extent_of(at);
  if (extent.place == MemoryExtent::none) return;  // shared memory and parameters are not counted
  const bool host = extent.place == MemoryExtent::host;
  if ((extent.reached_by >> block.device & 1) == 0) {
    std::fprintf(stderr, "soft cuda: a kernel on device %d touches memory of device %d, which it does not reach\n",
                 block.device, extent.place);
    std::abort();
  }
  const MemoryKind kind = host                            ? host_memory
                          : extent.place == block.device ? own_device_memory
                                                          : other_device_memory;
  if (access == Access::flag_load || access == Access::flag_acquire) {
    ++counts.flag_loads[kind];
    counts.flag_acquires += access == Access::flag_acquire ? 1 : 0;
    return;
  }
  const bool is_load = access == Access::load;
  (is_load ? counts.read_bytes : counts.written_bytes)[kind] += bytes;
  if (const auto place = static_cast<size_t>(extent.place); !host && place < read_from.size())
    (is_load ? read_from : written_to)[place] += bytes;
  if (kind == other_device_memory && is_load && !std::exchange(batch_is_remote, true)) ++counts.remote_turns;
}

void count_access(Access access, const void *at, size_t bytes) { Policy::counter->count(access, at, bytes); }

void begin_batch() { Policy::counter->batch_is_remote = false; }

CountedThread::CountedThread(const Block &block, uint32_t thread, const void *rank, bool is_first_block) : rank_(rank) {
  Policy::counter = nullptr;  // it may still be another fiber's
  const uint64_t round = totals().round.load(std::memory_order_acquire);  // pairs with rondo_count_accesses()
  if (round == 0) return;
  Policy::counter = new Counter(block, round);
  if (thread != 0) return;
  Policy::counter->counts.blocks = 1;
  Policy::counter->counts.operations = is_first_block ? 1 : 0;
}

CountedThread::~CountedThread() {
  const std::unique_ptr<Counter> mine(std::exchange(Policy::counter, nullptr));
  if (mine == nullptr) return;
  const std::lock_guard lock(totals().mutex);
  if (mine->round != totals().round.load(std::memory_order_relaxed)) return;
  add_counts(totals().ranks[rank_], mine->counts);
  const auto own = static_cast<size_t>(mine->block.device);
  for (size_t place = 0; place < counted_device_count; ++place) {
    const uint64_t read = mine->read_from[place], written = mine->written_to[place];
    totals().moved[place][place] += read + written;
    if (own == place || own >= counted_device_count) continue;
    totals().moved[place][own] += read;
    totals().moved[own][place] += written;
  }
}

}  // namespace soft_cuda

extern "C" __attribute__((visibility("default"))) void rondo_count_accesses(uint32_t on) {
  soft_cuda::Totals &all = soft_cuda::totals();
  const std::lock_guard lock(all.mutex);
  all.ranks.clear();
  all.moved = {};
  all.round.store(on != 0 ? ++all.last_round : 0, std::memory_order_release);  // pairs with CountedThread
}

extern "C" __attribute__((visibility("default"))) uint32_t rondo_access_counts(soft_cuda::AccessCounts *counts,
                                                                                 uint32_t room) {
  soft_cuda::Totals &all = soft_cuda::totals();
  const std::lock_guard lock(all.mutex);
  uint32_t index = 0;
  for (const auto &[rank, of_rank] : all.ranks) {
    if (index < room) counts[index] = of_rank;
    ++index;
  }
  return index;
}

extern "C" __attribute__((visibility("default"))) uint64_t rondo_moved_bytes(uint32_t from, uint32_t to) {
  soft_cuda::Totals &all = soft_cuda::totals();
  const std::lock_guard lock(all.mutex);
  return from < all.moved.size() && to < all.moved.size() ? all.moved[from][to] : 0;
}
