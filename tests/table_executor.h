// SPDX-License-Identifier: Apache-2.0
// This executor has no links. Its ranks are threads of one process. They put their buffers on a table, and each rank
// adds all buffers. It shows what a communicator requires of an executor, and which arguments it passes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/engine/executor.h"
#include "src/engine/operations.h"

namespace rondo_test {

using rondo::Error;
using rondo::Operations;
using rondo::Result;

/// Memory of all ranks. An operation ends when all ranks have put their buffers down and all have read them.
class Table {
 public:
  explicit Table(uint32_t rank_count) : rank_count_(rank_count) {}

  /// Sets recv to the sum of all ranks' send buffers, as int32. Returns false if the communicator has failed.
  bool add_up(Operations &operations, const rondo::WorkItem &work) {
    std::unique_lock lock(mutex_);
    Round &round = rounds_[work.number];
    round.sends.push_back(reinterpret_cast<const int32_t *>(work.send));
    const auto count = work.plan->lanes.front().program.element_bytes == 4 ? work.plan->key.signature.count : 0;
    if (!wait(lock, operations, [&] { return round.sends.size() == rank_count_; })) return false;
    std::vector<int32_t> sum(count);
    for (const int32_t *const send : round.sends)
      for (uint64_t i = 0; i < count; ++i) sum[i] += send[i];
    ++round.readers;
    changed_.notify_all();
    if (!wait(lock, operations, [&] { return round.readers == rank_count_; })) return false;
    std::copy(sum.begin(), sum.end(), reinterpret_cast<int32_t *>(work.recv));
    return true;
  }

 private:
  struct Round {
    std::vector<const int32_t *> sends;
    uint32_t readers = 0;
  };

  template <class Ready>
  bool wait(std::unique_lock<std::mutex> &lock, Operations &operations, const Ready &ready) {
    const uint64_t deadline_ns = rondo::now_ns() + operations.timeout_ns();
    changed_.notify_all();
    while (!ready() && !operations.ranks().failed()) {
      changed_.wait_for(lock, std::chrono::milliseconds(1));
      if (rondo::now_ns() > deadline_ns)
        operations.raise({RONDO_ERROR_TIMEOUT, "a rank did not come to the table"}, operations.executed() + 1);
    }
    return ready();
  }

  const uint32_t rank_count_;
  std::mutex mutex_;  ///< protects the following members
  std::condition_variable changed_;
  std::map<uint64_t, Round> rounds_;
};

class TableExecutor final : public rondo::Executor {
 public:
  /// The behaviour of the executor and the communicator that a test requests.
  struct Wishes {
    uint64_t refused_count = UINT64_MAX;   ///< prepare() refuses plans of this many elements
    uint64_t failing_number = UINT64_MAX;  ///< enqueue() fails for this operation number
    bool checks_buffers = false;
    bool lives_on = false;  ///< quiesce() returns that something still runs
  };
  struct Seen {
    std::vector<uint64_t> numbers;
    uint32_t prepared_count = 0, ends = 0, buffers_checked = 0;
    bool quiesced = false, lived_on = false;
  };

  TableExecutor(Table &table, const Wishes &wishes, Seen &seen) : table_(table), wishes_(wishes), seen_(seen) {}

  [[nodiscard]] rondo::ExecutorCapabilities capabilities() const override {
    rondo::ExecutorCapabilities own;
    own.geometry = {4, 4096, 64};
    own.runs_in_call = true;
    own.checks_buffers = wishes_.checks_buffers;
    own.barrier_send = const_cast<std::byte *>(&barrier_[0]);
    own.barrier_recv = const_cast<std::byte *>(&barrier_[1]);
    return own;
  }
  [[nodiscard]] std::string describe() const override { return "a table"; }
  [[nodiscard]] Result<void> check_buffer(const char *, const void *, size_t) const override {
    ++seen_.buffers_checked;
    return rondo::invalid_argument("not on this table");
  }
  [[nodiscard]] Result<uint64_t> check_stream(rondo::StreamRef, rondo::StreamRole) const override {
    return rondo::invalid_argument("a table has no streams");
  }
  [[nodiscard]] rondo::StreamRef own_stream() const override { return {}; }

  void start(Operations &operations) override { operations_ = &operations; }
  [[nodiscard]] Result<std::unique_ptr<rondo::PreparedPlan>> prepare(const rondo::Plan &plan) override {
    if (plan.key.signature.count == wishes_.refused_count) return rondo::invalid_argument("refused, as the test wants");
    ++seen_.prepared_count;
    return std::make_unique<rondo::PreparedPlan>();
  }
  [[nodiscard]] Result<void> enqueue(std::span<const rondo::WorkItem> works, rondo::StreamRef) override {
    for (const rondo::WorkItem &work : works) {
      if (execute(work)) continue;
      operations_->give_up_turns();
      return operations_->report_failure();
    }
    return {};
  }

  void look_for_failure() override {}
  [[nodiscard]] bool quiesce() override {
    seen_.quiesced = true;
    return !wishes_.lives_on;
  }
  void end() override { ++seen_.ends; }
  void live_on(std::shared_ptr<Executor> self) override { seen_.lived_on = self.get() == this; }

 private:
  bool execute(const rondo::WorkItem &work) {
    seen_.numbers.push_back(work.number);
    if (work.number == wishes_.failing_number) {
      operations_->raise_not_enqueued({RONDO_ERROR_OUT_OF_RESOURCES, "the table is full"}, work.number);
      return false;
    }
    if (!operations_->wait_for_predecessor(work.number)) return false;
    operations_->ranks().enter(work.number, Operations::info_of(work));
    if (!table_.add_up(*operations_, work)) return operations_->ranks().fail(work.number), false;
    rondo::OperationCost cost = Operations::cost_of(*work.plan);
    cost.in_call = true;
    operations_->ranks().complete(work.number, cost);
    operations_->mark_executed(work.number);
    return true;
  }

  Table &table_;
  const Wishes wishes_;
  Seen &seen_;
  std::byte barrier_[2] = {};
  Operations *operations_ = nullptr;
};

}  // namespace rondo_test
