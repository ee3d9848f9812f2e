// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/copy_messages.h"

#include <chrono>
#include <new>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/base/start_thread.h"
#include "src/proto/memory.h"

namespace rondo::cuda {
namespace {

constexpr size_t captured_batches_max = 1 << 16;
constexpr uint32_t yields_before_naps = 1000;
constexpr uint64_t nap_ns = 20'000;
constexpr uint32_t rests_for_copy = 6000;  // after a failure: 0.1 s
// The thread checks at these intervals whether a batch begins. A graph may be replayed at any time.
constexpr std::chrono::microseconds begin_interval{50}, replay_interval{100}, late_replay_interval{1000};
constexpr uint32_t recent_looks = 2000;
constexpr std::chrono::milliseconds idle_before_end{250};  // the thread ends this long after its last batch

/// A block of one thread that hands its core over while it waits.
template <class Rests>
struct HostBlock : SingleThread {
  Rests *rests = nullptr;
  void relax() const { rests->rest(); }
  void pause() const { relax(); }
};

}  // namespace

/// Words of pinned memory.
struct CopyMessages::Words {
  // Streams write these: how many batches have begun, and 1 + the index of the captured batch that has begun.
  alignas(cache_line_bytes) uint64_t begun = 0;
  uint64_t replay = 0;
  // The thread writes these, and streams wait for them: how many batches are done, and 1 once a replayed batch is.
  alignas(cache_line_bytes) uint64_t done = 0;
  uint64_t replay_done = 0;
  // The thread's streams write these.
  alignas(cache_line_bytes) uint64_t passed[2] = {};
};

/// Moves slices by copies.
struct CopyMessages::Carrier {
  using Links = CopyLinks;
  using Protocol = CopyProtocol;
  struct Copier {
    using Args = device::GroupArgs;
    CopyMessages *messages;
    CopyReduction reduction{};  ///< of a plan
    uint32_t divisor = 0;
    uint32_t element_bytes = 1;

    template <Group G>
    void operator()(G, const Args &args) const {
      if (args.count != 0) messages->move(args, reduction, args.count * element_bytes);
    }
  };
  CopyMessages *messages;

  [[nodiscard]] Links links(uint32_t = 0) const {
    Links made;
    made.fifos = &messages->fifos_;
    made.broken = &messages->broken_;
    return made;
  }
  [[nodiscard]] Copier copier() const { return {messages}; }
};

void CopyMessages::Rests::rest() {
  if (++count_ < yields_before_naps) yield_core();
  else sleep_for_ns(nap_ns);
}

CopyMessages::CopyMessages(const PrimaryContext &context, const Segment &segment, CopyFifos &&fifos)
    : driver_(context.get().driver), context_(context.get().context), segment_(segment), fifos_(std::move(fifos)) {}

Result<std::unique_ptr<CopyMessages>> CopyMessages::make(const PrimaryContext &context, CuStream stream,
                                                         const Segment &segment, CopyFifos &&fifos) {
  std::unique_ptr<CopyMessages> made(new CopyMessages(context, segment, std::move(fifos)));
  RONDO_TRY_ASSIGN(made->pinned_, allocate_host_memory(context, sizeof(Words)));
  ::new (made->pinned_.get().object) Words();
  RONDO_TRY_ASSIGN(made->second_stream_, make_stream(context));
  made->streams_[0] = stream;
  made->streams_[1] = made->second_stream_.get().object;
  const uint32_t queue_count_max = 2 * segment.shape().rank_count;
  made->report_words_.resize(word_count(queue_count_max, 1));
  made->use(made->report_words_.data(), queue_count_max, 1, segment.shape().message_geometry);
  return made;
}

CopyMessages::~CopyMessages() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  memory::store_release(abort_, device::abort_operation);  // pairs with A1 in cuda/kernels/run.h
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<std::shared_ptr<const CopyLanes>> CopyMessages::lanes_of(const Plan &plan) {
  return CopyLanes::make(plan, [&](uint32_t channel, uint32_t peer) {
    return reinterpret_cast<uint64_t>(fifos_.ends(1 + channel) + peer);
  });
}

Result<void> CopyMessages::enqueue(const DeviceMessages &messages, const StreamWork &work) {
  Batch batch{messages.turn, messages.captured, messages.batch};
  batch.list.resize(messages.batch->parts().size());
  list_transfers(*messages.batch, segment_.shape().rank_count, batch.list.data());
  batch.blocks = messages.blocks;
  return enqueue(std::move(batch), work);
}

Result<void> CopyMessages::enqueue(const DeviceCall &call, const StreamWork &work) {
  const auto &plan = static_cast<const CopyPlan &>(*call.plan);
  Batch batch{call.turn, call.captured, nullptr};
  batch.lanes = plan.lanes;
  batch.reduction = plan.reduction;
  batch.buffers = call.buffers;
  batch.divisor = call.divisor;
  return enqueue(std::move(batch), work);
}

Result<void> CopyMessages::enqueue(Batch &&batch, const StreamWork &work) {
  RONDO_TRY(announce());  // first, because later a stream may wait for the thread
  RONDO_TRY(enqueue_waits(batch, work));
  const std::lock_guard lock(mutex_);
  (batch.captured ? captured_ : pending_).push_back(std::move(batch));
  announced_ = false;
  changed_.notify_all();
  return {};
}

/// Makes sure that the thread runs, and that it does not end before the next batch is appended. If that batch cannot be
/// appended, the thread runs until the end, since a stream may wait for the batch.
Result<void> CopyMessages::announce() {
  {
    const std::lock_guard lock(mutex_);
    announced_ = true;
    if (std::exchange(runs_, true)) return {};
  }
  if (thread_.joinable()) thread_.join();  // it has nothing left to do but to leave the driver, which may take a while
  RONDO_TRY_ASSIGN(thread_, start_thread("copies on a device", [this] { run(); }));  // a failure ends the communicator
  return {};
}

/// Enqueues the wait of the caller's stream. The thread learns of the batch only after that. So if both streams share a
/// hardware queue, the thread's test write comes after this wait, and does not pass.
Result<void> CopyMessages::enqueue_waits(const Batch &batch, const StreamWork &work) {
  if (!batch.captured) {
    RONDO_TRY(work.write(place_of(words().begun), ++enqueued_count_));
    return work.wait(place_of(words().done), enqueued_count_);
  }
  if (captured_.size() == captured_batches_max)
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, "a communicator on the copy-engine executor captures at most " +
                                                   std::to_string(captured_batches_max) +
                                                   " calls or groups of messages; capture more messages as one group"};
  RONDO_TRY(work.write(place_of(words().replay), captured_.size() + 1));
  RONDO_TRY(work.wait(place_of(words().replay_done), 1));
  return work.write(place_of(words().replay_done), 0);
}

void CopyMessages::add_failure(DeviceReport &report) const {
  const DeviceReport own = results_.read(result_, false);
  report.failed = own.failed;
  report.failed_number = own.failed_number;
  report.fault = own.fault;
  report.peer = own.peer;
}

bool CopyMessages::is_idle() const {
  const std::lock_guard lock(mutex_);
  return !running_;
}

Result<void> CopyMessages::check() const {
  const std::lock_guard lock(mutex_);
  return error_ && stop_count_ == 0 ? Result<void>(*error_) : Result<void>();
}

void CopyMessages::stop() {
  memory::store_release(abort_, device::abort_operation);  // pairs with A1 in cuda/kernels/run.h
  {
    const std::lock_guard lock(mutex_);
    ++stop_count_;
  }
  changed_.notify_all();
}

void CopyMessages::run() {
  const ContextGuard guard(*driver_, context_);
  const CaptureModeGuard capture_goes_on(*driver_);
  std::unique_lock lock(mutex_);
  uint64_t ended_stop_count = 0;
  for (uint32_t looks = 0; !ending_; ++looks) {
    if (std::exchange(ended_stop_count, stop_count_) != stop_count_) {
      release_streams();
    } else if (const Batch *const batch = find_begun(); batch != nullptr) {
      running_ = true;
      lock.unlock();  // a batch stays in place while others are appended
      run_batch(*batch);
      lock.lock();
      running_ = false;
      looks = 0;
    } else if (!wait_for_begin(lock, looks)) {
      runs_ = false;
      return;  // without a release, which would end the waits for later batches
    }
  }
  release_streams();  // a batch that could not be copied may not have been stopped yet
}

/// Ends the waits of streams for this rank's messages, now and later.
void CopyMessages::release_streams() {
  // Both pair with the waits of streams in enqueue_waits().
  memory::store_release(words().done, flags_released);
  memory::store_release(words().replay_done, flags_released);
}

/// Returns whether this rank has stopped or failed, so that no batch runs any more. Only the thread calls it.
bool CopyMessages::has_failed() const {
  return progress_.verdict != 0 || memory::load_acquire(abort_) != 0;  // pairs with stop() and fail()
}

/// Returns the batch that has begun and has not run, or null.
CopyMessages::Batch *CopyMessages::find_begun() {
  if (has_failed()) return nullptr;
  // The thread is the only one that writes `done`. The loads pair with the streams' writes in enqueue_waits().
  if (!pending_.empty() && memory::load_acquire(words().begun) > words().done) return &pending_.front();
  const uint64_t replay = memory::load_acquire(words().replay);
  if (replay == 0) return nullptr;
  // The stream writes `replay` again only after it has waited for this batch.
  memory::store_relaxed(words().replay, 0);
  return &captured_[replay - 1];
}

/// Waits until something may have changed. Returns false if the thread can end, as no batch is left or announced.
bool CopyMessages::wait_for_begin(std::unique_lock<std::mutex> &lock, uint32_t looks) {
  if (has_failed()) {
    changed_.wait(lock);
  } else if (pending_.empty() && captured_.empty()) {
    if (changed_.wait_for(lock, idle_before_end) == std::cv_status::no_timeout) return true;
    return !pending_.empty() || !captured_.empty() || announced_ || ending_ || has_failed();
  } else if (!pending_.empty() && looks < yields_before_naps) {
    lock.unlock();
    yield_core();
    lock.lock();
  } else {
    changed_.wait_for(lock, !pending_.empty()      ? begin_interval
                            : looks < recent_looks ? replay_interval
                                                   : late_replay_interval);
  }
  return true;
}

void CopyMessages::run_batch(const Batch &batch) {
  rests_.end();
  if (!pick_stream()) return;
  device::DeviceOperation base;
  base.abort = &abort_;
  base.progress = &progress_;
  base.result = &result_;
  base.number = batch.turn;
  base.lane_count = 1;
  base.captured = batch.captured ? 1 : 0;
  batch.messages != nullptr ? run_messages(batch, base) : run_plan(batch, base);
  if (has_failed()) return;  // stop() ends the wait
  // Both pair with the waits of streams in enqueue_waits().
  if (batch.captured) return memory::store_release(words().replay_done, 1);
  {
    const std::lock_guard lock(mutex_);
    pending_.pop_front();
  }
  memory::store_release(words().done, words().done + 1);
}

void CopyMessages::run_messages(const Batch &batch, const device::DeviceOperation &base) {
  const SegmentShape &shape = segment_.shape();
  const uint32_t channel = batch.blocks ? 1 : 0;
  device::TransferOperation operation;
  operation.base = base;
  operation.ends = fifos_.ends(channel);
  operation.list = batch.list.data();
  operation.report = report();
  operation.queue_count = batch.messages->queue_count();
  operation.slot_bytes = (channel < shape.message_channels ? shape.message_geometry : shape.geometry).slot_bytes;
  shared_.resize(device::transfer_shared_bytes(operation.queue_count, 1) / sizeof(uint64_t));
  device::run_transfers(HostBlock<Rests>{{}, &rests_}, operation, 0, reinterpret_cast<std::byte *>(shared_.data()),
                        Carrier{this});
}

void CopyMessages::run_plan(const Batch &batch, const device::DeviceOperation &base) {
  device::begin_operation(base, progress_.ended_kernels);
  const uint64_t verdict = run_lanes(batch, base);
  device::report(base, 1, verdict, 0, [this] { return device::load_ends(progress_); });
}

/// Advances all lanes of a plan in turn, until they have ended. Returns a verdict, or 0.
uint64_t CopyMessages::run_lanes(const Batch &batch, const device::DeviceOperation &base) {
  struct Lane {
    const device::DeviceChannel *channel;
    const LaneProgram *program;
    LaneState state;
  };
  std::vector<Lane> lanes;
  for (const device::DeviceChannel &channel : batch.lanes->channels())
    for (uint32_t lane = 0; lane < channel.lane_count; ++lane) lanes.push_back({&channel, channel.lanes + lane, {}});
  const HostBlock<Rests> group{{}, &rests_};
  const Carrier carrier{this};
  bool told = false;
  while (!lanes.empty()) {  // bounded by the deadline, at which stop() is called
    bool moved = false;
    for (auto lane = lanes.begin(); lane != lanes.end();) {
      CopyLinks links = carrier.links();
      links.ends = lane->channel->links;
      links.program = lane->program;
      const Carrier::Copier copier{this, batch.reduction, batch.divisor, lane->program->element_bytes};
      const Progress progress =
          advance<HostBlock<Rests>, CopyProtocol>(group, lane->state, *lane->program, batch.buffers, copier, links);
      if (progress == Progress::failed)
        return pack_verdict(device::Outcome::fault, lane->state.fault, links.at(lane->state.fault_link).peer);
      moved |= progress == Progress::moved || progress == Progress::done;
      lane = progress == Progress::done ? lanes.erase(lane) : lane + 1;
    }
    if (moved ? has_failed() : must_stop(base, told)) return pack_verdict(device::Outcome::stopped, Fault::none, 0);
    if (!moved) group.relax();
  }
  return 0;
}

/// Finds a stream whose hardware queue is not blocked by another stream that waits. Returns false if stop() was called
/// before it found one.
bool CopyMessages::pick_stream() {
  ++probe_;
  for (uint32_t which = 0;; which = 1 - which) {  // bounded by the deadline, at which stop() is called
    const auto passes = try_stream(which);
    if (!passes.ok()) fail(passes.error());
    if (has_failed()) return false;
    if (passes.value()) {
      stream_ = streams_[which];
      rests_.end();
      return true;
    }
    if (which == 1) rests_.rest();
  }
}

/// Returns whether the write that was enqueued for this batch has completed. A stream has one such write at a time.
Result<bool> CopyMessages::try_stream(uint32_t which) {
  const uint64_t &word = words().passed[which];
  if (memory::load_acquire(word) != probes_[which]) {  // pairs with the stream's write
    const CuStatus status = driver_->stream_query(streams_[which]);
    if (status == CuStatus::success || status == CuStatus::not_ready) return false;
    return cuda_error(*driver_, status, "a stream for copies has failed");
  }
  if (probes_[which] == probe_) return true;
  probes_[which] = probe_;
  const StreamWork work{driver_, streams_[which]};
  RONDO_TRY(work.write(place_of(word), probe_));
  return false;
}

void CopyMessages::move(const device::GroupArgs &args, const CopyReduction &reduction, uint64_t bytes) {
  rests_.end();
  if (broken_) return;
  auto moved = reduction.enqueue_slice({driver_, stream_}, args, bytes);
  if (moved.ok()) moved = wait_for_copy();
  if (!moved.ok()) fail(moved.error());
}

/// Waits until the copy has ended. After a failure it still waits, since the copy uses buffers of the caller. After 0.1
/// s it ends the waits of this rank's streams, because one of them may block the copy's hardware queue.
Result<void> CopyMessages::wait_for_copy() {
  uint32_t rests_since_failure = 0;
  for (;;) {
    const CuStatus status = driver_->stream_query(stream_);
    if (status != CuStatus::not_ready) return cuda_check(*driver_, status, "moving a slice");
    if (memory::load_acquire(abort_) != 0 && ++rests_since_failure == rests_for_copy) release_streams();  // see stop()
    rests_.rest();
  }
}

void CopyMessages::fail(const Error &error) {
  broken_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
  }
  memory::store_release(abort_, device::abort_operation);  // pairs with A1 in cuda/kernels/run.h
}

}  // namespace rondo::cuda
