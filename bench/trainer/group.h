// SPDX-License-Identifier: Apache-2.0
// The ranks that train together: their communicator, and the few blocking exchanges outside the training step.
#pragma once

#include <cstddef>
#include <string>

#include "bench/trainer/failure.h"
#include "rondo/rondo.h"

namespace rondo::train {

/// What the library says of a call that did not succeed.
[[nodiscard]] Failure communication_failure(rondo_comm_t comm, const char *call, rondo_status_t status);

class Group {
 public:
  Group() = default;
  ~Group();
  Group(const Group &) = delete;
  Group &operator=(const Group &) = delete;

  /// Makes a communicator of all ranks that the environment tells of.
  [[nodiscard]] Outcome join(const rondo_config_t &config);

  [[nodiscard]] rondo_comm_t comm() const { return comm_; }
  [[nodiscard]] size_t rank() const { return rank_; }
  [[nodiscard]] size_t size() const { return size_; }

  // These block. Nothing else may be enqueued on the communicator meanwhile.
  [[nodiscard]] Outcome broadcast(void *data, size_t bytes);  ///< from rank 0
  [[nodiscard]] Outcome gather(const void *mine, size_t bytes, void *all);  ///< all's blocks are in the order of ranks
  [[nodiscard]] Outcome sum(double *values, size_t count);
  [[nodiscard]] Outcome barrier();

  /// Ends the communicator in agreement with the others.
  [[nodiscard]] Outcome finish();

 private:
  [[nodiscard]] Outcome check(const char *call, rondo_status_t status) const;

  rondo_comm_t comm_ = nullptr;
  size_t rank_ = 0, size_ = 1;
};

}  // namespace rondo::train
