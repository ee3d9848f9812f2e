// SPDX-License-Identifier: Apache-2.0
// How the gradients of a bucket become the sums over all ranks. exchange.h says when; a carrier knows how: by which
// collectives, and in which form.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/exchange/bucket.h"
#include "bench/trainer/exchange/compression.h"
#include "bench/trainer/exchange/lane.h"
#include "bench/trainer/exchange/group.h"

namespace rondo::train {

/// What a carrier works with, all of which outlives it.
struct Road {
  const Layout &layout;
  const std::vector<Bucket> &buckets;
  Group &group;
  Compute &compute;
  Lane &lane;
  rondo_stream_t stream = nullptr;  ///< the lane's
  float *gradients = nullptr;
};

class Carrier {
 public:
  virtual ~Carrier() = default;

  /// Allocates what the buckets need on the wire.
  [[nodiscard]] virtual Outcome open() = 0;
  [[nodiscard]] virtual size_t memory_bytes() const = 0;
  /// What one rank hands to collectives in a step.
  [[nodiscard]] virtual size_t wire_bytes() const = 0;
  /// What one rank must receive at least for that, whatever the algorithm.
  [[nodiscard]] virtual size_t received_bytes() const = 0;

  /// This rank's gradients of the bucket are there: enqueues the collective, or the first of two.
  [[nodiscard]] virtual Outcome send(size_t bucket) = 0;
  /// Whether a bucket takes a second collective, which depends on what the first one brought.
  [[nodiscard]] virtual bool two_rounds() const { return false; }
  /// The first collective of the bucket is complete: enqueues the second.
  [[nodiscard]] virtual Outcome send_again(size_t) { return std::nullopt; }
  /// All collectives of the bucket are complete: writes the sums to where the gradients were.
  virtual void receive(size_t bucket) = 0;

  /// Gradients are multiplied by this before they are narrowed, and divided after, where that is of use.
  virtual void set_scale(float) {}

  /// What a later step depends on, and a run that is resumed needs again: arrays of this rank alone.
  [[nodiscard]] virtual std::vector<std::span<float>> state() const { return {}; }
};

/// Sums by all-reduce, as floats or 16 bits wide. `sharded`: by reduce-scatter, a rank gets its share of each bucket.
[[nodiscard]] std::unique_ptr<Carrier> make_reduced_carrier(const Road &road, rondo_type_t type, bool sharded);
/// Every rank's gradients, as int8 or top-k, are gathered on all ranks, each of which adds them up.
[[nodiscard]] std::unique_ptr<Carrier> make_gathered_carrier(const Road &road, const Compression &compression);
/// PowerSGD.
[[nodiscard]] std::unique_ptr<Carrier> make_power_carrier(const Road &road, size_t thin_rank, uint64_t seed);

}  // namespace rondo::train
