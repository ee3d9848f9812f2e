// SPDX-License-Identifier: Apache-2.0
// These tests compare the trainer's optimizer, its schedule, and its conversions for messages with plain references.
#include <cmath>
#include <limits>
#include <vector>

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/exchange/bucket.h"
#include "bench/trainer/model/optimizer.h"
#include "bench/trainer/model/random.h"
#include "tests/catch.h"
#include "tests/unit/train_floats.h"

namespace {

using namespace rondo::train;
using rondo::train_test::Floats, rondo::train_test::random_floats;

/// AdamW in doubles, as its paper has it.
struct PlainAdam {
  double value, first = 0, second = 0;

  void update(double gradient, double rate, double decay, int step) {
    constexpr double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
    first = beta1 * first + (1 - beta1) * gradient;
    second = beta2 * second + (1 - beta2) * gradient * gradient;
    const double first_hat = first / (1 - std::pow(beta1, step)), second_hat = second / (1 - std::pow(beta2, step));
    value -= rate * decay * value;
    value -= rate * first_hat / (std::sqrt(second_hat) + epsilon);
  }
};

uint16_t bits_of_bfloat16(float value) {
  const auto compute = make_host_compute();
  Floats from(16, value);
  std::vector<uint16_t> to(16);
  compute->narrow(from.data(), to.data(), RONDO_BFLOAT16, 1.0f, 16);
  return to[3];
}

uint16_t bits_of_float16(float value) {
  const auto compute = make_host_compute();
  Floats from(16, value);
  std::vector<uint16_t> to(16);
  compute->narrow(from.data(), to.data(), RONDO_FLOAT16, 1.0f, 16);
  return to[3];
}

}  // namespace

TEST_CASE("trainer: the optimizer is AdamW, and decays matrices alone", "[train]") {
  const auto compute = make_host_compute();
  const Layout layout = make_layout({"test", 16, 1, 1, 16});
  Optimizer optimizer(pieces_of(layout, make_buckets(layout, size_t{1} << 30), 0, 1), *compute);
  REQUIRE(optimizer.allocated());
  Floats parameters = random_floats(layout.count, 1);
  std::vector<PlainAdam> plain;
  for (const float value : parameters) plain.push_back({static_cast<double>(value)});
  constexpr double rate = 0.01, decay = 0.3, scale = 0.5;
  for (int step = 1; step <= 5; ++step) {
    const Floats gradients = random_floats(layout.count, 10 + static_cast<uint64_t>(step));
    AdamUpdate update;
    update.gradient_scale = static_cast<float>(scale);
    update.learning_rate = static_cast<float>(rate);
    update.decay = static_cast<float>(decay);
    update.step = static_cast<uint64_t>(step);
    optimizer.update(0, parameters.data(), gradients.data(), update);
    for (const Tensor &tensor : layout.tensors)
      for (size_t at = tensor.offset; at < tensor.offset + tensor.count; ++at)
        plain[at].update(scale * static_cast<double>(gradients[at]), rate, tensor.decays() ? decay : 0.0, step);
  }
  for (const Tensor &tensor : layout.tensors) {
    INFO(tensor.name);
    CHECK(tensor.decays() == (tensor.name.find("weight") != std::string::npos || tensor.name == "position" ||
                              tensor.name == "token"));
    double worst = 0;
    for (size_t at = tensor.offset; at < tensor.offset + tensor.count; ++at)
      worst = std::max(worst, std::abs(static_cast<double>(parameters[at]) - plain[at].value));
    CHECK(worst < 2e-6);
  }
}

TEST_CASE("trainer: the learning rate rises over the warm-up and falls to a tenth", "[train]") {
  const Schedule schedule{1.0, 10, 110};
  CHECK(schedule.rate(0) == Approx(0.1));
  CHECK(schedule.rate(9) == Approx(1.0));
  CHECK(schedule.rate(60) == Approx(0.55));  // half way down
  CHECK(schedule.rate(110) == Approx(0.1));
  CHECK(schedule.rate(500) == Approx(0.1));
  for (uint64_t step = 10; step < 110; ++step) CHECK(schedule.rate(step + 1) < schedule.rate(step));
  const Schedule all_warm{1.0, 10, 5};
  CHECK(all_warm.rate(4) == Approx(0.5));
}

TEST_CASE("trainer: clipping brings a norm down to its limit and no other", "[train]") {
  CHECK(clip_scale(4.0, 1.0) == Approx(0.25));
  CHECK(clip_scale(0.5, 1.0) == 1.0);
  CHECK(clip_scale(4.0, 0.0) == 1.0);
  const auto compute = make_host_compute();
  const Floats values = random_floats(16 * 1000, 3);
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  double found = 0;
  compute->squared_norm(values.data(), values.size(), &found);
  CHECK(found == Approx(sum).epsilon(1e-6));
  Floats infinite = values;
  infinite[777] = std::numeric_limits<float>::infinity();
  compute->squared_norm(infinite.data(), infinite.size(), &found);
  CHECK_FALSE(std::isfinite(found));
}

TEST_CASE("trainer: the loss scale halves on a step that is left out and doubles after 200 good ones", "[train]") {
  LossScale scale;
  const double first = scale.scale;
  scale.step_was(true);  // counts for nothing, since the next step is left out
  scale.step_was(false);
  CHECK(scale.scale == first / 2);
  for (int step = 0; step < 199; ++step) scale.step_was(true);
  CHECK(scale.scale == first / 2);
  scale.step_was(true);
  CHECK(scale.scale == first);
  for (int step = 0; step < 100; ++step) scale.step_was(false);
  CHECK(scale.scale == 1.0);  // it never becomes zero
}

TEST_CASE("trainer: gradients are rounded to nearest for the wire, ties to even", "[train]") {
  CHECK(bits_of_bfloat16(1.0f) == 0x3f80);
  CHECK(bits_of_bfloat16(1.00390625f) == 0x3f80);  // 1 + 2^-8: half way, to even
  CHECK(bits_of_bfloat16(1.01171875f) == 0x3f82);  // 1 + 3 * 2^-8: half way, to even
  CHECK(bits_of_bfloat16(1.004f) == 0x3f81);
  CHECK(bits_of_bfloat16(-2.0f) == 0xc000);
  CHECK(bits_of_bfloat16(std::numeric_limits<float>::infinity()) == 0x7f80);
  CHECK((bits_of_bfloat16(std::numeric_limits<float>::quiet_NaN()) & 0x7fff) > 0x7f80);
  CHECK(bits_of_bfloat16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(bits_of_float16(1.0f) == 0x3c00);
  CHECK(bits_of_float16(1.00048828125f) == 0x3c00);  // 1 + 2^-11: half way, to even
  CHECK(bits_of_float16(1.00146484375f) == 0x3c02);
  CHECK(bits_of_float16(65'504.0f) == 0x7bff);
  CHECK(bits_of_float16(-0x1p-24f) == 0x8001);  // the smallest
  CHECK(bits_of_float16(1e6f) == 0x7c00);
}

TEST_CASE("trainer: what goes over the wire comes back, scaled", "[train]") {
  const auto compute = make_host_compute();
  const Floats values = random_floats(320, 5);
  for (const rondo_type_t type : {RONDO_BFLOAT16, RONDO_FLOAT16}) {
    std::vector<uint16_t> narrow(values.size());
    Floats back(values.size());
    compute->narrow(values.data(), narrow.data(), type, 64.0f, values.size());
    compute->widen(narrow.data(), type, back.data(), 1.0f / 64.0f, values.size());
    const double share = type == RONDO_BFLOAT16 ? 0x1p-8 : 0x1p-11;  // half of a last place
    for (size_t at = 0; at < values.size(); ++at)
      CHECK(std::abs(back[at] - values[at]) <= share * std::abs(values[at]));
  }
}

TEST_CASE("trainer: optimizers of shares together update what one of all does, bit for bit", "[train]") {
  const auto compute = make_host_compute();
  const Layout layout = make_layout({"test", 32, 2, 2, 32});
  const std::vector<Bucket> buckets = make_buckets(layout, 20'000);
  const Floats begin = random_floats(layout.count, 1), gradients = random_floats(layout.count, 2);
  AdamUpdate update;
  update.learning_rate = 0.01f;
  update.decay = 0.1f;
  const auto updated_by = [&](size_t ranks) {
    Floats parameters = begin;
    size_t moments = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      Optimizer optimizer(pieces_of(layout, buckets, rank, ranks), *compute);
      REQUIRE(optimizer.part_count() == buckets.size());
      CHECK(optimizer.count() <= layout.count / ranks + buckets.size() * 16);
      moments += optimizer.count();
      for (size_t part = 0; part < buckets.size(); ++part)
        optimizer.update(part, parameters.data(), gradients.data(), update);
    }
    CHECK(moments == layout.count);
    return parameters;
  };
  const Floats whole = updated_by(1);
  CHECK((whole != begin));
  for (const size_t ranks : {2u, 3u, 7u}) CHECK((updated_by(ranks) == whole));
}
