// SPDX-License-Identifier: Apache-2.0
// These tests compare the expected results of `rondo perf` with the library's plain reducer in random orders.
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "bench/perf/cases.h"
#include "bench/perf/data.h"
#include "bench/perf/numbers.h"
#include "src/engine/reduction/reduction.h"
#include "src/proto/integer_mean.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/seeds.h"

using namespace rondo::perf;
using rondo_test::seed_from_environment;

namespace {

template <class Enum>
std::vector<Enum> all_of(const char *(*name)(Enum)) {
  std::vector<Enum> all;
  for (int value = 0; name(static_cast<Enum>(value)) != nullptr; ++value) all.push_back(static_cast<Enum>(value));
  return all;
}

/// Reduces two random operands at a time, each step rounded to the type, until one is left.
uint64_t reduce_in_random_order(const std::vector<uint64_t> &values, rondo_type_t type, rondo_op_t op,
                                std::mt19937_64 &random) {
  const auto reduce = rondo::reduce_function_plain(type, op);
  const auto ranks = static_cast<uint32_t>(values.size());
  std::vector<std::pair<uint64_t, uint32_t>> partials;  // with the number of ranks in each
  for (const uint64_t value : values) partials.emplace_back(value, 1);
  for (bool last = false; !last;) {
    std::shuffle(partials.begin(), partials.end(), random);
    const uint32_t inputs = partials.size() > 1 ? 2 : 1;
    last = partials.size() <= 2;
    uint64_t result = 0;
    uint32_t summed[2] = {0, 0};
    rondo::ReductionArgs args{};
    for (uint32_t i = 0; i < inputs; ++i) {
      const auto &operand = partials[partials.size() - 1 - i];
      args.inputs[i] = reinterpret_cast<const std::byte *>(&operand.first);
      summed[i] = operand.second;
    }
    args.outputs[0] = reinterpret_cast<std::byte *>(&result);
    args.input_count = inputs;
    args.output_count = 1;
    args.count = 1;
    if (op == RONDO_AVG && inputs > 1) args.mean_shifts = rondo::mean_shifts(summed);
    args.divisor = last && op == RONDO_AVG ? ranks : 0;
    reduce(args);
    partials.resize(partials.size() - inputs);
    partials.emplace_back(result, summed[0] + summed[1]);
  }
  return partials.front().first;
}

template <class T>
uint64_t mean_of_words(const std::vector<uint64_t> &values) {
  using Mean = rondo::IntegerMean<T>;
  typename Mean::Word sum[Mean::word_count] = {}, words[Mean::word_count];
  for (const uint64_t value : values) {
    Mean::widen(static_cast<T>(value), words);
    for (uint32_t word = 0; word < Mean::word_count; ++word) sum[word] += words[word];
  }
  const T mean = Mean::narrow(sum, static_cast<uint32_t>(values.size()));
  return wrap_bits(static_cast<uint64_t>(mean), 8 * sizeof(T));
}

/// Returns the mean of integers as the library computes it.
uint64_t mean_of_words(const std::vector<uint64_t> &values, rondo_type_t type) {
  switch (type) {
    case RONDO_INT8: return mean_of_words<int8_t>(values);
    case RONDO_UINT8: return mean_of_words<uint8_t>(values);
    case RONDO_INT32: return mean_of_words<int32_t>(values);
    case RONDO_UINT32: return mean_of_words<uint32_t>(values);
    case RONDO_INT64: return mean_of_words<int64_t>(values);
    default: return mean_of_words<uint64_t>(values);
  }
}

}  // namespace

TEST_CASE("perf data: every type and operation has its result bit for bit in any order, for 1 to 64 ranks") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  rondo_test::GateShare share("draws of each type, operation and number of ranks");
  for (const rondo_type_t type : all_of(rondo_type_string)) {
    for (const rondo_op_t op : all_of(rondo_op_string)) {
      for (int ranks = 1; ranks <= 64; ++ranks) {
        for (int draw = 0; draw < 8; ++draw) {
          if (!share.has_next()) continue;
          std::vector<uint64_t> row = make_row(type, op, ranks, random());
          REQUIRE(row.size() == static_cast<size_t>(ranks) + 1);
          const uint64_t expected = row.back();
          row.pop_back();
          CAPTURE(rondo_type_string(type), rondo_op_string(op), ranks);
          const bool is_integer_mean = op == RONDO_AVG && facts_of(type).integer;
          REQUIRE((is_integer_mean ? mean_of_words(row, type) : reduce_in_random_order(row, type, op, random)) ==
                  expected);
        }
      }
    }
  }
}

TEST_CASE("perf data: the products of mulsum have their sum bit for bit in any order") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const rondo_type_t type : all_of(rondo_type_string)) {
    for (int ranks = 1; ranks <= 64; ++ranks) {
      const std::vector<uint64_t> row = make_row(type, rondo::perf::mulsum, ranks, random());
      std::vector<uint64_t> products;
      for (int rank = 0; rank < ranks; ++rank)
        products.push_back(reduce_in_random_order(
            {row[static_cast<size_t>(rank)], rondo::perf::make_factor(type, rank)}, type, RONDO_PROD, random));
      CAPTURE(rondo_type_string(type), ranks);
      REQUIRE(reduce_in_random_order(products, type, RONDO_SUM, random) == row.back());
    }
  }
}

TEST_CASE("perf data: a lost or doubled contribution changes many results of every type") {
  // Only sums and products are tested, since a minimum may stay equal. At 64 ranks, an e5m2 sum has 8 contributions.
  rondo_test::GateShare share("types and numbers of ranks with a lost contribution");
  for (const rondo_type_t type : all_of(rondo_type_string)) {
    for (const int ranks : {2, 5, 64}) {
      if (!share.has_next()) continue;
      size_t lost = 0, doubled = 0;
      std::set<uint64_t> results;
      std::mt19937_64 random(7);
      for (uint64_t seed = 0; seed < 256; ++seed) {
        const std::vector<uint64_t> row = make_row(type, RONDO_SUM, ranks, seed);
        results.insert(row.back());
        const std::vector<uint64_t> inputs(row.begin(), row.end() - 1);
        const std::vector<uint64_t> fewer(inputs.begin() + 1, inputs.end());
        std::vector<uint64_t> more = inputs;
        more.push_back(inputs[0]);
        lost += reduce_in_random_order(fewer, type, RONDO_SUM, random) != row.back() ? 1 : 0;
        doubled += reduce_in_random_order(more, type, RONDO_SUM, random) != row.back() ? 1 : 0;
      }
      CAPTURE(rondo_type_string(type), ranks, lost, doubled, results.size());
      CHECK(lost >= 16);
      CHECK(doubled >= 16);
      CHECK(results.size() >= 16);
    }
  }
}

TEST_CASE("perf numbers: floats are rounded to nearest, ties to even, subnormals included") {
  const TypeFacts e4m3 = facts_of(RONDO_FLOAT8_E4M3), half = facts_of(RONDO_FLOAT16);
  CHECK(float_bits(e4m3, 1.0) == 0x38);
  CHECK(float_bits(e4m3, 1.0625) == 0x38);    // a tie: down to the even one
  CHECK(float_bits(e4m3, 1.1875) == 0x3a);    // a tie: up to the even one
  CHECK(float_bits(e4m3, 448) == 0x7e);
  CHECK(float_bits(e4m3, -0.001953125) == 0x81);  // the smallest subnormal
  CHECK(float_bits(e4m3, 0.00097) == 0x00);
  CHECK(float_bits(e4m3, 1.96875) == 0x40);   // a carry into the exponent
  CHECK(float_bits(half, 65504) == 0x7bff);
  CHECK(float_bits(half, -0.0) == 0x8000);
  CHECK(float_bits(facts_of(RONDO_FLOAT8_E5M2), 0.25) == 0x34);
  float single = 0.1f;
  uint32_t single_bits = 0;
  std::memcpy(&single_bits, &single, sizeof single_bits);
  CHECK(float_bits(facts_of(RONDO_FLOAT32), 0.1) == single_bits);
  CHECK(float_bits(facts_of(RONDO_BFLOAT16), 3.140625) == 0x4049);
}

TEST_CASE("perf data: a sequence is a function of position, and its inverse differs in every element") {
  for (const rondo_type_t type : {RONDO_INT8, RONDO_FLOAT16, RONDO_FLOAT32, RONDO_FLOAT64}) {
    for (const rondo_collective_t collective : {RONDO_ALL_REDUCE, RONDO_ALL_GATHER}) {
      const Data data = make_data({collective, type, RONDO_SUM, 0, 3}, 1, 5);
      const Sequence sequence = data.output.with_seed(9);
      const size_t size = rondo_type_size(type);
      std::vector<std::byte> whole(2 * pattern_elements * size);
      sequence.write(whole.data(), {0, 2 * pattern_elements});
      for (const Part part : {Part{0, 1}, Part{3, 17}, Part{8, 8}, Part{13, pattern_elements}, Part{5, 0},
                              Part{pattern_elements - 1, 2}, Part{pattern_elements, pattern_elements}}) {
        std::vector<std::byte> piece(part.count * size + 1);
        sequence.write(piece.data(), part);
        CHECK(std::equal(piece.begin(), piece.end() - 1, whole.begin() + static_cast<long>(part.first * size)));
        CHECK(piece.back() == std::byte{0});
        CHECK(sequence.count_wrong(piece.data(), part) == 0);
        CHECK(sequence.inverted().count_wrong(piece.data(), part) == part.count);
      }
    }
  }
}

TEST_CASE("perf data: runs differ, and a shifted buffer is mostly wrong") {
  const Data data = make_data({RONDO_ALL_REDUCE, RONDO_FLOAT32, RONDO_SUM, 0, 4}, 0, 1);
  std::vector<float> buffer(4096);
  REQUIRE(buffer.size() == pattern_elements);
  auto *bytes = reinterpret_cast<std::byte *>(buffer.data());
  data.output.with_seed(1).write(bytes, {0, buffer.size()});
  CHECK(data.output.with_seed(2).count_wrong(bytes, {0, buffer.size()}) > 4000);
  CHECK(data.output.with_seed(1).count_wrong(bytes, {1, buffer.size()}) > 4000);
  for (const uint64_t patterns : {1, 2, 7, 100})  // repeated inputs begin at another element each time
    CHECK(data.output.with_seed(1).count_wrong(bytes, {patterns * pattern_elements, buffer.size()}) > 4000);
  buffer[77] += 1;
  buffer[4095] = -buffer[4095] - 1;
  CHECK(data.output.with_seed(1).count_wrong(bytes, {0, buffer.size()}) == 2);
}
