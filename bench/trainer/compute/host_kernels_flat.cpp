// SPDX-License-Identifier: Apache-2.0
// This file has the loops of the host backend over flat arrays: the optimizer and conversions for the wire. It is
// compiled like host_kernels.cpp.
#include "bench/trainer/compute/host_kernels.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/trainer/compute/host_kernels_flat.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rondo::train::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Floats>;

void scale(float *x, float factor, size_t count) {
  const Floats d;
  const Vector by = hn::Set(d, factor);
  for (size_t at = 0; at < count; at += hn::Lanes(d)) hn::StoreU(hn::Mul(hn::LoadU(d, x + at), by), d, x + at);
}

/// Returns the sum of squares. Within a block it adds floats, and it adds the sums of blocks as doubles. That is exact
/// enough for any number of parameters.
double squared_norm(const float *x, size_t count) {
  const Floats d;
  constexpr size_t block = 4096;
  double total = 0;
  for (size_t begin = 0; begin < count; begin += block) {
    const size_t end = count - begin < block ? count : begin + block;
    Vector sum = hn::Zero(d);
    for (size_t at = begin; at < end; at += hn::Lanes(d)) {
      const Vector value = hn::LoadU(d, x + at);
      sum = hn::MulAdd(value, value, sum);
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return total;
}

void adam(const AdamUpdate &update, const kernels::AdamFactors &factors) {
  const Floats d;
  const Vector beta1 = hn::Set(d, update.beta1), beta2 = hn::Set(d, update.beta2);
  const Vector rest1 = hn::Set(d, 1.0f - update.beta1), rest2 = hn::Set(d, 1.0f - update.beta2);
  const Vector keep = hn::Set(d, factors.keep), step = hn::Set(d, factors.step), root = hn::Set(d, factors.root);
  const Vector epsilon = hn::Set(d, update.epsilon), by = hn::Set(d, factors.gradient);
  for (size_t at = 0; at < update.count; at += hn::Lanes(d)) {
    const Vector gradient = hn::Mul(hn::LoadU(d, update.gradients + at), by);
    const Vector first = hn::MulAdd(beta1, hn::LoadU(d, update.first_moment + at), hn::Mul(rest1, gradient));
    const Vector second =
        hn::MulAdd(beta2, hn::LoadU(d, update.second_moment + at), hn::Mul(rest2, hn::Mul(gradient, gradient)));
    hn::StoreU(first, d, update.first_moment + at);
    hn::StoreU(second, d, update.second_moment + at);
    const Vector below = hn::MulAdd(hn::Sqrt(second), root, epsilon);
    const Vector value = hn::Mul(hn::LoadU(d, update.parameters + at), keep);
    hn::StoreU(hn::Sub(value, hn::Div(hn::Mul(step, first), below)), d, update.parameters + at);
  }
}

using Integers = hn::RebindToUnsigned<Floats>;
using Halves = hn::Rebind<uint16_t, Integers>;

/// Rounds to nearest, ties to even. A NaN or infinity keeps its exponent, and a NaN gets its highest mantissa bit.
void narrow_bfloat16(const float *from, uint16_t *to, float factor, size_t count) {
  const Floats d;
  const Integers u;
  const Halves half;
  const Vector by = hn::Set(d, factor);
  for (size_t at = 0; at < count; at += hn::Lanes(d)) {
    const Vector value = hn::Mul(hn::LoadU(d, from + at), by);
    const auto bits = hn::BitCast(u, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(u, 0x7fff))));
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(u, 0x40));
    const auto is_nan = hn::Gt(hn::And(bits, hn::Set(u, 0x7fffffff)), hn::Set(u, 0x7f800000));
    const auto result = hn::IfThenElse(is_nan, quiet, rounded);
    hn::StoreU(hn::DemoteTo(half, hn::BitCast(hn::RebindToSigned<Integers>{}, result)), half, to + at);
  }
}

void widen_bfloat16(const uint16_t *from, float *to, float factor, size_t count) {
  const Floats d;
  const Integers u;
  const Vector by = hn::Set(d, factor);
  for (size_t at = 0; at < count; at += hn::Lanes(d)) {
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(u, hn::LoadU(Halves{}, from + at)));
    hn::StoreU(hn::Mul(hn::BitCast(d, bits), by), d, to + at);
  }
}

using Float16s = hn::Rebind<hwy::float16_t, Floats>;

/// Rounds to float16. Values beyond its range become infinity, and the trainer skips such a step.
void narrow_float16(const float *from, uint16_t *to, float factor, size_t count) {
  const Floats d;
  const Float16s half;
  const Vector by = hn::Set(d, factor);
  for (size_t at = 0; at < count; at += hn::Lanes(d)) {
    const auto value = hn::DemoteTo(half, hn::Mul(hn::LoadU(d, from + at), by));
    hn::StoreU(value, half, reinterpret_cast<hwy::float16_t *>(to + at));
  }
}

void widen_float16(const uint16_t *from, float *to, float factor, size_t count) {
  const Floats d;
  const Vector by = hn::Set(d, factor);
  for (size_t at = 0; at < count; at += hn::Lanes(d)) {
    const auto half = hn::LoadU(Float16s{}, reinterpret_cast<const hwy::float16_t *>(from + at));
    hn::StoreU(hn::Mul(hn::PromoteTo(d, half), by), d, to + at);
  }
}

}  // namespace rondo::train::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace rondo::train {

HWY_EXPORT(scale);
HWY_EXPORT(squared_norm);
HWY_EXPORT(adam);
HWY_EXPORT(narrow_bfloat16);
HWY_EXPORT(widen_bfloat16);
HWY_EXPORT(narrow_float16);
HWY_EXPORT(widen_float16);

namespace kernels {

void scale(float *x, float factor, size_t count) { HWY_DYNAMIC_DISPATCH(scale)(x, factor, count); }

double squared_norm(const float *x, size_t count) { return HWY_DYNAMIC_DISPATCH(squared_norm)(x, count); }

void adam(const AdamUpdate &update) {
  const auto steps = static_cast<double>(update.step);
  const double left1 = 1.0 - std::pow(static_cast<double>(update.beta1), steps);
  const double left2 = 1.0 - std::pow(static_cast<double>(update.beta2), steps);
  const auto rate = static_cast<double>(update.learning_rate);
  HWY_DYNAMIC_DISPATCH(adam)(update, {update.gradient_scale, static_cast<float>(1.0 - rate * update.decay),
                                      static_cast<float>(rate / left1), static_cast<float>(1.0 / std::sqrt(left2))});
}

void narrow_bfloat16(const float *from, uint16_t *to, float factor, size_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_bfloat16)(from, to, factor, count);
}

void widen_bfloat16(const uint16_t *from, float *to, float factor, size_t count) {
  HWY_DYNAMIC_DISPATCH(widen_bfloat16)(from, to, factor, count);
}

void narrow_float16(const float *from, uint16_t *to, float factor, size_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_float16)(from, to, factor, count);
}

void widen_float16(const uint16_t *from, float *to, float factor, size_t count) {
  HWY_DYNAMIC_DISPATCH(widen_float16)(from, to, factor, count);
}

}  // namespace kernels
}  // namespace rondo::train

#endif  // HWY_ONCE
