// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/run/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>
#include <utility>

#include "bench/trainer/compute/host_view.h"
#include "bench/trainer/run/lap.h"

namespace rondo::train {
namespace {

Exchange::Settings exchange_settings(const Options &options) {
  return {static_cast<size_t>(options.bucket_mb * 1'048'576.0), options.compression, options.overlap, options.sharded,
          options.seed};
}

}  // namespace

Trainer::Trainer(const Options &options, Ranks &ranks, Compute &compute, const Corpus &corpus, const Samples &samples)
    : options_(options), ranks_(ranks), data_(ranks.data()), compute_(compute), corpus_(corpus), samples_(samples),
      stage_{ranks.stage().index, ranks.stage().count},
      model_(options.shape, options.batch, compute, options.recompute, make_joint(), stage_,
             slots_of(stage_, options.accumulate)),
      whole_(make_layout(options.shape)),
      exchange_(layout(), exchange_settings(options), data_, ranks.same(), compute),
      optimizer_(pieces_of(layout(), exchange_.buckets(), options.sharded ? data_.rank() : 0,
                           options.sharded ? data_.size() : 1),
                 compute),
      schedule_{options.learning_rate, options.warmup, options.steps},
      parameters_(options.sharded ? Buffer() : compute.allocate(layout().count)),
      state_(layout(), whole_, ranks, compute, exchange_, optimizer_, parameters_),
      validation_batch_(options.batch * options.shape.context, compute.sample_memory()), losses_(batches_a_step()) {
  if (options.accumulate > 1) pass_gradients_ = compute.allocate(layout().count);
  if (stage_.count == 1) return;
  for (size_t slot = 0; slot < slots_of(stage_, options.accumulate); ++slot)
    slots_.emplace_back(model_.rows(), compute.sample_memory());
}

size_t Trainer::worker_count() const {
  return options_.mode == Mode::async_ps ? data_.size() - 1 : data_.size();
}

size_t Trainer::worker() const { return options_.mode == Mode::async_ps ? data_.rank() - 1 : data_.rank(); }

/// Makes the functions by which ranks that share a model communicate. Nothing calls them if each model has one slice.
Joint Trainer::make_joint() {
  const auto allocate = [this](size_t count) {
    Buffer sums;
    if (auto failure = allocate_shared(count, sums)) joint_failure_ = std::move(failure);
    return sums;
  };
  const auto add_up = [this](float *values, size_t count) {
    const uint64_t begin_ns = now_ns();
    auto failure = ranks_.joint().sum(values, count);
    if (failure && !joint_failure_) joint_failure_ = std::move(failure);
    joint_ns_ += now_ns() - begin_ns;
  };
  const auto exchange_counts = [this](const uint64_t *mine, uint64_t *theirs, size_t each) {
    const uint64_t begin_ns = now_ns();
    auto failure = ranks_.joint().exchange_counts(mine, theirs, each);
    if (failure) std::fill_n(theirs, each * ranks_.sharers(), 0);
    if (failure && !joint_failure_) joint_failure_ = std::move(failure);
    joint_ns_ += now_ns() - begin_ns;
  };
  const auto exchange_floats = [this](const float *send, const size_t *send_counts, float *recv,
                                      const size_t *recv_counts) {
    const uint64_t begin_ns = now_ns();
    auto failure = ranks_.joint().exchange_blocks(send, send_counts, recv, recv_counts);
    if (failure && !joint_failure_) joint_failure_ = std::move(failure);
    joint_ns_ += now_ns() - begin_ns;
  };
  const Slice slice{ranks_.slice().index, ranks_.slice().count};
  return {slice, allocate, add_up, {slice, allocate, exchange_counts, exchange_floats}};
}

Outcome Trainer::joint_failure() const {
  if (joint_failure_ || model_.allocated()) return joint_failure_;
  return Failure{Exit::usage, "there is not enough memory for the tokens that came to this rank's experts; choose a "
                              "smaller --batch or --context"};
}

Outcome Trainer::allocate() {
  if (joint_failure_) return joint_failure_;
  if (stage_.count > 1 && stage_.first())
    if (auto failure = compute_.allocate_shared(layout().tensors[layout().token].count, peer_tokens_)) return failure;
  if (options_.sharded)  // the other ranks read it in place
    if (auto failure = compute_.allocate_shared(layout().count, parameters_)) return failure;
  if (!model_.allocated() || !optimizer_.allocated() || parameters_ == nullptr ||
      (options_.accumulate > 1 && pass_gradients_ == nullptr))
    return Failure{Exit::usage, "there is not enough memory for this model and batch (" +
                                    std::to_string((model_.activation_floats() + 4 * layout().count) >> 18) +
                                    " MiB); choose a smaller --batch, --context or --model, or --recompute"};
  HostView parameters = HostView::to_fill(compute_, parameters_.get(), layout().count);
  initialise(layout(), options_.seed, parameters.get());
  parameters.write_back();
  for (size_t part = 0; part < optimizer_.part_count(); ++part)
    squares_.resize(squares_.size() + optimizer_.part(part).size());
  if (auto failure = exchange_.open()) return failure;
  return compute_.finish();
}

Outcome Trainer::begin() {
  if (auto failure = ranks_.all().broadcast(&progress_, sizeof progress_)) return failure;
  if (auto failure = state_.deal_out(progress_.step > 0)) return failure;
  const Sharing sharing{options_.shape.context, options_.batch, options_.seed, batches_a_step(),
                        worker() * options_.accumulate, options_.accumulate, progress_.step};
  if (worker() >= worker_count()) return std::nullopt;  // a parameter server
  if (!stage_.first() && !stage_.last()) return std::nullopt;  // a stage between them sees no tokens
  loader_ = std::make_unique<Loader>(corpus_, samples_, sharing, compute_.sample_memory());
  return loader_->start();
}

MemoryBytes Trainer::memory() const {
  const size_t all = layout().count * sizeof(float);
  return {.parameters = all,
          .gradients = pass_gradients_ == nullptr ? all : 2 * all,
          .optimizer = 2 * optimizer_.count() * sizeof(float),
          .activations = model_.activation_floats() * sizeof(float),
          .communication = exchange_.memory_bytes() + ranks_.memory_bytes() +
                           (peer_tokens_ == nullptr ? 0 : layout().tensors[layout().token].count * sizeof(float)),
          .computation = compute_.own_bytes()};
}

/// Handles a complete gradient. If a step has several passes, it adds their gradients in the order of the passes. The
/// sum is then the same as if each pass were on a rank of its own.
void Trainer::gradient_ready(size_t tensor, size_t pass, Work work) {
  if (options_.accumulate > 1) {
    const Tensor &about = layout().tensors[tensor];
    float *const sum = exchange_.gradients() + about.offset;
    if (pass == 0) compute_.zero(sum, about.count);
    compute_.add(pass_gradients_.get() + about.offset, sum, about.count);
  }
  if (stage_.count > 1 && tensor == layout().token) return;  // the last stage's part is not there yet
  if (sends_gradients(work, pass)) exchange_.tensor_ready(tensor);
}

Outcome Trainer::run_pass(const Batch &batch, size_t pass, Work work, StepTimes &times, std::vector<Span> *spans) {
  const uint64_t begin_ns = now_ns(), step = progress_.step + 1;
  const float *const losses = model_.forward(parameters_.get(), batch.inputs.data(), batch.targets.data());
  losses_[worker() * options_.accumulate + pass] =
      mean(HostView(compute_, losses, model_.rows()).get(), model_.rows());
  times.joint_ns += std::exchange(joint_ns_, 0);
  const uint64_t middle_ns = lap(begin_ns, Part::forward, step, times.forward_ns, spans);
  const size_t batches = options_.mode == Mode::sync ? batches_a_step() : options_.accumulate;
  const float share = 1.0f / static_cast<float>(model_.rows() * batches);
  compute_.leave_room(exchange_.overlap() && data_.size() > 1 && sends_gradients(work, pass));
  model_.backward(parameters_.get(), share, pass_gradients(),
                  [&](size_t tensor) { gradient_ready(tensor, pass, work); });
  compute_.leave_room(false);
  if (auto failure = compute_.finish()) return failure;
  const uint64_t end_ns = lap(middle_ns, Part::backward, step, times.backward_ns, spans);
  times.joint_ns += std::exchange(joint_ns_, 0);
  const uint64_t waited_ns = exchange_.take_waited_ns();
  times.backward_ns -= std::min(waited_ns, times.backward_ns);
  times.last_backward_ns = end_ns - middle_ns - std::min(waited_ns, end_ns - middle_ns);
  times.waiting_ns += waited_ns;
  return joint_failure();
}

Outcome Trainer::run_passes(Work work, StepTimes &times, std::vector<Span> *spans) {
  std::fill(losses_.begin(), losses_.end(), 0.0);
  if (work != Work::communication) compute_.take_parameters(parameters_.get(), layout().count);
  if (stage_.count > 1 && work != Work::communication) return run_pipeline(work, times, spans);
  for (size_t pass = 0; pass < options_.accumulate && work != Work::communication; ++pass) {
    const uint64_t begin_ns = now_ns();
    if (batch_ == nullptr || !rehearsing_)
      if (auto failure = loader_->next(batch_)) return failure;
    (void)lap(begin_ns, Part::data_wait, progress_.step + 1, times.data_wait_ns, spans);
    if (auto failure = run_pass(*batch_, pass, work, times, spans)) return failure;
  }
  return std::nullopt;
}

/// Waits for the buckets in the order in which they were started, and sums one bucket's squares while the next is in
/// flight. Squares are summed by pieces, so the sums do not depend on the division into buckets.
Outcome Trainer::wait_for_gradients(Work work) {
  size_t number = 0;
  for (size_t index = 0; index < exchange_.buckets().size(); ++index) {
    if (work != Work::computation) exchange_.wait(index);
    if (work == Work::communication) continue;
    for (const Piece &piece : optimizer_.part(index))
      compute_.squared_norm(exchange_.gradients() + piece.offset, piece.count, &squares_[number++]);
  }
  if (auto failure = compute_.finish()) return failure;
  split_squares_ = common_squares_ = 0;
  size_t tensor = 0;
  number = 0;
  for (size_t part = 0; part < optimizer_.part_count() && work != Work::communication; ++part) {
    for (const Piece &piece : optimizer_.part(part)) {
      while (layout().tensors[tensor].offset + layout().tensors[tensor].count <= piece.offset) ++tensor;
      const bool split = stage_.count > 1 || layout().tensors[tensor].split();
      (split ? split_squares_ : common_squares_) += squares_[number++];
    }
  }
  return std::nullopt;
}

Outcome Trainer::find_norm(Work work, StepRecord &record) {
  double squares[] = {split_squares_, common_squares_};
  const bool sharded = exchange_.sharded() && work == Work::all, split = ranks_.sharers() > 1 && work == Work::all;
  Interval time{now_ns(), 0};
  if (sharded) {
    if (auto failure = data_.sum(squares, 2)) return failure;
    traffic_.flights.push_back({{time.begin_ns, now_ns()}, false});
  }
  if (split) {
    std::vector<double> sums{squares[0]};
    if (stage_.count > 1) sums.insert(sums.end(), losses_.begin(), losses_.end());  // only the last stage has losses
    if (auto failure = ranks_.joint().sum(sums.data(), sums.size())) return failure;
    squares[0] = sums[0];
    if (stage_.count > 1) std::copy(sums.begin() + 1, sums.end(), losses_.begin());
  }
  record.norm = std::sqrt(squares[0] + squares[1]);
  if (!sharded && !split) return std::nullopt;
  time.end_ns = now_ns();
  traffic_.waits.push_back(time);
  record.times.waiting_ns += time.duration_ns();
  return std::nullopt;
}

/// Updates parameters. If each rank updates a share, the parameters of a bucket are gathered while the next bucket is
/// updated.
void Trainer::update(Work work, double norm, double rate, const float *gradients) {
  AdamUpdate update;
  update.gradient_scale = static_cast<float>(clip_scale(norm, options_.clip));
  update.learning_rate = static_cast<float>(rate);
  update.decay = static_cast<float>(options_.weight_decay);
  update.step = progress_.updates + 1;
  for (size_t part = 0; part < optimizer_.part_count(); ++part) {
    if (work != Work::communication) optimizer_.update(part, parameters_.get(), gradients, update);
    if (exchange_.sharded() && work != Work::computation) exchange_.share(part, parameters_.get());
  }
}

Outcome Trainer::run_step(Work work, StepRecord &record, std::vector<Span> *spans) {
  const bool half = options_.compression.method == Method::float16;
  StepTimes &times = record.times;
  const uint64_t begin_ns = now_ns();
  traffic_ = {};
  exchange_.set_wire_scale(half ? static_cast<float>(progress_.scale.scale) : 1.0f);
  if (auto failure = run_passes(work, times, spans)) return failure;
  const uint64_t wait_ns = now_ns();
  if (work != Work::computation) exchange_.finish_pass(losses_.data(), losses_.size());
  if (auto failure = wait_for_gradients(work)) return failure;
  if (work != Work::computation)
    if (auto failure = exchange_.finish_step()) return failure;
  if (auto failure = find_norm(work, record)) return failure;
  uint64_t unused_ns = 0;
  const uint64_t update_ns = lap(wait_ns, Part::gradient_wait, record.step, unused_ns, spans);
  record.skipped = half && !std::isfinite(record.norm);
  if (!std::isfinite(record.norm) && !half)
    return Failure{Exit::diverged, "step " + std::to_string(record.step) +
                                       ": the gradients are not finite any more; choose a smaller --learning-rate"};
  if (!record.skipped) update(work, record.norm, record.rate, exchange_.gradients());
  if (auto failure = compute_.finish()) return failure;
  uint64_t end_ns = lap(update_ns, Part::optimizer, record.step, times.optimizer_ns, spans);
  if (exchange_.sharded() && work != Work::computation) {
    if (auto failure = exchange_.finish_step()) return failure;
    end_ns = lap(end_ns, Part::parameter_wait, record.step, unused_ns, spans);
  }
  if (stage_.count > 1 && (stage_.first() || stage_.last()) && work != Work::communication) {
    if (auto failure = pass_tokens(parameters_.get() + layout().tensors[layout().token].offset, false)) return failure;
    end_ns = lap(end_ns, Part::stage_wait, record.step, times.stage_wait_ns, spans);
  }
  times.step_ns = end_ns - begin_ns;
  times.waiting_ns += exchange_.take_waited_ns();
  if (work != Work::computation) exchange_.collect(record.step, spans, traffic_);
  return std::nullopt;
}

Outcome Trainer::step(StepRecord &record, std::vector<Span> *spans) {
  record = {};
  record.step = progress_.step + 1;
  record.rate = schedule_.rate(progress_.step);
  const bool spoiled = options_.flip_bit && static_cast<size_t>(options_.flip_rank) == ranks_.all().rank();
  if (spoiled && options_.flip_step == record.step) {
    HostView first(compute_, parameters_.get(), 1);
    *first.get() = std::nextafter(*first.get(), 2.0f);
    first.write_back();
  }
  const bool own = options_.mode != Mode::sync;
  if (static_cast<size_t>(options_.delay_rank) == ranks_.all().rank())
    std::this_thread::sleep_for(std::chrono::milliseconds(options_.delay_ms));
  const LibraryCounts before = data_.counts();
  const uint64_t sent_bytes = model_.experts() == nullptr ? 0 : model_.experts()->sent_bytes();
  if (auto failure = run_step(own ? Work::computation : Work::all, record, spans)) return failure;
  const LibraryCounts after = data_.counts();
  if (model_.experts() != nullptr) record.expert_bytes = model_.experts()->sent_bytes() - sent_bytes;
  record.times.library = {after.operations - before.operations, after.bytes - before.bytes,
                          after.in_flight_ns - before.in_flight_ns, after.exposed_ns - before.exposed_ns};
  record.loss = std::accumulate(losses_.begin(), losses_.end(), 0.0) /
                static_cast<double>(own ? options_.accumulate : losses_.size());
  if (progress_.step % options_.local_steps == 0 || !own) round_losses_.clear();
  round_losses_.push_back(record.loss);
  ++progress_.step;
  if (!record.skipped) ++progress_.updates;
  if (options_.compression.method == Method::float16) progress_.scale.step_was(!record.skipped);
  return own && agreed() ? take_mean(record, spans) : std::nullopt;
}

bool Trainer::agreed() const {
  return options_.mode == Mode::sync || progress_.step % options_.local_steps == 0 || progress_.step == options_.steps;
}

Outcome Trainer::take_mean(StepRecord &record, std::vector<Span> *spans) {
  const uint64_t begin_ns = now_ns();
  for (float *const array : {parameters_.get(), optimizer_.first_moments(), optimizer_.second_moments()})
    if (auto failure = data_.average(array, layout().count)) return failure;
  if (auto failure = data_.sum(round_losses_.data(), round_losses_.size())) return failure;
  for (double &loss : round_losses_) loss /= static_cast<double>(data_.size());
  uint64_t mean_ns = 0;
  const Interval time{begin_ns, lap(begin_ns, Part::mean, record.step, mean_ns, spans)};
  traffic_.flights.push_back({time, false});
  traffic_.waits.push_back(time);
  record.times.waiting_ns += mean_ns;
  record.times.step_ns += mean_ns;
  return std::nullopt;
}

Outcome Trainer::find_gradients(StepRecord &record) {
  record.step = progress_.step + 1;
  const uint64_t begin_ns = now_ns();
  if (static_cast<size_t>(options_.delay_rank) == ranks_.all().rank())
    std::this_thread::sleep_for(std::chrono::milliseconds(options_.delay_ms));
  auto failure = run_passes(Work::computation, record.times, nullptr);
  record.loss = std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(options_.accumulate);
  record.times.step_ns = now_ns() - begin_ns;
  ++progress_.step;
  return failure;
}

bool Trainer::apply(const float *gradients) {
  double squares = 0;
  for (const Tensor &tensor : layout().tensors) {
    double square = 0;
    compute_.squared_norm(gradients + tensor.offset, tensor.count, &square);
    squares += square;
  }
  if (!std::isfinite(squares)) return false;
  update(Work::computation, std::sqrt(squares), schedule_.rate(progress_.updates / worker_count()), gradients);
  ++progress_.updates;
  return true;
}

Outcome Trainer::rehearse(Work work, bool overlap, StepTimes &times) {
  StepRecord record;
  rehearsing_ = true;
  exchange_.set_overlap(overlap);
  auto failure = run_step(work, record, nullptr);
  times = record.times;
  return failure;
}

}  // namespace rondo::train
