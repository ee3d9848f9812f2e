// SPDX-License-Identifier: Apache-2.0
// This file has the loops of the host backend for the model. Highway compiles them for each kind of processor, and
// chooses a version at run time. Lengths are multiples of 16 floats, so no loop has a remainder.
#include "bench/trainer/compute/host_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/trainer/compute/host_kernels.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace rondo::train::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Floats>;

HWY_INLINE float sum_of(Vector value) { return hn::GetLane(hn::SumOfLanes(Floats{}, value)); }

void add_bias(const float *base, const float *bias, float *out, size_t rows, size_t width) {
  const Floats d;
  for (size_t row = 0; row < rows; ++row, out += width) {
    for (size_t at = 0; at < width; at += hn::Lanes(d)) {
      Vector value = hn::LoadU(d, bias + at);
      if (base != nullptr) value = hn::Add(value, hn::LoadU(d, base + row * width + at));
      hn::StoreU(value, d, out + at);
    }
  }
}

void sum_rows(const float *x, float *sums, size_t rows, size_t width) {
  const Floats d;
  for (size_t at = 0; at < width; at += hn::Lanes(d)) hn::StoreU(hn::LoadU(d, x + at), d, sums + at);
  for (size_t row = 1; row < rows; ++row) {
    const float *const values = x + row * width;
    for (size_t at = 0; at < width; at += hn::Lanes(d))
      hn::StoreU(hn::Add(hn::LoadU(d, sums + at), hn::LoadU(d, values + at)), d, sums + at);
  }
}

void normalize(const float *x, const float *gain, const float *bias, float *out, float *means, float *scales,
               size_t rows, size_t width) {
  const Floats d;
  constexpr float epsilon = 1e-5f;
  const float share = 1.0f / static_cast<float>(width);
  for (size_t row = 0; row < rows; ++row, x += width, out += width) {
    Vector sum = hn::Zero(d);
    for (size_t at = 0; at < width; at += hn::Lanes(d)) sum = hn::Add(sum, hn::LoadU(d, x + at));
    const float mean = sum_of(sum) * share;
    const Vector means_here = hn::Set(d, mean);
    Vector squares = hn::Zero(d);
    for (size_t at = 0; at < width; at += hn::Lanes(d)) {
      const Vector off = hn::Sub(hn::LoadU(d, x + at), means_here);
      squares = hn::MulAdd(off, off, squares);
    }
    const Vector scale = hn::Div(hn::Set(d, 1.0f), hn::Sqrt(hn::Set(d, sum_of(squares) * share + epsilon)));
    for (size_t at = 0; at < width; at += hn::Lanes(d)) {
      const Vector value = hn::Mul(hn::Sub(hn::LoadU(d, x + at), means_here), scale);
      hn::StoreU(hn::MulAdd(value, hn::LoadU(d, gain + at), hn::LoadU(d, bias + at)), d, out + at);
    }
    means[row] = mean;
    scales[row] = hn::GetLane(scale);
  }
}

// Let y = (x - mean) * scale and g = gain * out_gradient. Then
// x_gradient = scale * (g - mean of g - y * mean of (g * y)).
void normalize_backward(const float *x, const float *gain, const float *means, const float *scales,
                        const float *out_gradients, float *x_gradients, float *gain_gradients, float *bias_gradients,
                        size_t rows, size_t width) {
  const Floats d;
  const float share = 1.0f / static_cast<float>(width);
  for (size_t at = 0; at < width; at += hn::Lanes(d)) {
    hn::StoreU(hn::Zero(d), d, gain_gradients + at);
    hn::StoreU(hn::Zero(d), d, bias_gradients + at);
  }
  for (size_t row = 0; row < rows; ++row, x += width, out_gradients += width, x_gradients += width) {
    const Vector mean = hn::Set(d, means[row]), scale = hn::Set(d, scales[row]);
    Vector sum = hn::Zero(d), product_sum = hn::Zero(d);
    for (size_t at = 0; at < width; at += hn::Lanes(d)) {
      const Vector y = hn::Mul(hn::Sub(hn::LoadU(d, x + at), mean), scale);
      const Vector gradient = hn::LoadU(d, out_gradients + at);
      hn::StoreU(hn::MulAdd(gradient, y, hn::LoadU(d, gain_gradients + at)), d, gain_gradients + at);
      hn::StoreU(hn::Add(gradient, hn::LoadU(d, bias_gradients + at)), d, bias_gradients + at);
      const Vector inner = hn::Mul(gradient, hn::LoadU(d, gain + at));
      sum = hn::Add(sum, inner);
      product_sum = hn::MulAdd(inner, y, product_sum);
    }
    const Vector mean_inner = hn::Set(d, sum_of(sum) * share), mean_product = hn::Set(d, sum_of(product_sum) * share);
    for (size_t at = 0; at < width; at += hn::Lanes(d)) {
      const Vector y = hn::Mul(hn::Sub(hn::LoadU(d, x + at), mean), scale);
      const Vector inner = hn::Mul(hn::LoadU(d, out_gradients + at), hn::LoadU(d, gain + at));
      const Vector change = hn::NegMulAdd(y, mean_product, hn::Sub(inner, mean_inner));
      hn::StoreU(hn::MulAdd(change, scale, hn::LoadU(d, x_gradients + at)), d, x_gradients + at);
    }
  }
}

constexpr float gelu_slope = 0.7978845608f;  // sqrt(2 / pi)
constexpr float gelu_cubic = 0.044715f;

/// Returns tanh(u), u = gelu_slope * (x + gelu_cubic * x^3), as 1 - 2 / (1 + exp(2 u)). The exp is kept finite.
HWY_INLINE Vector gelu_tanh(Vector x) {
  const Floats d;
  const Vector one = hn::Set(d, 1.0f);
  const Vector cube = hn::Mul(hn::Mul(x, x), hn::Mul(x, hn::Set(d, gelu_cubic)));
  const Vector twice = hn::Mul(hn::Set(d, 2.0f * gelu_slope), hn::Add(x, cube));
  const Vector power = hn::Exp(d, hn::Min(twice, hn::Set(d, 80.0f)));
  return hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(one, power)));
}

void gelu(const float *x, float *out, size_t count) {
  const Floats d;
  for (size_t at = 0; at < count; at += hn::Lanes(d)) {
    const Vector value = hn::LoadU(d, x + at), half = hn::Mul(value, hn::Set(d, 0.5f));
    hn::StoreU(hn::MulAdd(half, gelu_tanh(value), half), d, out + at);
  }
}

void gelu_backward(const float *x, float *gradients, size_t count) {
  const Floats d;
  const Vector one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
  for (size_t at = 0; at < count; at += hn::Lanes(d)) {
    const Vector value = hn::LoadU(d, x + at), tanh = gelu_tanh(value);
    const Vector inner = hn::Mul(
        hn::Set(d, gelu_slope), hn::MulAdd(hn::Mul(value, value), hn::Set(d, 3.0f * gelu_cubic), one));
    const Vector slope = hn::NegMulAdd(tanh, tanh, one);  // the derivative of tanh
    const Vector bent = hn::Mul(hn::Mul(value, half), hn::Mul(slope, inner));
    const Vector derivative = hn::Add(hn::MulAdd(half, tanh, half), bent);
    hn::StoreU(hn::Mul(hn::LoadU(d, gradients + at), derivative), d, gradients + at);
  }
}

void causal_softmax(float *scores, size_t first_row, size_t rows, size_t columns, size_t stride, float scale) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const Vector lowest = hn::Set(d, -1e30f), factor = hn::Set(d, scale);
  for (size_t row = 0; row < rows; ++row, scores += stride) {
    const size_t seen = first_row + row + 1;
    const size_t end = (seen + lanes - 1) / lanes * lanes;
    const auto last = hn::FirstN(d, seen - (end - lanes));  // the seen elements of the last vector
    hn::StoreU(hn::IfThenElse(last, hn::LoadU(d, scores + end - lanes), lowest), d, scores + end - lanes);
    Vector most = lowest;
    for (size_t at = 0; at < end; at += lanes) most = hn::Max(most, hn::LoadU(d, scores + at));
    const Vector top = hn::Mul(hn::MaxOfLanes(d, most), factor);
    Vector sum = hn::Zero(d);
    for (size_t at = 0; at < end; at += lanes) {
      const Vector power = hn::Exp(d, hn::MulSub(hn::LoadU(d, scores + at), factor, top));
      hn::StoreU(power, d, scores + at);
      sum = hn::Add(sum, power);
    }
    const Vector share = hn::Div(hn::Set(d, 1.0f), hn::SumOfLanes(d, sum));
    for (size_t at = 0; at < end; at += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, scores + at), share), d, scores + at);
    for (size_t at = end; at < columns; at += lanes) hn::StoreU(hn::Zero(d), d, scores + at);
  }
}

void softmax_backward(const float *weights, size_t weight_stride, float *gradients, size_t gradient_stride, size_t rows,
                      size_t columns, float scale) {
  const Floats d;
  const Vector factor = hn::Set(d, scale);
  for (size_t row = 0; row < rows; ++row, weights += weight_stride, gradients += gradient_stride) {
    Vector sum = hn::Zero(d);
    for (size_t at = 0; at < columns; at += hn::Lanes(d))
      sum = hn::MulAdd(hn::LoadU(d, weights + at), hn::LoadU(d, gradients + at), sum);
    const Vector mean = hn::SumOfLanes(d, sum);
    for (size_t at = 0; at < columns; at += hn::Lanes(d)) {
      const Vector change = hn::Sub(hn::LoadU(d, gradients + at), mean);
      hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, weights + at), change), factor), d, gradients + at);
    }
  }
}

void cross_entropy(float *logits, const uint8_t *targets, float *losses, size_t rows) {
  constexpr size_t columns = 256;
  const Floats d;
  for (size_t row = 0; row < rows; ++row, logits += columns) {
    Vector most = hn::LoadU(d, logits);
    for (size_t at = 0; at < columns; at += hn::Lanes(d)) most = hn::Max(most, hn::LoadU(d, logits + at));
    const Vector top = hn::MaxOfLanes(d, most);
    const float target = logits[targets[row]] - hn::GetLane(top);
    Vector sum = hn::Zero(d);
    for (size_t at = 0; at < columns; at += hn::Lanes(d)) {
      const Vector power = hn::Exp(d, hn::Sub(hn::LoadU(d, logits + at), top));
      hn::StoreU(power, d, logits + at);
      sum = hn::Add(sum, power);
    }
    const Vector total = hn::SumOfLanes(d, sum), share = hn::Div(hn::Set(d, 1.0f), total);
    for (size_t at = 0; at < columns; at += hn::Lanes(d))
      hn::StoreU(hn::Mul(hn::LoadU(d, logits + at), share), d, logits + at);
    losses[row] = hn::GetLane(hn::Log(d, total)) - target;
  }
}

}  // namespace rondo::train::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace rondo::train {

HWY_EXPORT(add_bias);
HWY_EXPORT(sum_rows);
HWY_EXPORT(normalize);
HWY_EXPORT(normalize_backward);
HWY_EXPORT(gelu);
HWY_EXPORT(gelu_backward);
HWY_EXPORT(causal_softmax);
HWY_EXPORT(softmax_backward);
HWY_EXPORT(cross_entropy);

namespace kernels {

void add_bias(const float *base, const float *bias, float *out, size_t rows, size_t width) {
  HWY_DYNAMIC_DISPATCH(add_bias)(base, bias, out, rows, width);
}

void sum_rows(const float *x, float *sums, size_t rows, size_t width) {
  HWY_DYNAMIC_DISPATCH(sum_rows)(x, sums, rows, width);
}

void normalize(const float *x, const float *gain, const float *bias, float *out, float *means, float *scales,
               size_t rows, size_t width) {
  HWY_DYNAMIC_DISPATCH(normalize)(x, gain, bias, out, means, scales, rows, width);
}

void normalize_backward(const float *x, const float *gain, const float *means, const float *scales,
                        const float *out_gradients, float *x_gradients, float *gain_gradients, float *bias_gradients,
                        size_t rows, size_t width) {
  HWY_DYNAMIC_DISPATCH(normalize_backward)
  (x, gain, means, scales, out_gradients, x_gradients, gain_gradients, bias_gradients, rows, width);
}

void gelu(const float *x, float *out, size_t count) { HWY_DYNAMIC_DISPATCH(gelu)(x, out, count); }

void gelu_backward(const float *x, float *gradients, size_t count) {
  HWY_DYNAMIC_DISPATCH(gelu_backward)(x, gradients, count);
}

void causal_softmax(float *scores, size_t first_row, size_t rows, size_t columns, size_t stride, float scale) {
  HWY_DYNAMIC_DISPATCH(causal_softmax)(scores, first_row, rows, columns, stride, scale);
}

void softmax_backward(const float *weights, size_t weight_stride, float *gradients, size_t gradient_stride, size_t rows,
                      size_t columns, float scale) {
  HWY_DYNAMIC_DISPATCH(softmax_backward)(weights, weight_stride, gradients, gradient_stride, rows, columns, scale);
}

void cross_entropy(float *logits, const uint8_t *targets, float *losses, size_t rows) {
  HWY_DYNAMIC_DISPATCH(cross_entropy)(logits, targets, losses, rows);
}

}  // namespace kernels
}  // namespace rondo::train

#endif  // HWY_ONCE
