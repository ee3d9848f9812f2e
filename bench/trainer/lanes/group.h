// SPDX-License-Identifier: Apache-2.0
// This file declares the ranks that train together: their communicator, and the few blocking exchanges outside training
// steps.
#pragma once

#include <cstddef>
#include <string>

#include "bench/failure.h"
#include "bench/trainer/compute/compute.h"
#include "bench/trainer/figures/timeline.h"
#include "rondo/rondo.h"

namespace rondo::train {

/// Makes a failure from the library's message about a call.
[[nodiscard]] Failure communication_failure(rondo_comm_t comm, const char *call, rondo_status_t status);

/// Allocates zeroed memory by rondo_mem_alloc(), which the ranks of this host can read in place.
[[nodiscard]] Outcome allocate_shared(size_t count, Buffer &buffer);

class Group {
 public:
  Group() = default;
  ~Group();
  Group(const Group &) = delete;
  Group &operator=(const Group &) = delete;

  /// Makes a communicator of all ranks that the environment describes.
  [[nodiscard]] Outcome join(const rondo_config_t &config);
  /// Takes ownership of a communicator that was made elsewhere.
  [[nodiscard]] Outcome take(rondo_comm_t comm);
  /// Makes a communicator of two ranks of `all`; `one` becomes its rank 0. Every rank of `all` calls this at the same
  /// time. Other ranks get no communicator.
  [[nodiscard]] Outcome join_pair(Group &all, size_t one, size_t other, const rondo_config_t &config);
  /// Makes a communicator of some ranks of `all`. Every rank of `all` calls this at once, for its own part.
  /// @param first  the rank in `all` that becomes rank 0 of the part; this rank becomes `rank` of `size`
  [[nodiscard]] Outcome join_part(Group &all, size_t first, size_t rank, size_t size, const rondo_config_t &config);

  [[nodiscard]] rondo_comm_t comm() const { return comm_; }
  [[nodiscard]] size_t rank() const { return rank_; }
  [[nodiscard]] size_t size() const { return size_; }

  // The next three functions wait until they are done. Meanwhile nothing else may be enqueued on the communicator.
  [[nodiscard]] Outcome broadcast(void *data, size_t bytes, size_t from = 0);
  [[nodiscard]] Outcome gather(const void *mine, size_t bytes, void *all);  ///< all's blocks are in the order of ranks
  [[nodiscard]] Outcome sum(double *values, size_t count);
  [[nodiscard]] Outcome sum(float *values, size_t count);
  [[nodiscard]] Outcome average(float *values, size_t count);
  [[nodiscard]] Outcome least(double *values, size_t count);
  [[nodiscard]] Outcome barrier();

  /// Returns the library's counts so far.
  [[nodiscard]] LibraryCounts counts() const;

  /// Ends the communicator together with the other ranks.
  [[nodiscard]] Outcome finish();

  /// Returns a failure if a call on this communicator did not succeed.
  [[nodiscard]] Outcome check(const char *call, rondo_status_t status) const;

 private:
  [[nodiscard]] Outcome all_reduce(void *values, size_t count, rondo_type_t type, rondo_op_t op);

  rondo_comm_t comm_ = nullptr;
  size_t rank_ = 0, size_ = 1;
};

/// The division of the work among ranks. Ranks that share a model are neighbours. Ranks with the same slice of it train
/// data-parallel. If each rank has a whole model, these are all ranks.
class Ranks {
 public:
  /// Makes the communicators.
  /// @param slices  number of ranks that share a model
  [[nodiscard]] Outcome join(const rondo_config_t &config, size_t slices);

  [[nodiscard]] Group &all() { return all_; }
  [[nodiscard]] Group &data() { return slices_ > 1 ? data_ : all_; }
  [[nodiscard]] Group &joint() { return joint_; }  ///< of one rank, and not to be used, where each has a whole model
  [[nodiscard]] size_t slices() const { return slices_; }

  /// Returns how much memory all communicators use. Of memory that a host's ranks share, it counts one rank's part.
  [[nodiscard]] size_t memory_bytes();

  [[nodiscard]] Outcome finish();

 private:
  size_t slices_ = 1;
  Group all_, data_, joint_;
};

}  // namespace rondo::train
