// SPDX-License-Identifier: Apache-2.0
// The executor of one rank: runs plans on host memory (host_executor.h), or by kernels or copies of a device
// (device_executor.h). The communicator gives operations their numbers and plans, and uses only this interface.
//
// Order    Operations run in the order of their turns, whatever streams they are on; start() comes before all of
//          them. A communicator calls prepare() and enqueue() one at a time, but enqueue() for work that runs in the
//          call: that may come beside anything.
// Failure  A call that is refused by check_buffer(), check_stream() or prepare() has no effect. Once work has a number,
//          a failure is the communicator's: the executor raises it (Operations::raise()), and the work ends as soon as
//          it notices that the communicator has failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "src/base/result.h"
#include "src/engine/blocks.h"
#include "src/engine/transfers.h"
#include "src/plan/plan.h"
#include "src/plan/premul.h"
#include "src/proto/connection.h"

namespace rondo {

class HostStream;
class Operations;

/// The stream that a caller gave. Null: the call itself on host memory, the default stream on a device.
struct StreamRef {
  HostStream *host = nullptr;  ///< a stream of rondo_stream_create(); the caller holds it during the call
  void *device = nullptr;      ///< any other: a stream of a device's driver

  [[nodiscard]] bool none() const { return host == nullptr && device == nullptr; }
};

/// The constant properties of an executor.
struct ExecutorCapabilities {
  rondo_device_executor_t kind = RONDO_DEVICE_EXECUTOR_AUTO;  ///< for the API; AUTO is host memory
  ConnectionGeometry geometry;                                ///< of its connections
  uint32_t channel_count = 1;
  uint64_t post_bytes = 0;            ///< load_store: the most that a one_shot takes, or 0 without load_store
  uint64_t exchange_chunk_bytes = 0;  ///< load_store: the largest chunk, except of one_shots
  uint32_t exchange_channels = 0;     ///< load_store on a device: the most channels, or 0 on the host
  BufferPlace buffers = BufferPlace::host;  ///< shared_device and the values after it: by load_store
  bool places_stay = true;  ///< load_store: peers still read a rank's place when it has left
  uint32_t connection_channels = 0;  ///< as in TunerInput
  bool exports_memory = false;      ///< peers read registered buffers by what MemoryExporter says
  bool oversubscribed = false;      ///< ranks wait for each other's cores
  bool runs_in_call = false;        ///< without a stream enqueue() returns when the work is done
  bool exchanges_blocks = false;    ///< prepare() takes plans that exchange blocks
  bool exchanges_by_ll = false;     ///< small blocks in such plans go by ll
  bool sends_messages = false;      ///< open_messages() and enqueue_messages() work
  bool checks_buffers = true;       ///< false: check_buffer() accepts everything
  // Two bytes, a cache line apart on a device, for barriers.
  std::byte *barrier_send = nullptr;
  std::byte *barrier_recv = nullptr;
};

/// A plan as an executor prepared it: uploaded, and bound to connections. It stays, as the plan does, until all
/// operations that use it have ended.
class PreparedPlan {
 public:
  virtual ~PreparedPlan() = default;
};

/// One operation that has its number.
struct WorkItem {
  const Plan *plan = nullptr;
  PreparedPlan *prepared = nullptr;
  const std::byte *send = nullptr;
  std::byte *recv = nullptr;
  const Signature *record = nullptr;  ///< recorded in place of the plan's, unless null; read during enqueue()
  uint64_t turn = 0;      ///< of this rank alone: 1, 2, 3 and so on, in the order of its operations
  uint64_t number = 0;    ///< of the collective: equal on all ranks
  uint32_t history = 0;   ///< fingerprint() of it and all before it
  bool captured = false;  ///< into a graph, as check_stream() said: it runs when that is launched
  std::shared_ptr<const BlockLists> lists = nullptr;  ///< of a _v collective that exchanges blocks
  Factor factor = {};     ///< of a premul sum
};

class Executor {
 public:
  virtual ~Executor() = default;

  [[nodiscard]] virtual ExecutorCapabilities capabilities() const = 0;
  /// Describes the executor for people: "host memory", "CUDA device 0 (NVIDIA H100)".
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Returns the chunk size for a vector of that many bytes if none was requested; 0 means the tuner's.
  [[nodiscard]] virtual uint64_t chunk_bytes(uint64_t) const { return 0; }

  /// Returns RONDO_ERROR_INVALID_ARGUMENT if `name` is not memory that the executor works on. Null and 0 bytes are
  /// fine. Any thread.
  [[nodiscard]] virtual Result<void> check_buffer(const char *name, const void *pointer, size_t bytes) const = 0;
  /// Says whether the stream is being captured into a graph. An error means that work cannot be enqueued there. Any
  /// thread.
  [[nodiscard]] virtual Result<bool> check_stream(StreamRef stream) const = 0;
  /// Takes back what check_stream() has noted, since the call is not enqueued.
  virtual void forget_stream() const {}
  /// Returns a stream for work that has none of the caller's: the barrier of finalize.
  [[nodiscard]] virtual StreamRef own_stream() const = 0;

  /// Lets peers read and write a registered buffer in place, from some later call on. Waits a moment for them. Any
  /// thread may call it, also during enqueue(); the same holds for unshare().
  virtual void share(const void *, size_t) {}
  /// Keeps peers from the buffer that begins there in all later calls. RONDO_OK: no peer has it open, so the memory may
  /// be freed. RONDO_NOT_READY: a peer whose work is in flight has it open, so call again later.
  [[nodiscard]] virtual Result<void> unshare(const void *) { return {}; }

  /// Starts the executor, once, before the first work. `operations` stays until end().
  virtual void start(Operations &operations) = 0;
  /// False: prepare() would be refused until prepared plans are destroyed, since there is no memory for another one.
  [[nodiscard]] virtual bool has_room(const Plan &) { return true; }
  [[nodiscard]] virtual Result<std::unique_ptr<PreparedPlan>> prepare(const Plan &plan) = 0;
  /// Appends the work, whose numbers follow each other, to the stream. Without a stream, and with runs_in_call, runs
  /// it. Reports to Operations what an operation does and how it ends. May wait, up to the deadline of an operation, if
  /// a queue is full or if ranks launch together.
  [[nodiscard]] virtual Result<void> enqueue(std::span<const WorkItem> works, StreamRef stream) = 0;

  /// Prepares for messages, before the first enqueue_messages(). Any thread.
  [[nodiscard]] virtual Result<void> open_messages() {
    return Error{RONDO_ERROR_UNSUPPORTED, describe() + " carries no messages in this version"};
  }
  /// Does the same with a batch of messages, which has its turn. May take what the batch holds.
  [[nodiscard]] virtual Result<void> enqueue_messages(MessageBatch &, StreamRef) {
    return Error{RONDO_ERROR_UNSUPPORTED, describe() + " carries no messages in this version"};
  }

  /// Raises a failure that the executor has found and not raised yet. Any thread.
  virtual void look_for_failure() = 0;
  /// Waits, after the last work was enqueued, until none uses the caller's buffers, for some seconds at most. False if
  /// some still may, or if a thread of the executor is in a driver's call. Then live_on() must be called.
  [[nodiscard]] virtual bool quiesce() = 0;
  /// Makes no more calls to Operations, which may be destroyed then. May be called again.
  virtual void end() = 0;
  /// Keeps `self`, this executor, until no work and no thread uses it. Call it after end(), if quiesce() returned
  /// false.
  virtual void live_on(std::shared_ptr<Executor> self) = 0;
};

}  // namespace rondo
