// SPDX-License-Identifier: Apache-2.0
// The mean of integers is the exact sum divided by the number of ranks, truncated toward zero, for every type and by
// every algorithm, protocol and kernel.
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "src/proto/integer_mean.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/ranks.h"
#include "tests/unit/reduction_reference.h"

using reduction_test::seed_from_environment;
using rondo_test::Ranks;

namespace {

__extension__ using Exact = __int128;

template <class T>
constexpr rondo_type_t type_of() {
  if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? RONDO_INT8 : RONDO_UINT8;
  else if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? RONDO_INT32 : RONDO_UINT32;
  else return std::is_signed_v<T> ? RONDO_INT64 : RONDO_UINT64;
}

/// Returns element `index` of `rank`. By index, ranks have one limit, both limits, values near one, or random values.
template <class T>
T operand(uint32_t rank, size_t index, std::mt19937_64 &random) {
  constexpr T highest = std::numeric_limits<T>::max(), lowest = std::numeric_limits<T>::min();
  switch (index % 6) {
    case 0: return highest;
    case 1: return lowest;
    case 2: return rank % 2 == 0 ? highest : lowest;
    case 3: return static_cast<T>(rank % 2 == 0 ? lowest + 1 : highest - 1);
    case 4: return static_cast<T>(rank == 0 ? lowest : 1);
    default: return static_cast<T>(random());
  }
}

/// A call of mean(). With `uneven`, it is a reduce_scatter_v whose first block is empty.
struct Call {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  bool uneven = false, in_place = false;

  [[nodiscard]] std::vector<size_t> blocks(size_t count, size_t ranks) const {
    std::vector<size_t> all(ranks, count / ranks);
    if (uneven) all[0] = 0, all[ranks - 1] += count / ranks;
    return all;
  }
};

template <class T>
rondo_status_t mean(const Call &call, const T *send, T *recv, size_t count, rondo_comm_t comm, size_t ranks) {
  constexpr rondo_type_t type = type_of<T>();
  if (call.collective == RONDO_ALL_REDUCE) return rondo_all_reduce(send, recv, count, type, RONDO_AVG, comm, nullptr);
  if (call.collective == RONDO_REDUCE)
    return rondo_reduce(send, recv, count, type, RONDO_AVG, static_cast<int>(ranks) - 1, comm, nullptr);
  const auto blocks = call.blocks(count, ranks);
  if (call.uneven) return rondo_reduce_scatter_v(send, recv, blocks.data(), type, RONDO_AVG, comm, nullptr);
  return rondo_reduce_scatter(send, recv, count / ranks, type, RONDO_AVG, comm, nullptr);
}

/// Returns how many elements that the ranks received are wrong.
template <class T>
uint32_t wrong_means(Ranks &ranks, const Call &call, size_t count, std::mt19937_64 &random) {
  const auto size = static_cast<size_t>(ranks.size());
  std::vector<std::vector<T>> sends(size, std::vector<T>(count));
  for (uint32_t rank = 0; rank < size; ++rank)
    for (size_t i = 0; i < count; ++i) sends[rank][i] = operand<T>(rank, i, random);
  const auto given = sends;
  std::vector<std::vector<T>> recvs(size, std::vector<T>(count));
  const auto blocks = call.blocks(count, size);
  std::vector<size_t> first(size, 0), length(size, count);
  if (call.collective == RONDO_REDUCE_SCATTER) {
    std::exclusive_scan(blocks.begin(), blocks.end(), first.begin(), size_t{0});
    length = blocks;
  }
  const auto statuses = ranks.run([&](int rank, rondo_comm_t comm) {
    const auto own = static_cast<size_t>(rank);
    T *const recv = call.in_place ? sends[own].data() + first[own] : recvs[own].data();
    return mean(call, sends[own].data(), recv, count, comm, size);
  });
  if (!rondo_test::all_ok(statuses)) return UINT32_MAX;
  uint32_t wrong = 0;
  for (size_t rank = 0; rank < size; ++rank) {
    if (call.collective == RONDO_REDUCE && rank + 1 != size) continue;
    const T *const got = call.in_place ? sends[rank].data() + first[rank] : recvs[rank].data();
    for (size_t i = 0; i < length[rank]; ++i) {
      Exact sum = 0;
      for (const auto &send : given) sum += static_cast<Exact>(send[first[rank] + i]);
      wrong += static_cast<Exact>(got[i]) != sum / static_cast<Exact>(size) ? 1u : 0u;
    }
  }
  return wrong;
}

uint32_t wrong_means(rondo_type_t type, Ranks &ranks, const Call &call, size_t count, std::mt19937_64 &random) {
  switch (type) {
    case RONDO_INT8: return wrong_means<int8_t>(ranks, call, count, random);
    case RONDO_UINT8: return wrong_means<uint8_t>(ranks, call, count, random);
    case RONDO_INT32: return wrong_means<int32_t>(ranks, call, count, random);
    case RONDO_UINT32: return wrong_means<uint32_t>(ranks, call, count, random);
    case RONDO_INT64: return wrong_means<int64_t>(ranks, call, count, random);
    default: return wrong_means<uint64_t>(ranks, call, count, random);
  }
}

constexpr rondo_type_t integer_types[] = {RONDO_INT8,   RONDO_UINT8, RONDO_INT32,
                                          RONDO_UINT32, RONDO_INT64, RONDO_UINT64};

struct IntegerWay {
  rondo_kernel_t kernel;
  rondo_protocol_t protocol;
};

/// Adds the words of `count` times `value` to a sum.
template <class T>
void add(typename rondo::IntegerMean<T>::Word *sum, T value, uint32_t count) {
  using Mean = rondo::IntegerMean<T>;
  typename Mean::Word words[Mean::word_count];
  Mean::widen(value, words);
  for (uint32_t word = 0; word < Mean::word_count; ++word)
    sum[word] = static_cast<typename Mean::Word>(sum[word] + words[word] * static_cast<int64_t>(count));
}

template <class T>
void check_limits(std::mt19937_64 &random) {
  constexpr T highest = std::numeric_limits<T>::max(), lowest = std::numeric_limits<T>::min();
  for (const uint32_t ranks : {2u, 3u, 7u, 255u, 256u, 4096u, (1u << 23) - 1, 1u << 23})
    for (int turn = 0; turn < 200; ++turn) {
      const T values[] = {turn % 4 == 0 ? highest : static_cast<T>(random()),
                          turn % 3 == 0 ? lowest : static_cast<T>(random())};
      const uint32_t part = turn % 5 == 0 ? 0 : static_cast<uint32_t>(random() % (ranks + 1));
      typename rondo::IntegerMean<T>::Word sum[rondo::IntegerMean<T>::word_count] = {};
      add<T>(sum, values[0], part);
      add<T>(sum, values[1], ranks - part);
      const Exact exact = static_cast<Exact>(values[0]) * part + static_cast<Exact>(values[1]) * (ranks - part);
      CAPTURE(ranks, part, +values[0], +values[1]);
      REQUIRE(static_cast<Exact>(rondo::IntegerMean<T>::narrow(sum, ranks)) == exact / ranks);
    }
}

}  // namespace

TEST_CASE("integer mean: the sum of words is exact for up to 2^23 ranks") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  check_limits<int8_t>(random);
  check_limits<uint8_t>(random);
  check_limits<int32_t>(random);
  check_limits<uint32_t>(random);
  check_limits<int64_t>(random);
  check_limits<uint64_t>(random);
}

TEST_CASE("integer mean: it never overflows, by every algorithm, protocol and kernel") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr IntegerWay ways[] = {{RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_SIMPLE},
                                 {RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_LL},
                                 {RONDO_KERNEL_LOAD_STORE, RONDO_PROTOCOL_AUTO},
                                 {RONDO_KERNEL_AUTO, RONDO_PROTOCOL_AUTO}};
  uint32_t calls = 0;
  auto share = rondo_test::GateShare::in_every_build("ways of means of integers");
  // Starting threads takes long under a sanitizer. There, 3 and 8 stand for what is and is not a power of two.
  const std::vector<int> sizes = rondo_test::sanitized() ? std::vector<int>{2, 3, 8}
                                                         : std::vector<int>{2, 3, 4, 5, 6, 7, 8};
  for (const int size : sizes) {
    share.skip();  // so that an algorithm has other ways at the next size
    for (int algorithm = 0; rondo_algorithm_string(static_cast<rondo_algorithm_t>(algorithm)) != nullptr; ++algorithm)
      for (const IntegerWay &way : ways) {
        if (&way == ways) share.skip();  // so that each quarter has all ways
        if (!share.has_next()) continue;
        rondo_config_t config = RONDO_CONFIG_INIT;
        config.algorithm = static_cast<rondo_algorithm_t>(algorithm);
        config.kernel = way.kernel;
        config.protocol = way.protocol;
        config.chunk_bytes = 128;
        Ranks ranks(size, config);
        if (ranks.status() != RONDO_OK) continue;  // the kernel lacks the algorithm
        for (const Call &call : {Call{RONDO_ALL_REDUCE}, Call{RONDO_REDUCE}, Call{RONDO_REDUCE_SCATTER},
                                 Call{RONDO_REDUCE_SCATTER, true}, Call{RONDO_ALL_REDUCE, false, true},
                                 Call{RONDO_REDUCE_SCATTER, true, true}}) {
          rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
          if (rondo_comm_query_plan(ranks[0], call.collective, 1, RONDO_INT32, &plan) != RONDO_OK) continue;
          for (const rondo_type_t type : integer_types) {
            ++calls;
            CAPTURE(size, rondo_algorithm_string(config.algorithm), rondo_kernel_string(way.kernel), way.protocol,
                    rondo_collective_string(call.collective), rondo_type_string(type), call.uneven, call.in_place);
            CHECK(wrong_means(type, ranks, call, static_cast<size_t>(size) * 31, random) == 0);
            CHECK(wrong_means(type, ranks, call, static_cast<size_t>(size), random) == 0);
          }
        }
      }
  }
  CHECK(calls > rondo_test::gate_count(400));
}

TEST_CASE("integer mean: buffers that peers could read in place, large and not aligned") {
  std::mt19937_64 random(seed_from_environment());
  Ranks ranks(3);
  for (const rondo_type_t type : integer_types) {
    CAPTURE(rondo_type_string(type));
    CHECK(wrong_means(type, ranks, {RONDO_ALL_REDUCE, false, true}, 100'003, random) == 0);
    CHECK(wrong_means(type, ranks, {RONDO_REDUCE_SCATTER, true}, 3 * 30'001, random) == 0);
  }
}

TEST_CASE("integer mean: statistics and errors speak of the call, not of its words") {
  Ranks ranks(2);
  const auto bytes = ranks.each<uint64_t>([](int, rondo_comm_t comm) -> uint64_t {
    int8_t values[64] = {100};
    if (rondo_all_reduce(values, values, 64, RONDO_INT8, RONDO_AVG, comm, nullptr) != RONDO_OK) return 0;
    rondo_statistics_t statistics = RONDO_STATISTICS_INIT;
    if (rondo_comm_statistics(comm, &statistics) != RONDO_OK) return 0;
    return statistics.collectives[RONDO_ALL_REDUCE].bytes;
  });
  CHECK(bytes == std::vector<uint64_t>{64, 64});
  // Internally, both calls sum equal words. The errors must nevertheless name the types of the calls.
  const auto messages = ranks.each<std::string>([](int rank, rondo_comm_t comm) -> std::string {
    int32_t values[4] = {};
    const auto status = rank == 0 ? rondo_all_reduce(values, values, 4, RONDO_INT8, RONDO_AVG, comm, nullptr)
                                  : rondo_all_reduce(values, values, 4, RONDO_INT32, RONDO_SUM, comm, nullptr);
    return status == RONDO_OK ? "no error" : rondo_test::error_message(comm);
  });
  for (const std::string &message : messages) {
    CAPTURE(message);
    CHECK(message.find("int8 (avg)") != std::string::npos);
    CHECK(message.find("int32 (sum)") != std::string::npos);
  }
}
