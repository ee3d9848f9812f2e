// SPDX-License-Identifier: Apache-2.0
// The gradients and their all-reduce: what makes training data-parallel.
//
// All gradients are one array in the order in which the backward pass completes them, cut at tensors into buckets. When
// the last gradient of a bucket is there, its all-reduce is enqueued on the communication stream, whose thread carries
// it out while the backward pass goes on with the next bucket. An event before and one after each all-reduce tell when
// it began and ended; the one after is what the optimizer waits for.
#pragma once

#include <string>
#include <vector>

#include "bench/trainer/compute.h"
#include "bench/trainer/group.h"
#include "bench/trainer/shape.h"
#include "bench/trainer/timeline.h"

namespace rondo::train {

class Exchange {
 public:
  /// Tensors [first, end) of the layout, whose gradients are floats [offset, offset + count).
  struct Bucket {
    size_t first = 0, end = 0, offset = 0, count = 0;
    rondo_event_t began = nullptr, ended = nullptr;
    uint64_t ready_ns = 0;  ///< when its all-reduce was enqueued
  };

  struct Settings {
    size_t bucket_bytes = 1 << 20;  ///< of floats
    rondo_type_t wire = RONDO_FLOAT32;
    bool overlap = true;
  };

  Exchange(const Layout &layout, const Settings &settings, Group &group, Compute &compute);
  ~Exchange();
  Exchange(const Exchange &) = delete;
  Exchange &operator=(const Exchange &) = delete;

  /// Allocates the gradients; makes stream and events.
  [[nodiscard]] Outcome open();

  [[nodiscard]] float *gradients() const { return gradients_; }
  [[nodiscard]] const std::vector<Bucket> &buckets() const { return buckets_; }
  [[nodiscard]] size_t memory_bytes() const;
  [[nodiscard]] size_t wire_bytes() const;  ///< of one rank's gradients as they are all-reduced

  void set_overlap(bool overlap) { overlap_ = overlap; }
  /// Gradients are multiplied by this before they are narrowed, and divided after.
  void set_wire_scale(float scale) { wire_scale_ = scale; }

  /// The gradient of `tensor` is there. Tensors come in the order of the layout.
  void tensor_ready(size_t tensor);
  /// All gradients are there: starts what was not started yet. losses: `count` sums over the ranks that come with them.
  void finish_pass(double *losses, size_t count);
  /// Waits until bucket `index` is reduced, and its gradients are floats again. @return the time that waiting took.
  uint64_t wait(size_t index);
  /// Waits for the losses; then nothing is under way. @return what failed in this step.
  [[nodiscard]] Outcome finish_step(uint64_t &waited_ns);

  /// When the buckets' all-reduces of the last step began and ended, added to `spans`. @return their durations' sum.
  uint64_t collect(uint64_t step, std::vector<Span> *spans) const;

 private:
  void make_buckets();
  void start(Bucket &bucket);
  void note(const char *call, rondo_status_t status);

  const Layout &layout_;
  const Settings settings_;
  Group &group_;
  Compute &compute_;
  bool overlap_;
  float wire_scale_ = 1.0f;
  float *gradients_ = nullptr;
  uint16_t *narrow_ = nullptr;  ///< the gradients as they are on the wire, where that is not as floats
  rondo_stream_t stream_ = nullptr;
  std::vector<Bucket> buckets_;
  size_t filling_ = 0;  ///< the bucket that is not started yet
  Outcome failure_;     ///< the first of this step
};

}  // namespace rondo::train
