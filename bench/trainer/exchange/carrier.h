// SPDX-License-Identifier: Apache-2.0
// A carrier replaces the gradients of a bucket by their sums over all ranks. It chooses the collectives and the form of
// the data. exchange.h decides when a bucket is sent.
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

/// The objects that a carrier uses. All of them outlive it.
struct Road {
  const Layout &layout;
  const std::vector<Bucket> &buckets;
  Group &group;
  Group &same;  ///< ranks that have the same experts, and add up the gradients of these experts
  Compute &compute;
  Lane &lane;
  rondo_stream_t stream = nullptr;  ///< stream of the lane
  float *gradients = nullptr;
};

/// Returns the fewest bytes that a rank can receive in all-reduces of all buckets, with elements of this size.
[[nodiscard]] size_t all_reduced_bytes(const Road &road, size_t element_bytes);

class Carrier {
 public:
  virtual ~Carrier() = default;

  /// Allocates the memory that sending the buckets needs.
  [[nodiscard]] virtual Outcome open() = 0;
  [[nodiscard]] virtual size_t memory_bytes() const = 0;
  /// Returns how many bytes one rank passes to collectives in a step.
  [[nodiscard]] virtual size_t wire_bytes() const = 0;
  /// Returns the least number of bytes that one rank must receive in these collectives, with any algorithm.
  [[nodiscard]] virtual size_t received_bytes() const = 0;

  /// Enqueues the bucket's first or only collective. This rank's part of the bucket must be complete.
  [[nodiscard]] virtual Outcome send(size_t bucket) = 0;
  /// Says whether a bucket needs a second collective, which depends on the result of the first one.
  [[nodiscard]] virtual bool two_rounds() const { return false; }
  /// Enqueues the second collective of the bucket, after the first one is complete.
  [[nodiscard]] virtual Outcome send_again(size_t) { return std::nullopt; }
  /// Writes the sums to where the gradients were, after all collectives of the bucket are complete.
  virtual void receive(size_t bucket) = 0;

  /// Sets the factor that multiplies gradients before narrowing and later divides the sums. Some carriers ignore it.
  virtual void set_scale(float) {}

  /// Returns the arrays of this rank on which later steps depend, and which a resumed run needs.
  [[nodiscard]] virtual std::vector<std::span<float>> state() const { return {}; }
};

/// Makes a carrier that sums floats, or a type of 16 bits, by all-reduce. If `sharded`, the carrier uses
/// reduce-scatter, and a rank gets only its share of each bucket.
[[nodiscard]] std::unique_ptr<Carrier> make_reduced_carrier(const Road &road, rondo_type_t type, bool sharded);
/// Makes a carrier that gathers all ranks' gradients, as int8 or top-k, on every rank. Each rank adds them up.
[[nodiscard]] std::unique_ptr<Carrier> make_gathered_carrier(const Road &road, const Compression &compression);
/// Makes a carrier for PowerSGD.
[[nodiscard]] std::unique_ptr<Carrier> make_power_carrier(const Road &road, size_t thin_rank, uint64_t seed);

}  // namespace rondo::train
