// SPDX-License-Identifier: Apache-2.0
// These kernels need a whole row. Each block has one row, and its threads divide the elements among them. A Format
// (wire.h) is the type of factors. Computation itself is in floats.
#pragma once

#include <cmath>

#include "bench/trainer/cuda/kernels/block.h"
#include "bench/trainer/cuda/kernels/wire.h"

namespace rondo::train::cuda {

template <class Format>
struct Normalize {
  const float *x, *gain, *bias;
  typename Format::Element *out;
  float *means, *scales;
  uint64_t rows, width;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    const float share = 1.0f / static_cast<float>(width);
    for (uint64_t row = block.index(); row < rows; row += block.count()) {
      const float *const from = x + row * width;
      float sum = 0, squares = 0;
      for (uint64_t at = block.thread(); at < width; at += block.threads()) sum += from[at];
      const float mean = reduce<Sum>(block, sum) * share;
      for (uint64_t at = block.thread(); at < width; at += block.threads())
        squares += (from[at] - mean) * (from[at] - mean);
      const float scale = 1.0f / sqrtf(reduce<Sum>(block, squares) * share + 1e-5f);
      for (uint64_t at = block.thread(); at < width; at += block.threads())
        out[row * width + at] = Format::narrow((from[at] - mean) * scale * gain[at] + bias[at]);
      if (block.thread() == 0) {
        means[row] = mean;
        scales[row] = scale;
      }
    }
  }
};

/// Adds the gradient of the input to x_gradients. NormalizeColumns computes the gradients of gain and bias.
struct NormalizeBackward {
  const float *x, *gain, *means, *scales, *out_gradients;
  float *x_gradients;
  uint64_t rows, width;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    const float share = 1.0f / static_cast<float>(width);
    for (uint64_t row = block.index(); row < rows; row += block.count()) {
      const float *const from = x + row * width, *const given = out_gradients + row * width;
      const float mean = means[row], scale = scales[row];
      float sum = 0, product_sum = 0;
      for (uint64_t at = block.thread(); at < width; at += block.threads()) {
        const float inner = given[at] * gain[at];
        sum += inner;
        product_sum += inner * ((from[at] - mean) * scale);
      }
      const float mean_inner = reduce<Sum>(block, sum) * share;
      const float mean_product = reduce<Sum>(block, product_sum) * share;
      for (uint64_t at = block.thread(); at < width; at += block.threads()) {
        const float y = (from[at] - mean) * scale;
        x_gradients[row * width + at] += (given[at] * gain[at] - mean_inner - y * mean_product) * scale;
      }
    }
  }
};

/// The layout of a row of a token: `parts` parts, such as queries, keys and values, each of `heads` slices of `width`
/// elements. In packed arrays, the matrix of each part, sample and head is contiguous, in this order.
struct HeadLayout {
  uint64_t rows, context;
  uint32_t parts, heads, width;

  /// Calls visit(place, packed place) for each element. Each warp processes whole slices. A block of fewer than 32
  /// threads counts as a warp.
  template <class Block, class Visit>
  RONDO_TRAIN_FUNCTION void each(const Block &block, const Visit &visit) const {
    const uint32_t lanes = block.threads() < 32 ? block.threads() : 32, warps = block.threads() / lanes;
    const uint32_t slices = parts * heads;
    for (uint64_t row = block.index(); row < rows; row += block.count()) {
      const uint64_t sample = row / context, token = row % context, samples = rows / context;
      for (uint32_t slice = block.thread() / lanes; slice < slices; slice += warps) {
        const uint64_t matrix = (slice / heads * samples + sample) * heads + slice % heads;
        const uint64_t from = (row * slices + slice) * width, to = (matrix * context + token) * width;
        for (uint32_t at = block.thread() % lanes; at < width; at += lanes) visit(from + at, to + at);
      }
    }
  }
};

template <class Format>
struct PackHeads {
  const float *from;
  typename Format::Element *packed;
  HeadLayout layout;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    layout.each(block, [this](uint64_t at, uint64_t packed_at) { packed[packed_at] = Format::narrow(from[at]); });
  }
};

template <class Format>
struct UnpackHeads {
  const float *packed;
  typename Format::Element *to;
  HeadLayout layout;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    layout.each(block, [this](uint64_t at, uint64_t packed_at) { to[at] = Format::narrow(packed[packed_at]); });
  }
};

/// Processes rows of matrices of `context` rows each. The first i + 1 elements of row i become the softmax of their
/// values times `scale`. The others become 0.
template <class Format>
struct CausalSoftmax {
  typename Format::Element *scores;
  uint64_t rows, context;
  float scale;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t row = block.index(); row < rows; row += block.count()) {
      typename Format::Element *const values = scores + row * context;
      const uint64_t seen = row % context + 1;
      float most = -1e30f, sum = 0;
      for (uint64_t at = block.thread(); at < seen; at += block.threads())
        most = Greatest::of(most, Format::widen(values[at]) * scale);
      const float top = reduce<Greatest>(block, most);
      for (uint64_t at = block.thread(); at < seen; at += block.threads())
        sum += expf(Format::widen(values[at]) * scale - top);
      const float share = 1.0f / reduce<Sum>(block, sum);
      for (uint64_t at = block.thread(); at < context; at += block.threads())
        values[at] = Format::narrow(at < seen ? expf(Format::widen(values[at]) * scale - top) * share : 0.0f);
    }
  }
};

/// Replaces gradients of the softmax's results by gradients of its inputs.
template <class Format>
struct SoftmaxBackward {
  const typename Format::Element *weights;
  typename Format::Element *gradients;
  uint64_t rows, columns;
  float scale;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t row = block.index(); row < rows; row += block.count()) {
      const typename Format::Element *const weight = weights + row * columns;
      typename Format::Element *const gradient = gradients + row * columns;
      float sum = 0;
      for (uint64_t at = block.thread(); at < columns; at += block.threads())
        sum += Format::widen(weight[at]) * Format::widen(gradient[at]);
      const float mean = reduce<Sum>(block, sum);
      for (uint64_t at = block.thread(); at < columns; at += block.threads())
        gradient[at] = Format::narrow(Format::widen(weight[at]) * (Format::widen(gradient[at]) - mean) * scale);
    }
  }
};

inline constexpr uint64_t byte_values = 256;

struct CrossEntropy {
  float *logits;
  const uint8_t *targets;
  float *losses;
  uint64_t rows;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t row = block.index(); row < rows; row += block.count()) {
      float *const values = logits + row * byte_values;
      const float target = values[targets[row]];  // read before any thread writes there: reduce() has barriers
      float most = values[0], sum = 0;
      for (uint64_t at = block.thread(); at < byte_values; at += block.threads()) most = Greatest::of(most, values[at]);
      const float top = reduce<Greatest>(block, most);
      for (uint64_t at = block.thread(); at < byte_values; at += block.threads()) {
        values[at] = expf(values[at] - top);
        sum += values[at];
      }
      const float total = reduce<Sum>(block, sum);
      for (uint64_t at = block.thread(); at < byte_values; at += block.threads()) values[at] *= 1.0f / total;
      if (block.thread() == 0) losses[row] = logf(total) - (target - top);
    }
  }
};

struct CrossEntropyBackward {
  float *probabilities;
  const uint8_t *targets;
  uint64_t rows;
  float scale;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t at = first_of(block); at < rows * byte_values; at += step_of(block)) {
      const bool hit = targets[at / byte_values] == at % byte_values;
      probabilities[at] = (probabilities[at] - (hit ? 1.0f : 0.0f)) * scale;
    }
  }
};

}  // namespace rondo::train::cuda
