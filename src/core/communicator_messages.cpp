// SPDX-License-Identifier: Apache-2.0
// This file numbers the messages and block exchanges of a communicator, and finds messages that were never received.
#include <mutex>
#include <string>

#include "src/base/clock.h"
#include "src/core/communicator.h"
#include "src/core/registry.h"
#include "src/engine/device_batch.h"

namespace rondo {

/// The nanoseconds between a call's checks for an answer from another host.
constexpr uint64_t ask_interval_ns = 1'000'000;

Result<void> Communicator::try_to_open_messages() {
  if (capabilities_.sends_messages) {
    RONDO_TRY(executor_->open_messages());
    messages_opened_.store(true, std::memory_order_release);  // pairs with open_messages()
    return {};
  }
  if (settings_.device != RONDO_DEVICE_HOST) return executor_->open_messages();  // it fails with the reason
  if (!group_.one_node())
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "rondo_send and rondo_recv take at most " + std::to_string(message_ranks_max) +
                     " ranks where these are on several hosts, since each two of them are connected; this communicator "
                     "has " + std::to_string(rank_count_) + " on " + std::to_string(group_.node_count()) +
                     " hosts; make communicators of fewer ranks with rondo_comm_split() for messages"};
  return Error{RONDO_ERROR_UNSUPPORTED, "rondo_send and rondo_recv: the links of this communicator carry no messages"};
}

/// Returns the error of a communicator that has failed, or is suspended or finalized.
Result<void> Communicator::why_unusable() {
  if (operations_.failed()) return operations_.report_failure();
  RONDO_TRY(check_not_suspended());
  return Error{RONDO_ERROR_INVALID_HANDLE, "the communicator is finalized; only destroy is left"};
}

Result<uint64_t> Communicator::check_usable(StreamRef stream) {
  const std::lock_guard lock(submit_lock_);
  RONDO_TRY(check_usable_locked());
  if (stream.none() && capabilities_.runs_in_call) return uint64_t{0};
  return executor_->check_stream(stream, StreamRole::lead);
}

Result<void> Communicator::check_joined(StreamRef stream, uint64_t capture) {
  const std::lock_guard lock(submit_lock_);
  RONDO_TRY_ASSIGN(const uint64_t own, executor_->check_stream(stream, StreamRole::joined));
  if (own == capture) return {};
  return Error{RONDO_ERROR_INVALID_USAGE,
               "a group has calls of one communicator on two streams that are not captured by the same graph; capture "
               "both into one graph, or end the group between them"};
}

Result<void> Communicator::check_count(std::span<const Message> messages) const {
  if (capabilities_.batch_parts_max == 0) return {};
  uint64_t parts = 0;
  for (const Message &message : messages)
    parts += DeviceBatch::part_count(message.bytes, capabilities_.message_parts_max);
  if (parts <= capabilities_.batch_parts_max) return {};
  return Error{RONDO_ERROR_INVALID_USAGE,
               "a group has " + std::to_string(messages.size()) + " messages on a communicator, in " +
                   std::to_string(parts) + " parts; a device takes at most " +
                   std::to_string(capabilities_.batch_parts_max) + " parts at once, so divide the group"};
}

Result<void> Communicator::join_streams(StreamRef before, StreamRef behind) {
  const std::lock_guard lock(submit_lock_);
  return executor_->join_streams(before, behind);
}

Result<void> Communicator::prepare(std::span<const Call> calls) {
  const std::lock_guard lock(submit_lock_);
  RONDO_TRY(check_not_suspended());
  for (const Call &call : calls) RONDO_TRY(planner_.plan_for(call));
  return {};
}

Result<void> Communicator::submit(std::span<const Call> calls, std::span<const Message> messages, StreamRef stream) {
  if (messages.empty()) return submit(calls, stream);
  const bool runs_here = stream.none() && capabilities_.runs_in_call;
  std::vector<WorkItem> works(calls.size());
  MessageBatch batch;
  std::unique_lock lock(submit_lock_);
  RONDO_TRY(check_usable_locked());
  if (!runs_here) {
    RONDO_TRY_ASSIGN(const uint64_t capture, executor_->check_stream(stream, StreamRole::lead));
    batch.captured = capture != 0;
    has_captured_ |= batch.captured;
    for (WorkItem &work : works) work.captured = batch.captured;
  }
  batch.transfers.reserve(messages.size());
  if (messages_.empty()) messages_.resize(2 * size_t{rank_count_});
  if (auto numbered = give_numbers(calls, works); !numbered.ok()) {
    executor_->forget_stream();
    return numbered;
  }
  give_numbers(messages, batch);
  if (runs_here) lock.unlock();
  if (!works.empty()) RONDO_TRY(executor_->enqueue(works, stream));
  return executor_->enqueue_messages(batch, stream);
}

/// Gives the messages their numbers, with submit_lock_ held. It allocates nothing, so it cannot fail.
void Communicator::give_numbers(std::span<const Message> messages, MessageBatch &batch) {
  batch.turn = ++turn_;
  for (const Message &message : messages) {
    OperationSequence &sequence = messages_[2 * size_t{message.peer} + (message.sends ? 1 : 0)];
    sequence.add(message.bytes);
    Transfer &transfer = batch.transfers.add();
    transfer.data = message.data;
    transfer.bytes = message.bytes;
    transfer.message = sequence.number;
    transfer.signature = fingerprint(sequence.history);
    transfer.peer = message.peer;
    transfer.type = static_cast<uint32_t>(message.type);
    transfer.sends = message.sends;
  }
}

Result<uint64_t> Communicator::probe(uint32_t from) {
  if (settings_.device != RONDO_DEVICE_HOST)
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "rondo_probe works on host memory, and this communicator is on a device; call rondo_recv"};
  RONDO_TRY(open_messages());
  const uint64_t begun_ns = now_ns();
  for (;;) {
    uint64_t received = 0;
    {
      const std::lock_guard lock(submit_lock_);
      RONDO_TRY(check_usable_locked());
      if (!messages_.empty()) received = messages_[2 * size_t{from}].number;
    }
    const RankState state = ranks_.state(from);  // read before the report: a rank sends first and leaves later
    const auto report = ranks_.messages()->report(from, rank_, true, 0, begun_ns);
    if (report && report->pair.entered > received) return report->pair.entered - received;
    if (failure()) return operations_.report_failure();
    if (state >= RankState::finalized)
      return Error{RONDO_ERROR_REMOTE, ranks_.describe_rank(from) +
                                           " has left the communicator, and no message of it is known here; do not "
                                           "wait for another one"};
    if (report) return uint64_t{0};
    if (now_ns() - begun_ns >= operations_.timeout_ns())
      return Error{RONDO_ERROR_TIMEOUT, "the host of " + ranks_.describe_rank(from) +
                                            " has not said in rondo_probe which messages that rank has sent"};
    sleep_for_ns(ask_interval_ns);
  }
}

Error Communicator::unreceived(uint32_t from, uint32_t to, uint64_t sent, uint64_t received) const {
  Error error{RONDO_ERROR_MISMATCH, ranks_.describe_rank(from) + " sent " + std::to_string(sent) +
                                        " messages to rank " + std::to_string(to) + ", which received " +
                                        std::to_string(received) + " of them; call rondo_recv for message " +
                                        std::to_string(received + 1) +
                                        " before rondo_comm_finalize, or do not send it"};
  error.rank = static_cast<int32_t>(from);
  error.peer = static_cast<int32_t>(to);
  return error;
}

/// Finds a message that was sent on this host and never received. It runs after the barrier of finalize. By then every
/// rank has completed all its messages, and all ranks of a host see the same counts.
std::optional<Error> Communicator::find_unreceived() {
  const MessageBoards *const boards = ranks_.messages();
  if (boards == nullptr) return std::nullopt;
  for (uint32_t from = 0; from < rank_count_; ++from) {
    if (boards->batches(from).entered == 0) continue;
    if (const auto opened = open_messages(); !opened.ok()) return opened.error();
    for (uint32_t to = 0; to < rank_count_; ++to) {
      if (!boards->knows(to)) continue;
      const uint64_t sent = boards->pair(from, to, true).entered, received = boards->pair(to, from, false).entered;
      if (sent > received) return unreceived(from, to, sent, received);
    }
  }
  return std::nullopt;
}

/// Asks ranks of other hosts which of this rank's messages they have received. It runs after a barrier of finalize.
std::optional<Error> Communicator::find_unreceived_abroad() {
  MessageBoards &boards = *ranks_.messages();
  const uint64_t begun_ns = now_ns();
  for (uint32_t to = 0; to < rank_count_; ++to) {
    uint64_t sent = 0;
    {
      const std::lock_guard lock(submit_lock_);
      if (!messages_.empty() && !boards.knows(to)) sent = messages_[2 * size_t{to} + 1].number;
    }
    while (sent != 0 && !ranks_.failed()) {
      if (const auto report = boards.report(to, rank_, false, 0, begun_ns)) {
        if (report->pair.entered < sent) return unreceived(rank_, to, sent, report->pair.entered);
        break;
      }
      if (now_ns() - begun_ns >= operations_.timeout_ns())
        return Error{RONDO_ERROR_TIMEOUT, "the host of " + ranks_.describe_rank(to) +
                                              " has not said in rondo_comm_finalize which messages that rank received"};
      sleep_for_ns(ask_interval_ns);
    }
  }
  return std::nullopt;
}

/// Returns the number of sent messages minus the number of received ones. If the sum over all ranks is 0, none is lost.
uint64_t Communicator::unreceived_share() {
  const std::lock_guard lock(submit_lock_);
  uint64_t share = 0;
  for (size_t each = 0; each < messages_.size(); ++each)
    share += each % 2 == 1 ? messages_[each].number : uint64_t{0} - messages_[each].number;
  return share;
}

/// Names a message that no rank received, after the barrier of finalize has counted such messages. On a single host,
/// the boards have the counts. On several hosts, each rank asks the ranks of other hosts how many messages they have
/// sent to this rank. The rank that finds a difference raises the error for all.
Error Communicator::name_unreceived(uint64_t unreceived_count) {
  if (auto here = find_unreceived()) return *std::move(here);
  MessageBoards &boards = *ranks_.messages();
  std::vector<uint64_t> received(rank_count_);
  std::vector<uint32_t> to_ask;
  {
    const std::lock_guard lock(submit_lock_);
    for (uint32_t from = 0; from < rank_count_ && !messages_.empty(); ++from)
      received[from] = messages_[2 * size_t{from}].number;
  }
  for (uint32_t from = 0; from < rank_count_; ++from)
    if (!boards.knows(from)) to_ask.push_back(from);
  const uint64_t begun_ns = now_ns();
  while (!ranks_.failed() && now_ns() - begun_ns < operations_.timeout_ns()) {
    for (const uint32_t from : std::vector<uint32_t>(to_ask)) {
      const auto report = boards.report(from, rank_, true, 0, begun_ns);
      if (!report) continue;
      if (report->pair.entered > received[from]) return unreceived(from, rank_, report->pair.entered, received[from]);
      std::erase(to_ask, from);
    }
    sleep_for_ns(ask_interval_ns);
  }
  return {RONDO_ERROR_MISMATCH, std::to_string(unreceived_count) + " messages were sent and not received before "
                                                                   "rondo_comm_finalize"};
}

Result<void> Communicator::check_block_exchange(rondo_collective_t collective) const {
  if (!capabilities_.exchanges_blocks) {
    Error error = executor_->open_messages().error();  // what prevents messages prevents blocks, too
    error.message = std::string("rondo_") + rondo_collective_string(collective) + ": " + error.message;
    return error;
  }
  if (joins_all_.load(std::memory_order_relaxed) == Answer::unknown)
    joins_all_.store(joins_all_hosts(settings_, group_, tuning_) ? Answer::yes : Answer::no, std::memory_order_relaxed);
  if (joins_all_.load(std::memory_order_relaxed) == Answer::yes) return {};
  return Error{RONDO_ERROR_UNSUPPORTED,
               std::string("rondo_") + rondo_collective_string(collective) +
                   " needs a connection between each two ranks of different hosts, and among more than " +
                   std::to_string(message_ranks_max) +
                   " ranks no schedule joins some of them; make communicators of fewer ranks with rondo_comm_split(), "
                   "or set RONDO_ALGORITHM=one_shot on all ranks, which connects all of them"};
}

}  // namespace rondo
