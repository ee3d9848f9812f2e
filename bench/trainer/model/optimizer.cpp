// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/model/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace rondo::train {
namespace {

constexpr double lowest_share = 0.1;  ///< share of the learning rate that is left in the last step
constexpr uint64_t growth_steps = 200;
constexpr double scale_min = 1, scale_max = 16'777'216;

}  // namespace

double Schedule::rate(uint64_t step) const {
  if (step < warmup) return highest * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const double left = steps > warmup ? static_cast<double>(steps - warmup) : 1.0;
  const double progress = std::min(static_cast<double>(step - warmup) / left, 1.0);
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return highest * (lowest_share + (1.0 - lowest_share) * cosine);
}

double clip_scale(double norm, double most) { return most > 0 && norm > most ? most / norm : 1.0; }

Optimizer::Optimizer(std::vector<std::vector<Piece>> parts, Compute &compute)
    : parts_(std::move(parts)), compute_(compute) {
  for (const auto &part : parts_) {
    begins_.push_back(count_);
    for (const Piece &piece : part) count_ += piece.count;
  }
  first_ = compute.allocate(count_);
  second_ = compute.allocate(count_);
}

void Optimizer::update(size_t part, float *parameters, const float *gradients, AdamUpdate update) {
  const float decay = update.decay;
  size_t moment = begins_[part];
  for (const Piece &piece : parts_[part]) {
    update.parameters = parameters + piece.offset;
    update.first_moment = first_.get() + moment;
    update.second_moment = second_.get() + moment;
    update.gradients = gradients + piece.offset;
    update.count = piece.count;
    update.decay = piece.decays ? decay : 0.0f;
    compute_.adam(update);
    moment += piece.count;
  }
}

void LossScale::step_was(bool finite) {
  if (!finite) {
    scale = std::max(scale / 2, scale_min);
    good_steps = 0;
  } else if (++good_steps >= growth_steps) {
    scale = std::min(scale * 2, scale_max);
    good_steps = 0;
  }
}

}  // namespace rondo::train
