// SPDX-License-Identifier: Apache-2.0
// Makes batches ahead of time on a thread of its own.
//
// All ranks draw the same order of the training samples, anew for each pass over the corpus, and number the samples of
// the whole run. Sample n belongs to one batch of one rank, so ranks never share a sample. The samples of a step depend
// only on its number of batches. It does not matter whether several ranks have them, or one rank that accumulates.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory_resource>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/trainer/data/corpus.h"

namespace rondo::train {

/// The inputs of all samples, then their targets: each input's next byte.
struct Batch {
  /// Reserves room for `bytes` inputs and targets. @param memory  Compute::sample_memory(); it outlives the batch.
  explicit Batch(size_t bytes, std::pmr::memory_resource *memory) : inputs(bytes, memory), targets(bytes, memory) {}

  std::pmr::vector<uint8_t> inputs, targets;
};

/// Copies the window at `offset` into a batch as its sample `row`.
[[nodiscard]] Outcome fill_row(const Corpus &corpus, size_t offset, size_t context, size_t row, Batch &batch);

/// Which sample stands where: a permutation of the training samples for each pass over them.
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
  uint64_t batches_a_step = 0;  ///< of all ranks
  uint64_t first_batch = 0;     ///< of this rank, among them
  uint64_t own_batches = 0;     ///< of this rank in a step: those that follow the first
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

  /// Waits for the next batch, a minute at most, and gives the last one back.
  [[nodiscard]] Outcome next(const Batch *&batch);

 private:
  void produce();
  [[nodiscard]] Outcome fill(uint64_t number, Order &order, Batch &batch) const;

  const Corpus &corpus_;
  const Samples &samples_;
  const Sharing sharing_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> full_, empty_;  ///< together, with current_, queue_batches + 1
  Batch current_;
  Outcome failure_;  ///< the thread has ended by it
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace rondo::train
