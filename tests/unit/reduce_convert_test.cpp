// SPDX-License-Identifier: Apache-2.0
// These tests convert small floats. They convert all values where that is possible.
#include <cmath>
#include <cstring>

#include "src/proto/convert.h"
#include "tests/catch.h"
#include "tests/unit/reduce_numbers.h"

using namespace reduction_test;

namespace {

struct Conversion {
  const char *name;
  rondo_type_t type;
  float (*to_float)(uint32_t);
  uint32_t (*from_float)(float);
};

constexpr Conversion conversions[] = {
    {"float16", RONDO_FLOAT16, rondo::Float16Format::to_float, rondo::Float16Format::from_float},
    {"bfloat16", RONDO_BFLOAT16, rondo::Bfloat16Format::to_float, rondo::Bfloat16Format::from_float},
    {"float8_e4m3", RONDO_FLOAT8_E4M3, rondo::Float8E4m3Format::to_float, rondo::Float8E4m3Format::from_float},
    {"float8_e5m2", RONDO_FLOAT8_E5M2, rondo::Float8E5m2Format::to_float, rondo::Float8E5m2Format::from_float},
};

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

/// Counts mismatches, so that millions of cases need one check; Catch2's checks are slow.
struct Mismatches {
  size_t count = 0;
  double first_input = 0;
  void expect(bool equal, double input) {
    if (!equal && count++ == 0) first_input = input;
  }
};

}  // namespace

TEST_CASE("conversion: every encoding goes up to its exact value and comes back as it was") {
  for (const Conversion &conversion : conversions) {
    const NumberTable &table = *number_table(conversion.type);
    const NumberFormat &format = table.format();
    Mismatches up, back;
    for (uint32_t code = 0; code < (1u << format.bits()); ++code) {
      const float value = conversion.to_float(code);
      const uint32_t again = conversion.from_float(value);
      if (format.is_nan(code)) {
        up.expect(std::isnan(value) && std::signbit(value) == ((code & format.sign_bit()) != 0), code);
        back.expect(format.is_nan(again) && (again & format.sign_bit()) == (code & format.sign_bit()), code);
      } else {
        up.expect(same_bits(value, static_cast<float>(table.decode(code))), code);
        back.expect(again == code, code);
      }
    }
    CAPTURE(conversion.name, up.first_input, back.first_input);
    CHECK(up.count == 0);
    CHECK(back.count == 0);
  }
}

TEST_CASE("conversion: halfway points go to the even neighbour, and what is beside them to the nearer one") {
  for (const Conversion &conversion : conversions) {
    const NumberTable &table = *number_table(conversion.type);
    const uint32_t sign_bit = table.format().sign_bit();
    Mismatches wrong;
    for (uint32_t low = 0; low <= table.format().largest(); ++low) {
      const double half = (table.values()[low] + table.values()[low + 1]) / 2;
      const auto middle = static_cast<float>(half);
      REQUIRE(static_cast<double>(middle) == half);  // otherwise `middle` would not be halfway
      const uint32_t even = low % 2 == 0 ? low : low + 1;
      const float before = std::nextafter(middle, 0.0F), after = std::nextafter(middle, HUGE_VALF);
      wrong.expect(conversion.from_float(middle) == even, half);
      wrong.expect(conversion.from_float(before) == low, before);
      wrong.expect(conversion.from_float(after) == low + 1, after);  // above the largest: infinity, or e4m3's NaN
      wrong.expect(conversion.from_float(-middle) == (even | sign_bit), -half);
      wrong.expect(conversion.from_float(-before) == (low | sign_bit), -before);
      wrong.expect(conversion.from_float(-after) == ((low + 1) | sign_bit), -after);
    }
    CAPTURE(conversion.name, wrong.first_input);
    CHECK(wrong.count == 0);
  }
}

TEST_CASE("conversion: any float goes to the nearest value of the format") {
  const uint64_t seed = seed_from_environment();
  std::mt19937_64 random(seed);
  for (const Conversion &conversion : conversions) {
    const NumberTable &table = *number_table(conversion.type);
    Mismatches wrong;
    for (int round = 0; round < 1'000'000; ++round) {
      const float value = rondo::float_of(static_cast<uint32_t>(random()));
      const uint32_t code = conversion.from_float(value);
      if (std::isnan(value)) wrong.expect(table.format().is_nan(code), value);
      else wrong.expect(code == table.encode(value), value);
    }
    CAPTURE(seed, conversion.name, wrong.first_input);
    CHECK(wrong.count == 0);
  }
}

TEST_CASE("conversion: the landmarks of the formats are where the standards put them") {
  using namespace rondo;
  CHECK(Float8E4m3Format::from_float(448) == 0x7E);
  CHECK(Float8E4m3Format::from_float(464) == 0x7E);  // halfway to 480, which does not exist: to even
  CHECK(Float8E4m3Format::from_float(465) == 0x7F);
  CHECK(Float8E4m3Format::from_float(-HUGE_VALF) == 0xFF);
  CHECK(Float8E5m2Format::from_float(57344) == 0x7B);
  CHECK(Float8E5m2Format::from_float(61440) == 0x7C);
  CHECK(Float16Format::from_float(65504) == 0x7BFF);
  CHECK(Float16Format::from_float(65520) == 0x7C00);
  CHECK(Float16Format::from_float(std::ldexp(1.0F, -25)) == 0);
  CHECK(Float16Format::from_float(std::ldexp(1.5F, -25)) == 1);
  CHECK(Bfloat16Format::from_float(std::numeric_limits<float>::max()) == 0x7F80);
  CHECK(Bfloat16Format::from_float(float_of(0x7F800001)) == 0x7FC0);  // a NaN whose upper half alone would be infinity
  static_assert(Float16Format::from_float(1.0F) == 0x3C00 && Float16Format::to_float(0xC000) == -2.0F);
}
