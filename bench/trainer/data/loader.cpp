// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/data/loader.h"

#include <chrono>
#include <cstring>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/trainer/model/random.h"

namespace rondo::train {
namespace {

constexpr size_t queue_batches = 4;
constexpr auto deadline = std::chrono::minutes(1);

}  // namespace

Outcome fill_row(const Corpus &corpus, size_t offset, size_t context, size_t row, Batch &batch) {
  std::vector<uint8_t> bytes(context + 1);  // so that a sample needs one read
  if (auto failure = corpus.read(offset, bytes.size(), bytes.data())) return failure;
  std::memcpy(batch.inputs.data() + row * context, bytes.data(), context);
  std::memcpy(batch.targets.data() + row * context, bytes.data() + 1, context);
  return std::nullopt;
}

size_t Order::at(uint64_t sample) {
  if (const uint64_t pass = sample / order_.size(); pass != pass_) {
    pass_ = pass;
    std::iota(order_.begin(), order_.end(), 0u);
    Random random(seed_ * 1'000'003u + pass);
    for (size_t left = order_.size(); left > 1; --left) std::swap(order_[left - 1], order_[random.below(left)]);
  }
  return order_[sample % order_.size()];
}

Loader::Loader(const Corpus &corpus, const Samples &samples, const Sharing &sharing, std::pmr::memory_resource *memory)
    : corpus_(corpus), samples_(samples), sharing_(sharing), current_(sharing.batch * sharing.context, memory) {
  for (size_t at = 0; at < queue_batches; ++at) empty_.emplace_back(sharing.batch * sharing.context, memory);
}

Outcome Loader::start() {
  try {
    thread_ = std::thread([this] { produce(); });
  } catch (const std::system_error &error) {
    return Failure{Exit::usage, std::string("cannot start the loader's thread: ") + error.what()};
  }
  return std::nullopt;
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Outcome Loader::next(const Batch *&batch) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, deadline, [this] { return !full_.empty() || failure_; }))
    return Failure{Exit::usage, "no samples arrived within a minute; check that the disk with the corpus answers"};
  if (full_.empty()) return failure_;
  empty_.push_back(std::exchange(current_, std::move(full_.front())));
  full_.pop_front();
  lock.unlock();
  changed_.notify_all();
  batch = &current_;
  return std::nullopt;
}

void Loader::produce() {
  Order order(samples_.training_count(), sharing_.seed);
  for (uint64_t number = 0;; ++number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_ || !empty_.empty(); });  // the destructor ends the wait
    if (stop_) return;
    Batch batch = std::move(empty_.front());
    empty_.pop_front();
    lock.unlock();
    Outcome failure = fill(number, order, batch);
    lock.lock();
    if (!failure) full_.push_back(std::move(batch));
    failure_ = failure;
    lock.unlock();
    changed_.notify_all();
    if (failure) return;
  }
}

/// Fills a batch. `number` counts this rank's batches from the first step of the run.
Outcome Loader::fill(uint64_t number, Order &order, Batch &batch) const {
  const uint64_t step = sharing_.first_step + number / sharing_.own_batches;
  const uint64_t of_run = step * sharing_.batches_a_step + sharing_.first_batch + number % sharing_.own_batches;
  for (size_t row = 0; row < sharing_.batch; ++row)
    if (auto failure = fill_row(corpus_, samples_.training_offset(order.at(of_run * sharing_.batch + row)),
                                sharing_.context, row, batch))
      return failure;
  return std::nullopt;
}

}  // namespace rondo::train
