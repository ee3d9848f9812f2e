// SPDX-License-Identifier: Apache-2.0
// In these tests, each rank has its own floating-point mode. All ranks must have the results of the default mode.
#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "src/base/float_mode.h"
#include "tests/catch.h"
#include "tests/unit/ranks.h"

using rondo::FloatMode;
using rondo_test::Ranks;

namespace {

constexpr FloatMode ordinary = rondo::float_mode_default;
constexpr FloatMode flushing = rondo::float_mode_default | rondo::float_mode_flushing;
constexpr FloatMode upward = rondo::float_mode_default | rondo::float_mode_upward;

/// The mode of each rank's caller, by rank.
constexpr std::array<FloatMode, 4> mixed_modes{flushing, ordinary, upward, flushing | rondo::float_mode_upward};
constexpr std::array<FloatMode, 4> ordinary_modes{ordinary, ordinary, ordinary, ordinary};

struct ModeCase {
  rondo_algorithm_t algorithm;
  rondo_kernel_t kernel;
  rondo_type_t type;
  rondo_op_t op;
  size_t count;
};

using Buffer = std::vector<unsigned char>;

/// Returns subnormal numbers and numbers from 1 to 2 in turn, or random integers.
Buffer input_of(const ModeCase &it, size_t rank) {
  std::mt19937_64 random(rank + 1);
  const size_t size = rondo_type_size(it.type);
  Buffer buffer(it.count * size);
  for (size_t index = 0; index < it.count; ++index) {
    const auto drawn = static_cast<uint32_t>(random());
    uint64_t bits = drawn;
    if (it.type == RONDO_FLOAT32) bits = index % 2 == 0 ? 0x00500000u + drawn % 4096 : 0x3F800000u + drawn % 8192;
    if (it.type == RONDO_FLOAT64) bits = index % 2 == 0 ? (uint64_t{1} << 51) + drawn : 0x3FF0'0000'0000'0000u + drawn;
    if (it.type == RONDO_BFLOAT16) bits = index % 2 == 0 ? 0x0050u + drawn % 16 : 0x3F80u + drawn % 128;
    std::memcpy(buffer.data() + index * size, &bits, size);
  }
  return buffer;
}

struct Outcome {
  std::vector<Buffer> results;
  uint32_t failed = 0;
  uint32_t modes_lost = 0;  ///< calls that returned in another mode than the caller's
};

/// Makes one call on each rank, in that rank's mode. With `on_stream`, the rank makes a stream for it in that mode.
Outcome run(Ranks &ranks, const ModeCase &it, const std::array<FloatMode, 4> &modes, bool on_stream) {
  Outcome outcome;
  std::vector<Buffer> inputs;
  for (size_t rank = 0; rank < modes.size(); ++rank) inputs.push_back(input_of(it, rank));
  outcome.results.assign(modes.size(), Buffer(it.count * rondo_type_size(it.type)));
  const std::vector<int> ends = ranks.each<int>([&](int rank, rondo_comm_t comm) {
    const auto own = static_cast<size_t>(rank);
    const FloatMode before = rondo::read_float_mode();
    rondo::write_float_mode(modes[own]);
    rondo_stream_t stream = nullptr;
    bool ok = !on_stream || rondo_stream_create(&stream) == RONDO_OK;
    ok = ok && rondo_all_reduce(inputs[own].data(), outcome.results[own].data(), it.count, it.type, it.op, comm,
                                stream) == RONDO_OK;
    if (stream != nullptr) ok = rondo_stream_synchronize(stream) == RONDO_OK && ok;
    if (stream != nullptr) ok = rondo_stream_destroy(stream) == RONDO_OK && ok;
    const bool kept = ((rondo::read_float_mode() ^ modes[own]) & ~rondo::float_mode_flags) == 0;
    rondo::write_float_mode(before);
    return (ok ? 0 : 1) + (kept ? 0 : 2);
  });
  for (const int end : ends) {
    outcome.failed += (end & 1) != 0 ? 1 : 0;
    outcome.modes_lost += (end & 2) != 0 ? 1 : 0;
  }
  return outcome;
}

void check(rondo_algorithm_t algorithm, rondo_kernel_t kernel, bool on_stream) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.algorithm = algorithm;
  config.kernel = kernel;
  Ranks ranks(static_cast<int>(mixed_modes.size()), config);
  REQUIRE(ranks.status() == RONDO_OK);
  for (const auto type : {RONDO_FLOAT32, RONDO_FLOAT64, RONDO_BFLOAT16, RONDO_INT32})
    for (const auto op : {RONDO_SUM, RONDO_PROD, RONDO_MIN, RONDO_MAX, RONDO_AVG})
      for (const size_t count : {size_t{2}, size_t{300}, size_t{9001}}) {
        if (algorithm == RONDO_ALGORITHM_ONE_SHOT && kernel == RONDO_KERNEL_LOAD_STORE && count > 300) continue;
        CAPTURE(rondo_algorithm_string(algorithm), static_cast<int>(kernel), rondo_type_string(type),
                rondo_op_string(op), count, on_stream);
        const ModeCase it{algorithm, kernel, type, op, count};
        const Outcome ordinary_outcome = run(ranks, it, ordinary_modes, on_stream);
        const Outcome outcome = run(ranks, it, mixed_modes, on_stream);
        REQUIRE(ordinary_outcome.failed + outcome.failed == 0);
        CHECK(outcome.modes_lost == 0);
        for (const Buffer &result : outcome.results)
          CHECK((result == ordinary_outcome.results.front()));  // not printed: they are long
      }
}

}  // namespace

TEST_CASE("float mode: results are those of the default mode, whatever mode each rank's caller runs in") {
  for (const auto algorithm : {RONDO_ALGORITHM_ONE_SHOT, RONDO_ALGORITHM_TWO_SHOT, RONDO_ALGORITHM_RING})
    for (const auto kernel : {RONDO_KERNEL_INTERPRETER, RONDO_KERNEL_LOAD_STORE}) check(algorithm, kernel, false);
  for (const auto algorithm : {RONDO_ALGORITHM_TREE, RONDO_ALGORITHM_HALVING_DOUBLING})
    check(algorithm, RONDO_KERNEL_INTERPRETER, false);
}

TEST_CASE("float mode: a stream does not inherit the mode of the thread that makes it") {
  check(RONDO_ALGORITHM_TWO_SHOT, RONDO_KERNEL_LOAD_STORE, true);
  check(RONDO_ALGORITHM_RING, RONDO_KERNEL_INTERPRETER, true);
}

TEST_CASE("float mode: the guard sets the default mode, and the caller's again; flags alone are no mode") {
  const FloatMode before = rondo::read_float_mode();
  for (const FloatMode mode : {flushing, upward, ordinary | rondo::float_mode_flags}) {
    rondo::write_float_mode(mode);
    FloatMode inside = 0;
    {
      const rondo::DefaultFloatMode guard;
      inside = rondo::read_float_mode();
    }
    const FloatMode after = rondo::read_float_mode();
    rondo::write_float_mode(before);
    CHECK((inside & ~rondo::float_mode_flags) == rondo::float_mode_default);
    CHECK(after == mode);
  }
}
