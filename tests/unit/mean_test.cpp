// SPDX-License-Identifier: Apache-2.0
// The mean of finite floats is finite, also near the largest number, by every algorithm, protocol and kernel.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "src/engine/reduction/reduction.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/ranks.h"
#include "tests/unit/reduction_reference.h"

using namespace reduction_test;
using rondo_test::Ranks;

namespace {

constexpr rondo_type_t float_types[] = {RONDO_FLOAT16, RONDO_BFLOAT16,     RONDO_FLOAT32,
                                        RONDO_FLOAT64, RONDO_FLOAT8_E4M3, RONDO_FLOAT8_E5M2};

/// A float type: its limits, and its elements as numbers.
struct FloatType {
  explicit FloatType(rondo_type_t of) : type(of), size(rondo_type_size(of)), table(number_table(of)) {
    if (type == RONDO_FLOAT32) largest = std::numeric_limits<float>::max(), unit = std::ldexp(1.0L, -24);
    if (type == RONDO_FLOAT64) largest = std::numeric_limits<double>::max(), unit = std::ldexp(1.0L, -53);
    if (table == nullptr) return;
    largest = table->values()[table->format().largest()];
    unit = std::ldexp(1.0L, -1 - table->format().mantissa_bits);
  }
  [[nodiscard]] Bits encode(long double value) const {
    if (type == RONDO_FLOAT32) return bits(static_cast<float>(value));
    if (type == RONDO_FLOAT64) return bits(static_cast<double>(value));
    return table->encode(static_cast<double>(value));
  }
  [[nodiscard]] long double decode(Bits code) const {
    if (type == RONDO_FLOAT32) return element<float>(code);
    if (type == RONDO_FLOAT64) return element<double>(code);
    return table->decode(static_cast<uint32_t>(code));
  }

  rondo_type_t type;
  size_t size;
  const NumberTable *table;
  long double largest = 0;
  long double unit = 0;  ///< the largest relative error of a rounding
};

/// Returns element `index` of `rank`: by index the largest number, the lowest, one of both, nearly the largest, or any.
long double operand(const FloatType &of, uint32_t rank, size_t index, std::mt19937_64 &random) {
  const long double part = static_cast<long double>(random() % 1001) / 1000;
  switch (index % 5) {
    case 0: return of.largest;
    case 1: return -of.largest;
    case 2: return rank % 2 == 0 ? of.largest : -of.largest;
    case 3: return of.largest * (0.9L + part / 10);
    default: return of.largest * (2 * part - 1);
  }
}

rondo_status_t mean(rondo_collective_t collective, const void *send, void *recv, size_t count, rondo_type_t type,
                    rondo_comm_t comm, int ranks) {
  if (collective == RONDO_ALL_REDUCE) return rondo_all_reduce(send, recv, count, type, RONDO_AVG, comm, nullptr);
  if (collective == RONDO_REDUCE) return rondo_reduce(send, recv, count, type, RONDO_AVG, ranks - 1, comm, nullptr);
  return rondo_reduce_scatter(send, recv, count / static_cast<size_t>(ranks), type, RONDO_AVG, comm, nullptr);
}

/// Returns how many elements that `rank` received differ from the ranks' mean by more than rounding explains.
uint32_t wrong_means(const FloatType &of, const std::vector<std::vector<unsigned char>> &sends,
                     const std::vector<unsigned char> &recv, size_t first, size_t count) {
  const auto ranks = static_cast<long double>(sends.size());
  uint32_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    long double sum = 0, magnitudes = 0;  // of scaled elements, since long double may be no wider than float64
    for (const auto &send : sends) {
      Bits code = 0;
      std::memcpy(&code, send.data() + (first + i) * of.size, of.size);
      sum += of.decode(code) / ranks;
      magnitudes += std::fabs(of.decode(code)) / ranks;
    }
    Bits code = 0;
    std::memcpy(&code, recv.data() + i * of.size, of.size);
    const long double got = of.decode(code);
    // The bound covers the rounding of each partial sum, of the result and of this function.
    const long double bound = (ranks + 1) * of.unit * magnitudes * 1.1L;
    if (!(std::fabs(got) <= of.largest) || std::fabs(got - sum) > bound) ++wrong;
  }
  return wrong;
}

uint32_t wrong_in_call(Ranks &ranks, rondo_collective_t collective, const FloatType &of, size_t count,
                       std::mt19937_64 &random) {
  const auto size = static_cast<size_t>(ranks.size());
  std::vector<std::vector<unsigned char>> sends(size, std::vector<unsigned char>(count * of.size));
  std::vector<std::vector<unsigned char>> recvs = sends;
  for (uint32_t rank = 0; rank < size; ++rank)
    for (size_t i = 0; i < count; ++i) {
      const Bits code = of.encode(operand(of, rank, i, random));
      std::memcpy(sends[rank].data() + i * of.size, &code, of.size);
    }
  const auto statuses = ranks.run([&](int rank, rondo_comm_t comm) {
    const auto own = static_cast<size_t>(rank);
    return mean(collective, sends[own].data(), recvs[own].data(), count, of.type, comm, ranks.size());
  });
  if (!rondo_test::all_ok(statuses)) return UINT32_MAX;
  uint32_t wrong = 0;
  const size_t block = count / size;
  for (size_t rank = 0; rank < size; ++rank) {
    if (collective == RONDO_REDUCE && rank + 1 != size) continue;
    const bool scattered = collective == RONDO_REDUCE_SCATTER;
    wrong += wrong_means(of, sends, recvs[rank], scattered ? rank * block : 0, scattered ? block : count);
  }
  return wrong;
}

struct Way {
  rondo_kernel_t kernel;
  rondo_protocol_t protocol;
};

}  // namespace

TEST_CASE("mean: floats near the largest have a mean that fits, by every algorithm, protocol and kernel") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr Way ways[] = {{RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_SIMPLE},
                          {RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_LL},
                          {RONDO_KERNEL_LOAD_STORE, RONDO_PROTOCOL_AUTO}};
  uint32_t calls = 0;
  rondo_test::GateShare share("types and collectives of means of floats");
  for (const int size : {2, 3, 5, 8})
    for (int algorithm = 1; rondo_algorithm_string(static_cast<rondo_algorithm_t>(algorithm)) != nullptr; ++algorithm)
      for (const Way &way : ways) {
        rondo_config_t config = RONDO_CONFIG_INIT;
        config.algorithm = static_cast<rondo_algorithm_t>(algorithm);
        config.kernel = way.kernel;
        config.protocol = way.protocol;
        config.chunk_bytes = 128;
        Ranks ranks(size, config);
        if (ranks.status() != RONDO_OK) continue;  // the kernel lacks the algorithm
        for (const auto collective : {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_REDUCE}) {
          rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
          if (rondo_comm_query_plan(ranks[0], collective, 1, RONDO_FLOAT32, &plan) != RONDO_OK) continue;
          for (const rondo_type_t type : float_types) {
            ++calls;
            if (!share.has_next()) continue;
            CAPTURE(size, rondo_algorithm_string(config.algorithm), rondo_kernel_string(way.kernel),
                    rondo_collective_string(collective), rondo_type_string(type), way.protocol);
            CHECK(wrong_in_call(ranks, collective, FloatType(type), 240, random) == 0);
            CHECK(wrong_in_call(ranks, collective, FloatType(type), static_cast<size_t>(size), random) == 0);
          }
        }
      }
  CHECK(calls > 500);
}

TEST_CASE("mean: no order of reducing the largest number overflows, for up to 300 ranks") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const rondo_type_t type : float_types) {
    const FloatType of(type);
    const auto reduce = rondo::reduce_function_plain(type, RONDO_AVG);
    for (uint32_t ranks = 2; ranks <= 300; ++ranks) {
      struct Partial {
        Bits bits;
        uint32_t ranks;
      };
      std::vector<Partial> partials(ranks, {of.encode(of.largest), 1});
      const bool chain = random() % 2 == 0;
      while (partials.size() > 1) {
        if (!chain) std::shuffle(partials.begin(), partials.end(), random);
        const size_t inputs = std::min<size_t>(partials.size(), 2 + random() % 2);
        Bits result = 0;
        std::vector<uint32_t> summed;
        rondo::ReductionArgs args{};
        for (size_t i = 0; i < inputs; ++i) {
          const Partial &operand = partials[partials.size() - 1 - i];
          args.add_input(reinterpret_cast<const std::byte *>(&operand.bits));
          summed.push_back(operand.ranks);
        }
        args.add_output(reinterpret_cast<std::byte *>(&result));
        args.count = 1;
        args.mean_shifts = rondo::mean_shifts(summed);
        args.divisor = partials.size() == inputs ? ranks : 0;
        reduce(args);
        uint32_t all = 0;
        for (const uint32_t each : summed) all += each;
        partials.resize(partials.size() - inputs);
        partials.push_back({result, all});
      }
      CAPTURE(rondo_type_string(type), ranks, chain);
      REQUIRE(of.decode(partials.front().bits) <= of.largest);
      // The sum of an 8-bit float stops growing once operands are below half its last place, so it has no lower bound.
      if (static_cast<long double>(ranks) * of.unit < 0.5L)
        REQUIRE(of.decode(partials.front().bits) >= of.largest * (1 - static_cast<long double>(ranks) * of.unit));
    }
  }
}
