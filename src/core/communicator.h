// SPDX-License-Identifier: Apache-2.0
// This class is one rank's side of a communicator. It owns the transport, the executor and the planner. The API
// validates arguments and calls submit(), which gives each operation its number and its plan. The executor then runs
// the operations in the order of their numbers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "src/base/config.h"
#include "src/base/cpu.h"
#include "src/bootstrap/store/store.h"
#include "src/core/diagnostics/failure_dump.h"
#include "src/core/grow_id.h"
#include "src/core/planner.h"
#include "src/core/registration_cache.h"
#include "src/core/regroup_log.h"
#include "src/core/window.h"
#include "src/engine/executor.h"
#include "src/engine/operations.h"
#include "src/links/init_context.h"
#include "src/links/transport.h"

namespace rondo {

class Part;

/// One end of a message, after the API has checked its arguments.
struct Message {
  uint32_t peer = 0;
  bool sends = false;
  rondo_type_t type = RONDO_INT8;
  std::byte *data = nullptr;  ///< buffer; a send only reads it
  uint64_t bytes = 0;
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  /// The objects from which a communicator is made, once all ranks have met.
  struct Parts {
    uint32_t rank = 0;
    uint32_t rank_count = 1;
    Settings settings;
    GroupInfo group;
    std::unique_ptr<Transport> transport;
    std::shared_ptr<Executor> executor;  ///< executor, which may use the transport
    RegionTable *regions = nullptr;
    const TuningTable *tuning = nullptr;  ///< may be null; outlives the communicator
    Secret secret{};                      ///< secret of the communicator's bootstrap, known only to its ranks
  };
  explicit Communicator(Parts parts);
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;
  ~Communicator();

  [[nodiscard]] uint32_t rank() const { return rank_; }
  [[nodiscard]] uint32_t rank_count() const { return rank_count_; }
  [[nodiscard]] const Settings &settings() const { return settings_; }
  [[nodiscard]] const GroupInfo &group() const { return group_; }
  [[nodiscard]] const Links &links() const { return links_; }
  [[nodiscard]] const ExecutorCapabilities &capabilities() const { return capabilities_; }
  [[nodiscard]] const Secret &secret() const { return secret_; }
  [[nodiscard]] const Ranks &ranks() const { return ranks_; }
  [[nodiscard]] RegistrationCache &registration_cache() { return registrations_; }
  [[nodiscard]] RegroupLog &regroup_log() { return regroup_log_; }
  [[nodiscard]] WindowTable &windows() { return windows_; }
  [[nodiscard]] GrowIds &grow_ids() { return grow_ids_; }
  [[nodiscard]] const Planner &planner() const { return planner_; }

  /// Returns RONDO_ERROR_INVALID_ARGUMENT if the executor cannot work on this memory.
  [[nodiscard]] Result<void> check_buffer(const char *name, const void *pointer, size_t bytes) const {
    return capabilities_.checks_buffers ? executor_->check_buffer(name, pointer, bytes) : Result<void>();
  }

  /// Lets the executor make a registered buffer accessible to peers.
  void share(const Registration &registration) { executor_->share(registration.first, registration.bytes); }
  /// Removes a registration as rondo_comm_deregister() does.
  Result<void> remove_registration(const Registration *registration);

  /// Gives the calls consecutive numbers and enqueues them on the stream. If there is no stream, calls on host memory
  /// run before submit() returns. If one call is refused, none is submitted.
  Result<void> submit(std::span<const Call> calls, StreamRef stream);
  Result<void> submit(const Call &call, StreamRef stream) { return submit(std::span(&call, 1), stream); }

  /// Submits the calls, then all messages as one operation. A send of this rank to itself comes with its receive.
  Result<void> submit(std::span<const Call> calls, std::span<const Message> messages, StreamRef stream);
  /// Prepares for messages. If this communicator cannot carry messages, returns RONDO_ERROR_UNSUPPORTED with the
  /// reason. Any thread may call it.
  [[nodiscard]] Result<void> open_messages() {
    if (messages_opened_.load(std::memory_order_acquire)) return {};  // pairs with try_to_open_messages()
    return try_to_open_messages();
  }
  /// Returns, for rondo_probe(), how many messages `from` has begun to send and this rank has not begun to receive.
  [[nodiscard]] Result<uint64_t> probe(uint32_t from);
  /// Returns RONDO_ERROR_UNSUPPORTED with the reason if this communicator cannot exchange blocks. Callers check this
  /// before a collective that exchanges blocks. All ranks get the same answer. Any thread may call it.
  [[nodiscard]] Result<void> check_block_exchange(rondo_collective_t collective) const;
  /// Returns RONDO_ERROR_UNSUPPORTED with the reason if this communicator can have no windows. On one host, it always
  /// can have windows.
  [[nodiscard]] Result<void> check_windows() const;
  /// Prepares for windows and one-sided operations, if the communicator is usable. Any thread may call it.
  [[nodiscard]] Result<void> open_one_sided();
  /// Prepares for a one-sided operation on the stream. Refuses a captured stream: preparing would end the capture.
  [[nodiscard]] Result<void> open_one_sided(StreamRef stream);
  /// Returns the error with which submit() of these operations would fail at once.
  [[nodiscard]] Result<void> check_one_sided(std::span<const OneSided> operations, StreamRef stream);
  /// Describes a buffer of this rank for open_memory() of the other ranks.
  [[nodiscard]] Result<MemoryPlace> describe_memory(const void *pointer, size_t bytes) const {
    return executor_->describe_memory(pointer, bytes);
  }
  [[nodiscard]] Result<std::shared_ptr<const RemoteMemory>> open_memory(uint32_t peer, const MemoryPlace &place) {
    return executor_->open_memory(peer, place);
  }
  /// Lets ranks of other hosts write to a buffer of this rank, as Links::expose_window() does.
  void expose_window(uint64_t number, std::span<std::byte> buffer) { links_.expose_window(number, buffer); }
  void withdraw_window(uint64_t number) { links_.withdraw_window(number); }
  /// Submits one-sided operations as one operation of this rank, and counts their signals.
  Result<void> submit(std::span<const OneSided> operations, StreamRef stream);
  /// After a failure, waits until no thread of this process writes to a window of this rank. On a device, also lets
  /// ended operations release their windows, even without a failure.
  void wait_for_writers() const {
    if (ranks_.failed() || capabilities_.one_sided_by_stream) executor_->wait_for_writers();
  }
  /// Returns the id of the capture that `stream` is in, and 0 without one, or the error with which submit() on it would
  /// fail at once.
  [[nodiscard]] Result<uint64_t> check_usable(StreamRef stream);
  /// Checks that `stream` can be joined with one that is in this capture, which check_usable() has returned.
  [[nodiscard]] Result<void> check_joined(StreamRef stream, uint64_t capture);
  /// Makes later work on `behind` wait for the work that `before` has now. For streams of a device only.
  [[nodiscard]] Result<void> join_streams(StreamRef before, StreamRef behind);
  /// Checks that the messages of a group are not more than a batch may have.
  [[nodiscard]] Result<void> check_count(std::span<const Message> messages) const;
  /// Discards the notes of check_usable() about the stream. Call it if no submit() follows.
  void forget_stream() { executor_->forget_stream(); }
  /// Makes the plans of the calls, so that submit() finds them. Fails with the reason if one of the calls cannot run.
  [[nodiscard]] Result<void> prepare(std::span<const Call> calls);

  /// Gives a split its turn among the operations of this rank. The other ranks see `record`, which must live as long as
  /// the result. The caller must call end_split() later. A suspend is a split that follows begin_suspend().
  [[nodiscard]] Result<WorkItem> begin_split(const Signature &record);
  /// Waits until all ranks have begun the split. This rank's later operations wait for it. Any thread may call it.
  [[nodiscard]] Result<void> end_split(const WorkItem &split);

  // A suspension lasts from begin_suspend() until end_suspension() (src/core/suspend.h). During it, no call may use the
  // device or its memory.
  /// The work of a suspend or a resume, which makes every error the failure of the communicator.
  using Change = Result<void>(Communicator &comm, const std::shared_ptr<Part> &meeting);
  /// Refuses all later operations, so that none of them comes before the barrier of the suspend. If the communicator is
  /// nonblocking, starts a thread that calls work(). Otherwise the caller calls work(). A refused call has no effect.
  [[nodiscard]] Result<void> begin_suspend(Change &work, const std::shared_ptr<Part> &meeting);
  /// Returns the kept meeting, and keeps it no longer. Starts a thread in the same way.
  [[nodiscard]] Result<std::shared_ptr<Part>> begin_resume(Change &work);
  /// Returns whether a thread of begin_suspend() or begin_resume() works. Once it does not, the caller sees its work.
  [[nodiscard]] bool is_changing() const { return changing_.load(std::memory_order_acquire); }  // pairs with its thread
  /// Ends such a thread, and lets no other one start. If the thread still works, the communicator fails. Any thread.
  void end_changes();
  [[nodiscard]] bool is_suspended() const { return suspended_.load(std::memory_order_relaxed); }  // see suspended_
  /// Keeps `meeting`, the part in which the ranks meet to resume. close() ends it.
  void keep_meeting(std::shared_ptr<Part> meeting);
  void end_suspension();
  /// Returns RONDO_ERROR_INVALID_USAGE if the communicator is suspended.
  [[nodiscard]] Result<void> check_not_suspended() const;
  [[nodiscard]] Executor &executor() { return *executor_; }
  [[nodiscard]] const Executor &executor() const { return *executor_; }
  /// Returns the communicator's failure, as a collective reports it to its caller.
  [[nodiscard]] Error report_failure() { return operations_.report_failure(); }

  /// Returns sums of times and counts over all operations that this rank has completed so far.
  [[nodiscard]] RecordedStatistics statistics() const;

  /// Returns the first failure, if any, after a check for peers that have died.
  [[nodiscard]] std::optional<Error> failure();
  /// Ends all operations, here and on the other ranks, with RONDO_ERROR_ABORTED. If nothing is in flight on this rank,
  /// it only leaves: then operations of other ranks fail if they need this rank, and complete if they do not.
  void abort();
  /// Ends all operations, here and on the other ranks, with RONDO_ERROR_REVOKED.
  void revoke();
  /// Calls revoke(). On host memory, it also waits until no operation of this rank uses its buffers.
  void end_operations();
  /// Publishes a note, which the other ranks read with ranks().notes().
  void post(const Note &note) { ranks_.post(note); }
  /// Raises an error that a caller outside of the operations found, unless the communicator is finalized. Any thread
  /// may call it.
  void fail(const Error &error);
  /// Waits for this rank's operations, then until every rank has called finalize().
  Result<void> finalize();
  /// Waits for this rank's operations, and returns the failure if there is one.
  Result<void> flush();
  /// Waits for this rank's operations, then leaves the group.
  void close();
  /// Publishes that this process exits, if no operation of this rank is unfinished. Peers then fail only if they need
  /// this rank.
  void exit();
  /// Returns whether close() has begun. Any thread may call it.
  [[nodiscard]] bool is_closed() const { return closed_.load(std::memory_order_acquire); }  // pairs with close()

 private:
  /// Waits for this rank's operations.
  Result<void> drain();
  /// Leaves the group with `error`, if nothing is in flight on this rank. Returns false otherwise.
  [[nodiscard]] bool leave(const Error &error);
  /// Returns whether no operation of this rank is unfinished. The caller holds submit_lock_.
  [[nodiscard]] bool is_between_operations() const {
    return operations_.executed() == turn_ && executor_->is_idle() && !ranks_.failed();
  }
  /// Checks that the communicator is usable, with submit_lock_ held.
  Result<void> check_usable_locked() {
    if (!ranks_.failed() && !halted_) return {};  // leave() sets halted_, too
    return why_unusable();
  }
  Result<void> why_unusable();
  [[nodiscard]] Result<void> start_change(Change &work, const std::shared_ptr<Part> &meeting);
  Result<void> check_not_captured_locked(StreamRef stream);
  [[nodiscard]] uint64_t &total_of(const OneSided &operation);
  /// Counts the signals of the operations, and sets each one's total. If one operation is refused, none is counted.
  Result<void> count_signals(std::span<OneSided> operations);
  Result<void> try_to_open_messages();
  void give_numbers(std::span<const Message> messages, MessageBatch &batch);
  [[nodiscard]] std::optional<Error> find_unreceived();
  [[nodiscard]] std::optional<Error> find_unreceived_abroad();
  /// Returns how many messages this rank has sent, minus how many it has received, modulo 2^64.
  [[nodiscard]] uint64_t unreceived_share();
  [[nodiscard]] Error name_unreceived(uint64_t unreceived_count);
  [[nodiscard]] Error unreceived(uint32_t from, uint32_t to, uint64_t sent, uint64_t received) const;
  Result<void> submit_as(std::span<WorkItem> works, std::span<const Call> calls, StreamRef stream);
  Result<void> give_numbers(std::span<const Call> calls, std::span<WorkItem> works);
  void record_failure(bool waits);
  /// Returns the number that follows the latest collective that this rank has completed.
  [[nodiscard]] uint64_t next_number() const { return ranks_.completed_operation(rank_) + 1; }

  const uint32_t rank_;
  const uint32_t rank_count_;
  const Settings settings_;
  const GroupInfo group_;
  const TuningTable *const tuning_;
  enum class Answer : uint8_t { unknown, no, yes };
  /// Result of joins_all_hosts(), from the first call that needs it. Relaxed: all threads compute the same answer.
  mutable std::atomic<Answer> joins_all_ = Answer::unknown;
  const Secret secret_;
  const std::unique_ptr<Transport> transport_;
  Links &links_;  ///< links of transport_
  Ranks &ranks_;  ///< ranks of transport_
  FailureDump dump_;
  std::atomic<bool> failure_logged_ = false;  ///< relaxed: it only makes the first thread log
  RegistrationCache registrations_;
  RegroupLog regroup_log_;
  GrowIds grow_ids_;
  WindowTable windows_;
  Operations operations_;
  const std::shared_ptr<Executor> executor_;  ///< outlives the plans
  const ExecutorCapabilities capabilities_;   ///< capabilities of executor_

  /// Guards the members below, except for the atomics. Work that does not run in the caller's thread is enqueued under
  /// this lock, so that streams keep the order of turns. An enqueue may block, if a queue is full or other ranks of a
  /// shared kernel have not called yet. Other callers then sleep in lock().
  ShortLock submit_lock_;
  Planner planner_;
  OperationSequence collectives_;
  std::vector<OperationSequence> messages_;  ///< two entries for each peer: received, then sent
  /// Two counts for each peer and signal number: the signals that this rank has waited for, and then the sent ones.
  std::vector<uint64_t> signals_;
  uint64_t turn_ = 0;  ///< turn of the latest operation
  bool finalized_ = false;
  bool halted_ = false;                  ///< true: finalized, suspended, or left by abort()
  bool has_captured_ = false;            ///< true after a capture: a graph may run the operation at any time
  std::atomic<bool> suspended_ = false;  ///< relaxed, since readers without the lock only choose a message
  std::shared_ptr<Part> meeting_;        ///< while suspended: the part in which the ranks meet to resume
  std::atomic<bool> closed_ = false;           ///< stored by close()
  std::atomic<bool> messages_opened_ = false;  ///< stored by try_to_open_messages()
  std::atomic<bool> changing_ = false;         ///< stored by start_change() and its thread
  std::mutex change_mutex_;                    ///< guards the members below; may be taken with submit_lock_ held
  bool changes_ended_ = false;                 ///< after end_changes()
  std::thread changer_;                        ///< the thread of the latest start_change()
};

}  // namespace rondo
