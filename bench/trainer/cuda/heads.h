// SPDX-License-Identifier: Apache-2.0
// This file divides the scratch of an attention on a device among the matrices of all heads.
#pragma once

#include <cmath>

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/cuda/products.h"

namespace rondo::train {

/// The matrices of all samples' heads, packed in the scratch of an attention. Products read factors of them, and
/// write floats, except for scores.
struct Heads {
  Heads(const Attention &all, const Compute &compute)
      : samples(all.batch), context(all.context), heads(all.heads), width(all.width / all.heads),
        count(all.batch * all.heads), scale(1.0f / std::sqrt(static_cast<float>(width))) {
    const size_t each = count * context * width;
    float *next = all.scratch;
    for (FactorsOut *const part : {&queries, &keys, &values, &given}) {
      *part = {next, compute.narrows()};
      next += compute.factor_floats(each);
    }
    for (float **const part : {&query_gradients, &key_gradients, &value_gradients}) next = (*part = next) + each;
    output = query_gradients;
    scores = {next, compute.narrows()};
  }

  /// Returns one product for each head of each sample.
  [[nodiscard]] ProductBatch product(Product shape, const Factors &a, const Factors &b, const FactorsOut &c) const {
    shape.a = a;
    shape.a_stride = shape.transpose_a ? shape.m : shape.k;
    shape.b = b;
    shape.b_stride = shape.transpose_b ? shape.k : shape.n;
    shape.c = c;
    shape.c_stride = shape.n;
    return {shape, count, shape.m * shape.k, shape.k * shape.n, shape.m * shape.n};
  }

  [[nodiscard]] size_t rows() const { return samples * context; }

  size_t samples, context, heads, width, count;  ///< `width` of a head; `count` of all samples' heads
  float scale;
  FactorsOut queries, keys, values, given;  ///< `given`: gradients of the output
  FactorsOut scores;                        ///< gradients of scores
  float *query_gradients, *key_gradients, *value_gradients;
  float *output;  ///< of the forward pass, in the place of query_gradients
};

}  // namespace rondo::train
