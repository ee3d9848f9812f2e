// SPDX-License-Identifier: Apache-2.0
// Tests the trainer's gradients against finite differences: each layer alone, and the whole model.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/model/model.h"
#include "bench/trainer/model/random.h"
#include "tests/catch.h"
#include "tests/unit/train_floats.h"

namespace {

using namespace rondo::train;
using rondo::train_test::check_gradient, rondo::train_test::dot, rondo::train_test::Floats,
    rondo::train_test::random_floats;

constexpr size_t rows = 6, width = 32;

}  // namespace

TEST_CASE("trainer: a product's operands may be transposed, scaled and added", "[train]") {
  const auto compute = make_host_compute();
  const Floats a = random_floats(5 * 7, 1), b = random_floats(7 * 3, 2), before = random_floats(5 * 3, 3);
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      Floats c = before;
      compute->multiply({transpose_a, transpose_b, 5, 3, 7, a.data(), transpose_a ? 5u : 7u, b.data(),
                         transpose_b ? 7u : 3u, c.data(), 3, 0.5f, 2.0f});
      for (size_t row = 0; row < 5; ++row) {
        for (size_t column = 0; column < 3; ++column) {
          double sum = 0;
          for (size_t at = 0; at < 7; ++at)
            sum += static_cast<double>(a[transpose_a ? at * 5 + row : row * 7 + at]) *
                   static_cast<double>(b[transpose_b ? column * 7 + at : at * 3 + column]);
          const double expected = 0.5 * sum + 2.0 * before[row * 3 + column];
          CHECK(std::abs(c[row * 3 + column] - expected) < 1e-5);
        }
      }
    }
  }
}

TEST_CASE("trainer: layer normalisation's gradients are those of finite differences", "[train]") {
  const auto compute = make_host_compute();
  const Floats x = random_floats(rows * width, 1), gain = random_floats(width, 2), bias = random_floats(width, 3);
  const Floats weights = random_floats(rows * width, 4);
  Floats out(rows * width), means(rows), scales(rows);
  const auto loss = [&](const Floats &input, const Floats &gains, const Floats &biases) {
    compute->normalize(input.data(), gains.data(), biases.data(), out.data(), means.data(), scales.data(), rows, width);
    return dot(out, weights);
  };
  (void)loss(x, gain, bias);
  Floats x_gradient = random_floats(rows * width, 5), gain_gradient(width), bias_gradient(width);
  const Floats before = x_gradient;
  compute->normalize_backward(x.data(), gain.data(), means.data(), scales.data(), weights.data(), x_gradient.data(),
                              gain_gradient.data(), bias_gradient.data(), rows, width);
  for (size_t at = 0; at < x.size(); ++at) x_gradient[at] -= before[at];  // the gradient was added to `before`
  check_gradient("input", x, x_gradient, [&](const Floats &moved) { return loss(moved, gain, bias); });
  check_gradient("gain", gain, gain_gradient, [&](const Floats &moved) { return loss(x, moved, bias); });
  check_gradient("bias", bias, bias_gradient, [&](const Floats &moved) { return loss(x, gain, moved); });
}

TEST_CASE("trainer: GELU is x times the normal distribution, and its gradient that of finite differences", "[train]") {
  const auto compute = make_host_compute();
  const Floats x = random_floats(rows * width, 1, 2.0), weights = random_floats(rows * width, 2);
  Floats out(x.size());
  const auto loss = [&](const Floats &input) {
    compute->gelu(input.data(), out.data(), input.size());
    return dot(out, weights);
  };
  (void)loss(x);
  for (size_t at = 0; at < x.size(); ++at)  // the tanh form differs from the exact one by less than 5e-4
    CHECK(std::abs(out[at] - x[at] * 0.5 * std::erfc(-x[at] / std::sqrt(2.0))) < 5e-4);
  Floats gradient = weights;
  compute->gelu_backward(x.data(), gradient.data(), x.size());
  check_gradient("input", x, gradient, loss);
  Floats far{-300.0f, 300.0f, -20.0f, 20.0f};
  far.resize(16);
  Floats far_out(16);
  compute->gelu(far.data(), far_out.data(), 16);
  CHECK((far_out[0] == 0.0f && far_out[1] == 300.0f));
}

TEST_CASE("trainer: attention sees nothing of later tokens", "[train]") {
  const auto compute = make_host_compute();
  constexpr size_t context = 96;
  Floats qkv = random_floats(context * 3 * width, 1), weights(2 * context * context), scratch(context * context);
  const Attention attention{1, context, width, 2, qkv.data(), weights.data(), scratch.data()};
  Floats out(context * width), after(context * width);
  compute->attend(attention, out.data());
  constexpr size_t changed = 70;
  for (size_t at = changed * 3 * width; at < qkv.size(); ++at) qkv[at] += 1.0f;
  compute->attend(attention, after.data());
  for (size_t at = 0; at < changed * width; ++at) REQUIRE(out[at] == after[at]);
  CHECK(out[changed * width] != after[changed * width]);
}

TEST_CASE("trainer: attention's gradients are those of finite differences", "[train]") {
  const auto compute = make_host_compute();
  for (const size_t context : {16u, 96u}) {  // 96: more than one block of rows, and an incomplete one
    constexpr size_t batch = 2, heads = 2;
    const Floats qkv = random_floats(batch * context * 3 * width, 1);
    const Floats out_gradient = random_floats(batch * context * width, 2);
    Floats weights(batch * heads * context * context), scratch(context * context), out(batch * context * width);
    Attention attention{batch, context, width, heads, nullptr, weights.data(), scratch.data()};
    const auto loss = [&](const Floats &input) {
      attention.qkv = input.data();
      compute->attend(attention, out.data());
      return dot(out, out_gradient);
    };
    (void)loss(qkv);
    Floats gradient(qkv.size(), 9.0f);
    compute->attend_backward(attention, out_gradient.data(), gradient.data());
    check_gradient("qkv, context " + std::to_string(context), qkv, gradient, loss);
  }
}

TEST_CASE("trainer: cross entropy is -log softmax, and its gradient that of finite differences", "[train]") {
  const auto compute = make_host_compute();
  const Floats logits = random_floats(rows * vocabulary, 1, 2.0);
  const std::vector<uint8_t> targets{0, 255, 7, 100, 31, 32};
  Floats losses(rows), probabilities;
  const auto loss = [&](const Floats &input) {
    probabilities = input;
    compute->cross_entropy(probabilities.data(), targets.data(), losses.data(), rows);
    double sum = 0;
    for (const float value : losses) sum += static_cast<double>(value);
    return sum;
  };
  (void)loss(logits);
  for (size_t row = 0; row < rows; ++row) {
    double total = 0;
    for (size_t at = 0; at < vocabulary; ++at) total += std::exp(static_cast<double>(logits[row * vocabulary + at]));
    CHECK(std::abs(losses[row] - (std::log(total) - logits[row * vocabulary + targets[row]])) < 1e-5);
  }
  compute->cross_entropy_backward(probabilities.data(), targets.data(), 1.0f, rows);
  const Floats gradient = probabilities;  // loss() overwrites the original
  check_gradient("logits", logits, gradient, loss);
}

TEST_CASE("trainer: embedding's gradients are those of finite differences", "[train]") {
  const auto compute = make_host_compute();
  constexpr size_t context = 3;
  const std::vector<uint8_t> tokens{5, 5, 200, 0, 5, 255};
  const Floats table = random_floats(vocabulary * width, 1), positions = random_floats(context * width, 2);
  const Floats weights = random_floats(rows * width, 3);
  Floats out(rows * width), table_gradient(table.size()), position_gradient(positions.size(), 9.0f);
  const auto loss = [&](const Floats &moved, const Floats &moved_positions) {
    compute->embed(tokens.data(), moved.data(), moved_positions.data(), out.data(), rows, context, width);
    return dot(out, weights);
  };
  compute->embed_backward(tokens.data(), weights.data(), table_gradient.data(), position_gradient.data(), rows, context,
                          width);
  check_gradient("tokens", table, table_gradient, [&](const Floats &moved) { return loss(moved, positions); });
  check_gradient("positions", positions, position_gradient, [&](const Floats &moved) { return loss(table, moved); });
}

TEST_CASE("trainer: the gradient of every tensor of the model is that of finite differences", "[train]") {
  // A single expert is always chosen. With several, a small change may choose another one (train_experts_test.cpp).
  const Shape shape{"test", 32, 2, 2, 32, GENERATE(size_t{0}, size_t{1})};
  const auto compute = make_host_compute();
  constexpr size_t batch = 2;
  Model model(shape, batch, *compute);
  REQUIRE(model.allocated());
  const Layout &layout = model.layout();
  Floats parameters(layout.count);
  initialise(layout, 3, parameters.data());
  const Floats noise = random_floats(layout.count, 4, 0.1);  // biases and gains must matter
  for (size_t at = 0; at < layout.count; ++at) parameters[at] += noise[at];
  Random random(5);
  std::vector<uint8_t> inputs(model.rows()), targets(model.rows());
  for (uint8_t &token : inputs) token = static_cast<uint8_t>(random.next());
  for (uint8_t &token : targets) token = static_cast<uint8_t>(random.next());
  const auto loss = [&](const Floats &values) {
    const float *const losses = model.forward(values.data(), inputs.data(), targets.data());
    double sum = 0;
    for (size_t row = 0; row < model.rows(); ++row) sum += static_cast<double>(losses[row]);
    return sum;
  };
  (void)loss(parameters);
  Floats gradients(layout.count, 9.0f);
  std::vector<size_t> order;
  model.backward(parameters.data(), 1.0f, gradients.data(), [&](size_t tensor) { order.push_back(tensor); });
  REQUIRE(order.size() == layout.tensors.size());
  for (size_t at = 0; at < order.size(); ++at) CHECK(order[at] == at);
  for (const Tensor &tensor : layout.tensors) {
    if (tensor.name.ends_with("router")) continue;  // with one expert, the router has no gradient
    const auto begin = static_cast<ptrdiff_t>(tensor.offset), end = begin + static_cast<ptrdiff_t>(tensor.count);
    const Floats values(parameters.begin() + begin, parameters.begin() + end);
    const Floats gradient(gradients.begin() + begin, gradients.begin() + end);
    check_gradient(tensor.name, values, gradient, [&](const Floats &moved) {
      Floats all = parameters;
      std::copy(moved.begin(), moved.end(), all.begin() + begin);
      return loss(all);
    });
  }
}
