// SPDX-License-Identifier: Apache-2.0
// The protocol ll128 by itself: what is in a slot, and what a receiver takes for one.
#include "src/proto/ll128.h"

#include <cstring>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/gpu/device_world.h"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr ConnectionGeometry geometry{4, 64, 64, 360};  // three lines a slot
constexpr uint32_t signature = 77;
constexpr uint64_t flags = uint64_t{1} << 31;  // as many, then they come again

/// A connection and a payload at a multiple of 8.
struct Line {
  AlignedMemory memory{geometry.bytes()};
  ConnectionView view{memory.data(), geometry};
  std::vector<uint64_t> words = std::vector<uint64_t>(45, ~uint64_t{0});

  [[nodiscard]] std::byte *payload() { return reinterpret_cast<std::byte *>(words.data()); }
  void post(uint64_t counter, size_t bytes, uint32_t as = signature) {
    for (size_t at = 0; at < bytes; ++at) payload()[at] = static_cast<std::byte>(at + counter + 1);
    Ll128Sender(view, counter).post_by_group(SingleThread{}, counter, payload(), bytes, as);
  }
  [[nodiscard]] LlOutcome receive(uint64_t counter, size_t bytes) {
    words.assign(words.size(), 0);
    return Ll128Receiver(view, counter).look_by_group(SingleThread{}, payload(), bytes, signature, 1);
  }
  [[nodiscard]] bool is_payload(uint64_t counter, size_t bytes) {
    for (size_t at = 0; at < bytes; ++at)
      if (payload()[at] != static_cast<std::byte>(at + counter + 1)) return false;
    return true;
  }
};

}  // namespace

TEST_CASE("ll128: a slot is lines of 15 words and a mark, with zeros behind the payload") {
  Line line;
  line.post(2, 130);
  const uint64_t *const words = line.view.ll128_words(2);
  CHECK(words[15] == (uint64_t{ll::flag_of(2)} << 32 | signature));
  CHECK(words[31] == words[15]);
  CHECK(words[47] == 0);  // a line that the payload does not need
  CHECK(std::memcmp(words, line.payload(), 120) == 0);
  CHECK(std::memcmp(words + 16, line.payload() + 120, 10) == 0);
  CHECK(words[17] >> 16 == 0);
  for (size_t word = 18; word < 31; ++word) CHECK(words[word] == 0);
  CHECK(reinterpret_cast<const std::byte *>(words) - line.memory.data() ==
        static_cast<ptrdiff_t>(geometry.ll128_offset() + 128 + 2 * 3 * 128));
}

TEST_CASE("ll128: a slot of any size comes through, once all of its lines are there") {
  for (size_t bytes = 0; bytes <= geometry.ll128_slot_bytes; ++bytes) {
    Line line;
    CAPTURE(bytes);
    REQUIRE(line.receive(1, bytes) == LlOutcome::stale);
    line.post(1, bytes);
    uint64_t *const words = line.view.ll128_words(1);
    for (uint32_t missing = 0; missing < ll128::line_count_of(bytes); ++missing) {
      uint64_t &mark = words[missing * memory::line_words + 15];
      const uint64_t kept = std::exchange(mark, 0);
      REQUIRE(line.receive(1, bytes) == LlOutcome::stale);
      mark = kept;
    }
    REQUIRE(line.receive(1, bytes) == LlOutcome::full);
    REQUIRE(line.is_payload(1, bytes));
    REQUIRE(line.receive(5, bytes) == LlOutcome::stale);  // the slot's next lap
  }
}

TEST_CASE("ll128: a slot of another operation is foreign, whether it has more lines or fewer") {
  for (const size_t sent : {8, 300})
    for (const size_t expected : {8, 300}) {
      Line line;
      line.post(0, sent, signature + 1);
      CHECK(line.receive(0, expected) == LlOutcome::foreign);
    }
}

TEST_CASE("ll128: a sender may not write a slot again before the receiver has given it back") {
  Line line;
  Ll128Sender sender(line.view);
  Ll128Receiver receiver(line.view);
  for (uint64_t counter = 0; counter < geometry.slot_count; ++counter) {
    REQUIRE(sender.can_send());
    sender.post_by_group(SingleThread{}, sender.counter(), line.payload(), 8, signature);
  }
  CHECK_FALSE(sender.can_send());
  REQUIRE(receiver.look_by_group(SingleThread{}, line.payload(), 8, signature, 1) == LlOutcome::full);
  CHECK_FALSE(sender.can_send());
  receiver.release();
  CHECK(sender.can_send());
}

TEST_CASE("ll128: lines left over from a longer message are swept before their flag comes again") {
  constexpr uint64_t first = 1001, again = first + flags, sweeping = ll::sweep_period + 1;
  REQUIRE((ll::flag_of(first) == ll::flag_of(again) && first % 4 == again % 4 && first % 4 == sweeping % 4));
  REQUIRE((sweeping > first && sweeping < again && again % ll::sweep_period >= geometry.slot_count));
  for (const bool swept : {false, true}) {
    Line line;
    line.post(first, 360);
    if (swept) line.post(sweeping, 8);
    line.post(again, 8);
    // Unswept the two would make one: what the sweep is for.
    CHECK(line.receive(again, 360) == (swept ? LlOutcome::stale : LlOutcome::full));
    CHECK(line.receive(again, 8) == LlOutcome::full);
  }
}

TEST_CASE("ll128: a connection without it is as large as if it did not exist") {
  constexpr ConnectionGeometry without{8, 131072, 4096};
  CHECK(without.bytes() == 128 + 8 * 64 + 8 * without.ll_stride() + 8 * 131072);
  constexpr ConnectionGeometry with{8, 131072, 4096, 7680};
  CHECK(with.ll128_offset() % 128 == 0);
  CHECK(with.bytes() == with.ll128_offset() + 128 + 8 * 64 * 128);
  CHECK(with.ll128_offset() - without.bytes() < 128);
}
