// SPDX-License-Identifier: Apache-2.0
// These kernels process flat arrays, one element per thread. bench/trainer/compute/compute.h describes each.
#pragma once

#include <cmath>

#include "bench/trainer/cuda/kernels/block.h"
#include "bench/trainer/cuda/kernels/wire.h"

namespace rondo::train::cuda {

/// Writes out = base + bias for each row, or only the bias if base is null.
struct AddBias {
  const float *base, *bias;
  float *out;
  uint64_t count, width;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t at = first_of(block); at < count; at += step_of(block))
      out[at] = bias[at % width] + (base == nullptr ? 0.0f : base[at]);
  }
};

struct Add {
  const float *x;
  float *to;
  uint64_t count;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t at = first_of(block); at < count; at += step_of(block)) to[at] += x[at];
  }
};

struct Embed {
  const uint8_t *tokens;
  const float *token_table, *position_table;
  float *out;
  uint64_t rows, context, width;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t at = first_of(block); at < rows * width; at += step_of(block)) {
      const uint64_t row = at / width, column = at % width;
      out[at] = token_table[tokens[row] * width + column] + position_table[row % context * width + column];
    }
  }
};

/// Returns tanh(u), u = sqrt(2 / pi) * (x + 0.044715 x^3), as 1 - 2 / (1 + exp(2 u)). The exp is kept finite.
RONDO_TRAIN_FUNCTION inline float gelu_tanh(float x) {
  const float twice = 2.0f * 0.7978845608f * (x + x * x * (x * 0.044715f));
  return 1.0f - 2.0f / (1.0f + expf(twice < 80.0f ? twice : 80.0f));
}

template <class Format>
struct Gelu {
  const float *x;
  typename Format::Element *out;
  uint64_t count;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t at = first_of(block); at < count; at += step_of(block)) {
      const float half = 0.5f * x[at];
      out[at] = Format::narrow(half * gelu_tanh(x[at]) + half);
    }
  }
};

struct GeluBackward {
  const float *x;
  float *gradients;
  uint64_t count;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t at = first_of(block); at < count; at += step_of(block)) {
      const float value = x[at], tanh = gelu_tanh(value);
      const float inner = 0.7978845608f * (value * value * (3.0f * 0.044715f) + 1.0f);
      const float bent = value * 0.5f * ((1.0f - tanh * tanh) * inner);
      gradients[at] *= 0.5f * tanh + 0.5f + bent;
    }
  }
};

/// Updates parameters by AdamW. The host computes what is the same for every parameter of an update.
struct Adam {
  float *parameters, *first_moment, *second_moment;
  const float *gradients;
  uint64_t count;
  float beta1, beta2, epsilon;
  float scale, keep, step, root;  ///< factors of: the gradient, the parameter, the first moment, the second's root

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t at = first_of(block); at < count; at += step_of(block)) {
      const float gradient = gradients[at] * scale;
      const float first = beta1 * first_moment[at] + (1.0f - beta1) * gradient;
      const float second = beta2 * second_moment[at] + (1.0f - beta2) * (gradient * gradient);
      first_moment[at] = first;
      second_moment[at] = second;
      parameters[at] = parameters[at] * keep - step * first / (sqrtf(second) * root + epsilon);
    }
  }
};

/// Computes a sum of squares for each block. ReductionSquares adds these up.
struct Squares {
  const float *x;
  double *sums;
  uint64_t count;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    double mine = 0;
    for (uint64_t at = first_of(block); at < count; at += step_of(block))
      mine += static_cast<double>(x[at]) * static_cast<double>(x[at]);
    const double all = reduce<Sum>(block, mine);
    if (block.thread() == 0) sums[block.index()] = all;
  }
};

/// Adds up the sums of Squares, in one block.
struct ReductionSquares {
  const double *sums;
  double *total;
  uint64_t count;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    double mine = 0;
    for (uint64_t at = block.thread(); at < count; at += block.threads()) mine += sums[at];
    const double all = reduce<Sum>(block, mine);
    if (block.thread() == 0) *total = all;
  }
};

}  // namespace rondo::train::cuda
