// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/copy_messages.h"

#include <algorithm>
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

/// The link of a transfer whose payloads are in the receiver's segment, and not in its FIFO.
struct CopyLinks : device::TransferLinks {
  uint64_t to_slots = 0;  ///< added to the address of a received payload
  const bool *broken = nullptr;
};

struct CopyProtocol : device::TransferSimple {
  template <Group G>
  static Progress fetch(G group, CopyLinks &links, LinkIndex link, uint32_t which, uint64_t bytes, uint32_t signature,
                        const std::byte *&operand, Fault &fault) {
    const Progress progress = TransferSimple::fetch(group, links, link, which, bytes, signature, operand, fault);
    operand = reinterpret_cast<const std::byte *>(reinterpret_cast<uint64_t>(operand) + links.to_slots);
    return progress;
  }
  template <Group G>
  static void publish(G group, CopyLinks &links, const Step &step) {
    if (!*links.broken) TransferSimple::publish(group, links, step);
  }
};

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
  // The thread writes these, and streams wait for them: how many batches are done, and 1 if the replayed one is.
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
    static constexpr uint32_t divisor = 0;
    CopyMessages *messages;

    template <Group G>
    void operator()(G, const Args &args) const {
      if (args.count != 0) messages->copy(args.outputs[0], args.inputs[0], args.count);
    }
  };
  CopyMessages *messages;
  const uint64_t *to_slots;

  [[nodiscard]] Links links(uint32_t link) const {
    Links made;
    made.to_slots = to_slots[link];
    made.broken = &messages->broken_;
    return made;
  }
  [[nodiscard]] Copier copier() const { return {messages}; }
};

void CopyMessages::Rests::rest() {
  if (++count_ < yields_before_naps) yield_core();
  else sleep_for_ns(nap_ns);
}

CopyMessages::CopyMessages(const PrimaryContext &context, const Segment &segment)
    : driver_(context.get().driver), context_(context.get().context), segment_(segment) {}

Result<std::unique_ptr<CopyMessages>> CopyMessages::make(const PrimaryContext &context, CuStream stream,
                                                         const Segment &segment, const HostLinks &host_links,
                                                         const Flags &flags, uint32_t rank) {
  std::unique_ptr<CopyMessages> made(new CopyMessages(context, segment));
  RONDO_TRY_ASSIGN(made->pinned_, allocate_host_memory(context, sizeof(Words)));
  ::new (made->pinned_.get().object) Words();
  RONDO_TRY_ASSIGN(made->second_stream_, make_stream(context));
  made->streams_[0] = stream;
  made->streams_[1] = made->second_stream_.get().object;
  const uint32_t queue_count_max = 2 * segment.shape().rank_count;
  made->report_words_.resize(word_count(queue_count_max, 1));
  made->use(made->report_words_.data(), queue_count_max, 1, segment.shape().message_geometry);
  made->make_ends(host_links, flags, rank);
  return made;
}

void CopyMessages::make_ends(const HostLinks &host_links, const Flags &flags, uint32_t rank) {
  const SegmentShape &shape = segment_.shape();
  const auto slots_of = [&](uint32_t receiver, uint32_t channel, uint32_t sender) {
    const DevicePointer connection =
        host_links.reaches(sender == rank ? receiver : sender)
            ? host_links.message_connection(channel, sender, receiver)
            : segment_.address_of(receiver) + shape.message_connection_offset(channel, sender);
    return connection + shape.message_geometry.slots_offset();
  };
  for (uint32_t channel = 0; channel < shape.message_channels; ++channel)
    for (uint32_t peer = 0; peer < shape.rank_count; ++peer) {
      const ConnectionView in = flags.messages(rank, channel, peer);
      device::DeviceLinkEnds ends;
      ends.peer = peer;
      ends.simple_out = SimpleSender(flags.messages(peer, channel, rank), 0,
                                     reinterpret_cast<std::byte *>(slots_of(peer, channel, rank)));
      ends.simple_in = SimpleReceiver(in);
      ends_.push_back(ends);
      to_slots_.push_back(slots_of(rank, channel, peer) - reinterpret_cast<uint64_t>(in.payload(0)));
    }
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

Result<void> CopyMessages::enqueue(const DeviceMessages &messages, const StreamWork &work) {
  if (!thread_.joinable()) {
    RONDO_TRY_ASSIGN(thread_, start_thread("messages on a device", [this] { run(); }));
  }
  Batch batch{messages.batch, {}, messages.turn, messages.blocks, messages.captured};
  batch.list.resize(messages.batch->parts().size());
  list_transfers(*messages.batch, segment_.shape().rank_count, batch.list.data());
  RONDO_TRY(enqueue_waits(batch, work));
  {
    const std::lock_guard lock(mutex_);
    (batch.captured ? captured_ : pending_).push_back(std::move(batch));
  }
  changed_.notify_all();
  return {};
}

/// Enqueues the wait of the caller's stream. The thread learns of the batch only after that. So if both use one
/// hardware queue, the thread's test write comes after this wait.
Result<void> CopyMessages::enqueue_waits(const Batch &batch, const StreamWork &work) {
  if (!batch.captured) {
    RONDO_TRY(work.write(place_of(words().begun), ++enqueued_count_));
    return work.wait(place_of(words().done), enqueued_count_);
  }
  if (captured_.size() == captured_batches_max)
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, "a communicator on the copy-engine executor captures messages at most " +
                                                   std::to_string(captured_batches_max) +
                                                   " times; capture more of them as one group"};
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
    } else {
      wait_for_begin(lock, looks);
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

/// Returns whether no batch runs any more. The thread alone calls it.
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
  // The stream writes it again only after the wait for this batch.
  memory::store_relaxed(words().replay, 0);
  return &captured_[replay - 1];
}

void CopyMessages::wait_for_begin(std::unique_lock<std::mutex> &lock, uint32_t looks) {
  if ((pending_.empty() && captured_.empty()) || has_failed()) return changed_.wait(lock);
  if (!pending_.empty() && looks < yields_before_naps) {
    lock.unlock();
    yield_core();
    lock.lock();
  } else {
    changed_.wait_for(lock, !pending_.empty()      ? begin_interval
                            : looks < recent_looks ? replay_interval
                                                   : late_replay_interval);
  }
}

void CopyMessages::run_batch(const Batch &batch) {
  rests_.end();
  if (!pick_stream()) return;
  const uint32_t channel_ends = batch.blocks ? segment_.shape().rank_count : 0;
  device::TransferOperation operation;
  operation.base.abort = &abort_;
  operation.base.progress = &progress_;
  operation.base.result = &result_;
  operation.base.number = batch.turn;
  operation.base.lane_count = 1;
  operation.base.captured = batch.captured ? 1 : 0;
  operation.ends = ends_.data() + channel_ends;
  operation.list = batch.list.data();
  operation.report = report();
  operation.queue_count = batch.messages->queue_count();
  operation.slot_bytes = segment_.shape().message_geometry.slot_bytes;
  shared_.resize(device::transfer_shared_bytes(operation.queue_count, 1) / sizeof(uint64_t));
  device::run_transfers(HostBlock<Rests>{{}, &rests_}, operation, 0, reinterpret_cast<std::byte *>(shared_.data()),
                        Carrier{this, to_slots_.data() + channel_ends});
  if (has_failed()) return;  // stop() ends the wait
  // Both pair with the waits of streams in enqueue_waits().
  if (batch.captured) return memory::store_release(words().replay_done, 1);
  {
    const std::lock_guard lock(mutex_);
    pending_.pop_front();
  }
  memory::store_release(words().done, words().done + 1);
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
    return cuda_error(*driver_, status, "a stream for messages has failed");
  }
  if (probes_[which] == probe_) return true;
  probes_[which] = probe_;
  const StreamWork work{driver_, streams_[which]};
  RONDO_TRY(work.write(place_of(word), probe_));
  return false;
}

void CopyMessages::copy(std::byte *to, const std::byte *from, uint64_t bytes) {
  rests_.end();
  if (broken_) return;
  const StreamWork work{driver_, stream_};
  auto copied = work.copy(reinterpret_cast<DevicePointer>(to), reinterpret_cast<DevicePointer>(from), bytes,
                          "cuMemcpyAsync of a message");
  if (copied.ok()) copied = wait_for_copy();
  if (!copied.ok()) fail(copied.error());
}

/// Waits until the copy has ended. After a failure it still waits, since the copy uses buffers of the caller. After a
/// moment it ends the waits of this rank's streams, because one of them may block the copy's hardware queue.
Result<void> CopyMessages::wait_for_copy() {
  uint32_t rests_since_failure = 0;
  for (;;) {
    const CuStatus status = driver_->stream_query(stream_);
    if (status != CuStatus::not_ready) return cuda_check(*driver_, status, "copying a message");
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
