// SPDX-License-Identifier: Apache-2.0
// These tests compress gradients. Each packed form leaves out a known part, and over many steps nothing may be lost.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "bench/trainer/exchange/exchange.h"
#include "bench/trainer/exchange/packing.h"
#include "bench/trainer/model/random.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/train_floats.h"

namespace {

using namespace rondo::train;
using rondo::train_test::distance, rondo::train_test::Floats, rondo::train_test::random_floats;

struct Packed {
  Floats left, back;
  size_t bytes;
};

Packed pack(const Compression &compression, const Floats &values) {
  const auto packing = make_packing(compression);
  Packed packed{values, Floats(values.size()), packing->packed_bytes(values.size())};
  std::vector<std::byte> bytes(packed.bytes);
  packing->pack(packed.left.data(), values.size(), bytes.data());
  packing->add(bytes.data(), values.size(), packed.back.data());
  return packed;
}

/// Returns the gradients of a rank, which are the same in every step.
Floats gradients_of(const Layout &layout, size_t rank) { return random_floats(layout.count, 100 + rank); }

/// Lets two ranks exchange gradients for some steps. Returns rank 0's mean of the sums over the steps.
Floats mean_of_sums(const Layout &layout, const Compression &compression, size_t steps, size_t &wire_bytes) {
  rondo_comm_t comms[2] = {};
  REQUIRE(rondo_comm_init_all(comms, 2, nullptr) == RONDO_OK);
  std::vector<Floats> sums(2, Floats(layout.count)), last(2);
  bool failed[2] = {};
  const auto rank_runs = [&](size_t rank) {
    const auto compute = make_host_compute();
    Group group;
    failed[rank] = group.take(comms[rank]).has_value();
    Exchange exchange(layout, {30'000, compression, true, false, 1}, group, group, *compute);
    failed[rank] = exchange.open().has_value() || failed[rank];
    if (rank == 0) wire_bytes = exchange.wire_bytes();
    const Floats mine = gradients_of(layout, rank);
    for (size_t step = 0; step < steps && !failed[rank]; ++step) {
      std::memcpy(exchange.gradients(), mine.data(), mine.size() * sizeof(float));
      for (size_t tensor = 0; tensor < layout.tensors.size(); ++tensor) exchange.tensor_ready(tensor);
      double loss = 1;
      exchange.finish_pass(&loss, 1);
      for (size_t bucket = 0; bucket < exchange.buckets().size(); ++bucket) exchange.wait(bucket);
      failed[rank] = exchange.finish_step().has_value() || loss != 2;
      last[rank].assign(exchange.gradients(), exchange.gradients() + layout.count);
      for (size_t at = 0; at < layout.count; ++at) sums[rank][at] += last[rank][at] / static_cast<float>(steps);
    }
    failed[rank] = group.finish().has_value() || failed[rank];
  };
  std::thread other(rank_runs, 1);
  rank_runs(0);
  other.join();
  CHECK_FALSE((failed[0] || failed[1]));
  CHECK((last[0] == last[1]));  // bit by bit, or ranks drift apart
  return sums[0];
}

}  // namespace

TEST_CASE("trainer: int8 is within half a step of each block's scale, in little over a byte each", "[train]") {
  Floats values = random_floats(1000, 1);
  values[300] = 50.0f;  // makes the scale of only its block coarse
  const Packed packed = pack({Method::int8}, values);
  CHECK(packed.bytes <= 1000 + 128);
  for (size_t at = 0; at < values.size(); ++at) {
    const size_t begin = at / 256 * 256;
    float most = 0;
    for (size_t near = begin; near < std::min(begin + 256, values.size()); ++near)
      most = std::max(most, std::abs(values[near]));
    REQUIRE(std::abs(packed.back[at] - values[at]) <= most / 127 * 0.5001f);
    REQUIRE(packed.left[at] == Approx(values[at] - packed.back[at]).margin(1e-5));
  }
  CHECK(packed.back[300] == Approx(50.0f));
  CHECK(distance(packed.back, values) > 1e-4);
}

TEST_CASE("trainer: top-k sends the largest, and leaves the others as they were", "[train]") {
  Floats values = random_floats(1000, 2);
  values[5] = values[900] = -9.0f;
  const Packed packed = pack({Method::top_k, 0.05}, values);
  CHECK(packed.bytes <= 50 * 8 + 64);
  size_t sent = 0;
  float least_sent = 100, most_left = 0;
  for (size_t at = 0; at < values.size(); ++at) {
    REQUIRE(packed.left[at] + packed.back[at] == values[at]);
    REQUIRE((packed.left[at] == 0.0f || packed.back[at] == 0.0f));
    if (packed.back[at] != 0.0f) {
      ++sent;
      least_sent = std::min(least_sent, std::abs(values[at]));
    } else {
      most_left = std::max(most_left, std::abs(values[at]));
    }
  }
  CHECK(sent == 50);
  CHECK(least_sent >= most_left);
  const Packed equal = pack({Method::top_k, 0.1}, Floats(100, 2.0f));
  CHECK(std::count(equal.back.begin(), equal.back.end(), 2.0f) == 10);
}

TEST_CASE("trainer: a gradient that is not finite gets through compression, so that the run ends", "[train]") {
  for (const Compression &compression : {Compression{Method::int8}, Compression{Method::top_k, 0.01}}) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      Floats values = random_floats(640, 3);
      values[400] = bad;
      const Packed packed = pack(compression, values);
      double sum = 0;
      for (const float value : packed.back) sum += static_cast<double>(value);
      CHECK_FALSE(std::isfinite(sum));
    }
  }
  const Packed zeros = pack({Method::int8}, Floats(320, 0.0f));
  CHECK((zeros.back == Floats(320, 0.0f)));
  CHECK((zeros.left == Floats(320, 0.0f)));
}

TEST_CASE("trainer: what compression leaves out of a step comes in later ones", "[train]") {
  const Layout layout = make_layout({"test", 32, 1, 2, 32});
  Floats truth = gradients_of(layout, 0);
  const Floats second = gradients_of(layout, 1);
  for (size_t at = 0; at < truth.size(); ++at) truth[at] += second[at];
  struct Case {
    const char *name;
    double first, later;  ///< distance of the mean from the truth: at least after 1 step, at most after 60
    double bytes;         ///< of a float's four
  };
  rondo_test::GateShare share("compressions of many steps");
  for (const Case &about : {Case{"none", 0, 1e-6, 4.01}, Case{"int8", 1e-3, 1e-3, 1.1},
                            Case{"topk:0.05", 0.5, 0.2, 0.5}, Case{"powersgd:4", 0.5, 0.3, 1.0},
                            Case{"bfloat16", 1e-4, 5e-3, 2.01}}) {
    if (!share.has_next()) continue;
    INFO(about.name);
    const auto compression = find_compression(about.name);
    REQUIRE(compression);
    size_t wire_bytes = 0;
    const double once = distance(mean_of_sums(layout, *compression, 1, wire_bytes), truth);
    const double often = distance(mean_of_sums(layout, *compression, 60, wire_bytes), truth);
    INFO(once << " after a step, " << often << " after 60; bytes " << wire_bytes << " of " << 4 * layout.count);
    CHECK(once >= about.first);
    CHECK(often <= about.later);
    if (compression->feeds_back()) CHECK(often < once / 3);
    CHECK(static_cast<double>(wire_bytes) <= about.bytes * static_cast<double>(layout.count));
  }
}

TEST_CASE("trainer: compressions have names, and nothing else is one", "[train]") {
  for (const char *name : {"none", "bfloat16", "float16", "int8", "topk:0.01", "powersgd:2"}) {
    const auto found = find_compression(name);
    REQUIRE(found);
    CHECK(name_of(*found) == name);
  }
  CHECK(find_compression("bf16")->method == Method::bfloat16);
  for (const char *name : {"", "int4", "topk", "topk:0", "topk:1.5", "topk:0.1x", "powersgd:0", "powersgd:-1",
                           "powersgd:1000", "powersgd:2.5"})
    CHECK_FALSE(find_compression(name));
}
