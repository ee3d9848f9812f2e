// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/exchange/exchange.h"

#include <utility>

namespace rondo::train {
namespace {

std::unique_ptr<Carrier> make_carrier(const Road &road, const Exchange::Settings &settings) {
  switch (settings.compression.method) {
    case Method::none: break;
    case Method::bfloat16: return make_reduced_carrier(road, RONDO_BFLOAT16, settings.sharded);
    case Method::float16: return make_reduced_carrier(road, RONDO_FLOAT16, settings.sharded);
    case Method::int8:
    case Method::top_k: return make_gathered_carrier(road, settings.compression);
    case Method::power: return make_power_carrier(road, settings.compression.thin_rank, settings.seed);
  }
  return make_reduced_carrier(road, RONDO_FLOAT32, settings.sharded);
}

}  // namespace

Exchange::Exchange(const Layout &layout, const Settings &settings, Group &group, Group &same, Compute &compute)
    : layout_(layout), settings_(settings), group_(group), same_(same), compute_(compute),
      buckets_(make_buckets(layout, settings.bucket_bytes)), overlap_(settings.overlap),
      times_(buckets_.size() * round_count + 1) {  // the last one is for the losses
  for (const Bucket &bucket : buckets_) {
    for (size_t rank = 0; rank < group.size(); ++rank) {
      counts_.push_back(share_of(bucket, rank, group.size()).count);
      offsets_.push_back(share_of(bucket, rank, group.size()).offset);
    }
  }
}

Outcome Exchange::open() {
  if (auto failure = compute_.allocate_shared(layout_.count, gradients_)) return failure;
  if (auto failure = compute_.open_lane(group_, lane_)) return failure;
  if (!compute_.on_host())
    if (auto failure = open_host_lane(group_, losses_lane_)) return failure;
  for (Times &times : times_) {
    note(lane_->make_event(times.began));
    note(lane_->make_event(times.ended));
  }
  if (failure_) return failure_;
  carrier_ = make_carrier(
      {layout_, buckets_, group_, same_, compute_, *lane_, lane_->stream(), gradients_.get()}, settings_);
  return carrier_->open();
}

size_t Exchange::wire_bytes() const {
  return carrier_->wire_bytes() + (settings_.sharded ? layout_.trained * sizeof(float) / group_.size() : 0);
}

size_t Exchange::received_bytes() const {
  const size_t others = layout_.trained * sizeof(float) * (group_.size() - 1) / group_.size();
  return carrier_->received_bytes() + (settings_.sharded ? others : 0);
}

size_t Exchange::plain_bytes() const {
  const Road road{layout_, buckets_, group_, same_, compute_, *lane_};
  return all_reduced_bytes(road, sizeof(float));
}

void Exchange::note(Outcome outcome) {
  if (outcome && !failure_) failure_ = std::move(outcome);
}

template <class Enqueue>
void Exchange::start(size_t index, Round round, const Enqueue &enqueue) {
  start(times_[index * round_count + round], enqueue);
}

template <class Enqueue>
void Exchange::start(Times &times, const Enqueue &enqueue) {
  times.ready_ns = now_ns();
  times.used = true;
  note(lane_->follow_computation());
  note(lane_->record(times.began));
  enqueue();
  note(lane_->record(times.ended));
}

/// Enqueues the first round of a bucket, and then the second round of the previous bucket. A second round needs the
/// result of its bucket's first round. So between these two rounds, computation continues for one bucket. The order is
/// equal on all ranks.
void Exchange::start_first(size_t index) {
  start(index, first, [&] { note(carrier_->send(index)); });
  if (carrier_->two_rounds() && index > 0) start_second(index - 1);
}

void Exchange::start_second(size_t index) {
  wait_for(index, first);
  start(index, second, [&] { note(carrier_->send_again(index)); });
}

void Exchange::tensor_ready(size_t tensor) {
  if (overlap_ && filling_ < buckets_.size() && tensor + 1 == buckets_[filling_].end) start_first(filling_++);
}

void Exchange::finish_pass(double *losses, size_t count) {
  while (filling_ < buckets_.size()) start_first(filling_++);
  filling_ = 0;
  if (carrier_->two_rounds()) start_second(buckets_.size() - 1);
  const auto sum = [&] {
    note(group_.check("rondo_all_reduce", rondo_all_reduce(losses, losses, count, RONDO_FLOAT64, RONDO_SUM,
                                                           group_.comm(), losses_lane().stream())));
  };
  if (losses_lane_ == nullptr) return start(times_.back(), sum);
  sum();
}

uint64_t Exchange::take_waited_ns() { return std::exchange(waited_ns_, 0); }

void Exchange::note_wait_since(uint64_t begin_ns) {
  waits_.push_back({begin_ns, now_ns()});
  waited_ns_ += waits_.back().duration_ns();
}

void Exchange::wait_for(size_t index, Round round) {
  const uint64_t begin_ns = now_ns();
  note(lane_->wait(times_[index * round_count + round].ended));
  note_wait_since(begin_ns);
}

void Exchange::wait(size_t index) {
  wait_for(index, carrier_->two_rounds() ? second : first);
  carrier_->receive(index);
}

Outcome Exchange::finish_step() {
  const uint64_t begin_ns = now_ns();
  note(lane_->wait_for_all());
  if (losses_lane_ != nullptr) note(losses_lane_->wait_for_all());
  note_wait_since(begin_ns);
  return std::exchange(failure_, std::nullopt);
}

void Exchange::share(size_t index, float *parameters) {
  const size_t *const counts = counts_.data() + index * group_.size();
  const size_t *const offsets = offsets_.data() + index * group_.size();
  start(index, shares, [&] {
    note(group_.check("rondo_all_gather_v",
                      rondo_all_gather_v(parameters + offsets[group_.rank()], parameters, counts, offsets,
                                         RONDO_FLOAT32, lane_->comm(), lane_->stream())));
  });
}

Outcome Exchange::gather_shares(float *values) {
  for (size_t index = 0; index < buckets_.size(); ++index) {
    const size_t *const counts = counts_.data() + index * group_.size();
    const size_t *const offsets = offsets_.data() + index * group_.size();
    const rondo_status_t status = rondo_all_gather_v(values + offsets[group_.rank()], values, counts, offsets,
                                                     RONDO_FLOAT32, group_.comm(), nullptr);
    if (auto failure = group_.check("rondo_all_gather_v", status)) return failure;
  }
  return std::nullopt;
}

void Exchange::collect(uint64_t step, std::vector<Span> *spans, Traffic &traffic) {
  for (size_t at = 0; at < times_.size(); ++at) {
    Times &times = times_[at];
    if (!std::exchange(times.used, false)) continue;
    const bool losses = at + 1 == times_.size(), parameters = at % round_count == shares;
    Interval time;
    const bool known = lane_->time_ns(times.began, time.begin_ns) && lane_->time_ns(times.ended, time.end_ns) &&
                       time.begin_ns <= time.end_ns;
    if (!known) continue;
    traffic.flights.push_back({time, !losses && !parameters});
    if (spans != nullptr && !losses)
      spans->push_back({parameters ? Part::shares : Part::bucket, static_cast<uint32_t>(at / round_count), step,
                        time.begin_ns, time.end_ns, times.ready_ns});
  }
  lane_->times_taken();
  traffic.waits.insert(traffic.waits.end(), waits_.begin(), waits_.end());
  waits_.clear();
}

}  // namespace rondo::train
