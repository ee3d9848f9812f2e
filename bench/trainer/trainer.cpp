// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/trainer.h"

#include <algorithm>
#include <cmath>

#include "bench/trainer/checksum.h"

namespace rondo::train {
namespace {

/// Adds the time since `begin_ns` to `sum_ns` and notes it as a span. @return now.
uint64_t lap(uint64_t begin_ns, Part part, uint64_t step, uint64_t &sum_ns, std::vector<Span> *spans) {
  const uint64_t end_ns = now_ns();
  sum_ns += end_ns - begin_ns;
  if (spans != nullptr) spans->push_back({part, 0, step, begin_ns, end_ns, begin_ns});
  return end_ns;
}

double mean(const float *values, size_t count) {
  double sum = 0;
  for (size_t at = 0; at < count; ++at) sum += static_cast<double>(values[at]);
  return sum / static_cast<double>(count);
}

Exchange::Settings exchange_settings(const Options &options) {
  return {static_cast<size_t>(options.bucket_mb * 1'048'576.0), options.wire, options.overlap};
}

}  // namespace

Trainer::Trainer(const Options &options, Group &group, Compute &compute, const Corpus &corpus, const Samples &samples)
    : options_(options), group_(group), compute_(compute), corpus_(corpus), samples_(samples),
      model_(options.shape, options.batch, compute),
      exchange_(model_.layout(), exchange_settings(options), group, compute), optimizer_(model_.layout(), compute),
      schedule_{options.learning_rate, options.warmup, options.steps}, parameters_(compute.allocate(layout().count)),
      losses_(group.size() * options.accumulate) {
  if (options.accumulate > 1) pass_gradients_ = compute.allocate(layout().count);
}

Outcome Trainer::allocate() {
  if (!model_.allocated() || !optimizer_.allocated() || parameters_ == nullptr ||
      (options_.accumulate > 1 && pass_gradients_ == nullptr))
    return Failure{Exit::usage, "there is not enough memory for this model and batch (" +
                                    std::to_string((model_.activation_floats() + 4 * layout().count) >> 18) +
                                    " MiB); choose a smaller --batch, --context or --model"};
  const size_t bytes = options_.batch * options_.shape.context;
  validation_batch_ = {std::vector<uint8_t>(bytes), std::vector<uint8_t>(bytes)};
  initialise(layout(), options_.seed, parameters_.get());
  return exchange_.open();
}

Outcome Trainer::begin() {
  const size_t bytes = layout().count * sizeof(float);
  for (float *const all : {parameters_.get(), optimizer_.first_moments(), optimizer_.second_moments()})
    if (auto failure = group_.broadcast(all, bytes)) return failure;
  if (auto failure = group_.broadcast(&progress_, sizeof progress_)) return failure;
  const Sharing sharing{options_.shape.context, options_.batch, options_.seed, batches_a_step(),
                        group_.rank() * options_.accumulate, options_.accumulate, progress_.step};
  loader_ = std::make_unique<Loader>(corpus_, samples_, sharing);
  return loader_->start();
}

MemoryBytes Trainer::memory() const {
  const size_t all = layout().count * sizeof(float);
  uint64_t reserved = 0, used = 0;
  (void)rondo_comm_memory(group_.comm(), &reserved, &used);
  return {all, pass_gradients_ == nullptr ? all : 2 * all, 2 * all, model_.activation_floats() * sizeof(float),
          exchange_.memory_bytes() + used};
}

/// With several passes, their gradients are added up in the order of the passes: the sum that as many ranks would make.
void Trainer::gradient_ready(size_t tensor, size_t pass, Work work) {
  if (options_.accumulate > 1) {
    const Tensor &about = layout().tensors[tensor];
    float *const sum = exchange_.gradients() + about.offset;
    if (pass == 0) compute_.zero(sum, about.count);
    compute_.add(pass_gradients_.get() + about.offset, sum, about.count);
  }
  if (work == Work::all && pass + 1 == options_.accumulate) exchange_.tensor_ready(tensor);
}

void Trainer::run_pass(const Batch &batch, size_t pass, Work work, StepTimes &times, std::vector<Span> *spans) {
  const uint64_t begin_ns = now_ns(), step = progress_.step + 1;
  const float *const losses = model_.forward(parameters_.get(), batch.inputs.data(), batch.targets.data());
  losses_[group_.rank() * options_.accumulate + pass] = mean(losses, model_.rows());
  const uint64_t middle_ns = lap(begin_ns, Part::forward, step, times.forward_ns, spans);
  const float share = 1.0f / static_cast<float>(model_.rows() * batches_a_step());
  model_.backward(parameters_.get(), share, options_.accumulate > 1 ? pass_gradients_.get() : exchange_.gradients(),
                  [&](size_t tensor) { gradient_ready(tensor, pass, work); });
  (void)lap(middle_ns, Part::backward, step, times.backward_ns, spans);
}

Outcome Trainer::run_passes(Work work, StepTimes &times, std::vector<Span> *spans) {
  std::fill(losses_.begin(), losses_.end(), 0.0);
  for (size_t pass = 0; pass < options_.accumulate && work != Work::communication; ++pass) {
    const uint64_t begin_ns = now_ns();
    if (batch_ == nullptr || !rehearsing_) batch_ = loader_->next();
    if (batch_ == nullptr)
      return Failure{Exit::usage, "no samples came within a minute; is the corpus on a disk that does not answer?"};
    (void)lap(begin_ns, Part::data_wait, progress_.step + 1, times.data_wait_ns, spans);
    run_pass(*batch_, pass, work, times, spans);
  }
  return std::nullopt;
}

/// Buckets come in the order in which they were started, and each is looked at while the next is under way.
double Trainer::wait_for_gradients(Work work, StepTimes &times) {
  double squares = 0;
  const auto &buckets = exchange_.buckets();
  for (size_t index = 0; index < buckets.size(); ++index) {
    if (work != Work::computation) times.exposed_ns += exchange_.wait(index);
    if (work == Work::communication) continue;
    for (size_t tensor = buckets[index].first; tensor < buckets[index].end; ++tensor)  // whatever the buckets are
      squares += compute_.squared_norm(layout().in(exchange_.gradients(), tensor), layout().tensors[tensor].count);
  }
  return squares;
}

Outcome Trainer::run_step(Work work, double rate, StepRecord &record, std::vector<Span> *spans) {
  const bool half = options_.wire == RONDO_FLOAT16;
  StepTimes &times = record.times;
  const uint64_t begin_ns = now_ns();
  exchange_.set_wire_scale(half ? static_cast<float>(progress_.scale.scale) : 1.0f);
  if (auto failure = run_passes(work, times, spans)) return failure;
  if (work != Work::computation) exchange_.finish_pass(losses_.data(), losses_.size());
  const uint64_t wait_ns = now_ns();
  record.norm = std::sqrt(wait_for_gradients(work, times));
  if (work != Work::computation)
    if (auto failure = exchange_.finish_step(times.exposed_ns)) return failure;
  uint64_t unused_ns = 0;
  const uint64_t update_ns = lap(wait_ns, Part::gradient_wait, record.step, unused_ns, spans);
  record.skipped = half && !std::isfinite(record.norm);
  if (!std::isfinite(record.norm) && !half)
    return Failure{Exit::diverged, "step " + std::to_string(record.step) +
                                       ": the gradients are not finite any more; choose a smaller --learning-rate"};
  if (work != Work::communication && !record.skipped)
    optimizer_.update(parameters_.get(), exchange_.gradients(), clip_scale(record.norm, options_.clip), rate,
                      options_.weight_decay, progress_.updates);
  times.step_ns = lap(update_ns, Part::optimizer, record.step, times.optimizer_ns, spans) - begin_ns;
  if (work != Work::computation) times.communication_ns = exchange_.collect(record.step, spans);
  return std::nullopt;
}

Outcome Trainer::step(StepRecord &record, std::vector<Span> *spans) {
  record = {};
  record.step = progress_.step + 1;
  record.rate = schedule_.rate(progress_.step);
  const bool spoiled = options_.flip_bit && static_cast<size_t>(options_.flip_rank) == group_.rank();
  if (spoiled && options_.flip_step == record.step)
    parameters_.get()[0] = std::nextafter(parameters_.get()[0], 2.0f);
  if (auto failure = run_step(Work::all, record.rate, record, spans)) return failure;
  double sum = 0;
  for (const double loss : losses_) sum += loss;
  record.loss = sum / static_cast<double>(losses_.size());
  ++progress_.step;
  if (!record.skipped) ++progress_.updates;
  if (options_.wire == RONDO_FLOAT16) progress_.scale.step_was(!record.skipped);
  return std::nullopt;
}

Outcome Trainer::rehearse(Work work, bool overlap, StepTimes &times) {
  StepRecord record;
  rehearsing_ = true;
  exchange_.set_overlap(overlap);
  auto failure = run_step(work, 0.0, record, nullptr);
  times = record.times;
  return failure;
}

Outcome Trainer::validate(double &loss) {
  const size_t context = options_.shape.context;
  const size_t wanted = std::min(options_.validation_batches, samples_.validation_count() / options_.batch);
  const size_t batches = std::max<size_t>(wanted, 1);  // a small corpus repeats its few samples
  std::vector<double> losses(batches, 0.0);
  for (size_t batch = group_.rank(); batch < batches; batch += group_.size()) {
    for (size_t row = 0; row < options_.batch; ++row) {
      const size_t sample = (batch * options_.batch + row) % samples_.validation_count();
      fill_row(corpus_, samples_.validation_offset(sample), context, row, validation_batch_);
    }
    losses[batch] = mean(model_.forward(parameters_.get(), validation_batch_.inputs.data(),
                                        validation_batch_.targets.data()),
                         model_.rows());
  }
  if (auto failure = group_.sum(losses.data(), batches)) return failure;
  loss = 0;
  for (const double value : losses) loss += value / static_cast<double>(batches);
  return std::nullopt;
}

Outcome Trainer::compare_ranks() {
  Checksum sum;
  sum.add(parameters_.get(), layout().count * sizeof(float));
  const uint64_t mine = sum.value();
  std::vector<uint64_t> all(group_.size());
  if (auto failure = group_.gather(&mine, sizeof mine, all.data())) return failure;
  const auto votes = [&](uint64_t value) { return std::count(all.begin(), all.end(), value); };
  const uint64_t common = *std::max_element(all.begin(), all.end(), [&](uint64_t one, uint64_t other) {
    return votes(one) < votes(other);  // the first of equals: rank 0's
  });
  std::string others;
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != common) others += (others.empty() ? "rank " : ", rank ") + std::to_string(rank);
  if (others.empty()) return std::nullopt;
  return Failure{Exit::diverged, "after step " + std::to_string(progress_.step) +
                                     " the parameters are no longer the same on all ranks: " + others +
                                     " differs from the others. Look for faulty memory there, or start again from the "
                                     "last checkpoint"};
}

}  // namespace rondo::train
