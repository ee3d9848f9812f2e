// SPDX-License-Identifier: Apache-2.0
#include "src/engine/device_executor.h"

#include <cassert>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/parse.h"
#include "src/base/start_thread.h"
#include "src/engine/blocks.h"
#include "src/engine/device_monitor.h"
#include "src/engine/watch.h"
#include "src/plan/block_lanes.h"

namespace rondo {
namespace {

constexpr uint64_t abandoned_interval_ns = 5'000'000;
constexpr uint64_t peers_check_interval_ns = 20'000'000;

/// Returns whether the block that a rank sends to itself is at one address in both buffers.
bool is_own_in_place(const WorkItem &work, const Blocks &blocks, uint32_t rank) {
  return work.send + blocks.to(rank).begin_bytes == work.recv + blocks.from(rank).begin_bytes;
}

/// Returns the blocks of a collective as transfers. A block of this rank for itself gives two transfers.
std::vector<Transfer> transfers_of(const WorkItem &work, const Ranks &ranks, uint32_t rank, uint32_t rank_count) {
  const Blocks blocks(work.plan->key.signature, work.lists(), rank);
  const bool in_place = work.plan->key.in_place && blocks.exchanges_in_place();
  std::vector<Transfer> transfers;
  const auto add = [&](uint32_t peer, bool sends, const Block &block) {
    if (block.bytes == 0 && work.lists() == nullptr) return;
    const std::byte *const base = sends ? work.send : work.recv;
    // A send buffer is only read, unless it is also the recv buffer.
    auto *const data = block.bytes == 0 ? nullptr : const_cast<std::byte *>(base + block.begin_bytes);
    // A slot from another host does not give the size of its block. So a _v block's signature includes the size.
    const bool signs_size = work.lists() != nullptr && !ranks.is_near(peer);
    const uint32_t signature = signs_size ? fingerprint(extend_history(work.history, block.bytes)) : work.history;
    transfers.push_back({data, block.bytes, 1, signature, peer, 0, sends, nullptr, in_place});
  };
  const bool moves_own = !in_place && blocks.sends_to(rank) && blocks.receives_from(rank) &&
                         !is_own_in_place(work, blocks, rank);
  if (moves_own) {
    add(rank, true, blocks.to(rank));
    add(rank, false, blocks.from(rank));
  }
  const Signature &call = work.plan->key.signature;
  const Collective &traits = traits_of(static_cast<rondo_collective_t>(call.collective));
  each_block_lane(traits, rank, rank_count, call.root, in_place, [&](const BlockLane &lane) {
    add(lane.peer, lane.sends, lane.sends ? blocks.to(lane.peer) : blocks.from(lane.peer));
  });
  return transfers;
}

}  // namespace

bool EnqueueWait::is_over() {
  Ranks &ranks = operations_.ranks();
  if (ranks.failed()) return true;
  const uint64_t now = now_ns(), begun_calls = device_.report().begun_calls;
  if (std::exchange(begun_calls_, begun_calls) != begun_calls || deadline_ns_ == 0)
    deadline_ns_ = now + operations_.timeout_ns();
  if (now >= deadline_ns_) return true;
  if (now < next_peers_check_ns_) return false;
  next_peers_check_ns_ = now + peers_check_interval_ns;
  // A batch of messages has no number, so only the death of a rank is checked.
  const bool has_number = number_ != 0;
  auto ended = find_ended_rank(ranks, operations_.rank(), operations_.rank_count(), has_number ? number_ : UINT64_MAX,
                               has_number ? RankEnd::any : RankEnd::death);
  if (ended && !has_number)
    ended->message += "; rank " + std::to_string(operations_.rank()) + " waits in a call that enqueues messages";
  if (ended) ranks.raise(*ended);
  return ended.has_value();
}

DeviceExecutor::DeviceExecutor() = default;
DeviceExecutor::~DeviceExecutor() { assert(monitor_ == nullptr); }  // end() was called: the monitor uses this object

void DeviceExecutor::start(Operations &operations) {
  operations_ = &operations;
  Launches::of_process().add(*this);
  monitor_ = std::make_unique<DeviceMonitor>(*this, operations);
}

std::unique_lock<std::shared_mutex> DeviceExecutor::try_quiet() { return Launches::of_process().try_quiet(); }

std::vector<uint32_t> DeviceExecutor::find_dead() const { return operations_->ranks().find_dead(); }

std::string DeviceExecutor::describe_rank(uint32_t rank) const { return operations_->ranks().describe_rank(rank); }

Result<void> DeviceExecutor::enqueue(std::span<const WorkItem> works, StreamRef stream) {
  Result<void> done;
  for (auto work = works.begin(); work != works.end() && done.ok(); ++work) done = enqueue_one(*work, stream.device);
  forget_stream();
  return done;
}

Result<void> DeviceExecutor::enqueue_one(const WorkItem &work, void *stream) {
  const Plan &plan = *work.plan;
  DeviceCall call;
  call.plan = work.prepared;
  call.turn = work.turn;
  call.number = work.number;
  call.divisor = static_cast<rondo_op_t>(plan.key.signature.op) == RONDO_AVG ? operations_->rank_count() : 0;
  call.captured = work.captured;
  if (const Factor *factor = work.factor()) call.factor = *factor;
  call.buffers.signature = work.history;
  // The schedule has no step that writes the send window, so the cast is safe.
  call.buffers.send = {const_cast<std::byte *>(work.send), plan.send.begin, {}};
  call.buffers.recv = {work.recv, plan.recv.begin, {}};
  const DeviceMessages blocks{blocks_of(work), work.turn, work.number, true, work.captured};
  const OperationInfo entered = Operations::info_of(work);
  operations_->ranks().enter(work.number, entered);
  // The monitor must watch the operation before launch() begins, because launch() waits while the queue is full.
  OperationCost cost = Operations::cost_of(plan);
  if (const BlockLists *lists = work.lists()) cost.bytes = lists->total_bytes;
  monitor_->add(work, entered, cost, blocks.batch);
  const auto launched = launch_held(work.number, work.captured, [&]() -> Result<void> {
    if (!plan.schedules.empty()) return launch_plan(plan, call, stream);
    if (blocks.batch == nullptr) return Error{RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"};
    return launch_messages(blocks, stream);
  });
  if (launched.ok()) return {};
  monitor_->withdraw(work.turn);
  operations_->raise_not_enqueued(launched.error(), work.number);
  operations_->ranks().fail(work.number);
  return operations_->report_failure();
}

Result<void> DeviceExecutor::launch_plan(const Plan &plan, const DeviceCall &call, void *stream) {
  if (!plan.widened && plan.scaling == Scaling::none) return launch(call, stream);
  DeviceCall prepared = call;
  RONDO_TRY_ASSIGN(prepared.buffers, prepare_operands(plan, call, stream));
  RONDO_TRY(launch(prepared, stream));
  return plan.widened ? narrow(plan, call, operations_->rank_count(), stream) : Result<void>();
}

std::shared_ptr<const DeviceBatch> DeviceExecutor::blocks_of(const WorkItem &work) const {
  if (!work.plan->schedules.empty()) return nullptr;
  try {
    const auto blocks = transfers_of(work, operations_->ranks(), operations_->rank(), operations_->rank_count());
    return std::make_shared<const DeviceBatch>(blocks, part_count_max(true));
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

template <class Launch>
Result<void> DeviceExecutor::launch_held(uint64_t number, bool captured, const Launch &launches) {
  EnqueueWait wait(*this, *operations_, number);
  // Opening memory of peers may wait for the device, so it happens before this call is in flight. If other work is in
  // flight now, this call does not open the memory, and a later one does.
  const bool follows = !captured && has_peer_news() && try_quiet().owns_lock();
  if (follows && !follow_peers(wait)) return opening_timed_out();
  const auto held = Launches::of_process().hold(wait);
  return held.owns_lock() ? launches() : opening_timed_out();
}

Result<void> DeviceExecutor::open_messages() {
  if (!capabilities().sends_messages)
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "messages on device memory take at most " + std::to_string(batch_ranks_max) +
                     " ranks; this communicator on " + describe() +
                     " has more: make communicators of fewer ranks with rondo_comm_split(), or use host memory on one "
                     "host"};
  return operations_->ranks().messages()->open();
}

Result<void> DeviceExecutor::enqueue_messages(MessageBatch &batch, StreamRef stream) {
  DeviceMessages messages;
  messages.turn = batch.turn;
  messages.captured = batch.captured;
  const auto launched = [&]() -> Result<void> {
    try {
      messages.batch = std::make_shared<const DeviceBatch>(batch.transfers.all(), part_count_max(false));
      monitor_->add(messages);
    } catch (const std::bad_alloc &) {
      return Error{RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"};
    }
    return launch_held(0, batch.captured, [&] { return launch_messages(messages, stream.device); });
  }();
  forget_stream();
  if (launched.ok()) return {};
  monitor_->withdraw(batch.turn);
  Error error = launched.error();
  error.message = "messages could not be enqueued: " + error.message;
  operations_->raise(std::move(error), 0);
  return operations_->report_failure();
}

Result<void> DeviceExecutor::enqueue_one_sided(OneSidedBatch &batch, StreamRef stream) {
  const auto launched = launch_held(0, false, [&]() -> Result<void> {
    try {
      return launch_one_sided(batch, stream.device);
    } catch (const std::bad_alloc &) {
      return Error{RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"};
    }
  });
  if (launched.ok()) return {};
  // The signals of these operations are already counted, so the failure must end the waits of other ranks.
  Error error = launched.error();
  error.message = "a one-sided operation could not be enqueued: " + error.message;
  operations_->raise(std::move(error), 0);
  return operations_->report_failure();
}

/// Returns the error of a call that waited too long. It is raised only if the communicator has not failed before.
Error DeviceExecutor::opening_timed_out() const {
  return {RONDO_ERROR_TIMEOUT,
          "rank " + std::to_string(operations_->rank()) + " waited longer than its timeout of " +
              show_seconds(operations_->timeout_ns()) +
              " s while its process opened or closed memory that other ranks had registered or deregistered. That "
              "waits for all work on a device, the application's included. Check what does not end on " +
              describe() + ", or on another device of the process, or raise timeout_ms (RONDO_TIMEOUT)"};
}

void DeviceExecutor::look_for_failure() {
  const std::lock_guard lock(monitor_mutex_);  // another thread may be in end()
  if (monitor_ != nullptr) monitor_->report_fault();
}

bool DeviceExecutor::quiesce() {
  if (monitor_ == nullptr) return true;
  std::string what;
  if (monitor_->quiesce(quiesce_patience_ns)) {
    if (stop_sharing()) return true;
    what = "Opening or closing memory that other ranks have registered waits for it. ";
  }
  abandoned_ = true;
  log::warning({log::Subsystem::device, operations_->rank()},
               "work on " + describe() + " has not ended. " + what + "The communicator's memory is freed when it has");
  return false;
}

void DeviceExecutor::end() {
  end_one_sided();
  std::unique_ptr<DeviceMonitor> ending;
  {
    const std::lock_guard lock(monitor_mutex_);
    ending = std::move(monitor_);
  }
  ending.reset();  // the monitor's last check still uses the operations in flight
  if (!abandoned_) Launches::of_process().remove(*this);
}

/// Keeps the executor alive until no stream has an operation of its destroyed communicator.
void DeviceExecutor::live_on(std::shared_ptr<Executor> self) {
  const SignalsBlocked blocked;
  std::thread([this, self = std::move(self)] {
    while (!drained() || !has_stopped_sharing()) {  // ends with the process at the latest
      stop();
      sleep_for_ns(abandoned_interval_ns);
    }
    Launches::of_process().remove(*this);
  }).detach();
}

void DeviceExecutorDeleter::operator()(DeviceExecutor *executor) const noexcept {
  bool handed_over = false;
  try {
    const std::string device = executor->describe();
    std::promise<void> promise;
    const std::future<void> done = promise.get_future();
    auto thread = start_thread("memory that is given back", [executor, promise = std::move(promise)]() mutable {
      delete executor;
      promise.set_value();
    });
    handed_over = thread.ok();
    if (!handed_over) log::warning(log::Subsystem::device, thread.error().message);
    if (handed_over && done.wait_for(std::chrono::nanoseconds(quiesce_patience_ns)) == std::future_status::ready)
      return thread.value().join();
    if (handed_over) {
      thread.value().detach();
      log::warning(log::Subsystem::device, "a communicator's memory on " + device +
                                               " is freed later, because the driver waits for other work there");
    }
  } catch (const std::bad_alloc &) {  // memory ran out for the message or the thread
  }
  if (!handed_over) delete executor;  // this thread destroys it, and may wait for the device
}

}  // namespace rondo
