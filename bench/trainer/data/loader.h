// SPDX-License-Identifier: Apache-2.0
// This class prepares batches ahead of time on its own thread.
//
// All ranks draw the same order of the training samples, a new one for each pass over the corpus. The samples of the
// whole run are numbered in that order. Sample n belongs to one batch of one rank, so ranks never share a sample. The
// samples of a step depend only on the step's number of batches, whether several ranks have these batches or one rank
// accumulates gradients over them.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory_resource>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/trainer/data/corpus.h"

namespace rondo::train {

/// The inputs of all samples, then their targets. The target of an input is its next byte.
struct Batch {
  /// Reserves room for `bytes` inputs and targets.
  /// @param memory  from Compute::sample_memory(); it must outlive the batch
  explicit Batch(size_t bytes, std::pmr::memory_resource *memory) : inputs(bytes, memory), targets(bytes, memory) {}

  std::pmr::vector<uint8_t> inputs, targets;
};

/// Copies the window at `offset` into a batch as sample `row`.
[[nodiscard]] Outcome fill_row(const Corpus &corpus, size_t offset, size_t context, size_t row, Batch &batch);

/// The order of samples: a permutation of the training samples for each pass over them.
class Order {
 public:
  Order(size_t sample_count, uint64_t seed) : seed_(seed), order_(sample_count) {}
  [[nodiscard]] size_t at(uint64_t sample);

 private:
  uint64_t seed_;
  uint64_t pass_ = UINT64_MAX;
  std::vector<uint32_t> order_;
};

struct Sharing {
  size_t context = 0, batch = 0;
  uint64_t seed = 0;
  uint64_t batches_a_step = 0;  ///< batches of all ranks
  uint64_t first_batch = 0;     ///< number of this rank's first batch among them
  uint64_t own_batches = 0;     ///< how many batches of a step this rank has, from first_batch on
  uint64_t first_step = 0;
};

class Loader {
 public:
  Loader(const Corpus &corpus, const Samples &samples, const Sharing &sharing,
         std::pmr::memory_resource *memory = std::pmr::new_delete_resource());
  ~Loader();
  Loader(const Loader &) = delete;
  Loader &operator=(const Loader &) = delete;

  [[nodiscard]] Outcome start();

  /// Returns the previous batch to the loader, and waits for the next one, for at most a minute.
  [[nodiscard]] Outcome next(const Batch *&batch);

 private:
  void produce();
  [[nodiscard]] Outcome fill(uint64_t number, Order &order, Batch &batch) const;

  const Corpus &corpus_;
  const Samples &samples_;
  const Sharing sharing_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> full_, empty_;  ///< with current_, these are queue_batches + 1 batches
  Batch current_;
  Outcome failure_;  ///< the failure that ended the thread
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace rondo::train
