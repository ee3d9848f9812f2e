// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rondo::train {
namespace {

constexpr double lowest_share = 0.1;  ///< of the learning rate, at the end
constexpr uint64_t growth_steps = 200;
constexpr double scale_least = 1, scale_most = 16'777'216;

}  // namespace

double Schedule::rate(uint64_t step) const {
  if (step < warmup) return highest * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const double left = steps > warmup ? static_cast<double>(steps - warmup) : 1.0;
  const double progress = std::min(static_cast<double>(step - warmup) / left, 1.0);
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return highest * (lowest_share + (1.0 - lowest_share) * cosine);
}

double clip_scale(double norm, double most) { return most > 0 && norm > most ? most / norm : 1.0; }

Optimizer::Optimizer(const Layout &layout, Compute &compute)
    : layout_(layout), compute_(compute), first_(compute.allocate(layout.count)),
      second_(compute.allocate(layout.count)) {}

void Optimizer::update(float *parameters, const float *gradients, double gradient_scale, double rate, double decay,
                       uint64_t updates) {
  AdamUpdate update;
  update.gradient_scale = static_cast<float>(gradient_scale);
  update.learning_rate = static_cast<float>(rate);
  update.step = updates + 1;
  for (const Tensor &tensor : layout_.tensors) {
    update.parameters = parameters + tensor.offset;
    update.first_moment = first_.get() + tensor.offset;
    update.second_moment = second_.get() + tensor.offset;
    update.gradients = gradients + tensor.offset;
    update.count = tensor.count;
    update.decay = tensor.decays() ? static_cast<float>(decay) : 0.0f;
    compute_.adam(update);
  }
}

void LossScale::step_was(bool finite) {
  if (!finite) {
    scale = std::max(scale / 2, scale_least);
    good_steps = 0;
  } else if (++good_steps >= growth_steps) {
    scale = std::min(scale * 2, scale_most);
    good_steps = 0;
  }
}

}  // namespace rondo::train
