// SPDX-License-Identifier: Apache-2.0
#include "src/engine/host_executor.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/base/float_mode.h"
#include "src/engine/host_operands.h"
#include "src/engine/host_stream.h"
#include "src/engine/run_plan.h"
#include "src/engine/watch.h"

namespace rondo {
namespace {

/// Returns a task for a stream that runs `body`. The task keeps the communicator alive.
template <class Body>
Task task_of(Operations &operations, Body body) {
  return [&operations, body = std::move(body), owner = operations.keep_communicator()]() mutable {
    return body() ? Result<void>() : operations.report_failure();
  };
}

}  // namespace

Error replaced_memory(const std::string &operation, uint32_t rank) {
  return {RONDO_ERROR_SYSTEM, "rank " + std::to_string(rank) +
                                  ": a buffer of rondo_mem_alloc(), or one registered with moved pages, has other "
                                  "memory mapped at its address (mmap with MAP_FIXED, mremap) during " +
                                  operation + "; deregister or free it before you map it anew"};
}

/// The links of this rank that a plan runs over, and the reducer.
struct HostExecutor::Bound final : PreparedPlan {
  std::vector<std::vector<LinkEnds *>> ends;  ///< indexed by channel and link
  std::vector<HostLinks> links;               ///< one for each channel, with spans of `ends`
  HostReducer reducer;
  uint64_t send_bytes = 0, recv_bytes = 0;
  bool exports = false;  ///< true if a buffer is large enough to export, and the plan works in it
};

HostExecutor::HostExecutor(Parts parts)
    : parts_(std::move(parts)),
      links_(*parts_.links),
      ends_(size_t{links_.channel_count()} * parts_.rank_count),
      scratch_(std::max(links_.geometry().slot_bytes, links_.geometry().ll_slot_bytes)),
      blocks_({std::span(ends_).first(parts_.rank_count), &links_.peers(), &scratch_, parts_.rank,
               parts_.wait.sleeps}),
      one_sided_(links_, parts_.wait, parts_.rank_count) {
  std::vector<uint32_t> kinds;
  for (uint32_t peer = 0; peer < parts_.rank_count; ++peer)
    kinds.push_back(peer == parts_.rank ? 0 : links_.readable_kinds(peer));
  for (uint32_t channel = 0; channel < links_.channel_count(); ++channel) {
    for (uint32_t peer = 0; peer < parts_.rank_count; ++peer) {
      LinkEnds &ends = ends_[size_t{channel} * parts_.rank_count + peer];
      ends.peer = peer;
      ends.readable_kinds = kinds[peer];
      ends.simple_out = SimpleSender(links_.outgoing(channel, peer));
      ends.simple_in = SimpleReceiver(links_.incoming(channel, peer));
      ends.ll_out = LlSender(links_.outgoing(channel, peer));
      ends.ll_in = LlReceiver(links_.incoming(channel, peer));
    }
  }
  exchange_ = ExchangeEnd(links_.exchange(), parts_.rank, std::move(kinds), links_.peers(), parts_.wait.sleeps);
}

ExecutorCapabilities HostExecutor::capabilities() const {
  ExecutorCapabilities own;
  own.geometry = links_.geometry();
  own.channel_count = links_.channel_count();
  own.post_bytes = links_.exchange().geometry.post_bytes;
  own.exchange_chunk_bytes = links_.exchange().geometry.chunk_bytes;
  own.exports_memory = true;
  own.oversubscribed = parts_.oversubscribed;
  own.runs_in_call = true;
  own.exchanges_blocks = own.exchanges_by_ll = true;
  own.sends_messages = links_.carries_messages();
  own.puts_between_hosts = links_.has_signals();
  own.checks_buffers = parts_.is_device_memory != nullptr;
  own.barrier_send = const_cast<std::byte *>(&barrier_buffer_[0]);
  own.barrier_recv = const_cast<std::byte *>(&barrier_buffer_[1]);
  return own;
}

Result<void> HostExecutor::check_buffer(const char *name, const void *pointer, size_t bytes) const {
  if (bytes == 0 || parts_.is_device_memory == nullptr || !parts_.is_device_memory(pointer)) return {};
  return invalid_argument(std::string(name) +
                          " is memory of a CUDA device, but the communicator is on the host; set rondo_config_t.device "
                          "to that device's number when you make one");
}

Result<uint64_t> HostExecutor::check_stream(StreamRef stream, StreamRole /*role*/) const {
  if (stream.device == nullptr) return uint64_t{0};
  return Error{RONDO_ERROR_INVALID_HANDLE,
               "the stream is not a handle that Rondo has made, but the communicator is on host memory; pass one of "
               "rondo_stream_create(), or NULL"};
}

Result<std::unique_ptr<PreparedPlan>> HostExecutor::prepare(const Plan &plan) {
  auto bound = std::make_unique<Bound>();
  for (uint32_t channel = 0; channel < plan.schedules.size(); ++channel) {
    std::vector<LinkEnds *> ends;
    for (const uint32_t peer : plan.schedules[channel].peers)
      ends.push_back(&ends_[size_t{channel} * parts_.rank_count + peer]);
    bound->ends.push_back(std::move(ends));
  }
  for (const auto &ends : bound->ends)
    bound->links.push_back({ends, &links_.peers(), &scratch_, parts_.wait.sleeps});
  const auto type = static_cast<rondo_type_t>(plan.key.signature.type);
  const auto op = static_cast<rondo_op_t>(plan.key.signature.op);
  bound->send_bytes = plan.send.count * rondo_type_size(type);
  bound->recv_bytes = plan.recv.count * rondo_type_size(type);
  bound->exports = !plan.widened && plan.scaling != Scaling::into_workspace &&
                   std::max(bound->send_bytes, bound->recv_bytes) >= export_bytes_min;
  bound->reducer.divisor = op == RONDO_AVG ? parts_.rank_count : 0;
  bound->reducer.function = reduce_function(type, op);
  bound->reducer.small_function = reduce_function_plain(type, op);
  return std::unique_ptr<PreparedPlan>(std::move(bound));
}

Result<void> HostExecutor::enqueue(std::span<const WorkItem> works, StreamRef stream) {
  for (const WorkItem &work : works) {
    const bool done = stream.host == nullptr ? execute(work, nullptr) : enqueue_on(*stream.host, work);
    if (!done) return operations_->report_failure();
  }
  return {};
}

bool HostExecutor::enqueue_on(HostStream &stream, const WorkItem &work) {
  const auto enqueued = stream.enqueue(
      task_of(*operations_, [this, work, own = &stream] { return execute(work, own); }),
      now_ns() + operations_->timeout_ns());
  if (enqueued.ok()) return true;
  operations_->raise_not_enqueued(enqueued.error(), work.number);
  operations_->give_up_turns();
  return false;
}

bool HostExecutor::execute(const WorkItem &work, const HostStream *stream) {
  return take_turn(work.turn, work.number, [&] { return run_collective(work, stream); });
}

Result<void> HostExecutor::open_messages() {
  if (messages_.load(std::memory_order_acquire) != nullptr) return {};
  if (!links_.carries_messages()) return Executor::open_messages();
  const std::lock_guard lock(opening_);
  if (opened_ != nullptr) return {};
  RONDO_TRY(links_.open_messages());
  opened_ = std::make_unique<HostMessages>(links_, parts_.rank, parts_.rank_count, parts_.wait);
  messages_.store(opened_.get(), std::memory_order_release);  // pairs with all acquire loads of messages_
  return {};
}

template <class Batch, class Body>
Result<void> HostExecutor::enqueue_batch(Batch &batch, StreamRef stream, const char *what, const Body &body) {
  if (stream.host == nullptr) return body(batch, true) ? Result<void>() : operations_->report_failure();
  const auto enqueued = [&]() -> Result<void> {
    try {
      const auto kept = std::make_shared<Batch>(std::move(batch));
      return stream.host->enqueue(task_of(*operations_, [kept, body] { return body(*kept, false); }),
                                  now_ns() + operations_->timeout_ns());
    } catch (const std::bad_alloc &) {
      return Error{RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"};
    }
  }();
  if (enqueued.ok()) return {};
  Error error = enqueued.error();
  error.message = what + (" could not be enqueued: " + error.message);
  operations_->raise(std::move(error), 0);
  operations_->give_up_turns();
  return operations_->report_failure();
}

Result<void> HostExecutor::enqueue_messages(MessageBatch &batch, StreamRef stream) {
  HostMessages *const messages = messages_.load(std::memory_order_acquire);  // pairs with open_messages()
  return enqueue_batch(batch, stream, "messages", [this, messages](MessageBatch &of, bool in_call) {
    return take_turn(of.turn, 0, [&] { return messages->run(of.transfers.all(), *operations_, in_call); });
  });
}

Result<void> HostExecutor::open_one_sided() {
  if (links_.has_signals()) return links_.open_one_sided();
  return Error{RONDO_ERROR_UNSUPPORTED, "the ranks of this communicator share no memory, so they have no windows"};
}

Result<MemoryPlace> HostExecutor::describe_memory(const void *pointer, size_t bytes) const {
  const auto *const first = static_cast<const std::byte *>(pointer);
  MemoryPlace place;
  place.address = reinterpret_cast<uintptr_t>(pointer);
  place.bytes = bytes;
  const MemoryHandle handle = operations_->registration_cache().find(first, bytes);
  if (handle.replaced) {
    Error error = replaced_memory("rondo_window_register", parts_.rank);
    error.status = RONDO_ERROR_INVALID_ARGUMENT;
    return error;
  }
  if (handle.kind != PayloadKind::mapped || first < handle.first || bytes > handle.bytes ||
      static_cast<uint64_t>(first - handle.first) > handle.bytes - bytes)
    return place;
  place.kind = PayloadKind::mapped;
  place.inode = handle.inode;
  place.region_offset = handle.region_offset + static_cast<uint64_t>(first - handle.first);
  place.region_bytes = handle.region_bytes;
  place.descriptor = handle.descriptor;
  return place;
}

Result<void> HostExecutor::enqueue_one_sided(OneSidedBatch &batch, StreamRef stream) {
  return enqueue_batch(batch, stream, "one-sided operations", [this](OneSidedBatch &of, bool) {
    return take_turn(of.turn, 0, [&] { return one_sided_.run(of.operations, *operations_); });
  });
}

template <class Body>
bool HostExecutor::take_turn(uint64_t turn, uint64_t number, const Body &body) {
  if (operations_->wait_for_predecessor(turn) && run(number, body)) {
    operations_->mark_executed(turn);
    return true;
  }
  operations_->give_up_turns();
  return false;
}

template <class Body>
bool HostExecutor::run(uint64_t number, const Body &body) {
  // Four accesses are sequentially consistent: this store, the check for a failure below, the raising of a failure, and
  // the load in quiesce(). So either quiesce() sees that this operation runs, or this operation sees the failure.
  running_.store(true, std::memory_order_seq_cst);
  bool done = false;
  try {
    done = body();
  } catch (const std::exception &) {  // memory ran out; the other ranks must not wait for this rank
    links_.set_running(false);
    operations_->raise({RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"}, number);
    if (number != 0) operations_->ranks().fail(number);
    links_.wait_for_readers();
  }
  running_.store(false, std::memory_order_release);  // pairs with the load in quiesce()
  return done;
}

bool HostExecutor::quiesce() {
  // After a failure, running work may read the caller's buffers until it ends by itself. Work that begins later sees
  // the failure first, because this load and the store in run() are sequentially consistent.
  while (running_.load(std::memory_order_seq_cst)) std::this_thread::sleep_for(std::chrono::microseconds(100));
  return true;
}

/// Exports the buffers that are large enough and that peers can read. `send` is the memory that the plan sends.
void HostExecutor::export_buffers(const WorkItem &work, const std::byte *send, const Bound &bound,
                                  Buffers &buffers) const {
  const auto find = [&](const std::byte *first, uint64_t bytes, MemoryHandle &handle) {
    if (bytes >= export_bytes_min) handle = operations_->registration_cache().find(first, bytes);
  };
  find(send, bound.send_bytes, buffers.send.handle);
  const bool same_buffer = work.recv == send && work.plan->recv == work.plan->send;
  if (same_buffer)
    buffers.recv.handle = buffers.send.handle;
  else
    find(work.recv, bound.recv_bytes, buffers.recv.handle);
  if (buffers.send.handle.replaced || buffers.recv.handle.replaced)
    operations_->raise(replaced_memory("operation " + std::to_string(work.number), parts_.rank), work.number);
}

bool HostExecutor::run_collective(const WorkItem &work, const HostStream *stream) {
  const Plan &plan = *work.plan;
  if (plan.widened) return run_with<MeanOperands>(work, stream);
  if (plan.scaling != Scaling::none) return run_with<ScaledOperands>(work, stream);
  return run_with<PlainOperands>(work, stream);
}

template <class Operands>
bool HostExecutor::run_with(const WorkItem &work, const HostStream *stream) {
  auto &bound = static_cast<Bound &>(*work.prepared);
  const Plan &plan = *work.plan;
  Ranks &ranks = operations_->ranks();
  const OperationInfo entered = Operations::info_of(work);
  ranks.enter(work.number, entered);
  const uint64_t waited_before_ns = stream != nullptr ? stream->waited_ns() : 0;

  Buffers buffers;
  buffers.signature = work.history;
  // A send window is only read: the schedule has no step that writes it, except in place.
  buffers.send.data = const_cast<std::byte *>(work.send);
  buffers.send.origin = plan.send.begin;
  buffers.recv.data = work.recv;
  buffers.recv.origin = plan.recv.begin;
  const Operands operands(work, parts_.rank_count);
  operands.place(buffers);
  if (operands.exports && bound.exports) export_buffers(work, buffers.send.data, bound, buffers);

  OperationWatch watch(ranks, parts_.rank, parts_.rank_count, work.number, entered, operations_->timeout_ns());
  RunOutcome outcome{RunOutcome::Kind::stopped};
  links_.set_running(true);
  if (!ranks.failed()) {
    Waiter waiter(parts_.wait, links_.peers(), watch);
    const DefaultFloatMode mode;  // callers may have other modes, but all ranks must get equal results
    const auto run = [&](const OperandScaler *scaler) {
      if (plan.schedules.empty()) return blocks_.run(work, *operations_, waiter);
      if (plan.choice.kernel == RONDO_KERNEL_LOAD_STORE)
        return exchange_.run(plan, buffers, bound.reducer, waiter, scaler);
      return run_plan(plan, buffers, bound.reducer, bound.links, waiter);
    };
    if (stay_in_reach(work.number, waiter)) outcome = operands.run(buffers, run);
  }
  links_.set_running(false);
  if (outcome.kind == RunOutcome::Kind::fault)
    watch.explain_fault(outcome.peer, outcome.fault, links_.peers().own_shortage());
  // Even if this rank has received all data, it checks for a failure. A peer that failed may have withdrawn an exported
  // buffer while this rank read the buffer.
  if (outcome.kind != RunOutcome::Kind::done || ranks.failed()) {
    ranks.fail(work.number);
    links_.wait_for_readers();  // as the caller may free its buffers once this call returns
    return false;
  }
  operands.finish();
  OperationCost cost = Operations::cost_of(plan);
  if (const BlockLists *lists = work.lists()) cost.bytes = lists->total_bytes;
  cost.in_call = stream == nullptr;
  if (stream != nullptr) cost.waited_ns = stream->waited_ns() - waited_before_ns;
  ranks.complete(work.number, cost);
  return true;
}

/// Keeps this rank close to its peers. An operation that exchanges no data, such as a call of 0 elements, never blocks,
/// so a rank could run ahead without bound. It would then overwrite records that a peer still needs to detect a
/// disagreement. So once in `interval` operations, this rank waits until no peer is more than `interval` operations
/// behind. Returns false if the waiter ends the wait.
bool HostExecutor::stay_in_reach(uint64_t number, Waiter &waiter) const {
  constexpr uint64_t interval = recorded_operation_count / 2;  // the most by which a lead grows before the next check
  if (number % interval != 0) return true;
  const Ranks &ranks = operations_->ranks();
  for (uint32_t peer = 0; peer < parts_.rank_count; ++peer)
    while (peer != parts_.rank && ranks.latest_operation(peer) + interval <= number)
      if (!waiter.idle()) return false;
  waiter.moved();
  return true;
}

}  // namespace rondo
