// SPDX-License-Identifier: Apache-2.0
// This file declares the host backend's own loops, vectorised for the processor at run time. compute.h describes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/trainer/compute/compute.h"

namespace rondo::train::kernels {

void add_bias(const float *base, const float *bias, float *out, size_t rows, size_t width);
void sum_rows(const float *x, float *sums, size_t rows, size_t width);
void normalize(const float *x, const float *gain, const float *bias, float *out, float *means, float *scales,
               size_t rows, size_t width);
void normalize_backward(const float *x, const float *gain, const float *means, const float *scales,
                        const float *out_gradients, float *x_gradients, float *gain_gradients, float *bias_gradients,
                        size_t rows, size_t width);
void gelu(const float *x, float *out, size_t count);
void gelu_backward(const float *x, float *gradients, size_t count);

/// Works on `rows` rows of a causal matrix, beginning with row `first_row`. The first i + 1 elements of row i become
/// the softmax of their values times `scale`. The elements after them, up to `columns`, become zeros.
void causal_softmax(float *scores, size_t first_row, size_t rows, size_t columns, size_t stride, float scale);
/// Replaces gradients of the softmax's results by gradients of its inputs.
void softmax_backward(const float *weights, size_t weight_stride, float *gradients, size_t gradient_stride, size_t rows,
                      size_t columns, float scale);

void cross_entropy(float *logits, const uint8_t *targets, float *losses, size_t rows);
void scale(float *x, float factor, size_t count);
double squared_norm(const float *x, size_t count);

/// The factors of an update that are the same for every parameter. `gradient` multiplies the gradient, and `keep`
/// multiplies the parameter (decay). `step`, the rate, multiplies the first moment. `root` multiplies the root of the
/// second moment. `step` and `root` include the correction for moments that begin at zero.
struct AdamFactors {
  float gradient, keep, step, root;
};
void adam(const AdamUpdate &update);
void narrow_bfloat16(const float *from, uint16_t *to, float factor, size_t count);
void widen_bfloat16(const uint16_t *from, float *to, float factor, size_t count);
void narrow_float16(const float *from, uint16_t *to, float factor, size_t count);
void widen_float16(const uint16_t *from, float *to, float factor, size_t count);

}  // namespace rondo::train::kernels
