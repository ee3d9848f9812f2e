// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/model/experts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

namespace rondo::train {
namespace {

constexpr size_t factor = 4;  ///< width of an expert's hidden layer, divided by the model's width

void softmax(float *values, size_t count) {
  const float most = *std::max_element(values, values + count);
  float sum = 0;
  for (size_t at = 0; at < count; ++at) sum += values[at] = std::exp(values[at] - most);
  for (size_t at = 0; at < count; ++at) values[at] /= sum;
}

float dot(const float *x, const float *y, size_t count) {
  float sum = 0;
  for (size_t at = 0; at < count; ++at) sum += x[at] * y[at];
  return sum;
}

}  // namespace

Experts::Experts(const Shape &shape, size_t rows, Compute &compute, ExpertRoads roads)
    : shape_(shape), rows_(rows), compute_(compute), roads_(std::move(roads)), layers_(shape.layers) {
  for (Kept &kept : layers_) {
    kept.chances = take(rows * shape.experts, false);
    kept.results = take(rows * shape.width, false);
    kept.chosen.resize(rows);
    kept.places.resize(rows);
    kept.arrived.resize(shape.experts);
  }
  outgoing_ = take(rows * shape.width, true);
  chance_gradients_ = take(rows * shape.experts, false);
  bias_sums_ = take(factor * shape.width, false);
}

Buffer Experts::take(size_t count, bool travels) {
  Buffer memory = travels && divided() ? roads_.allocate(count) : compute_.allocate(count);
  allocated_ = allocated_ && memory != nullptr;
  float_count_ += count;
  return memory;
}

/// Enlarges `memory`, with some room to spare, because the number of rows that arrive differs from pass to pass.
void Experts::grow(Growing &memory, size_t count, bool travels) {
  if (count <= memory.count) return;
  float_count_ -= memory.count;
  memory.memory = nullptr;
  memory.count = count + count / 4;
  memory.memory = take(memory.count, travels);
}

void Experts::route(const float *x, const float *router, Kept &kept) {
  const size_t experts = shape_.experts, width = shape_.width;
  compute_.multiply({false, true, rows_, experts, width, x, width, router, width, kept.chances.get(), experts});
  kept.counts.assign(experts, 0);
  for (size_t row = 0; row < rows_; ++row) {
    float *const chances = kept.chances.get() + row * experts;
    kept.chosen[row] = static_cast<uint32_t>(std::max_element(chances, chances + experts) - chances);
    softmax(chances, experts);
    ++kept.counts[kept.chosen[row]];
  }
  std::vector<size_t> next(experts);
  std::exclusive_scan(kept.counts.begin(), kept.counts.end(), next.begin(), size_t{0});
  for (size_t row = 0; row < rows_; ++row) kept.places[row] = next[kept.chosen[row]]++;
}

void Experts::exchange_counts(Kept &kept) {
  if (divided()) {
    roads_.exchange_counts(kept.counts.data(), kept.arrived.data(), own_count());
  } else {
    kept.arrived = kept.counts;
  }
}

void Experts::move(const Kept &kept, const float *from, float *to, bool back) {
  const size_t ranks = roads_.slice.count, own = own_count();
  if (!divided()) {
    std::memcpy(to, from, rows_ * shape_.width * sizeof(float));
    return;
  }
  std::vector<size_t> there(ranks), here(ranks);
  for (size_t expert = 0; expert < shape_.experts; ++expert) {
    there[expert / own] += kept.counts[expert] * shape_.width;
    here[expert / own] += kept.arrived[expert] * shape_.width;
  }
  const std::vector<size_t> &sent = back ? here : there;
  for (size_t rank = 0; rank < ranks; ++rank)
    if (rank != roads_.slice.index) sent_bytes_ += sent[rank] * sizeof(float);
  roads_.exchange_floats(from, sent.data(), to, (back ? there : here).data());
}

template <class Visit>
void Experts::each_part(const Kept &kept, const Visit &visit) const {
  size_t first = 0;
  for (size_t at = 0; at < kept.arrived.size(); ++at) {
    if (kept.arrived[at] > 0) visit(at % own_count(), first, kept.arrived[at]);
    first += kept.arrived[at];
  }
}

void Experts::forward(size_t layer, const ExpertFloats<const float> &parameters, const float *x, const float *base,
                      float *out) {
  const size_t width = shape_.width, wide = factor * width, experts = shape_.experts;
  Kept &kept = layers_[layer];
  route(x, parameters.router, kept);
  for (size_t row = 0; row < rows_; ++row)
    std::copy_n(x + row * width, width, outgoing_.get() + kept.places[row] * width);
  exchange_counts(kept);
  const size_t came = std::max<size_t>(std::accumulate(kept.arrived.begin(), kept.arrived.end(), size_t{0}), 1);
  grow(kept.tokens, came * width, false);
  grow(kept.up, came * wide, false);
  grow(kept.bent, came * wide, false);
  grow(incoming_, came * width, true);
  if (!allocated_) return;  // the other ranks wait until this one ends
  move(kept, outgoing_.get(), kept.tokens.get(), false);
  each_part(kept, [&](size_t expert, size_t first, size_t count) {
    float *const up = kept.up.get() + first * wide, *const bent = kept.bent.get() + first * wide;
    float *const result = incoming_.get() + first * width;
    compute_.add_bias(nullptr, parameters.up_bias + expert * wide, up, count, wide);
    compute_.multiply({false, true, count, wide, width, kept.tokens.get() + first * width, width,
                       parameters.up_weight + expert * wide * width, width, up, wide, 1.0f, 1.0f});
    compute_.gelu(up, bent, count * wide);
    compute_.add_bias(nullptr, parameters.down_bias + expert * width, result, count, width);
    compute_.multiply({false, true, count, width, wide, bent, wide, parameters.down_weight + expert * wide * width,
                       wide, result, width, 1.0f, 1.0f});
  });
  move(kept, incoming_.get(), kept.results.get(), true);
  for (size_t row = 0; row < rows_; ++row) {
    const float chance = kept.chances.get()[row * experts + kept.chosen[row]];
    const float *const result = kept.results.get() + kept.places[row] * width;
    for (size_t at = row * width; at < (row + 1) * width; ++at) out[at] = base[at] + chance * result[at - row * width];
  }
}

/// Computes the experts' gradients. incoming_ holds gradients of results on entry, and gradients of tokens on return.
void Experts::expert_backward(Kept &kept, const ExpertFloats<const float> &parameters,
                              const ExpertFloats<float> &gradients) {
  const size_t width = shape_.width, wide = factor * width, own = own_count();
  compute_.zero(gradients.up_weight, own * wide * width);
  compute_.zero(gradients.up_bias, own * wide);
  compute_.zero(gradients.down_weight, own * wide * width);
  compute_.zero(gradients.down_bias, own * width);
  each_part(kept, [&](size_t expert, size_t first, size_t count) {
    float *const flow = incoming_.get() + first * width, *const inside = wide_.get() + first * wide;
    const float *const bent = kept.bent.get() + first * wide, *const tokens = kept.tokens.get() + first * width;
    const size_t weights = expert * wide * width;
    compute_.multiply({true, false, width, wide, count, flow, width, bent, wide, gradients.down_weight + weights, wide,
                       1.0f, 1.0f});
    compute_.sum_rows(flow, bias_sums_.get(), count, width);
    compute_.add(bias_sums_.get(), gradients.down_bias + expert * width, width);
    compute_.multiply({false, false, count, wide, width, flow, width, parameters.down_weight + weights, wide, inside,
                       wide});
    compute_.gelu_backward(kept.up.get() + first * wide, inside, count * wide);
    compute_.multiply({true, false, wide, width, count, inside, wide, tokens, width, gradients.up_weight + weights,
                       width, 1.0f, 1.0f});
    compute_.sum_rows(inside, bias_sums_.get(), count, wide);
    compute_.add(bias_sums_.get(), gradients.up_bias + expert * wide, wide);
    compute_.multiply({false, false, count, width, wide, inside, wide, parameters.up_weight + weights, width, flow,
                       width});
  });
}

void Experts::backward(size_t layer, const ExpertFloats<const float> &parameters, const float *x,
                       const float *out_gradients, const ExpertFloats<float> &gradients, float *x_gradients) {
  const size_t width = shape_.width, experts = shape_.experts;
  Kept &kept = layers_[layer];
  grow(wide_, kept.up.count, false);
  if (!allocated_) return;
  for (size_t row = 0; row < rows_; ++row) {
    const float *const flow = out_gradients + row * width, *const chances = kept.chances.get() + row * experts;
    const size_t place = kept.places[row] * width, chosen = kept.chosen[row];
    const float chance = chances[chosen], of_chance = dot(flow, kept.results.get() + place, width);
    for (size_t at = 0; at < width; ++at) outgoing_.get()[place + at] = chance * flow[at];
    float *const products = chance_gradients_.get() + row * experts;
    for (size_t expert = 0; expert < experts; ++expert)
      products[expert] = of_chance * chance * ((expert == chosen ? 1.0f : 0.0f) - chances[expert]);
  }
  move(kept, outgoing_.get(), incoming_.get(), false);
  expert_backward(kept, parameters, gradients);
  move(kept, incoming_.get(), outgoing_.get(), true);
  for (size_t row = 0; row < rows_; ++row)
    std::copy_n(outgoing_.get() + kept.places[row] * width, width, x_gradients + row * width);
  const float *const products = chance_gradients_.get();
  compute_.multiply({false, false, rows_, width, experts, products, experts, parameters.router, width, x_gradients,
                     width, 1.0f, 1.0f});
  compute_.multiply({true, false, experts, width, rows_, products, experts, x, width, gradients.router, width});
}

}  // namespace rondo::train
