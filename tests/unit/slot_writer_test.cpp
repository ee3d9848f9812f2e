// SPDX-License-Identifier: Apache-2.0
// These tests check how payloads are stored into slots: the decision by measured times, and the copies themselves.
#include "src/engine/slot_writer.h"

#include <algorithm>
#include <vector>

#include "tests/catch.h"

using namespace rondo;

namespace {

constexpr size_t payload_bytes = 65536;
constexpr uint64_t near_ns = 2'000, far_ns = 20'000;  // 2 and 20 ns for each line

SlotWriter far_writer() {
  SlotWriter writer;
  for (int copy = 0; copy < 2; ++copy) writer.note(payload_bytes, far_ns);
  return writer;
}

}  // namespace

TEST_CASE("slot writer: two slow copies in a row mean far caches, and a fast one near caches") {
  SlotWriter writer;
  CHECK_FALSE(writer.is_far());
  writer.note(payload_bytes, far_ns);
  CHECK_FALSE(writer.is_far());
  writer.note(payload_bytes, near_ns);
  writer.note(payload_bytes, far_ns);
  CHECK_FALSE(writer.is_far());  // slow copies count only in sequence
  writer.note(payload_bytes, far_ns);
  CHECK(writer.is_far());
  writer.note(payload_bytes, far_ns);
  CHECK(writer.is_far());
  writer.note(payload_bytes, near_ns);
  CHECK_FALSE(writer.is_far());
}

TEST_CASE("slot writer: one copy of every 8, and far of every 64, is measured") {
  const auto count_measured = [](SlotWriter &writer, uint32_t copies) {
    uint32_t measured = 0;
    for (uint32_t copy = 0; copy < copies; ++copy) measured += writer.measures_next() ? 1 : 0;
    return measured;
  };
  SlotWriter writer;
  CHECK(count_measured(writer, 640) == 80);
  SlotWriter far = far_writer();
  CHECK(count_measured(far, 640) == 10);
}

TEST_CASE("slot writer: copies equal their source and write nothing else, near and far, whatever the place") {
  constexpr size_t guard_bytes = 64;
  constexpr std::byte guard{0xEE};
  for (const bool is_far : {false, true})
    for (const size_t bytes : {size_t{33}, SlotWriter::measured_bytes_min, size_t{4097}, payload_bytes})
      for (const size_t shift : {0, 1, 31}) {
        std::vector<std::byte> from(bytes + shift), to(guard_bytes + shift + bytes + guard_bytes, guard);
        for (size_t at = 0; at < from.size(); ++at) from[at] = static_cast<std::byte>(at * 7 + bytes);
        SlotWriter writer = is_far ? far_writer() : SlotWriter();
        writer.write(to.data() + guard_bytes + shift, from.data() + shift, bytes);
        std::vector<std::byte> expected(to.size(), guard);
        std::copy(from.begin() + static_cast<std::ptrdiff_t>(shift), from.end(),
                  expected.begin() + static_cast<std::ptrdiff_t>(guard_bytes + shift));
        CHECK(to == expected);
      }
}
