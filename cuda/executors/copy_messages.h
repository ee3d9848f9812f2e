// SPDX-License-Identifier: Apache-2.0
// With this class, the copy-engine executor runs the messages of a rank, and on several nodes also its plans. A thread
// of the rank runs the body of the kernel of messages (cuda/kernels/transfer.h), as a block of one thread. It moves
// each slice by a copy on a stream of Rondo. A plan runs as one batch: the thread advances the plan's lanes in turn,
// and enqueues a kernel for each slice that has operands to reduce.
//
// Streams   The caller's stream stores that a batch has begun, and waits until the thread stores that it is done. The
//           thread enqueues a copy only when its slot is ready. So no stream waits for another rank, and the proof of
//           docs/messages.md holds for the thread.
// FIFOs     Headers and heads are words of host memory, and the payloads are elsewhere (cuda/executors/copy_fifos.h). A
//           header is published when the copy into its slot has ended, and a slot is given back when the copy out of it
//           has.
// Queues    A stream that waits may hold up others in its hardware queue. The thread has two streams that use different
//           queues. For each batch it enqueues test writes, and takes a stream whose write completes.
// Replays   A captured call stores the number of its batch in one word, and waits for another word, which it then sets
//           back to 0. The thread sets the first word back before the batch. Calls of a rank run one after another, so
//           one pair of words serves all captured calls.
// Thread    The thread ends after an idle time, and a later batch starts another. If batches are captured, it stays.
// Failure   After stop() the thread begins nothing more, and ends the waits of the rank's streams. It does so between
//           copies, so no copy uses a buffer whose stream has gone on. If something holds up a copy for longer than
//           0.1 s, the thread does not wait for that copy.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cuda/executors/copy_fifos.h"
#include "cuda/executors/copy_plan.h"
#include "cuda/executors/cuda_executor.h"
#include "cuda/executors/result_reader.h"
#include "cuda/executors/stream_work.h"
#include "cuda/executors/transfers.h"
#include "cuda/transport/segment.h"

namespace rondo::cuda {

class CopyMessages final : public TransferWords {
 public:
  /// Makes the object for a rank. `stream` is one of the executor's own streams. All arguments must outlive this
  /// object, and so must the objects of which `fifos` was made.
  [[nodiscard]] static Result<std::unique_ptr<CopyMessages>> make(const PrimaryContext &context, CuStream stream,
                                                                  const Segment &segment, CopyFifos &&fifos);
  CopyMessages(const CopyMessages &) = delete;
  CopyMessages &operator=(const CopyMessages &) = delete;
  ~CopyMessages() override;

  /// Returns the lanes of a plan for enqueue().
  [[nodiscard]] Result<std::shared_ptr<const CopyLanes>> lanes_of(const Plan &plan);
  /// Enqueues a batch, or a plan. `work` is of the caller's stream.
  [[nodiscard]] Result<void> enqueue(const DeviceMessages &messages, const StreamWork &work);
  [[nodiscard]] Result<void> enqueue(const DeviceCall &call, const StreamWork &work);
  /// Adds to the streams' report whether a batch has failed. Any thread may call this function and the next ones.
  void add_failure(DeviceReport &report) const;
  /// Returns whether no copy is under way.
  [[nodiscard]] bool is_idle() const;
  /// Returns why a copy could not be made, until stop() is called.
  [[nodiscard]] Result<void> check() const;
  /// Ends all waits for this rank's messages, now and later. Call it again as long as streams may wait.
  void stop();

 private:
  struct Words;
  struct Carrier;
  struct Batch {
    uint64_t turn = 0;
    bool captured = false;
    std::shared_ptr<const DeviceBatch> messages;  ///< null: it is a plan
    std::vector<device::DeviceTransfer> list{};
    bool blocks = false;
    // These members are of a plan.
    std::shared_ptr<const CopyLanes> lanes{};
    CopyReduction reduction{};
    Buffers buffers{};
    uint32_t divisor = 0;
  };
  /// Hands the core over while nothing moves.
  class Rests {
   public:
    void rest();
    void end() { count_ = 0; }

   private:
    uint32_t count_ = 0;
  };

  CopyMessages(const PrimaryContext &context, const Segment &segment, CopyFifos &&fifos);
  [[nodiscard]] Words &words() const { return *static_cast<Words *>(pinned_.get().object); }
  [[nodiscard]] static DevicePointer place_of(const uint64_t &word) { return reinterpret_cast<DevicePointer>(&word); }
  [[nodiscard]] Result<void> enqueue(Batch &&batch, const StreamWork &work);
  [[nodiscard]] Result<void> announce();
  [[nodiscard]] Result<void> enqueue_waits(const Batch &batch, const StreamWork &work);

  void run();
  [[nodiscard]] bool has_failed() const;
  [[nodiscard]] Batch *find_begun();
  [[nodiscard]] bool wait_for_begin(std::unique_lock<std::mutex> &lock, uint32_t looks);
  void run_batch(const Batch &batch);
  void run_messages(const Batch &batch, const device::DeviceOperation &base);
  void run_plan(const Batch &batch, const device::DeviceOperation &base);
  [[nodiscard]] uint64_t run_lanes(const Batch &batch, const device::DeviceOperation &base);
  [[nodiscard]] bool pick_stream();
  [[nodiscard]] Result<bool> try_stream(uint32_t which);
  void move(const device::GroupArgs &args, const CopyReduction &reduction, uint64_t bytes);
  [[nodiscard]] Result<void> wait_for_copy();
  void release_streams();
  void fail(const Error &error);

  const CudaDriver *driver_;
  const CuContext context_;
  const Segment &segment_;
  HostMemory pinned_;
  std::vector<uint64_t> report_words_;
  CopyFifos fifos_;
  Stream second_stream_;
  device::DeviceResult result_;
  ResultReader results_;
  uint64_t abort_ = 0;

  // The thread alone uses these.
  device::DeviceProgress progress_;
  CuStream streams_[2] = {};
  CuStream stream_ = nullptr;  ///< that the present batch uses
  uint64_t probes_[2] = {};    ///< number of the latest test write on each stream
  uint64_t probe_ = 0;
  bool broken_ = false;  ///< a copy has failed: nothing is published any more
  Rests rests_;
  std::vector<uint64_t> shared_;  ///< TransferBlock's memory

  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::deque<Batch> pending_;   ///< batches that are not captured; the first one may be running
  std::deque<Batch> captured_;  ///< for replays
  std::optional<Error> error_;
  uint64_t enqueued_count_ = 0;  ///< batches that were not captured
  uint64_t stop_count_ = 0;      ///< calls of stop()
  bool running_ = false;
  bool ending_ = false;
  bool announced_ = false;  ///< a batch is being enqueued
  bool runs_ = false;       ///< the thread serves batches
  std::thread thread_;      ///< from the first batch on; ends after an idle time, and starts again with a later batch
};

}  // namespace rondo::cuda
