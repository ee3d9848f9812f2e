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
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/proto/memory.h"

namespace rondo::memory {

/// The position of a thread in its chains of accesses. A batch of independent loads counts as one.
struct Depths {
  uint32_t known = 0;   ///< depth of the data that the thread has waited for
  uint32_t loaded = 0;  ///< depth of its deepest load
  uint32_t stored = 0;  ///< depth of its deepest store
  uint32_t turns = 0;   ///< depth of the deepest load of ended turns
  uint64_t host_stores = 0;  ///< stores since the thread's last flag

  [[nodiscard]] uint32_t deepest() const { return std::max({known, loaded, turns}); }
};

/// Bytes for each of the first few devices.
using DeviceBytes = std::array<uint64_t, soft_cuda::counted_device_count>;

class Counter {
 public:
  Counter(const soft_cuda::Block &of_block, uint64_t of_round) : block(of_block), round(of_round) {}

  void count(Access access, const void *at, size_t bytes);
  [[nodiscard]] PhaseCounts &phase() { return reporting ? counts.report : counts.work; }

  const soft_cuda::Block &block;
  const uint64_t round;
  bool reporting = false;
  AccessCounts counts;
  Depths depths;
  DeviceBytes read_from{}, written_to{};
  struct Loads {
    uint64_t all = 0, acquires = 0, of_host = 0;
  };
  Loads loads;                   ///< loads outside of polls in vain
  Loads idle_loads;              ///< loads of polls in vain
  bool batch_is_remote = false;  ///< the batch has a load from another device
  struct Saved {
    AccessCounts counts;
    Depths depths;
    DeviceBytes read_from, written_to;
    Loads loads;
  };
  std::vector<Saved> attempts;

 private:
  [[nodiscard]] const soft_cuda::MemoryExtent &extent_of(const void *at);
  void follow(Access access, const void *at, size_t bytes, bool host);

  std::array<soft_cuda::MemoryExtent, 8> extents_{};
  size_t next_extent_ = 0;
};

constinit thread_local Counter *counter = nullptr;

namespace {

/// The depth of each flag's last store in its chain.
class Stamps {
 public:
  void set(const void *at, size_t bytes, uint64_t round, uint32_t depth) {
    each_word(at, bytes, [&](Shard &shard, uintptr_t word) { shard.words[word] = {round, depth}; });
  }
  [[nodiscard]] uint32_t get(const void *at, size_t bytes, uint64_t round) {
    uint32_t depth = 0;
    each_word(at, bytes, [&](Shard &shard, uintptr_t word) {
      const auto found = shard.words.find(word);
      if (found != shard.words.end() && found->second.round == round) depth = std::max(depth, found->second.depth);
    });
    return depth;
  }

 private:
  struct Stamp {
    uint64_t round = 0;
    uint32_t depth = 0;
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uintptr_t, Stamp> words;
  };
  template <class Use>
  void each_word(const void *at, size_t bytes, const Use &use) {
    constexpr size_t word_bytes = sizeof(uint64_t);
    for (size_t offset = 0; offset < bytes; offset += word_bytes) {
      const uintptr_t word = reinterpret_cast<uintptr_t>(at) + offset;
      Shard &shard = shards_[word / word_bytes % shards_.size()];
      const std::lock_guard lock(shard.mutex);
      use(shard, word);
    }
  }
  std::array<Shard, 64> shards_;
};

/// The totals of the process. They are never destroyed, because kernels may run until it ends.
struct Totals {
  std::mutex mutex;
  std::map<const void *, AccessCounts> ranks;
  std::array<DeviceBytes, soft_cuda::counted_device_count> moved{};  ///< bytes by soft_cuda_moved_bytes()
  Stamps stamps;
  std::atomic<uint64_t> round = 0;  ///< 0 while nothing is counted; grows each time that counting begins
  uint64_t last_round = 0;
};
Totals &totals() {
  static auto *const all = new Totals;
  return *all;
}

void add_phase(PhaseCounts &to, const PhaseCounts &from) {
  for (uint32_t kind = 0; kind < memory_kind_count; ++kind) {
    to.read_bytes[kind] += from.read_bytes[kind];
    to.written_bytes[kind] += from.written_bytes[kind];
  }
  to.host_loads += from.host_loads;
  to.host_stores += from.host_stores;
  to.early_host_stores += from.early_host_stores;
  to.releases += from.releases;
  to.acquires += from.acquires;
  to.read_modify_writes += from.read_modify_writes;
  to.barriers += from.barriers;
}

void raise_to(std::atomic_ref<uint32_t> word, uint32_t value) {
  uint32_t seen = word.load(std::memory_order_relaxed);  // ordered by the barrier
  while (seen < value && !word.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

bool is_load(Access access) {
  return access == Access::load || access == Access::flag_load || access == Access::flag_acquire ||
         access == Access::read_modify_write;
}
bool is_store(Access access) { return !is_load(access) || access == Access::read_modify_write; }

}  // namespace

const soft_cuda::MemoryExtent &Counter::extent_of(const void *at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  for (const soft_cuda::MemoryExtent &known : extents_)
    if (address >= known.begin && address < known.end) return known;
  soft_cuda::MemoryExtent &found = extents_[next_extent_++ % extents_.size()];
  found = {address, address + 1, soft_cuda::MemoryExtent::none};
  if (block.find_memory != nullptr) block.find_memory(address, found);
  return found;
}

/// Moves the thread's position in the chains. Remembers an atomic store, since other threads may poll for it.
void Counter::follow(Access access, const void *at, size_t bytes, bool host) {
  Stamps &stamps = totals().stamps;
  switch (access) {
    case Access::load:
      depths.loaded = std::max(depths.loaded, depths.known + 1);
      return;
    case Access::flag_load:
    case Access::flag_acquire:
      depths.loaded = std::max(depths.loaded, std::max(depths.known, stamps.get(at, bytes, round)) + 1);
      if (access == Access::flag_acquire) depths.known = depths.loaded;
      return;
    case Access::store:
      depths.stored = std::max(depths.stored, depths.loaded + 1);
      if (!reporting && !host) counts.chain_to_result = std::max<uint64_t>(counts.chain_to_result, depths.loaded);
      return;
    case Access::flag_store:
      depths.stored = std::max(depths.stored, depths.loaded + 1);
      stamps.set(at, bytes, round, depths.loaded + 1);
      return;
    case Access::flag_release:
      depths.stored = std::max(depths.stored, depths.deepest()) + 1;
      stamps.set(at, bytes, round, depths.stored);
      return;
    case Access::read_modify_write:
      depths.loaded = std::max({depths.deepest(), depths.stored, stamps.get(at, bytes, round)}) + 1;
      depths.known = depths.stored = depths.loaded;
      stamps.set(at, bytes, round, depths.loaded);
      return;
  }
}

void Counter::count(Access access, const void *at, size_t bytes) {
  const soft_cuda::MemoryExtent &extent = extent_of(at);
  if (extent.place == soft_cuda::MemoryExtent::none) return;  // shared memory, parameters
  const bool host = extent.place == soft_cuda::MemoryExtent::host;
  if ((extent.reached_by >> block.device & 1) == 0) {
    std::fprintf(stderr, "soft cuda: a kernel on device %d touches memory of device %d, which it does not reach\n",
                 block.device, extent.place);
    std::abort();
  }
  const MemoryKind kind = host                            ? host_memory
                          : extent.place == block.device ? own_device_memory
                                                          : other_device_memory;
  PhaseCounts &now = phase();
  if (is_load(access)) now.read_bytes[kind] += bytes;
  if (is_store(access)) now.written_bytes[kind] += bytes;
  if (const auto place = static_cast<size_t>(extent.place); !host && place < read_from.size()) {
    if (is_load(access)) read_from[place] += bytes;
    if (is_store(access)) written_to[place] += bytes;
  }
  now.host_loads += host && is_load(access) ? 1 : 0;
  now.host_stores += host && is_store(access) ? 1 : 0;
  depths.host_stores += host && is_store(access) ? 1 : 0;
  if (!host && is_store(access) && access != Access::store) {
    now.early_host_stores += depths.host_stores;
    depths.host_stores = 0;
  }
  loads.all += is_load(access) ? 1 : 0;
  loads.acquires += access == Access::flag_acquire ? 1 : 0;
  loads.of_host += host && is_load(access) ? 1 : 0;
  if (kind == other_device_memory && access == Access::load && !std::exchange(batch_is_remote, true))
    ++counts.remote_turns;
  now.releases += access == Access::flag_release ? 1 : 0;
  now.acquires += access == Access::flag_acquire ? 1 : 0;
  now.read_modify_writes += access == Access::read_modify_write ? 1 : 0;
  follow(access, at, bytes, host);
}

void count_access(Access access, const void *at, size_t bytes) { counter->count(access, at, bytes); }

void note_result() {
  if (counter == nullptr) return;
  counter->reporting = true;
  counter->counts.chain = std::max<uint64_t>(counter->counts.chain, counter->depths.deepest());
}

void join_barrier(Joined &joined, uint32_t generation, bool first_thread) {
  if (counter == nullptr) return;
  if (first_thread) ++counter->phase().barriers;
  const Depths &mine = counter->depths;
  raise_to(std::atomic_ref(joined.depth[generation % 2]), mine.deepest());
  raise_to(std::atomic_ref(joined.store_depth[generation % 2]), mine.stored);
}

void leave_barrier(const Joined &joined, uint32_t generation) {
  if (counter == nullptr) return;
  auto &all = const_cast<Joined &>(joined);
  Depths &mine = counter->depths;
  mine.known = mine.loaded = std::atomic_ref(all.depth[generation % 2]).load(std::memory_order_relaxed);
  mine.stored = std::atomic_ref(all.store_depth[generation % 2]).load(std::memory_order_relaxed);
}

void reset_barrier(Joined &joined, uint32_t generation) {
  if (counter == nullptr) return;
  std::atomic_ref(joined.depth[generation % 2]).store(0, std::memory_order_relaxed);
  std::atomic_ref(joined.store_depth[generation % 2]).store(0, std::memory_order_relaxed);
}

Attempt::Attempt() : counts_(counter != nullptr) {
  if (counts_) counter->attempts.push_back({counter->counts, counter->depths, counter->read_from, counter->written_to,
                                           counter->loads});
}

Attempt::~Attempt() {
  if (!counts_) return;
  if (kept_) {
    counter->depths.known = std::max(counter->depths.known, counter->depths.loaded);
  } else {
    counter->counts = counter->attempts.back().counts;
    counter->depths = counter->attempts.back().depths;
    counter->read_from = counter->attempts.back().read_from;
    counter->written_to = counter->attempts.back().written_to;
    const Counter::Loads &before = counter->attempts.back().loads;
    counter->idle_loads.all += counter->loads.all - before.all;
    counter->idle_loads.acquires += counter->loads.acquires - before.acquires;
    counter->idle_loads.of_host += counter->loads.of_host - before.of_host;
    counter->loads = before;
  }
  counter->attempts.pop_back();
}

Turn::Turn() {
  if (counter == nullptr) return;
  known_ = counter->depths.known;
  loaded_ = counter->depths.loaded;
}
Turn::~Turn() {
  if (counter == nullptr) return;
  Depths &mine = counter->depths;
  mine.turns = std::max(mine.turns, mine.loaded);
  mine.known = known_;
  mine.loaded = loaded_;
}

}  // namespace rondo::memory

namespace rondo::device {

void note_batch() {  // declared in cuda/kernels/reduce.h
  if (memory::counter != nullptr) memory::counter->batch_is_remote = false;
}

}  // namespace rondo::device

namespace soft_cuda {

using namespace rondo::memory;

CountedThread::CountedThread(const Block &block, uint32_t thread, const void *rank, bool is_first_block) : rank_(rank) {
  counter = nullptr;  // it may still be another fiber's
  const uint64_t round = totals().round.load(std::memory_order_acquire);  // pairs with rondo_count_accesses()
  if (round == 0) return;
  counter = new Counter(block, round);
  if (thread != 0) return;
  counter->counts.blocks = 1;
  counter->counts.operations = is_first_block ? 1 : 0;
}

CountedThread::~CountedThread() {
  const std::unique_ptr<Counter> mine(counter);
  counter = nullptr;
  if (mine == nullptr) return;
  const std::lock_guard lock(totals().mutex);
  if (mine->round != totals().round.load(std::memory_order_relaxed)) return;
  rondo::AccessCounts &all = totals().ranks[rank_];
  all.operations += mine->counts.operations;
  all.blocks += mine->counts.blocks;
  add_phase(all.work, mine->counts.work);
  add_phase(all.report, mine->counts.report);
  all.chain = std::max(all.chain, mine->counts.chain);
  all.chain_to_result = std::max(all.chain_to_result, mine->counts.chain_to_result);
  all.remote_turns = std::max(all.remote_turns, mine->counts.remote_turns);
  all.idle_loads += mine->idle_loads.all;
  all.idle_acquires += mine->idle_loads.acquires;
  all.idle_host_loads += mine->idle_loads.of_host;
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
  rondo::memory::Totals &all = rondo::memory::totals();
  const std::lock_guard lock(all.mutex);
  all.ranks.clear();
  all.moved = {};
  all.round.store(on != 0 ? ++all.last_round : 0, std::memory_order_release);  // pairs with CountedThread
}

extern "C" __attribute__((visibility("default"))) uint32_t rondo_access_counts(rondo::AccessCounts *counts,
                                                                                 uint32_t room) {
  rondo::memory::Totals &all = rondo::memory::totals();
  const std::lock_guard lock(all.mutex);
  uint32_t index = 0;
  for (const auto &[rank, of_rank] : all.ranks) {
    if (index < room) counts[index] = of_rank;
    ++index;
  }
  return index;
}

extern "C" __attribute__((visibility("default"))) uint64_t rondo_moved_bytes(uint32_t from, uint32_t to) {
  rondo::memory::Totals &all = rondo::memory::totals();
  const std::lock_guard lock(all.mutex);
  return from < all.moved.size() && to < all.moved.size() ? all.moved[from][to] : 0;
}
