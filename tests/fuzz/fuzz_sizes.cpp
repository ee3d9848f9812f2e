// SPDX-License-Identifier: Apache-2.0
// Fuzzes numbers, sizes and seconds: an accepted value must be in range, and its printed form must be read back.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "src/base/parse.h"
#include "tests/fuzz/fuzz.h"

using namespace rondo;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view text(reinterpret_cast<const char *>(data), size);
  constexpr uint64_t most = std::numeric_limits<uint64_t>::max();
  if (const auto bytes = parse_bytes(text, 0, most); bytes.ok()) {
    FUZZ_CHECK(parse_bytes(show_bytes(bytes.value()), 0, most).value() == bytes.value());
    FUZZ_CHECK(parse_bytes(text, bytes.value(), bytes.value()).ok());
    if (bytes.value() < most) FUZZ_CHECK(!parse_bytes(text, bytes.value() + 1, most).ok());
  }
  if (const auto number = parse_number(text, 0, most); number.ok()) {
    FUZZ_CHECK(parse_bytes(text, 0, most).value() == number.value());  // a number is also a size without a unit
    FUZZ_CHECK(parse_number(std::to_string(number.value()), 0, most).value() == number.value());
  }
  if (const auto duration_ns = parse_seconds(text); duration_ns.ok()) {
    FUZZ_CHECK(duration_ns.value() >= 1'000'000 && duration_ns.value() <= seconds_max * 1'000'000'000);
    FUZZ_CHECK(parse_seconds(show_seconds(duration_ns.value())).value() == duration_ns.value());
  }
  for (const char character : in_quotes(text)) FUZZ_CHECK(character >= ' ' && character <= '~');
  return 0;
}
