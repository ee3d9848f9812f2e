// SPDX-License-Identifier: Apache-2.0
// These tests compare every operation of the trainer's CUDA backend with the host's, on the same inputs. Kernels run as
// emulated blocks. Numbers of rows are odd. Lengths are odd unless the host's vectors need a multiple of 16.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "bench/trainer/compute/host_view.h"
#include "bench/trainer/cuda/pinned.h"
#include "bench/trainer/model/model.h"
#include "tests/gpu/train_cuda.h"

namespace {

using namespace rondo::train_cuda;

/// An operation. It returns the arrays that it leaves on a backend, one after another.
using Operation = std::function<std::vector<Floats>(Compute &)>;

void compare(const std::string &what, const Operation &operation, double tolerance = 3e-6) {
  const auto host = make_host_compute();
  const auto cuda = make_cuda();
  const std::vector<Floats> expected = operation(*host), found = operation(*cuda);
  const auto failure = cuda->finish();
  INFO(what << ": " << (failure ? failure->message : ""));
  REQUIRE_FALSE(failure.has_value());
  REQUIRE(found.size() == expected.size());
  for (size_t at = 0; at < found.size(); ++at) {
    INFO("array " << at);
    REQUIRE(found[at].size() == expected[at].size());
    CHECK(distance(found[at], expected[at]) <= tolerance);
  }
}

constexpr size_t rows = 7, width = 48;

}  // namespace

TEST_CASE("cuda trainer: products with every transposition, stride and scale are the host's", "[train]") {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      compare("product", [&](Compute &compute) {
        const Array a(compute, random_floats(9 * 9, 1)), b(compute, random_floats(9 * 9, 2));
        const Array c(compute, random_floats(5 * 8, 3));
        compute.multiply({transpose_a, transpose_b, 5, 3, 7, a, 9, b, 9, c, 8, 0.5f, 2.0f});
        compute.multiply({transpose_a, transpose_b, 2, 3, 4, a + 1, 9, b + 3, 9, c + 4, 8});
        return std::vector<Floats>{c.values()};
      });
    }
  }
}

TEST_CASE("cuda trainer: flat operations of odd lengths are the host's", "[train]") {
  for (const size_t count : {16u, 16u * 301u}) {
    compare("flat", [&](Compute &compute) {
      const Array x(compute, random_floats(count, 1, 2.0)), to(compute, random_floats(count, 2));
      const Array bent(compute, Floats(count)), gradients(compute, random_floats(count, 3));
      compute.add(x, to, count);
      compute.gelu(x, bent, count);
      compute.gelu_backward(x, gradients, count);
      compute.zero(x, count - 16);
      return std::vector<Floats>{x.values(), to.values(), bent.values(), gradients.values()};
    });
  }
  const auto cuda = make_cuda();  // without the host, whose vectors do not support these lengths
  const Floats x = random_floats(1037, 4), to = random_floats(1037, 5);
  const Array given(*cuda, x), sum(*cuda, to);
  cuda->add(given, sum, 1031);
  const Floats found = sum.values();
  for (size_t at = 0; at < found.size(); ++at) REQUIRE(found[at] == (at < 1031 ? x[at] + to[at] : to[at]));
}

TEST_CASE("cuda trainer: rows with a bias, and sums of columns in slices, are the host's", "[train]") {
  for (const size_t row_count : {size_t{1}, rows, size_t{517}}) {  // 517: several slices of rows
    compare("rows " + std::to_string(row_count), [&](Compute &compute) {
      const Array x(compute, random_floats(row_count * width, 1)), bias(compute, random_floats(width, 2));
      const Array out(compute, Floats(row_count * width)), alone(compute, Floats(row_count * width));
      const Array sums(compute, Floats(width, 9.0f));
      compute.add_bias(x, bias, out, row_count, width);
      compute.add_bias(nullptr, bias, alone, row_count, width);
      compute.sum_rows(x, sums, row_count, width);
      return std::vector<Floats>{out.values(), alone.values(), sums.values()};
    });
  }
}

TEST_CASE("cuda trainer: embeddings and their gradients are the host's, with tokens that repeat", "[train]") {
  constexpr size_t context = 3, samples = 5;
  std::vector<uint8_t> tokens = random_tokens(context * samples, 1);
  tokens[2] = tokens[9] = tokens[14] = 255;
  tokens[0] = tokens[7] = 0;
  compare("embedding", [&](Compute &compute) {
    const size_t count = tokens.size() * width;
    const Array table(compute, random_floats(vocabulary * width, 2)), out(compute, Floats(count));
    const Array places(compute, random_floats(context * width, 3)), gradients(compute, random_floats(count, 4));
    const Array table_gradients(compute, random_floats(vocabulary * width, 5));
    const Array place_gradients(compute, Floats(context * width, 9.0f));
    const uint8_t *const taken = compute.take_tokens(tokens.data(), tokens.size(), TokenPlace::inputs);
    compute.embed(taken, table, places, out, tokens.size(), context, width);
    compute.embed_backward(taken, gradients, table_gradients, place_gradients, tokens.size(), context, width);
    return std::vector<Floats>{out.values(), table_gradients.values(), place_gradients.values()};
  });
}

TEST_CASE("cuda trainer: layer normalisation and its gradients are the host's", "[train]") {
  for (const size_t row_count : {size_t{1}, rows, size_t{261}}) {
    compare("normalisation of rows " + std::to_string(row_count), [&](Compute &compute) {
      const size_t count = row_count * width;
      const Array x(compute, random_floats(count, 1, 3.0)), gain(compute, random_floats(width, 2));
      const Array bias(compute, random_floats(width, 3)), out(compute, Floats(count));
      const Array means(compute, Floats(row_count)), scales(compute, Floats(row_count));
      const Array given(compute, random_floats(count, 4)), x_gradients(compute, random_floats(count, 5));
      const Array gain_gradients(compute, Floats(width, 9.0f)), bias_gradients(compute, Floats(width, 9.0f));
      compute.normalize(x, gain, bias, out, means, scales, row_count, width);
      compute.normalize_backward(x, gain, means, scales, given, x_gradients, gain_gradients, bias_gradients, row_count,
                                 width);
      return std::vector<Floats>{out.values(),         means.values(),          scales.values(),
                         x_gradients.values(), gain_gradients.values(), bias_gradients.values()};
    });
  }
}

TEST_CASE("cuda trainer: attention and its gradients are the host's", "[train]") {
  for (const size_t context : {16u, 80u}) {  // 80: more than the host's block of rows
    compare("attention of context " + std::to_string(context), [&](Compute &compute) {
      constexpr size_t batch = 2, heads = 3;
      const size_t count = batch * context * width;
      const Array qkv(compute, random_floats(3 * count, 1)), out(compute, Floats(count));
      const Array weights(compute, Floats(batch * heads * context * context, 9.0f));
      const Array scratch(compute, Floats(compute.attention_scratch({batch, context, width, heads})));
      const Array given(compute, random_floats(count, 2)), gradients(compute, Floats(3 * count, 9.0f));
      const Attention attention{batch, context, width, heads, qkv, {static_cast<float *>(weights)}, scratch};
      compute.attend(attention, out);
      compute.attend_backward(attention, given, gradients);
      return std::vector<Floats>{out.values(), gradients.values()};
    });
  }
}

TEST_CASE("cuda trainer: cross entropy and its gradients are the host's", "[train]") {
  const std::vector<uint8_t> targets{0, 255, 7, 100, 31, 32, 7};
  compare("cross entropy", [&](Compute &compute) {
    const Array logits(compute, random_floats(rows * vocabulary, 1, 4.0)), losses(compute, Floats(rows));
    const uint8_t *const taken = compute.take_tokens(targets.data(), rows, TokenPlace::targets);
    compute.cross_entropy(logits, taken, losses, rows);
    const Floats probabilities = logits.values();
    compute.cross_entropy_backward(logits, taken, 0.25f, rows);
    return std::vector<Floats>{losses.values(), probabilities, logits.values()};
  });
}

TEST_CASE("cuda trainer: many norms at a time are the host's, and tell what is not finite", "[train]") {
  constexpr size_t count = 16 * 512;  // more blocks than a block has threads
  constexpr size_t norms = 1'030;     // more than one delivery holds
  std::vector<std::vector<double>> found;
  for (const bool on_device : {false, true}) {
    const auto compute = on_device ? make_cuda() : make_host_compute();
    Floats values = random_floats(count, 1);
    const Array x(*compute, values);
    values[777] = std::numeric_limits<float>::infinity();
    const Array infinite(*compute, values);
    std::vector<double> &sums = found.emplace_back(norms);
    for (size_t at = 0; at + 1 < norms; ++at)
      compute->squared_norm(x, at < 8 ? count - at * 16 : 16 + at % 2 * 16, &sums[at]);
    compute->squared_norm(infinite, count, &sums[norms - 1]);
    REQUIRE_FALSE(compute->finish().has_value());
  }
  for (size_t at = 0; at + 1 < norms; ++at) REQUIRE(found[1][at] == Approx(found[0][at]).epsilon(1e-6));
  CHECK_FALSE(std::isfinite(found[1].back()));
}

TEST_CASE("cuda trainer: steps of AdamW are the host's", "[train]") {
  compare("AdamW", [](Compute &compute) {
    constexpr size_t count = 16 * 19;
    const Array parameters(compute, random_floats(count, 1)), gradients(compute, random_floats(count, 2));
    const Array first(compute, Floats(count)), second(compute, Floats(count));
    AdamUpdate update{parameters, first, second, gradients, count};
    update.gradient_scale = 0.3f;
    update.learning_rate = 0.01f;
    update.decay = 0.1f;
    for (update.step = 1; update.step <= 3; ++update.step) compute.adam(update);
    return std::vector<Floats>{parameters.values(), first.values(), second.values()};
  });
}

TEST_CASE("cuda trainer: conversions for the wire have the host's bits, special values included", "[train]") {
  constexpr float huge = std::numeric_limits<float>::max(), infinity = std::numeric_limits<float>::infinity();
  Floats values = random_floats(16 * 40, 1, 100.0);
  for (const float value : {0.0f, -0.0f, 65'504.0f, 65'519.0f, 65'520.0f, -65'536.0f, 6.1e-5f, 6.0e-5f, 5.96e-8f,
                            2.98e-8f, 2.99e-8f, 1e-9f, -3e-8f, huge, -huge, infinity, -infinity, 1e-40f, 1.00048828125f,
                            1.00146484375f, 1.00390625f, 1.01171875f})
    values.push_back(value);
  values.resize((values.size() + 15) / 16 * 16, std::numeric_limits<float>::quiet_NaN());
  for (const rondo_type_t type : {RONDO_BFLOAT16, RONDO_FLOAT16}) {
    std::vector<std::vector<uint32_t>> found;
    for (const bool on_device : {false, true}) {
      const auto compute = on_device ? make_cuda() : make_host_compute();
      const Array from(*compute, values), narrow(*compute, Floats(values.size() / 2));
      const Array wide(*compute, Floats(values.size()));
      compute->narrow(from, narrow, type, 1.0f, values.size());
      compute->widen(narrow, type, wide, 0.5f, values.size());
      std::vector<uint32_t> &bits = found.emplace_back();
      for (const Floats &array : {narrow.values(), wide.values()}) {
        bits.resize(bits.size() + array.size());
        std::memcpy(bits.data() + bits.size() - array.size(), array.data(), array.size() * sizeof(float));
      }
    }
    for (size_t at = 0; at < found[0].size(); ++at) {
      INFO("type " << type << ", word " << at);
      REQUIRE(found[1][at] == found[0][at]);
    }
  }
}

TEST_CASE("cuda trainer: losses and gradients of a model are the host's, recomputed or not", "[train]") {
  const Shape shape{"test", 32, 2, 2, 16};
  constexpr size_t batch = 3;
  const auto inputs = random_tokens(batch * shape.context, 1), targets = random_tokens(batch * shape.context, 2);
  for (const bool recompute : {false, true}) {
    compare("model", [&](Compute &compute) {
      Model model(shape, batch, compute, recompute);
      REQUIRE(model.allocated());
      Floats values(model.layout().count);
      initialise(model.layout(), 3, values.data());
      const Array parameters(compute, values), gradients(compute, Floats(values.size(), 9.0f));
      const float *const losses = model.forward(parameters, inputs.data(), targets.data());
      const Floats found = [&] {
        HostView view(compute, losses, model.rows());
        return Floats(view.get(), view.get() + model.rows());
      }();
      model.backward(parameters, 0.01f, gradients, [](size_t) {});
      return std::vector<Floats>{found, gradients.values()};
    }, 1e-5);
  }
}

TEST_CASE("cuda trainer: samples lie in pinned memory", "[train]") {
  const auto compute = make_cuda();
  std::pmr::vector<uint8_t> bytes(100, compute->sample_memory());
  const auto *const pinned = static_cast<const PinnedMemory *>(compute->sample_memory());
  CHECK(pinned->pinned_count() == 1);
  { const std::pmr::vector<uint8_t> more(bytes, compute->sample_memory()); CHECK(pinned->pinned_count() == 2); }
  CHECK(pinned->pinned_count() == 1);
}
