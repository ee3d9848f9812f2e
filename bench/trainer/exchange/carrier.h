// SPDX-License-Identifier: Apache-2.0
// A carrier makes the gradients of a bucket the sums over all ranks. It chooses the collectives and the form of the
// data; exchange.h chooses when.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/exchange/bucket.h"
#include "bench/trainer/exchange/compression.h"
#include "bench/trainer/lanes/lane.h"
#include "bench/trainer/lanes/group.h"

namespace rondo::train {

/// The objects that a carrier works with. All outlive it.
struct Road {
  const Layout &layout;
  const std::vector<Bucket> &buckets;
  Group &group;
  Group &same;  ///< ranks that have the same experts, which add up their gradients
  Compute &compute;
  Lane &lane;
  rondo_stream_t stream = nullptr;  ///< the lane's
  float *gradients = nullptr;
};

/// Returns the least bytes that one rank receives in all-reduces of all buckets, with elements of this size.
[[nodiscard]] size_t all_reduced_bytes(const Road &road, size_t element_bytes);

class Carrier {
 public:
  virtual ~Carrier() = default;

  /// Allocates what the buckets need on the wire.
  [[nodiscard]] virtual Outcome open() = 0;
  [[nodiscard]] virtual size_t memory_bytes() const = 0;
  /// Returns the bytes that one rank passes to collectives in a step.
  [[nodiscard]] virtual size_t wire_bytes() const = 0;
  /// Returns the least bytes that one rank must receive for that, whatever the algorithm.
  [[nodiscard]] virtual size_t received_bytes() const = 0;

  /// This rank's gradients of the bucket are there: enqueues the collective, or the first of two.
  [[nodiscard]] virtual Outcome send(size_t bucket) = 0;
  /// Returns whether a bucket takes a second collective, which depends on the result of the first one.
  [[nodiscard]] virtual bool two_rounds() const { return false; }
  /// The first collective of the bucket is complete: enqueues the second.
  [[nodiscard]] virtual Outcome send_again(size_t) { return std::nullopt; }
  /// All collectives of the bucket are complete: writes the sums to where the gradients were.
  virtual void receive(size_t bucket) = 0;

  /// Gradients are multiplied by this before they are narrowed, and divided after, where that is of use.
  virtual void set_scale(float) {}

  /// Returns this rank's own arrays that a later step depends on, and that a resumed run needs again.
  [[nodiscard]] virtual std::vector<std::span<float>> state() const { return {}; }
};

/// Sums by all-reduce, as floats or 16 bits wide. `sharded`: by reduce-scatter, a rank gets its share of each bucket.
[[nodiscard]] std::unique_ptr<Carrier> make_reduced_carrier(const Road &road, rondo_type_t type, bool sharded);
/// Every rank's gradients, as int8 or top-k, are gathered on all ranks, each of which adds them up.
[[nodiscard]] std::unique_ptr<Carrier> make_gathered_carrier(const Road &road, const Compression &compression);
/// PowerSGD.
[[nodiscard]] std::unique_ptr<Carrier> make_power_carrier(const Road &road, size_t thin_rank, uint64_t seed);

}  // namespace rondo::train
