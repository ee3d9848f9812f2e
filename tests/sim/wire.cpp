// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/wire.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "src/proto/ll.h"
#include "src/proto/memory.h"

namespace rondo::sim {

Wire::Wire(Scheduler &scheduler, Random random, uint32_t rank_count, Defect defect, Hooks hooks)
    : scheduler_(scheduler),
      random_(random),
      defect_(defect),
      hooks_(std::move(hooks)),
      outgoing_(rank_count),
      incoming_(rank_count),
      exchanges_(rank_count) {}

void UnmapBytes::operator()(std::byte *memory) const { ::munmap(memory, bytes); }

/// Maps memory, which is zeroed. A life uses little of it, so little is ever touched. The memory ends, except for less
/// than a cache line, where a page begins that nobody may touch.
std::byte *Wire::allocate(Memory &memory, size_t bytes) {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  constexpr size_t page_bytes = 4096;
  const size_t usable_bytes = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  void *const mapped = ::mmap(nullptr, usable_bytes + page_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapped == MAP_FAILED) std::abort();
  memory = Memory(static_cast<std::byte *>(mapped), UnmapBytes{usable_bytes + page_bytes});
  if (::mprotect(memory.get() + usable_bytes, page_bytes, PROT_NONE) != 0) std::abort();
  return memory.get() + (usable_bytes - bytes) / cache_line_bytes * cache_line_bytes;
}

ConnectionView Wire::sender_end(uint32_t channel, uint32_t from, uint32_t to, const ConnectionView &target) {
  std::shared_ptr<Line> &line = lines_[{channel, from, to}];
  if (line != nullptr) return line->near;
  line = std::make_shared<Line>();
  line->from = from;
  line->to = to;
  line->far = target;
  line->near = {allocate(line->memory, target.geometry.bytes()), target.geometry};
  line->simple_posted = line->simple_head = line->near.simple_head() = target.simple_head();
  outgoing_[from].push_back(line);
  incoming_[to].push_back(line);
  return line->near;
}

uint64_t Wire::arrival_ns(uint64_t &last_ns) {
  const uint64_t latency_ns = random_.chance(97) ? random_.between(0, 20 * us) : random_.between(0, 3 * ms);
  last_ns = std::max(last_ns, scheduler_.now_ns() + latency_ns);
  return last_ns;
}

void Wire::carry(uint32_t rank) {
  for (const auto &line : outgoing_[rank]) {
    carry_simple(*line);
    carry_ll(*line);
  }
  for (const auto &line : incoming_[rank]) carry_heads(*line);
  if (exchanges_[rank] != nullptr) carry_exchange(rank);
}

void Wire::carry_simple(Line &line) {
  while (memory::load_acquire(line.near.header(line.simple_posted).sequence) == line.simple_posted + 1) {
    const uint64_t counter = line.simple_posted++;
    const SlotHeader header = line.near.header(counter);
    const bool inside = static_cast<PayloadKind>(header.kind) == PayloadKind::in_slot;
    std::vector<std::byte> payload(inside ? header.bytes : 0);
    if (!payload.empty()) std::memcpy(payload.data(), line.near.payload(counter), payload.size());
    const auto store_payload = [far = line.far, counter, payload = std::move(payload)] {
      if (!payload.empty()) std::memcpy(far.payload(counter), payload.data(), payload.size());
    };
    const auto store_header = [far = line.far, counter, header] {
      SlotHeader &slot = far.header(counter);
      const uint64_t sequence = header.sequence;
      SlotHeader fields = header;
      fields.sequence = slot.sequence;
      slot = fields;
      memory::store_release(slot.sequence, sequence);
    };
    if (defect_ == Defect::early_flag) {
      deliver(line.last_down_ns, line.to, store_header);
      deliver(line.last_down_ns, line.to, store_payload);
    } else {
      deliver(line.last_down_ns, line.to, [store_payload, store_header] {
        store_payload();
        store_header();
      });
    }
  }
}

void Wire::carry_ll(Line &line) {
  const uint32_t slot_count = line.near.geometry.slot_count;
  const size_t unit_count = line.near.geometry.ll_stride() / sizeof(uint64_t);
  for (;;) {  // bounded by the slots
    const uint64_t counter = line.ll_posted;
    const uint64_t *const units = line.near.ll_units(counter);
    const uint32_t flag = ll::flag_in(memory::load_acquire(units[0]));
    if (!ll::is_same_lap(flag, ll::flag_of(counter, slot_count, 0))) return;
    ++line.ll_posted;
    std::vector<uint64_t> copy;
    for (size_t unit = 0; unit < unit_count; ++unit)
      if (ll::flag_in(units[unit]) == flag || ll::sweeps(counter, slot_count)) copy.push_back(units[unit]);
      else break;
    deliver(line.last_down_ns, line.to, [far = line.far, counter, copy = std::move(copy)] {
      // Units may arrive in any order, but the receiver polls the first one first.
      std::copy(copy.begin(), copy.end(), far.ll_units(counter));
    });
  }
}

void Wire::carry_heads(Line &line) {
  const uint64_t simple = memory::load_acquire(line.far.simple_head());
  const uint64_t with_ll = memory::load_acquire(line.far.ll_head());
  if (simple == line.simple_head && with_ll == line.ll_head) return;
  line.simple_head = simple;
  line.ll_head = with_ll;
  scheduler_.at(arrival_ns(line.last_up_ns), [this, near = line.near, from = line.from, simple, with_ll] {
    if (!hooks_.reachable(from)) return;
    memory::store_release(near.simple_head(), simple);
    memory::store_release(near.ll_head(), with_ll);
    hooks_.delivered(from);
  });
}

void Wire::deliver(uint64_t &last_ns, uint32_t to, std::function<void()> store) {
  scheduler_.at(arrival_ns(last_ns), [this, to, store = std::move(store)] {
    if (!hooks_.reachable(to)) return;
    store();
    hooks_.delivered(to);
  });
}

}  // namespace rondo::sim
