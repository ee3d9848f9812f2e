// SPDX-License-Identifier: Apache-2.0
// These tests compare every implementation of reduction.h that runs here with a reference and with the others.
#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "src/engine/reduction/reduction.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/reduction_reference.h"

using namespace reduction_test;
using namespace rondo;

namespace {

constexpr int type_count = 12;
constexpr int op_count = 5;

/// A buffer of `bytes` bytes at a given misalignment on the heap. It ends at the end of the allocation, so
/// AddressSanitizer sees an access of one byte too many. A guard before it shows writes before the beginning.
class Buffer {
 public:
  Buffer(size_t bytes, size_t misalignment)
      : misalignment_(misalignment), bytes_(bytes), memory_(new std::byte[misalignment + bytes]) {
    std::fill_n(memory_.get(), misalignment, std::byte{0x5A});
    std::fill_n(data(), bytes, std::byte{0xC3});
  }
  std::byte *data() const { return memory_.get() + misalignment_; }
  bool guard_intact() const {
    return std::all_of(memory_.get(), data(), [](std::byte value) { return value == std::byte{0x5A}; });
  }
  Bits get(size_t index, size_t element_bytes) const {
    Bits value = 0;
    std::memcpy(&value, data() + index * element_bytes, element_bytes);
    return value;
  }
  void put(size_t index, size_t element_bytes, Bits value) const {
    std::memcpy(data() + index * element_bytes, &value, element_bytes);
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t misalignment_;
  size_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
};

template <class Float>
std::vector<Bits> special_floats() {
  using Limits = std::numeric_limits<Float>;
  std::vector<Bits> out;
  for (const Float value : {Float{0}, Float{1}, Float{1.5}, Limits::max(), Limits::min(), Limits::denorm_min(),
                            Limits::infinity(), Limits::quiet_NaN(), Limits::epsilon(), Float{3}})
    for (const Float sign : {Float{1}, Float{-1}}) out.push_back(bits(std::copysign(value, sign)));
  return out;
}

/// Returns zero, one, extremes, subnormals, infinity and NaN of both signs, or, for integers, the ends of the range.
std::vector<Bits> special_values(rondo_type_t type) {
  if (type == RONDO_FLOAT32) return special_floats<float>();
  if (type == RONDO_FLOAT64) return special_floats<double>();
  const uint64_t top = uint64_t{1} << (8 * rondo_type_size(type) - 1);
  if (const NumberTable *table = number_table(type)) {
    std::vector<Bits> out;
    const NumberFormat &format = table->format();
    const uint32_t normal = 1u << format.mantissa_bits;
    for (const uint32_t code : {0u, 1u, 2u, normal - 1, normal, format.largest() - 1, format.largest(),
                                format.largest() + 1, format.sign_bit() - 1, table->encode(1), table->encode(1.5)})
      for (const uint64_t sign : {uint64_t{0}, top}) out.push_back(code | sign);
    return out;
  }
  return {0, 1, 2, 3, 7, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2};  // only the low bytes count
}

/// Returns mostly ordinary numbers, and some random bits and special values. Random bits alone would soon reduce to NaN
/// or zero.
Bits random_element(rondo_type_t type, const std::vector<Bits> &specials, std::mt19937_64 &random) {
  const uint64_t kind = random() % 8;
  const double ordinary = std::ldexp(static_cast<double>(random() % 4096) - 2048, -static_cast<int>(random() % 12));
  if (kind == 0) return specials[random() % specials.size()];
  if (kind == 1) return random();
  if (type == RONDO_FLOAT32) return bits(static_cast<float>(ordinary));
  if (type == RONDO_FLOAT64) return bits(ordinary / 3);
  if (const NumberTable *table = number_table(type)) return table->encode(ordinary);
  return random();
}

struct Case {
  rondo_type_t type = RONDO_INT8;
  rondo_op_t op = RONDO_SUM;
  uint32_t input_count = 1;
  uint32_t output_count = 1;
  size_t count = 0;
  uint32_t divisor = 0;
  bool in_place = false;  ///< output 0 is input 0
  bool past_caches = false;
  rondo::MeanShifts shifts = 0;  ///< of a mean

  /// Returns the shift of each input.
  std::vector<uint32_t> all_shifts() const {
    std::vector<uint32_t> all;
    for (uint32_t input = 0; input < input_count; ++input)
      all.push_back(shifts >> (8 * std::min(input, reduce_inputs_max - 1)) & 0xFF);
    return all;
  }
};

std::vector<Buffer> random_inputs(const Case &now, std::mt19937_64 &random) {
  const auto specials = special_values(now.type);
  const size_t element_bytes = rondo_type_size(now.type);
  std::vector<Buffer> inputs;
  for (uint32_t input = 0; input < now.input_count; ++input) {
    inputs.emplace_back(now.count * element_bytes, random() % 64);
    for (size_t index = 0; index < now.count; ++index)
      inputs.back().put(index, element_bytes, random_element(now.type, specials, random));
  }
  return inputs;
}

/// Runs `function` on copies of the inputs. Returns the outputs, or nothing if a guard was overwritten.
std::vector<Buffer> run(ReductionFunction function, const Case &now, const std::vector<Buffer> &inputs,
                        std::mt19937_64 &random) {
  ReductionArgs args{};
  args.input_count = std::min(now.input_count, reduce_inputs_max);
  args.output_count = now.output_count;
  args.count = now.count;
  args.divisor = now.divisor;
  args.mean_shifts = now.shifts;
  args.past_caches = now.past_caches;
  for (uint32_t input = 0; input < args.input_count; ++input) args.inputs[input] = inputs[input].data();
  std::vector<const std::byte *> more;
  for (uint32_t input = args.input_count; input < now.input_count; ++input) more.push_back(inputs[input].data());
  args.more = more;
  std::vector<Buffer> outputs;
  for (uint32_t output = 0; output < now.output_count; ++output) {
    outputs.emplace_back(inputs[0].bytes(), random() % 64);
    args.outputs[output] = outputs.back().data();
  }
  if (now.in_place) {
    std::copy_n(inputs[0].data(), inputs[0].bytes(), outputs[0].data());
    args.inputs[0] = outputs[0].data();
  }
  function(args);
  for (const Buffer &output : outputs)
    if (!output.guard_intact()) return {};
  return outputs;
}

/// Returns the first index at which an output differs from `expected`, or -1.
template <class Expected>
int64_t first_difference(const Case &now, const std::vector<Buffer> &outputs, const Expected &expected) {
  const size_t element_bytes = rondo_type_size(now.type);
  for (size_t index = 0; index < now.count; ++index) {
    const Bits wanted = expected(index);
    for (const Buffer &output : outputs)
      if (!same_element(now.type, output.get(index, element_bytes), wanted)) return static_cast<int64_t>(index);
  }
  return -1;
}

void check_case(Case now, std::mt19937_64 &random, bool against_reference) {
  if (now.op == RONDO_AVG && now.input_count > 1) now.shifts = static_cast<uint32_t>(random()) & 0x0F0F'0F0F;
  CAPTURE(rondo_type_string(now.type), rondo_op_string(now.op), now.input_count, now.output_count, now.count,
          now.divisor, now.in_place, now.shifts);
  const auto inputs = random_inputs(now, random);
  const size_t element_bytes = rondo_type_size(now.type);
  const auto plain = run(reduce_function_plain(now.type, now.op), now, inputs, random);
  REQUIRE(plain.size() == now.output_count);
  const auto reference = [&](size_t index) {
    std::vector<Bits> operands;
    for (const Buffer &input : inputs) operands.push_back(input.get(index, element_bytes));
    return reduction_reference(now.type, now.op, operands, now.divisor, now.all_shifts());
  };
  if (against_reference) REQUIRE(first_difference(now, plain, reference) == -1);
  for (const ReductionTarget &target : reduce_targets()) {
    if (!target.runs_here()) continue;
    CAPTURE(target.name);
    for (const bool past_caches : {false, true}) {
      CAPTURE(past_caches);
      Case with = now;
      with.past_caches = past_caches;
      const auto outputs = run(target.find(now.type, now.op), with, inputs, random);
      REQUIRE(outputs.size() == now.output_count);
      REQUIRE(first_difference(now, outputs, [&](size_t index) { return plain[0].get(index, element_bytes); }) == -1);
    }
  }
}

template <class Body>
void for_each_type_and_op(const Body &body) {
  for (int type = 0; type < type_count; ++type)
    for (int op = 0; op < op_count; ++op) body(static_cast<rondo_type_t>(type), static_cast<rondo_op_t>(op));
}

/// Prints the targets that no case can run here, in a line that scripts/summary.py counts.
void tell_what_cannot_run_here() {
  std::string names;
  for (const ReductionTarget &target : reduce_targets())
    if (!target.runs_here()) names += (names.empty() ? "" : ", ") + std::string(target.name);
  if (names.empty()) return;
  std::printf("skipped: reduce on %s: this processor lacks the instructions\n", names.c_str());
  std::fflush(stdout);
}

uint32_t some_divisor(rondo_op_t op, std::mt19937_64 &random) {
  static constexpr std::array<uint32_t, 8> divisors{1, 2, 3, 7, 8, 255, 16384, 4'294'967'295};
  return op == RONDO_AVG ? divisors[random() % divisors.size()] : 0;
}

}  // namespace

TEST_CASE("reduce: every type, operation, operand and result count is reduced as documented, on every processor type") {
  tell_what_cannot_run_here();
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  rondo_test::GateShare share("counts that are reduced");
  for_each_type_and_op([&](rondo_type_t type, rondo_op_t op) {
    for (uint32_t inputs = 1; inputs <= reduce_inputs_max; ++inputs)
      for (uint32_t outputs = 1; outputs <= reduce_outputs_max; ++outputs)
        for (const size_t count : {size_t{0}, size_t{1}, size_t{15}, size_t{64}, 65 + random() % 64, size_t{251}})
          if (share.has_next())
            check_case({type, op, inputs, outputs, count, some_divisor(op, random), random() % 2 == 0}, random, true);
  });
}

TEST_CASE("reduce: more operands than a step has are reduced with one rounding at the end") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto share = rondo_test::GateShare::in_every_build("types and operations of more operands than a step has");
  for_each_type_and_op([&](rondo_type_t type, rondo_op_t op) {
    if (!share.has_next()) return;
    for (const uint32_t inputs : {reduce_inputs_max + 1, 2 * reduce_inputs_max, 64u})
      for (const size_t count : {size_t{1}, size_t{15}, 65 + random() % 64, size_t{5003}})
        check_case({type, op, inputs, 1 + static_cast<uint32_t>(random() % 3), count, some_divisor(op, random),
                    random() % 2 == 0},
                   random, true);
  });
}

TEST_CASE("reduce: large odd counts leave no tail element behind") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  auto share = rondo_test::GateShare::in_every_build("types and operations of large odd counts");
  for_each_type_and_op([&](rondo_type_t type, rondo_op_t op) {
    if (!share.has_next()) return;
    for (uint32_t inputs = 1; inputs <= reduce_inputs_max; ++inputs)
      check_case({type, op, inputs, 1 + static_cast<uint32_t>(random() % 3), 20'011 + random() % 64,
                  some_divisor(op, random), random() % 2 == 0},
                 random, false);
  });
}

TEST_CASE("reduce: every pair of special values gives what IEEE 754 and the formats say") {
  for_each_type_and_op([&](rondo_type_t type, rondo_op_t op) {
    const size_t element_bytes = rondo_type_size(type);
    const auto specials = special_values(type);
    const Case now{type, op, 2, 1, specials.size() * specials.size(), op == RONDO_AVG ? 3u : 0u, false,
                   false, op == RONDO_AVG ? 0x0202u : 0u};
    std::vector<Buffer> inputs;
    inputs.emplace_back(now.count * element_bytes, size_t{0});
    inputs.emplace_back(now.count * element_bytes, size_t{0});
    for (size_t index = 0; index < now.count; ++index) {
      inputs[0].put(index, element_bytes, specials[index / specials.size()]);
      inputs[1].put(index, element_bytes, specials[index % specials.size()]);
    }
    std::mt19937_64 alignment(1);
    for (const ReductionTarget &target : reduce_targets()) {
      if (!target.runs_here()) continue;
      CAPTURE(target.name, rondo_type_string(type), rondo_op_string(op));
      const auto outputs = run(target.find(type, op), now, inputs, alignment);
      CHECK(first_difference(now, outputs, [&](size_t index) {
              const std::array pair{inputs[0].get(index, element_bytes), inputs[1].get(index, element_bytes)};
              return reduction_reference(type, op, pair, now.divisor, now.all_shifts());
            }) == -1);
    }
  });
}

TEST_CASE("reduce: every pair of 8-bit encodings is reduced as documented") {
  for_each_type_and_op([&](rondo_type_t type, rondo_op_t op) {
    if (rondo_type_size(type) != 1) return;
    const Case now{type, op, 2, 1, 65'536, 0, false};
    std::vector<Buffer> inputs;
    inputs.emplace_back(now.count, size_t{0});
    inputs.emplace_back(now.count, size_t{0});
    for (size_t index = 0; index < now.count; ++index) {
      inputs[0].put(index, 1, index / 256);
      inputs[1].put(index, 1, index % 256);
    }
    std::vector<Bits> expected;  // the same on every target
    for (size_t index = 0; index < now.count; ++index)
      expected.push_back(reduction_reference(type, op, std::array<Bits, 2>{index / 256, index % 256}, 0));
    std::mt19937_64 alignment(1);
    for (const ReductionTarget &target : reduce_targets()) {
      if (!target.runs_here()) continue;
      CAPTURE(target.name, rondo_type_string(type), rondo_op_string(op));
      const auto outputs = run(target.find(type, op), now, inputs, alignment);
      CHECK(first_difference(now, outputs, [&](size_t index) { return expected[index]; }) == -1);
    }
  });
}

TEST_CASE("reduce: a copy keeps every bit, a signalling NaN's too, and may go onto itself") {
  for (const ReductionTarget &target : reduce_targets()) {
    if (!target.runs_here()) continue;
    std::array<uint32_t, 5> data{0x7F800001, 0xFF812345, 1, 0x80000000, 0x7FFFFFFF}, copy{};
    const auto before = data;
    ReductionArgs args{};
    args.inputs[0] = reinterpret_cast<const std::byte *>(data.data());
    args.outputs[0] = reinterpret_cast<std::byte *>(data.data());
    args.outputs[1] = reinterpret_cast<std::byte *>(copy.data());
    args.input_count = 1;
    args.output_count = 2;
    args.count = data.size();
    target.find(RONDO_FLOAT32, RONDO_SUM)(args);
    CHECK(data == before);
    CHECK(copy == before);
  }
}

TEST_CASE("reduce: a target is chosen by name, the fastest by default, and an unknown one refused with the known") {
  const auto targets = reduce_targets();
  CHECK(std::string_view(targets.back().name) == "plain");
  CHECK(targets.back().runs_here());
  CHECK(choose_reduce_target("plain").value() == &targets.back());
  const auto fastest =
      std::find_if(targets.begin(), targets.end(), [](const auto &target) { return target.runs_here(); });
  CHECK(choose_reduce_target("").value() == &*fastest);
  const auto refused = choose_reduce_target("mmx");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().status == RONDO_ERROR_INVALID_ARGUMENT);
  for (const ReductionTarget &target : targets) CHECK(refused.error().message.find(target.name) != std::string::npos);
  CHECK(reduce_function(static_cast<rondo_type_t>(12), RONDO_SUM) == nullptr);
  CHECK(reduce_function(RONDO_FLOAT32, static_cast<rondo_op_t>(5)) == nullptr);
}
