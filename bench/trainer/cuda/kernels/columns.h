// SPDX-License-Identifier: Apache-2.0
// These kernels add up columns. They use no atomic additions, whose order would differ from run to run. Rows are
// divided into slices. A thread adds up one column of a slice, and a second launch adds up the slices.
#pragma once

#include "bench/trainer/cuda/kernels/block.h"

namespace rondo::train::cuda {

/// Computes sums[slice][column], the sum of x[row][column] over the rows of the slice.
struct SumColumns {
  const float *x;
  float *sums;
  uint64_t rows, width, slices;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t task = first_of(block); task < slices * width; task += step_of(block)) {
      const uint64_t slice = task / width, end = (slice + 1) * rows / slices;
      float sum = 0;
      for (uint64_t row = slice * rows / slices; row < end; ++row) sum += x[row * width + task % width];
      sums[task] = sum;
    }
  }
};

/// Computes the sums for the gradients of layer normalisation's gain and bias, otherwise like SumColumns.
struct NormalizeColumns {
  const float *x, *means, *scales, *out_gradients;
  float *gain_sums, *bias_sums;
  uint64_t rows, width, slices;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t task = first_of(block); task < slices * width; task += step_of(block)) {
      const uint64_t slice = task / width, column = task % width, end = (slice + 1) * rows / slices;
      float gain = 0, bias = 0;
      for (uint64_t row = slice * rows / slices; row < end; ++row) {
        const float gradient = out_gradients[row * width + column];
        gain += gradient * ((x[row * width + column] - means[row]) * scales[row]);
        bias += gradient;
      }
      gain_sums[task] = gain;
      bias_sums[task] = bias;
    }
  }
};

/// Adds to token_gradients. A block processes one token: it searches for the token's rows and adds up their gradients.
struct EmbedTokensBackward {
  const uint8_t *tokens;
  const float *gradients;
  float *token_gradients;
  uint64_t rows, width, token_count;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t token = block.index(); token < token_count; token += block.count()) {
      for (uint64_t column = block.thread(); column < width; column += block.threads()) {
        float sum = 0;
        for (uint64_t row = 0; row < rows; ++row)
          if (tokens[row] == token) sum += gradients[row * width + column];
        token_gradients[token * width + column] += sum;
      }
    }
  }
};

/// Writes position_gradients[position], the sum over all samples.
struct EmbedPositionsBackward {
  const float *gradients;
  float *position_gradients;
  uint64_t rows, context, width;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t at = first_of(block); at < context * width; at += step_of(block)) {
      float sum = 0;
      for (uint64_t from = at; from < rows * width; from += context * width) sum += gradients[from];
      position_gradients[at] = sum;
    }
  }
};

}  // namespace rondo::train::cuda
