// SPDX-License-Identifier: Apache-2.0
// This executor works on host memory. Work without a stream runs in the caller's thread. Work on a host stream is
// a task of the stream's thread. While the thread that runs an operation waits, it also watches the peers
// (watch.h).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "src/engine/block_exchange.h"
#include "src/engine/executor.h"
#include "src/engine/host_links.h"
#include "src/engine/host_messages.h"
#include "src/engine/host_one_sided.h"
#include "src/engine/load_store.h"
#include "src/engine/operations.h"
#include "src/engine/waiter.h"
#include "src/links/links.h"

namespace rondo {

class HostExecutor final : public Executor {
 public:
  struct Parts {
    uint32_t rank = 0;
    uint32_t rank_count = 1;
    Links *links = nullptr;  ///< must outlive the executor
    WaitPolicy wait;         ///< its `progresses` is Links::needs_progress()
    bool oversubscribed = false;
    std::function<bool(const void *)> is_device_memory;  ///< null if such memory is not recognised
  };
  explicit HostExecutor(Parts parts);

  [[nodiscard]] ExecutorCapabilities capabilities() const override;
  [[nodiscard]] std::string describe() const override { return "host memory"; }
  [[nodiscard]] Result<void> check_buffer(const char *name, const void *pointer, size_t bytes) const override;
  [[nodiscard]] Result<uint64_t> check_stream(StreamRef stream, StreamRole role) const override;
  [[nodiscard]] StreamRef own_stream() const override { return {}; }

  void start(Operations &operations) override { operations_ = &operations; }
  [[nodiscard]] Result<std::unique_ptr<PreparedPlan>> prepare(const Plan &plan) override;
  [[nodiscard]] Result<void> enqueue(std::span<const WorkItem> works, StreamRef stream) override;
  [[nodiscard]] Result<void> open_messages() override;
  [[nodiscard]] Result<void> enqueue_messages(MessageBatch &batch, StreamRef stream) override;
  [[nodiscard]] Result<void> open_one_sided() override;
  [[nodiscard]] Result<MemoryPlace> describe_memory(const void *pointer, size_t bytes) const override;
  [[nodiscard]] Result<std::shared_ptr<const RemoteMemory>> open_memory(uint32_t peer,
                                                                       const MemoryPlace &place) override {
    return links_.open_memory(peer, place);
  }
  [[nodiscard]] Result<void> enqueue_one_sided(OneSidedBatch &batch, StreamRef stream) override;
  void wait_for_writers() const override { links_.wait_for_readers(); }

  void look_for_failure() override {}  // the thread that runs an operation raises its failures
  [[nodiscard]] bool quiesce() override;
  void end() override {}
  void live_on(std::shared_ptr<Executor>) override {}

 private:
  struct Bound;

  // Returns false if the communicator has failed.
  [[nodiscard]] bool enqueue_on(HostStream &stream, const WorkItem &work);
  /// Executes `work` now. `stream` is the stream whose task calls execute(), or null if no stream was given.
  [[nodiscard]] bool execute(const WorkItem &work, const HostStream *stream);
  /// Waits for the operation's turn, then runs `body` and returns its result. Returns false if the communicator has
  /// failed. If it failed before the turn, `body` does not run. `number` is the collective's number, or 0 for messages.
  template <class Body>
  [[nodiscard]] bool take_turn(uint64_t turn, uint64_t number, const Body &body);
  template <class Body>
  [[nodiscard]] bool run(uint64_t number, const Body &body);
  /// Runs `body` on the batch, in the call or as a task of the stream. `what` names the operations in errors.
  template <class Batch, class Body>
  [[nodiscard]] Result<void> enqueue_batch(Batch &batch, StreamRef stream, const char *what, const Body &body);
  [[nodiscard]] bool run_collective(const WorkItem &work, const HostStream *stream);
  template <class Operands>
  [[nodiscard]] bool run_with(const WorkItem &work, const HostStream *stream);
  void export_buffers(const WorkItem &work, const std::byte *send, const Bound &bound, Buffers &buffers) const;
  [[nodiscard]] bool stay_in_reach(uint64_t number, Waiter &waiter) const;

  const Parts parts_;
  Links &links_;                 ///< links of parts_
  std::vector<LinkEnds> ends_;   ///< indexed by channel * rank_count + peer
  Scratch scratch_;
  ExchangeEnd exchange_;
  BlockExchange blocks_;
  std::mutex opening_;                      ///< guards opened_
  std::unique_ptr<HostMessages> opened_;
  std::atomic<HostMessages *> messages_ = nullptr;  ///< opened_; stored in open_messages()
  HostOneSided one_sided_;
  Operations *operations_ = nullptr;
  alignas(cache_line_bytes) std::byte barrier_buffer_[2] = {};
  std::atomic<bool> running_ = false;  ///< true while an operation uses the caller's buffers; pairs with quiesce()
};

}  // namespace rondo
