// SPDX-License-Identifier: Apache-2.0
// This class runs the one-sided operations of a rank on its device, by copies and by memory operations of the caller's
// stream. It launches no kernel.
//
// Signals   They are words of host memory that all ranks of the host map (Links::signal_file()). A stream signals by
//           writing the new total after its copy, and the peer's stream waits for that total.
// Streams   Each operation has a word of pinned memory. The stream writes `begun` there before the operation, and
//           `ended` after it. So the thread that watches the waits (monitor_thread()) knows which are under way.
// Order     A put or a signal follows the earlier ones of the rank to that peer, by an event if they are on another
//           stream. So the totals only grow, and a signal follows all earlier data.
// Failure   The watching thread polls each wait that has begun (SignalWatch). After a failure it ends all waits of this
//           rank, by a value that no total reaches.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/driver/handles.h"
#include "cuda/executors/stream_work.h"
#include "cuda/transport/shared_file.h"
#include "src/base/shared_thread.h"
#include "src/engine/executor.h"
#include "src/engine/operations.h"
#include "src/engine/signal_watch.h"
#include "src/links/links.h"

namespace rondo::cuda {

class OneSidedStreams final : private ThreadSharer {
 public:
  /// Maps the signals. `links` and `operations` must live until end(). RONDO_ERROR_UNSUPPORTED: `name`, the device, has
  /// no stream memory operations.
  [[nodiscard]] static Result<std::unique_ptr<OneSidedStreams>> make(const PrimaryContext &context,
                                                                     const std::string &name, const Links &links,
                                                                     Operations &operations);
  OneSidedStreams(const OneSidedStreams &) = delete;
  OneSidedStreams &operator=(const OneSidedStreams &) = delete;
  ~OneSidedStreams() override;

  /// Describes memory of this rank's device for open().
  [[nodiscard]] MemoryPlace describe(const void *pointer, size_t bytes) const;
  /// Opens a buffer of a peer. RONDO_ERROR_UNSUPPORTED has the reason why this device cannot write to the buffer.
  [[nodiscard]] Result<std::shared_ptr<const RemoteMemory>> open(uint32_t peer, const MemoryPlace &place) const;
  /// Enqueues the operations. One thread at a time may call it.
  [[nodiscard]] Result<void> enqueue(const OneSidedBatch &batch, CuStream stream);

  /// Returns whether all operations have ended. Any thread may call it.
  [[nodiscard]] bool is_idle() const;
  /// Waits until is_idle(). Returns false if the communicator has failed. The communicator fails if no operation begins
  /// or ends within the timeout.
  [[nodiscard]] bool wait();
  /// Ends all waits of this rank that have begun. Any thread may call it.
  void stop();
  /// Releases the memory of peers that only ended operations still use. A thread of the user calls it, because the
  /// release may wait for the device.
  void release_ended();
  /// Ends the use of links and operations.
  void end();

 private:
  enum State : uint64_t { enqueued = 0, begun = 1, ended = 2 };
  struct Pending {
    OneSided operation;
    uint32_t slot = 0;
    CuStream stream = nullptr;
    std::unique_ptr<SignalWatch> watch;  ///< of a wait that has begun
  };
  /// The latest put or signal to a peer.
  struct LastSend {
    Event ended;  ///< made for the first one
    CuStream stream = nullptr;
    bool recorded = false;
  };
  static constexpr uint32_t slot_count = 512;

  OneSidedStreams(const PrimaryContext &context, const Links &links, Operations &operations);
  [[nodiscard]] bool work_once() override;
  [[nodiscard]] Result<void> map_signals();
  [[nodiscard]] Result<void> enqueue_one(const OneSided &operation, const StreamWork &work);
  [[nodiscard]] Result<void> run(const OneSided &operation, const StreamWork &work);
  [[nodiscard]] Result<void> follow_last_send(uint32_t peer, const StreamWork &work);
  [[nodiscard]] Result<void> check_reach(int32_t device) const;
  [[nodiscard]] Result<uint32_t> take_slot();
  [[nodiscard]] uint64_t &word(uint32_t slot) const { return static_cast<uint64_t *>(words_.get().object)[slot]; }
  [[nodiscard]] size_t signal_index(uint32_t from, uint32_t to, uint32_t signal) const {
    return (size_t{from} * rank_count_ + to) * signal_count + signal;
  }
  [[nodiscard]] uint64_t seen_count(const OneSided &wait) const;
  [[nodiscard]] bool watches_any() const;
  [[nodiscard]] uint64_t step_count() const;
  void set_ended_aside();
  void raise_stuck();
  void release_waits();

  const CudaDriver *const driver_;
  const CuContext context_;
  const int32_t device_;
  const Links &links_;
  Operations &operations_;
  const uint32_t rank_, rank_count_;
  unsigned wait_flags_ = 0;
  PrimaryContext owner_;      ///< destroyed after everything that needs the context
  std::shared_ptr<const RegisteredFile> signals_;  ///< as mapped in this process
  DevicePointer signals_address_ = 0;
  HostMemory words_;
  std::vector<LastSend> last_sends_;  ///< by peer; only enqueue() uses it
  bool shares_thread_ = false;  ///< true from make() to end()

  mutable std::mutex mutex_;  ///< guards what follows
  std::list<Pending> pending_;
  std::list<Pending> ended_;  ///< removed from pending_, for release_ended()
  uint64_t ended_count_ = 0;  ///< operations that were moved to ended_ so far
  std::vector<uint32_t> free_slots_;
};

}  // namespace rondo::cuda
