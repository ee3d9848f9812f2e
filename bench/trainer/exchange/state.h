// SPDX-License-Identifier: Apache-2.0
// This file moves a run's state between the ranks and a checkpoint on rank 0. Each rank has a part of the state, and
// the checkpoint has all of it. The state is parameters and moments in the order of the whole model's layout, and what
// compression left out on each rank. All ranks call each function together, except fill() and whole_count().
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "bench/trainer/exchange/exchange.h"
#include "bench/trainer/lanes/group.h"
#include "bench/trainer/model/optimizer.h"

namespace rondo::train {

class State {
 public:
  /// Receives the next piece of the state, on rank 0.
  using Sink = std::function<void(const float *values, size_t count)>;

  State(const Layout &layout, const Layout &whole, Ranks &ranks, Compute &compute, Exchange &exchange,
        const Optimizer &optimizer, const Buffer &parameters)
      : layout_(layout), whole_(whole), ranks_(ranks), compute_(compute), exchange_(exchange), optimizer_(optimizer),
        parameters_(parameters) {}

  /// Returns how many floats write() produces.
  [[nodiscard]] size_t whole_count() const;
  [[nodiscard]] Outcome write(const Sink &sink);

  /// Takes the floats that write() has produced, on rank 0. deal_out() uses and frees them.
  void fill(std::vector<float> values) { filled_ = std::move(values); }
  /// Sends the state from a checkpoint on rank 0 to all ranks. In a new run, sends rank 0's parameters instead.
  [[nodiscard]] Outcome deal_out(bool resumed);

 private:
  [[nodiscard]] size_t own_state_count() const;
  // Values and moments are in host memory.
  [[nodiscard]] Outcome write_array(const float *values, const Sink &sink);
  [[nodiscard]] Outcome write_stages(const float *values, const Sink &sink);
  [[nodiscard]] Outcome write_moments(const float *moments, const Sink &sink);
  [[nodiscard]] Outcome write_carrier_state(const Sink &sink);
  [[nodiscard]] Outcome deal_array(size_t array, float *values);
  [[nodiscard]] Outcome deal_moments(size_t array, float *moments);
  [[nodiscard]] Outcome deal_carrier_state();
  [[nodiscard]] Outcome deal_first_parameters();
  [[nodiscard]] Outcome deal_tokens(float *parameters);

  const Layout &layout_, &whole_;
  Ranks &ranks_;
  Compute &compute_;
  Exchange &exchange_;
  const Optimizer &optimizer_;
  const Buffer &parameters_;
  std::vector<float> filled_;
};

}  // namespace rondo::train
