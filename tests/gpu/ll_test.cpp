// SPDX-License-Identifier: Apache-2.0
// These tests run the protocol ll alone: what a slot holds, and which content a receiver accepts as a slot.
#include "src/proto/ll.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cuda/kernels/device_links.h"
#include "tests/catch.h"
#include "tests/gpu/device_world.h"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr ConnectionGeometry geometry{4, 64, 64};
constexpr uint32_t slot_count = geometry.slot_count;
constexpr uint32_t signature = 0x7712'3456;
constexpr uint64_t laps_again = uint64_t{ll::lap_count} * slot_count;  ///< counters until a slot has the same lap

/// A connection, and a payload whose address is a multiple of 8.
struct Slots {
  bool by_group = false;
  AlignedMemory memory{geometry.bytes()};
  ConnectionView view{memory.data(), geometry};
  std::vector<uint64_t> words = std::vector<uint64_t>(geometry.ll_slot_bytes / 8 + 1, ~uint64_t{0});
  LlSender sender{view};

  explicit Slots(bool group) : by_group(group) {}
  [[nodiscard]] std::byte *payload() { return reinterpret_cast<std::byte *>(words.data()); }
  void begin_at(uint64_t counter) {
    view.ll_head() = counter;
    sender = LlSender(view, counter);
  }
  /// Posts the next slot. The receiver gives each slot back at once.
  void post(uint64_t counter, size_t bytes, uint32_t as = signature) {
    for (size_t at = 0; at < bytes; ++at) payload()[at] = static_cast<std::byte>(at + counter + 1);
    REQUIRE(sender.can_send());
    if (by_group)
      sender.post_by_group(SingleThread{}, sender.counter(), payload(), bytes, as, false);
    else
      sender.post(payload(), bytes, as, false);
    view.ll_head() = counter + 1;
  }
  [[nodiscard]] LlOutcome receive(uint64_t counter, size_t bytes) {
    words.assign(words.size(), 0);
    const LlReceiver receiver(view, counter);
    if (!by_group) return receiver.receive(payload(), bytes, signature);
    LlOutcome seen[2] = {LlOutcome::full, LlOutcome::full};
    LlReceiver::look_by_group(SingleThread{}, {receiver.next_slot(payload(), signature, false), {}}, bytes, 1, seen);
    REQUIRE(seen[1] == LlOutcome::full);
    return seen[0];
  }
  [[nodiscard]] bool is_payload(uint64_t counter, size_t bytes) {
    for (size_t at = 0; at < bytes; ++at)
      if (payload()[at] != static_cast<std::byte>(at + counter + 1)) return false;
    return true;
  }
};

/// One of two threads of a group. The other one votes `other`.
struct OneOfTwo {
  uint32_t thread;
  bool other;

  [[nodiscard]] uint32_t rank() const { return thread; }
  [[nodiscard]] uint32_t size() const { return 2; }
  void sync() const {}
  [[nodiscard]] bool any(bool vote) const { return vote || other; }
  [[nodiscard]] bool any_unordered(bool vote) const { return any(vote); }
};

/// A step of a device that receives two slots, and sends one. Its operands are filled with ones before each wait.
struct TwoOperands {
  static constexpr size_t bytes = 60;

  explicit TwoOperands(uint64_t orders) {
    for (device::DeviceLinkEnds &end : ends) end.orders = orders;
    for (uint32_t which = 0; which < 2; ++which) ends[which].ll_in = LlReceiver(slots[which].view);
    ends[2].ll_out = LlSender(credit.view);
    step.flags = step_recv | step_send;
    step.recv_link[0] = 0;
    step.recv_link[1] = 1;
    step.send_link[0] = 2;
    links.ends = at;
    links.scratch_bytes = scratch_bytes;
  }
  /// Makes a slot stale, full or foreign.
  void post(uint32_t which, LlOutcome outcome) {
    if (outcome != LlOutcome::stale) slots[which].post(0, bytes, signature + (outcome == LlOutcome::foreign ? 1 : 0));
  }
  void use_up_credit() {
    for (uint64_t counter = 0; counter < slot_count; ++counter)
      ends[2].ll_out.post_by_group(SingleThread{}, counter, credit.payload(), 4, signature, false);
  }
  template <class G>
  [[nodiscard]] Progress wait(G group, bool long_wait) {
    std::fill(scratch.begin(), scratch.end(), ~uint64_t{0});
    links.scratch = reinterpret_cast<std::byte *>(scratch.data());
    links.glances = long_wait;
    return device::GroupLl::wait(group, links, step, bytes, signature, state);
  }
  /// Says whether this thread loaded units. Then it has stored what they held.
  [[nodiscard]] bool looked() const {
    return std::any_of(scratch.begin(), scratch.end(), [](uint64_t word) { return word != ~uint64_t{0}; });
  }

  static constexpr uint32_t scratch_bytes = device::ll_scratch_bytes_for(geometry.ll_slot_bytes);
  Slots slots[2] = {Slots(true), Slots(true)};
  Slots credit{true};
  device::DeviceLinkEnds ends[3];
  device::DeviceLinkEnds *at[3] = {&ends[0], &ends[1], &ends[2]};
  std::vector<uint64_t> scratch = std::vector<uint64_t>(device::scratch_count * scratch_bytes / sizeof(uint64_t));
  Step step;
  LaneState state;
  device::LaneLinks links;
};

}  // namespace

TEST_CASE("ll: a flag is never that of fresh memory, and a slot's laps differ until all have been") {
  for (const uint32_t slots : {2u, 8u, 64u})
    for (const uint64_t first : {uint64_t{0}, uint64_t{0xFFFF'FFF0}, uint64_t{slots} * ll::lap_count - 2}) {
      const uint32_t flag = ll::flag_of(first, slots, 0);
      CHECK(flag != 0);
      CHECK(ll::flag_of(first + uint64_t{slots} * ll::lap_count, slots, 0) == flag);
      for (uint64_t lap = 1; lap < ll::lap_count; ++lap)
        REQUIRE_FALSE(ll::is_same_lap(ll::flag_of(first + lap * slots, slots, 0), flag));
    }
}

TEST_CASE("ll: a slot is a unit for each word, with zeros behind the payload, and one where there is none") {
  for (const bool by_group : {false, true}) {
    Slots slots(by_group);
    slots.post(0, 6);
    const uint64_t *const units = slots.view.ll_units(0);
    const uint32_t flag = ll::flag_of(0, slot_count, signature);
    CHECK(units[0] == ll::pack(0x04030201, flag));
    CHECK(units[1] == ll::pack(0x0605, flag));
    CHECK(units[2] == 0);
    slots.post(1, 0);
    CHECK(slots.view.ll_units(1)[0] == ll::pack(0, flag));
    CHECK(reinterpret_cast<const std::byte *>(slots.view.ll_units(1)) - slots.memory.data() ==
          static_cast<ptrdiff_t>(geometry.ll_offset() + geometry.ll_stride()));
  }
}

TEST_CASE("ll: a slot of any size comes through, once all of its units are there") {
  for (const bool by_group : {false, true})
    for (size_t bytes = 0; bytes <= geometry.ll_slot_bytes; ++bytes) {
      Slots slots(by_group);
      CAPTURE(by_group, bytes);
      REQUIRE(slots.receive(0, bytes) == LlOutcome::stale);
      slots.post(0, bytes);
      for (size_t missing = 0; missing < ll::unit_count_of(bytes); ++missing) {
        const uint64_t kept = std::exchange(slots.view.ll_units(0)[missing], 0);
        REQUIRE(slots.receive(0, bytes) == LlOutcome::stale);
        slots.view.ll_units(0)[missing] = kept;
      }
      REQUIRE(slots.receive(0, bytes) == LlOutcome::full);
      REQUIRE(slots.is_payload(0, bytes));
      REQUIRE(slots.receive(slot_count, bytes) == LlOutcome::stale);  // the counter of the slot's next lap
    }
}

TEST_CASE("ll: a slot of another operation is foreign, whether it has more units or fewer, and an older one is stale") {
  for (const bool by_group : {false, true})
    for (const size_t sent : {0, 4, 60})
      for (const size_t expected : {0, 4, 60}) {
        Slots slots(by_group);
        CAPTURE(by_group, sent, expected);
        slots.post(0, sent, signature + 1);
        CHECK(slots.receive(0, expected) == LlOutcome::foreign);
        CHECK(slots.receive(slot_count, expected) == LlOutcome::stale);
      }
}

TEST_CASE("ll: of two slots that a group looks at together, each is what it is, whatever the other one is") {
  constexpr LlOutcome outcomes[] = {LlOutcome::stale, LlOutcome::full, LlOutcome::foreign};
  for (const size_t bytes : {0, 4, 60})
    for (const LlOutcome first : outcomes)
      for (const LlOutcome second : outcomes) {
        CAPTURE(bytes, static_cast<int>(first), static_cast<int>(second));
        Slots slots[2] = {Slots(true), Slots(true)};
        const LlOutcome wanted[2] = {first, second};
        LlReceiver::Slot next[2];
        for (uint32_t which = 0; which < 2; ++which) {
          Slots &of = slots[which];
          if (wanted[which] != LlOutcome::stale)
            of.post(0, bytes, wanted[which] == LlOutcome::full ? signature : signature + 1);
          of.words.assign(of.words.size(), 0);
          next[which] = LlReceiver(of.view).next_slot(of.payload(), signature, false);
        }
        LlOutcome seen[2] = {LlOutcome::full, LlOutcome::full};
        LlReceiver::look_by_group(SingleThread{}, next, bytes, 1, seen);
        CHECK(seen[0] == first);
        CHECK(seen[1] == second);
        if (first == LlOutcome::full && second == LlOutcome::full)
          for (Slots &of : slots) CHECK(of.is_payload(0, bytes));
      }
}

TEST_CASE("ll: units left over from a longer message are swept before their lap comes again") {
  for (const bool by_group : {false, true})
    for (const uint32_t left_by : {signature, signature + 1})
      for (uint64_t first = 0; first < laps_again; first += 7 * slot_count + 1)
        for (const bool swept : {false, true}) {
          CAPTURE(by_group, left_by, first, swept);
          const uint64_t again = first + laps_again;
          Slots slots(by_group);
          slots.begin_at(first);
          slots.post(first, 60, left_by);
          for (uint64_t counter = first + 1; swept && counter < again; ++counter) slots.post(counter, 8);
          if (!swept) slots.begin_at(again);  // as if no slot had been posted since
          slots.post(again, 8);
          // Without the sweep, the new and the old units would look like one slot, or like a slot of another operation.
          const LlOutcome as_one = left_by == signature ? LlOutcome::full
                                   : by_group           ? LlOutcome::foreign
                                                        : LlOutcome::stale;  // on hosts, the first unit decides
          REQUIRE(slots.receive(again, 60) == (swept ? LlOutcome::stale : as_one));
          REQUIRE(slots.receive(again, 8) == LlOutcome::full);
          REQUIRE(slots.is_payload(again, 8));
        }
}

TEST_CASE("ll: in a long wait one thread looks, until all slots and credit are there or a slot is foreign") {
  constexpr LlOutcome outcomes[] = {LlOutcome::stale, LlOutcome::full, LlOutcome::foreign};
  for (const bool long_wait : {false, true})
    for (const uint64_t orders : {0, 1})
      for (const LlOutcome first : outcomes)
        for (const LlOutcome second : outcomes)
          for (const bool has_credit : {false, true}) {
            CAPTURE(long_wait, orders, static_cast<int>(first), static_cast<int>(second), has_credit);
            TwoOperands it(orders);
            it.post(0, first);
            it.post(1, second);
            if (!has_credit) it.use_up_credit();
            const bool foreign = first == LlOutcome::foreign || second == LlOutcome::foreign;
            const bool ready = has_credit && first == LlOutcome::full && second == LlOutcome::full;
            CHECK(it.wait(SingleThread{}, long_wait) ==
                  (foreign ? Progress::failed : ready ? Progress::moved : Progress::blocked));
            CHECK(it.looked() == (!long_wait || foreign || ready));
            if (foreign) CHECK(it.state.fault_link == (first == LlOutcome::foreign ? 0 : 1));
            const Progress other = it.wait(OneOfTwo{1, true}, long_wait);  // thread 0 has not seen enough
            if (long_wait) CHECK(other == Progress::blocked);
            CHECK(it.looked() == !long_wait);
          }
}

TEST_CASE("ll: in a long wait, a slot is received once its last unit is there, and a posted head is credit") {
  TwoOperands it(1);
  it.post(0, LlOutcome::full);
  it.post(1, LlOutcome::full);
  const uint64_t kept = std::exchange(it.slots[1].view.ll_units(0)[14], 0);
  CHECK(it.wait(SingleThread{}, true) == Progress::blocked);
  it.slots[1].view.ll_units(0)[14] = kept;
  it.use_up_credit();
  CHECK(it.wait(SingleThread{}, true) == Progress::blocked);
  it.credit.view.ll_head() = 1;
  CHECK(it.wait(SingleThread{}, true) == Progress::moved);
}
