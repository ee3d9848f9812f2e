// SPDX-License-Identifier: Apache-2.0
// The gradients and how they are added up over ranks: what makes training data-parallel.
//
// All gradients are one array in the order in which the backward pass completes them, cut at tensors into buckets. When
// the last gradient of a bucket is complete, its collective is enqueued on the communication stream (lane.h). The
// collective runs while the backward pass computes the next bucket. An event before and an event after each collective
// record when it began and ended. The optimizer waits for the event after it. A carrier decides which collective it
// is.
//
// With ZeRO, stage 1, each rank updates only its share of the parameters and then gets the other ranks' shares. A
// bucket's parameters are gathered while the next bucket's are updated.
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
    size_t bucket_bytes = 1 << 20;  ///< of floats
    Compression compression;
    bool overlap = true;
    bool sharded = false;  ///< ranks update shares
    uint64_t seed = 1;
  };

  /// @param same  ranks that have the same experts; without experts it does not count.
  Exchange(const Layout &layout, const Settings &settings, Group &group, Group &same, Compute &compute);
  Exchange(const Exchange &) = delete;
  Exchange &operator=(const Exchange &) = delete;

  /// Allocates the gradients; makes lane, events and carrier. All ranks call it at once, before anything else.
  [[nodiscard]] Outcome open();

  [[nodiscard]] float *gradients() const { return gradients_.get(); }
  [[nodiscard]] const std::vector<Bucket> &buckets() const { return buckets_; }
  [[nodiscard]] size_t memory_bytes() const { return carrier_->memory_bytes(); }
  [[nodiscard]] size_t wire_bytes() const;      ///< that one rank hands to collectives in a step
  [[nodiscard]] size_t received_bytes() const;  ///< that one rank must receive at least for them
  [[nodiscard]] size_t plain_bytes() const;     ///< likewise, if gradients were all-reduced as floats
  [[nodiscard]] bool sharded() const { return settings_.sharded; }
  [[nodiscard]] const Carrier &carrier() const { return *carrier_; }

  void set_overlap(bool overlap) { overlap_ = overlap; }
  /// Gradients are multiplied by this before they are narrowed, and divided after.
  void set_wire_scale(float scale) { carrier_->set_scale(scale); }

  /// The gradient of `tensor` is there. Tensors come in the order of the layout.
  void tensor_ready(size_t tensor);
  /// Starts what was not started yet, once all gradients are complete. losses: `count` values, summed up, too.
  void finish_pass(double *losses, size_t count);
  /// Returns how long computation has waited for collectives since the last call.
  [[nodiscard]] uint64_t take_waited_ns();
  /// Waits until bucket `index` is summed over the ranks and its gradients are floats again.
  void wait(size_t index);
  /// Waits for all collectives in flight, also for the losses. @return what failed in this step.
  [[nodiscard]] Outcome finish_step();

  /// Gets the other ranks' shares of bucket `index`, once this rank has updated its own. Call it in the buckets' order.
  void share(size_t index, float *parameters);

  /// Gives all ranks all shares of `values`, of which each rank has one, in the host's memory. Call it between steps.
  [[nodiscard]] Outcome gather_shares(float *values);

  /// Appends the collectives and waits of the last step to `traffic`, and its buckets to `spans` unless that is null.
  void collect(uint64_t step, std::vector<Span> *spans, Traffic &traffic);

 private:
  /// Collectives that a bucket may take in a step, in the order of their times.
  enum Round : size_t { first, second, shares, round_count };
  struct Times {
    Lane::Event began = nullptr, ended = nullptr;
    uint64_t ready_ns = 0;  ///< when it was enqueued
    bool used = false;      ///< in this step
  };

  /// Enqueues by `enqueue`, between the events that take its time.
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
  std::unique_ptr<Lane> losses_lane_;  ///< of the host, where losses are, unless lane_ is
  std::unique_ptr<Carrier> carrier_;
  std::vector<Times> times_;              ///< round_count of each bucket, and the losses
  std::vector<size_t> counts_, offsets_;  ///< of each bucket, the ranks' shares, offsets as the layout's
  size_t filling_ = 0;                    ///< the bucket that is not started yet
  std::vector<Interval> waits_;           ///< of this step
  uint64_t waited_ns_ = 0;                ///< since take_waited_ns()
  Outcome failure_;  ///< the first of this step
};

}  // namespace rondo::train
