// SPDX-License-Identifier: Apache-2.0
// This file is for a trainer that is a stage of a pipeline. The passes of a step follow each other through the stages
// by 1F1B (turns.h). Messages carry activations to the next stage and their gradients back. They go through the
// communicator of all ranks, so that a failure names a rank by its number in the run.
#include <utility>

#include "bench/trainer/compute/host_view.h"
#include "bench/trainer/run/lap.h"
#include "bench/trainer/run/trainer.h"

namespace rondo::train {

Outcome Trainer::exchange_stages(const Turn &turn) {
  const size_t rank = ranks_.all().rank(), count = model_.rows() * options_.shape.width;
  const size_t slot = turn.pass % slots_of(stage_, options_.accumulate);
  std::vector<Message> messages;
  if (turn.to_next && !stage_.last()) messages.push_back({model_.output(), count, rank + 1, false});
  if (turn.from_next && !stage_.last()) messages.push_back({model_.flow(), count, rank + 1, true});
  if (turn.to_previous && !stage_.first()) messages.push_back({model_.flow(), count, rank - 1, false});
  if (turn.from_previous && !stage_.first()) messages.push_back({model_.input(slot), count, rank - 1, true});
  return messages.empty() ? std::nullopt : ranks_.all().exchange(messages);
}

Outcome Trainer::run_turn(const Turn &turn, Work work, StepTimes &times, std::vector<Span> *spans) {
  const uint64_t begin_ns = now_ns(), step = progress_.step + 1;
  const size_t slot = turn.pass % slots_of(stage_, options_.accumulate);
  if (turn.kind == Turn::Kind::messages) {
    auto failure = exchange_stages(turn);
    (void)lap(begin_ns, Part::stage_wait, step, times.stage_wait_ns, spans);
    return failure;
  }
  if (turn.kind == Turn::Kind::forward) {
    if (loader_ != nullptr && (batch_ == nullptr || !rehearsing_))
      if (auto failure = loader_->next(batch_)) return failure;
    if (loader_ != nullptr) slots_[slot] = *batch_;
    const uint64_t loaded_ns = lap(begin_ns, Part::data_wait, step, times.data_wait_ns, spans);
    const float *const losses =
        model_.forward(parameters_.get(), slots_[slot].inputs.data(), slots_[slot].targets.data(), slot);
    if (losses != nullptr)
      losses_[worker() * options_.accumulate + turn.pass] =
          mean(HostView(compute_, losses, model_.rows()).get(), model_.rows());
    (void)lap(loaded_ns, Part::forward, step, times.forward_ns, spans);
    return std::nullopt;
  }
  const float share = 1.0f / static_cast<float>(model_.rows() * batches_a_step());
  model_.backward(parameters_.get(), share, pass_gradients(),
                  [&](size_t tensor) { gradient_ready(tensor, turn.pass, work); }, slot);
  times.last_backward_ns = lap(begin_ns, Part::backward, step, times.backward_ns, spans) - begin_ns;
  return compute_.finish();
}

Outcome Trainer::run_pipeline(Work work, StepTimes &times, std::vector<Span> *spans) {
  const uint64_t begin_ns = now_ns();
  for (const Turn &turn : turns_of(stage_, options_.accumulate))
    if (auto failure = run_turn(turn, work, times, spans)) return failure;
  times.passes_ns = now_ns() - begin_ns;
  if (!stage_.first() && !stage_.last()) return std::nullopt;
  const uint64_t joining_ns = now_ns();
  if (auto failure = join_tokens()) return failure;
  (void)lap(joining_ns, Part::stage_wait, progress_.step + 1, times.stage_wait_ns, spans);
  if (work == Work::all && stage_.first()) exchange_.tensor_ready(layout().token);
  return std::nullopt;
}

/// Adds the last stage's gradient to the first stage's. Only the first stage sums the total over the model's copies. If
/// the last stage did so, too, its sum would differ: an element's place in a bucket decides the order of additions.
Outcome Trainer::join_tokens() {
  const Tensor &token = layout().tensors[layout().token];
  float *const mine = exchange_.gradients() + token.offset;
  if (auto failure = pass_tokens(stage_.first() ? peer_tokens_.get() : mine, true)) return failure;
  if (stage_.first()) compute_.add(peer_tokens_.get(), mine, token.count);
  return std::nullopt;
}

Outcome Trainer::pass_tokens(float *values, bool to_first) {
  const size_t first = ranks_.all().rank() - stage_.index, peer = stage_.first() ? first + stage_.count - 1 : first;
  const Message message{values, layout().tensors[layout().token].count, peer, stage_.first() == to_first};
  return ranks_.all().exchange({&message, 1});
}

}  // namespace rondo::train
