// SPDX-License-Identifier: Apache-2.0
// This file declares the ranks that train together: their communicator, and the few blocking exchanges outside training
// steps.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/failure.h"
#include "bench/trainer/compute/compute.h"
#include "bench/trainer/figures/timeline.h"
#include "rondo/rondo.h"

namespace rondo::train {

/// Makes a failure from the library's message about a call.
[[nodiscard]] Failure communication_failure(rondo_comm_t comm, const char *call, rondo_status_t status);

/// Allocates zeroed memory by rondo_mem_alloc(), which the ranks of this host can read in place.
[[nodiscard]] Outcome allocate_shared(size_t count, Buffer &buffer);

/// Floats on their way from or to a peer.
struct Message {
  float *values = nullptr;
  size_t count = 0;
  size_t peer = 0;
  bool arrives = false;
};

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
  /// Makes a communicator of the ranks of `all` that pass the same color. Every rank of `all` must call this together.
  /// A rank that passes RONDO_NO_COLOR gets no communicator. If `config` is null, the configuration of `all` is used.
  [[nodiscard]] Outcome join_part(Group &all, int color, const rondo_config_t *config = nullptr);

  [[nodiscard]] rondo_comm_t comm() const { return comm_; }
  [[nodiscard]] size_t rank() const { return rank_; }
  [[nodiscard]] size_t size() const { return size_; }

  // These functions wait until they are done. Until then nothing else may be enqueued on the communicator.
  [[nodiscard]] Outcome broadcast(void *data, size_t bytes, size_t from = 0);
  [[nodiscard]] Outcome gather(const void *mine, size_t bytes, void *all);  ///< `all` has the blocks in rank order
  [[nodiscard]] Outcome sum(double *values, size_t count);
  [[nodiscard]] Outcome sum(float *values, size_t count);
  [[nodiscard]] Outcome average(float *values, size_t count);
  [[nodiscard]] Outcome least(double *values, size_t count);
  [[nodiscard]] Outcome barrier();
  [[nodiscard]] Outcome send(const float *values, size_t count, size_t to);
  [[nodiscard]] Outcome receive(float *values, size_t count, size_t from);
  /// Sends each rank its block of `each` numbers of `mine`, and receives the blocks of all ranks.
  [[nodiscard]] Outcome exchange_counts(const uint64_t *mine, uint64_t *theirs, size_t each);
  /// Sends each rank its block of floats, and receives the blocks of all ranks. Blocks are in the order of ranks.
  [[nodiscard]] Outcome exchange_blocks(const float *send, const size_t *send_counts, float *recv,
                                        const size_t *recv_counts);
  /// Sends and receives all messages at once.
  [[nodiscard]] Outcome exchange(std::span<const Message> messages);

  /// Returns the library's counts so far.
  [[nodiscard]] LibraryCounts counts() const;

  /// Ends the communicator together with the other ranks.
  [[nodiscard]] Outcome finish();

  /// Returns a failure if `status`, the result of `call` on this communicator, is not RONDO_OK.
  [[nodiscard]] Outcome check(const char *call, rondo_status_t status) const;

 private:
  [[nodiscard]] Outcome all_reduce(void *values, size_t count, rondo_type_t type, rondo_op_t op);

  rondo_comm_t comm_ = nullptr;
  size_t rank_ = 0, size_ = 1;
  std::vector<size_t> members_;  ///< in a part of the run: the ranks' numbers in the whole run
};

/// The way in which ranks share a model. At most one of these numbers is more than its default.
struct Parts {
  size_t slices = 1;   ///< number of slices of each layer
  size_t stages = 1;   ///< number of stages of a pipeline
  size_t experts = 0;  ///< number of experts of each layer, or 0
};

/// One of `count` neighbours that share a model.
struct Place {
  size_t index = 0, count = 1;
};

/// The division of the work among ranks. Ranks that share a model are neighbours. Ranks that have the same part of a
/// model train data-parallel; if each rank has a whole model, these are all ranks.
class Ranks {
 public:
  /// Makes the communicators.
  [[nodiscard]] Outcome join(const rondo_config_t &config, const Parts &parts);

  [[nodiscard]] Group &all() { return all_; }
  /// Returns the ranks that train on different samples and add up their gradients.
  [[nodiscard]] Group &data() { return parts_.experts > 0 ? all_ : same(); }
  /// Returns the ranks that have the same part of a model. In a model with experts, they add up the experts' gradients.
  [[nodiscard]] Group &same() { return sharers_ > 1 ? same_ : all_; }
  [[nodiscard]] Group &joint() { return joint_; }  ///< ranks that share a model; unused if each has a whole model
  [[nodiscard]] size_t sharers() const { return sharers_; }  ///< number of ranks that share a model
  [[nodiscard]] Place slice() const;  ///< its place among the ranks that divide layers or experts
  [[nodiscard]] Place stage() const;

  /// Returns how much memory all communicators use. If ranks of a host share memory, counts one rank's part of it.
  [[nodiscard]] size_t memory_bytes();

  [[nodiscard]] Outcome finish();

 private:
  Parts parts_;
  size_t sharers_ = 1;
  Group all_, same_, joint_;
};

}  // namespace rondo::train
