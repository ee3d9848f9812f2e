// SPDX-License-Identifier: Apache-2.0
// The executor of one rank runs plans. It works on host memory (host_executor.h), or by kernels or copies of a device
// (device_executor.h). The communicator gives operations their numbers and plans, and uses only this interface.
//
// Order    Operations run in the order of their turns, even on different streams. Call start() before the first.
//          The communicator makes one call of prepare() or enqueue() at a time. The exception is an enqueue() that runs
//          its work before it returns, which may overlap with any other call.
// Failure  If check_buffer(), check_stream() or prepare() refuses a call, the call has no effect. If an operation that
//          has a number fails, the communicator fails: the executor calls Operations::raise(). All running work ends as
//          soon as it notices a failure of the communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "src/base/result.h"
#include "src/engine/blocks.h"
#include "src/engine/transfers.h"
#include "src/links/remote_memory.h"
#include "src/plan/plan.h"
#include "src/plan/premul.h"
#include "src/proto/connection.h"

namespace rondo {

/// An operation that writes to a window of a peer, signals a peer, or waits for signals of a peer. The signals of one
/// number from one rank to another are counted from the begin of the communicator.
struct OneSided {
  enum class Kind : uint8_t { put, signal, wait };
  Kind kind = Kind::signal;
  uint32_t peer = 0;
  uint32_t signal = 0;              ///< number of the signal, below signal_count
  uint64_t count = 1;               ///< number of signals that the operation sends or waits for
  uint64_t total = 0;               ///< number of such signals from the communicator's begin to this operation's last
  const std::byte *from = nullptr;  ///< source of a put
  uint64_t bytes = 0;
  uint64_t offset = 0;                               ///< byte offset in the buffer of the peer
  std::shared_ptr<const RemoteMemory> to = nullptr;  ///< null if the peer is on another host
  uint64_t window = 0;                               ///< number of the window's registration
};

/// A list of one-sided operations, which together are one operation of their rank. They run in the order of the list.
struct OneSidedBatch {
  uint64_t turn = 0;  ///< 0 if only the stream orders the operations
  std::vector<OneSided> operations;
};

class HostStream;
class Operations;
class Store;

/// The stream of a call. If both members are null, host work runs in the call, and device work on the default stream.
struct StreamRef {
  HostStream *host = nullptr;  ///< a stream of rondo_stream_create(); the caller keeps it alive during the call
  void *device = nullptr;      ///< a stream of a device's driver

  [[nodiscard]] bool none() const { return host == nullptr && device == nullptr; }
};

/// The constant properties of an executor.
struct ExecutorCapabilities {
  rondo_device_executor_t kind = RONDO_DEVICE_EXECUTOR_AUTO;  ///< as the API reports it; AUTO for host memory
  ConnectionGeometry geometry;                                ///< geometry of its connections
  uint32_t channel_count = 1;
  uint64_t post_bytes = 0;            ///< most bytes of a one_shot of load_store; 0 without load_store
  uint64_t exchange_chunk_bytes = 0;  ///< for load_store: largest chunk in bytes, except for one_shot
  uint32_t exchange_channels = 0;     ///< most channels of load_store on a device; 0 on the host
  BufferPlace buffers = BufferPlace::host;  ///< if shared_device or above, load_store uses the ranks' buffers
  bool places_stay = true;  ///< for load_store: true if peers can read a rank's place after the rank has left
  uint32_t connection_channels = 0;  ///< see TunerInput
  bool exports_memory = false;      ///< true if peers read registered buffers that MemoryExporter finds
  bool oversubscribed = false;      ///< true if some host has more ranks than cores
  bool runs_in_call = false;        ///< true if enqueue() without a stream returns when the work is done
  bool exchanges_blocks = false;    ///< true if prepare() takes plans that exchange blocks
  bool exchanges_by_ll = false;     ///< true if plans that exchange small blocks use the protocol ll
  bool sends_messages = false;      ///< true if open_messages() and enqueue_messages() work
  bool puts_between_hosts = false;  ///< true if windows and signals work on several hosts
  bool one_sided_by_stream = false;  ///< true if only streams order one-sided operations, which then have no turns
  uint32_t batch_parts_max = 0;     ///< the most parts of a batch of messages, or 0 for any number
  uint32_t message_parts_max = 1;   ///< the most parts of a message
  bool checks_buffers = true;       ///< false if check_buffer() accepts every buffer
  // Two bytes for barriers. On a device the two bytes are a cache line apart.
  std::byte *barrier_send = nullptr;
  std::byte *barrier_recv = nullptr;
};

/// A rank's memory on its device, in bytes.
struct DeviceBytes {
  uint64_t suspendable = 0;  ///< given back by suspend(); a suspension does not change this number
  uint64_t persistent = 0;   ///< all other memory, except for code
};

/// A plan that an executor has prepared: uploaded, and bound to connections. Like the plan, it lives until all
/// operations that use it have ended.
class PreparedPlan {
 public:
  virtual ~PreparedPlan() = default;
};

/// Details that only a few calls have: the blocks of a _v collective, or the factor of a premul sum.
using CallDetails = std::variant<BlockLists, Factor>;

/// An operation that has its number.
struct WorkItem {
  const Plan *plan = nullptr;
  PreparedPlan *prepared = nullptr;
  const std::byte *send = nullptr;
  std::byte *recv = nullptr;
  const Signature *record = nullptr;  ///< if not null, recorded in place of the plan's signature; read during enqueue()
  uint64_t turn = 0;      ///< counts this rank's operations: 1, 2, 3 and so on, in their order
  uint64_t number = 0;    ///< number of the collective, equal on all ranks
  uint32_t history = 0;   ///< fingerprint() of this operation and all before it
  bool captured = false;  ///< captured into a graph (check_stream()); runs when the graph is launched
  std::shared_ptr<const CallDetails> details = nullptr;  ///< null for most calls

  /// Returns the blocks of a _v collective that exchanges blocks, otherwise null.
  [[nodiscard]] const BlockLists *lists() const { return std::get_if<BlockLists>(details.get()); }
  /// Returns the factor of a premul sum, otherwise null.
  [[nodiscard]] const Factor *factor() const { return std::get_if<Factor>(details.get()); }
};

/// A call runs on its lead. A group also waits for joined streams, and they wait for the group.
enum class StreamRole { lead, joined };

class Executor {
 public:
  virtual ~Executor() = default;

  [[nodiscard]] virtual ExecutorCapabilities capabilities() const = 0;
  /// Describes the executor as text for people: "host memory", "CUDA device 0 (NVIDIA H100)".
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Returns the chunk size for a vector of the given bytes if the user requested no size. 0: the tuner chooses.
  [[nodiscard]] virtual uint64_t chunk_bytes(uint64_t) const { return 0; }

  /// Returns RONDO_ERROR_INVALID_ARGUMENT if the executor cannot work on the buffer. `name` is the buffer's name in the
  /// message. Null with 0 bytes is allowed. Any thread.
  [[nodiscard]] virtual Result<void> check_buffer(const char *name, const void *pointer, size_t bytes) const = 0;
  /// Returns the id of the capture that the stream is in, and 0 without one, or an error if work cannot be enqueued on
  /// the stream. Notes that the next call runs on a lead. Any thread.
  [[nodiscard]] virtual Result<uint64_t> check_stream(StreamRef stream, StreamRole role) const = 0;
  /// Makes later work on `behind` wait for the work that `before` has now. Both are streams of a device that
  /// check_stream() has accepted.
  [[nodiscard]] virtual Result<void> join_streams(StreamRef /*before*/, StreamRef /*behind*/) { return {}; }
  /// Discards what check_stream() has noted about a call. Call it if that call is not enqueued.
  virtual void forget_stream() const {}
  /// Returns the stream for work that belongs to no stream of the caller, such as the barrier of finalize.
  [[nodiscard]] virtual StreamRef own_stream() const = 0;

  /// Lets peers read and write a registered buffer in place, in later calls. Waits a moment for the peers. Any thread
  /// may call share() and unshare(), also during enqueue().
  virtual void share(const void *, size_t) {}
  /// Keeps later calls of peers from using the buffer that begins at this address. RONDO_OK: no peer has the buffer
  /// open, so it may be freed. RONDO_NOT_READY: a peer has it open and has work in flight, so call again later.
  [[nodiscard]] virtual Result<void> unshare(const void *) { return {}; }

  /// Starts the executor, once, before the first work. `operations` must live until end().
  virtual void start(Operations &operations) = 0;
  /// Returns false if prepare() lacks memory for the plan until other prepared plans are destroyed.
  [[nodiscard]] virtual bool has_room(const Plan &) { return true; }
  [[nodiscard]] virtual Result<std::unique_ptr<PreparedPlan>> prepare(const Plan &plan) = 0;
  /// Appends the work to the stream; the items have consecutive numbers. Without a stream, an executor with
  /// runs_in_call completes the work before enqueue() returns. Reports to Operations when work advances and ends. Waits
  /// while a queue is full, or while ranks of a shared launch have not called, until the deadline at most.
  [[nodiscard]] virtual Result<void> enqueue(std::span<const WorkItem> works, StreamRef stream) = 0;

  /// Prepares for messages. It must be called before the first enqueue_messages(). Any thread.
  [[nodiscard]] virtual Result<void> open_messages() {
    return Error{RONDO_ERROR_UNSUPPORTED, describe() + " carries no messages in this version"};
  }
  /// Enqueues a batch of messages, whose turn is set. The executor may move the content out of the batch.
  [[nodiscard]] virtual Result<void> enqueue_messages(MessageBatch &, StreamRef) {
    return Error{RONDO_ERROR_UNSUPPORTED, describe() + " carries no messages in this version"};
  }

  /// Returns how much device memory this rank has. Any thread.
  [[nodiscard]] virtual DeviceBytes device_bytes() const { return {}; }
  /// Returns whether the device runs no work of this communicator for this rank, not even a replay. The answer is
  /// reliable only while no new calls arrive.
  [[nodiscard]] virtual bool is_idle() const { return true; }
  /// Gives device memory back. All ranks must be idle. Until resume() has succeeded on all ranks, no call may use the
  /// device. Do not call share() and unshare(), either.
  [[nodiscard]] virtual Result<void> suspend() { return {}; }
  /// Allocates the memory again that suspend() gave back. Every rank calls it, and all ranks get the same outcome. The
  /// entries that it adds to the store have keys that begin with `key_prefix`.
  [[nodiscard]] virtual Result<void> resume(Store &, const std::string & /*key_prefix*/, uint64_t /*deadline_ns*/) {
    return {};
  }

  // The functions below are for windows. A window is memory of every rank to which the other ranks write.
  /// Prepares for windows and one-sided operations. It must be called before the functions below. Any thread.
  [[nodiscard]] virtual Result<void> open_one_sided() {
    return Error{RONDO_ERROR_UNSUPPORTED, describe() + " has no windows in this version"};
  }
  /// Describes a buffer of this rank for the peers. RONDO_ERROR_INVALID_ARGUMENT: the program has mapped other memory
  /// at its address.
  [[nodiscard]] virtual Result<MemoryPlace> describe_memory(const void *, size_t) const { return MemoryPlace{}; }
  /// Opens a peer's buffer, as Links::open_memory() does.
  [[nodiscard]] virtual Result<std::shared_ptr<const RemoteMemory>> open_memory(uint32_t, const MemoryPlace &) {
    return Error{RONDO_ERROR_UNSUPPORTED, describe() + " has no windows in this version"};
  }
  /// Enqueues one-sided operations, whose turn is set unless one_sided_by_stream. The executor may empty the batch.
  [[nodiscard]] virtual Result<void> enqueue_one_sided(OneSidedBatch &, StreamRef) { return open_one_sided(); }
  /// Waits until the one-sided operations without turns are done. Returns false if the communicator has failed.
  [[nodiscard]] virtual bool wait_for_one_sided() { return true; }
  /// Waits, after a failure, until no thread of this process writes to a window of this rank.
  virtual void wait_for_writers() const {}

  /// Raises a failure that the executor has found but not raised yet. Any thread.
  virtual void look_for_failure() = 0;
  /// Waits, for some seconds at most, until no work uses the caller's buffers. Call it after the last work was
  /// enqueued. Returns false if work may still use the buffers, or if a thread of the executor is inside a call of the
  /// driver. The caller must then call live_on() after end().
  [[nodiscard]] virtual bool quiesce() = 0;
  /// Stops all calls to Operations, which may be destroyed afterwards. May be called again.
  virtual void end() = 0;
  /// Keeps `self`, a pointer to this executor, until no work and no thread uses the executor. Needed only if quiesce()
  /// returned false; call it after end().
  virtual void live_on(std::shared_ptr<Executor> self) = 0;
};

}  // namespace rondo
