// SPDX-License-Identifier: Apache-2.0
// This file adds up gradients over ranks, which makes training data-parallel.
//
// All gradients are one array, in the order in which the backward pass completes them. It is cut into buckets at the
// borders of tensors. When the last gradient of a bucket is complete, its collective is enqueued on the communication
// stream (lane.h). The collective runs while the backward pass computes the next bucket. Events before and after each
// collective record when it began and ended. The optimizer waits for the event after the collective. A carrier chooses
// the collective.
//
// With ZeRO, stage 1, each rank updates only its share of the parameters and then gets the shares of the other ranks.
// The parameters of a bucket are gathered while the next bucket is updated.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/trainer/exchange/carrier.h"
#include "bench/trainer/figures/traffic.h"

namespace rondo::train {

class Exchange {
 public:
  struct Settings {
    size_t bucket_bytes = 1 << 20;  ///< bytes of a bucket's gradients as floats
    Compression compression;
    bool overlap = true;
    bool sharded = false;  ///< each rank updates its share only
    uint64_t seed = 1;
  };

  /// @param same  ranks that have the same experts; without experts, it is ignored.
  Exchange(const Layout &layout, const Settings &settings, Group &group, Group &same, Compute &compute);
  Exchange(const Exchange &) = delete;
  Exchange &operator=(const Exchange &) = delete;

  /// Allocates the gradients, and makes lane, events and carrier. All ranks call it at once, before anything else.
  [[nodiscard]] Outcome open();

  [[nodiscard]] float *gradients() const { return gradients_.get(); }
  [[nodiscard]] const std::vector<Bucket> &buckets() const { return buckets_; }
  [[nodiscard]] size_t memory_bytes() const { return carrier_->memory_bytes(); }
  [[nodiscard]] size_t wire_bytes() const;      ///< bytes that one rank passes to collectives in a step
  [[nodiscard]] size_t received_bytes() const;  ///< fewest bytes that one rank must receive in these collectives
  [[nodiscard]] size_t plain_bytes() const;     ///< received_bytes() if gradients were all-reduced as floats
  [[nodiscard]] bool sharded() const { return settings_.sharded; }
  [[nodiscard]] const Carrier &carrier() const { return *carrier_; }

  void set_overlap(bool overlap) { overlap_ = overlap; }
  [[nodiscard]] bool overlap() const { return overlap_; }
  /// Sets the factor by which gradients are multiplied before they are narrowed, and by which the sums are divided.
  void set_wire_scale(float scale) { carrier_->set_scale(scale); }

  /// Records that the gradient of `tensor` is complete. Call it for the tensors in the order of the layout.
  void tensor_ready(size_t tensor);
  /// Starts the remaining collectives, and sums the `count` values of `losses`, too. All gradients must be complete.
  void finish_pass(double *losses, size_t count);
  /// Returns how long computation waited for collectives since the last call.
  [[nodiscard]] uint64_t take_waited_ns();
  /// Waits until bucket `index` has the sums over all ranks, as floats.
  void wait(size_t index);
  /// Waits for all collectives in flight, including the losses.
  /// @return a failure of this step
  [[nodiscard]] Outcome finish_step();

  /// Gets the other ranks' shares of bucket `index`, once this rank has updated its own share. Call it in the order of
  /// the buckets.
  void share(size_t index, float *parameters);

  /// Gathers `values` on all ranks, in host memory; each rank begins with its own share. Call it between steps.
  [[nodiscard]] Outcome gather_shares(float *values);

  /// Appends the last step's collectives and waits to `traffic`. Appends its buckets to `spans`, unless that is null.
  void collect(uint64_t step, std::vector<Span> *spans, Traffic &traffic);

 private:
  /// The collectives of a bucket in a step, in the order of time. Not every bucket has all of them.
  enum Round : size_t { first, second, shares, round_count };
  struct Times {
    Lane::Event began = nullptr, ended = nullptr;
    uint64_t ready_ns = 0;  ///< time at which the collective was enqueued
    bool used = false;      ///< whether this step has used the events
  };

  /// Calls `enqueue` between the two events that record the time.
  template <class Enqueue>
  void start(size_t index, Round round, const Enqueue &enqueue);
  template <class Enqueue>
  void start(Times &times, const Enqueue &enqueue);
  void start_first(size_t index);
  void start_second(size_t index);
  void wait_for(size_t index, Round round);
  void note_wait_since(uint64_t begin_ns);
  void note(Outcome outcome);
  [[nodiscard]] Lane &losses_lane() const { return losses_lane_ != nullptr ? *losses_lane_ : *lane_; }

  const Layout &layout_;
  const Settings settings_;
  Group &group_, &same_;
  Compute &compute_;
  const std::vector<Bucket> buckets_;
  bool overlap_;
  Buffer gradients_;
  std::unique_ptr<Lane> lane_;
  std::unique_ptr<Lane> losses_lane_;  ///< a lane on the host, where the losses are; null if lane_ sums them
  std::unique_ptr<Carrier> carrier_;
  std::vector<Times> times_;              ///< round_count for each bucket, and one for the losses
  std::vector<size_t> counts_, offsets_;  ///< sizes and layout offsets of the ranks' shares of each bucket
  size_t filling_ = 0;                    ///< the first bucket that is not started
  std::vector<Interval> waits_;           ///< the waits of computation in this step
  uint64_t waited_ns_ = 0;                ///< since the last take_waited_ns()
  Outcome failure_;  ///< the first failure of this step
};

}  // namespace rondo::train
