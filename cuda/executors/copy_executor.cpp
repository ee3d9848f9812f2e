// SPDX-License-Identifier: Apache-2.0
// Among ranks of one host, the copy-engine executor walks a plan when it is called, and enqueues each step on the
// stream. A step has waits for flags, copies, a small kernel if operands are reduced, and writes of flags. While it
// waits, it occupies no multiprocessor. Between hosts, CopyMessages runs the plan.
//
// Ordering, for slot c of the connection from rank s to r. The device orders each rank's work by its stream.
//     s  wait consumed >= c + 1 - slot_count     pairs with r's write of consumed: the slot's last reader has finished
//        copy into the slot
//        write signature (an operation's first slot), posted = c + 1, each after a fence: it publishes the copy
//     r  wait posted >= c + 1, signature equal   pairs with s's writes
//        copy or reduce out of the slot
//        write consumed = c + 1
// The host counts c for the whole life of the communicator. A captured call uses other words and counts from 0 in them,
// so that each replay does the same. It adds these steps for each connection that it uses:
//     r  first    write arrived = 1              r's earlier calls have emptied the slots that s posted in them
//     s  first    wait arrived >= 1              pairs with r's write: every slot is free
//                 write arrived = 0
//     s  last     wait consumed >= all           r has emptied what s posted: every slot is free again
//                 write consumed = 0
//     r  last     write posted = 0               r has waited for the last of these slots
//
// Replays. A graph holds constants, and a captured call leaves its words at 0, as it found them. So it does not
// matter how often a graph runs, nor whether other graphs or calls run before and after it. All ranks must have the
// same order.
// - No rank writes a word of a captured call while another rank is still in an earlier call:
//   arrived    s writes 0 before it posts. Rank r ends the call after these posts, and writes its next 1 later.
//   posted     s writes it after it saw arrived = 1. Rank r wrote that 1 after the posted = 0 of its call before.
//   consumed   r writes it after it saw posted. Rank s wrote that after the consumed = 0 of its call before.
// - All slots are free when a captured call begins to write them (arrived), and when it ends (consumed). So the counts
//   of the other calls, which a captured call does not touch, stay true.
// - No rank waits for ever. Each rank writes arrived before it waits. This write needs only its earlier calls. Then
//   slots are free as at a communicator's first call, so copy_walk.h applies. Emptying a slot needs no later call.
//
// Failure. stop() ends every wait of this rank. It is called repeatedly until the streams have ended, because streams
// may still write those words: peers post, and a captured call writes its zeros. Slots are then written while they are
// read, so the data is useless, but harmless. The memory written belongs to this rank, or to a segment that stays as
// long as it is mapped here. No caller takes the data for a result, because the communicator had failed before
// (DeviceReport::ends_when_stopped).
#include <algorithm>
#include <optional>
#include <vector>

#include "cuda/executors/copy_fifos.h"
#include "cuda/executors/copy_messages.h"
#include "cuda/executors/copy_plan.h"
#include "cuda/executors/copy_progress.h"
#include "cuda/executors/copy_walk.h"
#include "cuda/executors/executor_base.h"
#include "cuda/executors/segment_memory.h"
#include "cuda/transport/flags.h"
#include "cuda/kernels/reduction.h"
#include "cuda/kernels/plan_image.h"
#include "cuda/executors/stream_work.h"

namespace rondo::cuda {
namespace {

constexpr uint64_t chunk_bytes_min = 256 << 10;

class CopyExecutor final : public ExecutorBase {
 public:
  ~CopyExecutor() override { begin_to_end(); }
  [[nodiscard]] ExecutorCapabilities capabilities() const override {
    ExecutorCapabilities own = ExecutorBase::capabilities();
    own.kind = RONDO_DEVICE_EXECUTOR_COPY;
    own.sends_messages = own.exchanges_blocks = segment_.shape().message_channels != 0;
    return own;
  }
  /// Returns a chunk size that gives enough chunks to overlap, but too few to fill the stream's launch queue.
  [[nodiscard]] uint64_t chunk_bytes(uint64_t bytes) const override {
    return std::min<uint64_t>(std::max(bytes / 16, chunk_bytes_min), geometry().slot_bytes);
  }
  [[nodiscard]] Result<uint64_t> check_stream(StreamRef stream, StreamRole role) const override;
  [[nodiscard]] Result<std::unique_ptr<PreparedPlan>> prepare(const Plan &plan) override;
  [[nodiscard]] Result<void> launch(const DeviceCall &call, void *stream) override;
  [[nodiscard]] Result<void> launch_messages(const DeviceMessages &messages, void *stream) override;
  [[nodiscard]] const BatchProgress *batch_progress() const override { return messages_.get(); }
  [[nodiscard]] DeviceReport report() const override;
  [[nodiscard]] bool drained() const override {
    return progress_.drained() && (messages_ == nullptr || messages_->is_idle()) &&
           (one_sided() == nullptr || one_sided()->is_idle());
  }
  void stop() override {
    flags_.release();
    if (messages_ != nullptr) messages_->stop();
    if (one_sided() != nullptr) one_sided()->stop();
  }
  [[nodiscard]] Result<void> check_device() const override;

  [[nodiscard]] Result<void> connect(const PlacedRequest &request, InfoExchange &info_exchange) override;

 private:
  [[nodiscard]] Result<void> check_memory_operations();
  [[nodiscard]] StreamWork work_on(CuStream stream) const { return {driver_, stream, wait_flags_}; }

  [[nodiscard]] CopyEnds &ends(const DeviceCall &call, uint32_t channel, uint32_t peer) {
    return (call.captured ? captured_ends_ : ends_)[size_t{channel} * segment_.shape().rank_count + peer];
  }
  /// Returns the address of the word `posted` in the part of `rank`, for its connections with `peer`.
  [[nodiscard]] DevicePointer posted(const DeviceCall &call, uint32_t rank, uint32_t channel, uint32_t peer) const {
    return flags_.word(call.captured ? FlagWord::captured_posted : FlagWord::posted, rank, channel, peer);
  }
  [[nodiscard]] DevicePointer consumed(const DeviceCall &call, uint32_t rank, uint32_t channel, uint32_t peer) const {
    return flags_.word(call.captured ? FlagWord::captured_consumed : FlagWord::consumed, rank, channel, peer);
  }
  /// Returns the address of the slot with that counter in the connection from `sender` to `receiver`.
  [[nodiscard]] DevicePointer slot(uint32_t channel, uint32_t sender, uint32_t receiver, uint64_t counter) const;
  [[nodiscard]] uint64_t slot_index(uint64_t counter) const { return counter & (geometry().slot_count - 1); }

  [[nodiscard]] Result<void> open_links(const DeviceCall &call, const StreamWork &work);
  [[nodiscard]] Result<void> close_links(const DeviceCall &call, const StreamWork &work);
  template <class Visit>
  [[nodiscard]] Result<void> each_captured_end(const Visit &visit);

  template <class Enqueue>
  [[nodiscard]] Result<void> enqueue_call(const DeviceCall &call, void *stream, const Enqueue &enqueue);
  [[nodiscard]] Result<void> enqueue_all(const DeviceCall &call, const StreamWork &work);
  [[nodiscard]] Result<void> wait_for_links(const CopySlice &slice, const DeviceCall &call, const StreamWork &work);
  [[nodiscard]] CopyOperands operands_of(const CopySlice &slice, const DeviceCall &call);
  [[nodiscard]] Result<void> move(const CopySlice &slice, const DeviceCall &call, const StreamWork &work);
  [[nodiscard]] Result<void> reduce(const CopySlice &slice, const DeviceCall &call, const CopyOperands &operands,
                                     DevicePointer output, const StreamWork &work) const;
  [[nodiscard]] Result<void> tell_links(const CopySlice &slice, const DeviceCall &call, const StreamWork &work);

  uint32_t rank_ = 0;
  bool on_one_node_ = true;
  unsigned wait_flags_ = wait_value_geq;
  std::optional<Error> no_capture_;      ///< why the driver captures no stream memory operations
  std::vector<CopyEnds> ends_;           ///< by channel and peer
  std::vector<CopyEnds> captured_ends_;  ///< for the call that is being captured
  CopyProgress progress_;
  Flags flags_;
  std::unique_ptr<CopyMessages> messages_;  ///< may be null; declared after everything that it uses
};

Result<void> CopyExecutor::connect(const PlacedRequest &request, InfoExchange &info_exchange) {
  RONDO_TRY(open(request));
  rank_ = request.rank;
  RONDO_TRY_ASSIGN(const SegmentShape shape, choose_copy_segment(request));
  RONDO_TRY(progress_.open(context_));
  RONDO_TRY(check_memory_operations());
  RONDO_TRY(connect_segment(request, shape, info_exchange));
  progress_.use_scratch(segment_.address() + shape.bytes() - CopyProgress::scratch_bytes);
  on_one_node_ = request.on_one_node();
  FlagShape flags{shape.rank_count, shape.channel_count, shape.geometry, shape.message_channels,
                  shape.message_geometry, shape.message_channels};
  uint32_t maker = 0;
  if (!on_one_node_) {
    flags.channel_count = 0;
    flags.fifo_channels = 1 + shape.channel_count;
    maker = request.group.ranks_of(request.group.node_of(rank_))[0];
  }
  ends_.resize(size_t{flags.channel_count} * shape.rank_count);
  captured_ends_.resize(ends_.size());
  RONDO_TRY_ASSIGN(flags_, Flags::connect(context_, flags, maker, info_exchange));
  if (flags.fifo_channels != 0) {
    RONDO_TRY_ASSIGN(messages_, CopyMessages::make(context_, stream_.get().object, segment_,
                                                   CopyFifos(segment_, host_links_, network_, flags_)));
  }
  join_stream_users(request);
  return {};
}

/// Checks the device during connect(), because a failed launch later would fail the communicator.
Result<void> CopyExecutor::check_memory_operations() {
  RONDO_TRY_ASSIGN(wait_flags_, wait_flags_of(*driver_, device_.ordinal, describe()));
  const ContextGuard guard(*driver_, context_.get().context);
  RONDO_TRY(guard.status());
  const auto tried = try_capture(work_on(stream_.get().object), context_.get().context, progress_.spare_word());
  if (!tried.ok()) no_capture_ = tried.error();
  CaptureStatus left = CaptureStatus::none;
  RONDO_TRY(cuda_check(*driver_, driver_->stream_is_capturing(stream_.get().object, &left), "cuStreamIsCapturing"));
  if (left != CaptureStatus::none) return tried;  // the capture could not be ended
  return {};
}

Result<uint64_t> CopyExecutor::check_stream(StreamRef stream, StreamRole role) const {
  RONDO_TRY_ASSIGN(const uint64_t capture, ExecutorBase::check_stream(stream, role));
  if (capture == 0 || !no_capture_) return capture;
  return Error{RONDO_ERROR_UNSUPPORTED,
               "the stream is being captured, but the driver of " + describe() +
                   " does not capture stream memory operations, which the copy-engine executor waits by (" +
                   no_capture_->message +
                   "); make the communicator with RONDO_DEVICE_EXECUTOR=kernel, or call outside of the capture"};
}

Result<std::unique_ptr<PreparedPlan>> CopyExecutor::prepare(const Plan &plan) {
  RONDO_TRY(segment_.check_links(plan));
  RONDO_TRY(reserve_operands(plan));
  auto made = std::make_unique<CopyPlan>();
  made->plan = &plan;
  if (plan.schedules.empty()) return std::unique_ptr<PreparedPlan>(std::move(made));  // it exchanges blocks
  if (const std::string name = device::reduce_kernel_name(plan); !name.empty()) {
    RONDO_TRY_ASSIGN(made->reduction.kernel, kernels_.find(name));
    made->reduction.op = device::reduce_op(plan);
  }
  if (!on_one_node_) {
    RONDO_TRY_ASSIGN(made->lanes, messages_->lanes_of(plan));
  }
  return std::unique_ptr<PreparedPlan>(std::move(made));
}

DevicePointer CopyExecutor::slot(uint32_t channel, uint32_t sender, uint32_t receiver, uint64_t counter) const {
  const DevicePointer connection =
      host_links_.reaches(sender == rank_ ? receiver : sender)
          ? host_links_.connection(channel, sender, receiver)
          : segment_.address_of(receiver) + segment_.shape().connection_offset(channel, sender, receiver);
  return connection + geometry().slots_offset() + slot_index(counter) * geometry().slot_bytes;
}

Result<void> CopyExecutor::launch(const DeviceCall &call, void *stream) {
  return enqueue_call(call, stream, [&](const StreamWork &work) {
    return on_one_node_ ? enqueue_all(call, work) : messages_->enqueue(call, work);
  });
}

Result<void> CopyExecutor::launch_messages(const DeviceMessages &messages, void *stream) {
  const DeviceCall call{nullptr, {}, messages.turn, messages.number, 0, messages.captured};
  return enqueue_call(call, stream, [&](const StreamWork &work) { return messages_->enqueue(messages, work); });
}

DeviceReport CopyExecutor::report() const {
  DeviceReport report = progress_.report();
  if (messages_ != nullptr) messages_->add_failure(report);
  return report;
}

Result<void> CopyExecutor::check_device() const {
  RONDO_TRY(ExecutorBase::check_device());
  return messages_ != nullptr ? messages_->check() : Result<void>();
}

/// Calls enqueue(work). Before and after it, enqueues writes of the words that report the call's progress.
template <class Enqueue>
Result<void> CopyExecutor::enqueue_call(const DeviceCall &call, void *stream_handle, const Enqueue &enqueue) {
  auto *const stream = static_cast<CuStream>(stream_handle);
  const StreamWork work = work_on(stream);
  const ContextGuard guard(*driver_, context_.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY(follow_last_stream(stream, call.captured));
  RONDO_TRY(progress_.begin(work, call.captured));
  const auto done = enqueue(work);
  const auto ended = progress_.end(work, call, done.ok());
  note_enqueued(call.turn, call.number);
  if (done.ok() && ended.ok() && !call.captured) note_last_stream(stream);
  return done.ok() ? ended : done;
}

Result<void> CopyExecutor::enqueue_all(const DeviceCall &call, const StreamWork &work) {
  if (call.captured) RONDO_TRY(open_links(call, work));
  const auto walked = walk_plan(*static_cast<CopyPlan &>(*call.plan).plan, [&](const CopySlice &slice) -> Result<void> {
    RONDO_TRY(wait_for_links(slice, call, work));
    RONDO_TRY(move(slice, call, work));
    return tell_links(slice, call, work);
  });
  return walked.ok() && call.captured ? close_links(call, work) : walked;
}

/// Calls visit(end, channel, peer), which returns a Result<void>, for each connection that the captured call uses.
template <class Visit>
Result<void> CopyExecutor::each_captured_end(const Visit &visit) {
  const uint32_t rank_count = segment_.shape().rank_count;
  for (uint32_t index = 0; index < captured_ends_.size(); ++index) {
    const CopyEnds &end = captured_ends_[index];
    if (end.sends || end.receives) RONDO_TRY(visit(end, index / rank_count, index % rank_count));
  }
  return {};
}

Result<void> CopyExecutor::open_links(const DeviceCall &call, const StreamWork &work) {
  std::fill(captured_ends_.begin(), captured_ends_.end(), CopyEnds());
  RONDO_TRY(walk_plan(*static_cast<CopyPlan &>(*call.plan).plan, [&](const CopySlice &slice) {
    for (const uint32_t peer : targets_of(slice)) ends(call, slice.channel, peer).sends = true;
    for (const uint32_t peer : sources_of(slice)) ends(call, slice.channel, peer).receives = true;
    return Result<void>();
  }));
  RONDO_TRY(each_captured_end([&](const CopyEnds &end, uint32_t channel, uint32_t peer) {
    return end.receives ? work.write(flags_.word(FlagWord::arrived, peer, channel, rank_), 1) : Result<void>();
  }));
  return each_captured_end([&](const CopyEnds &end, uint32_t channel, uint32_t peer) -> Result<void> {
    if (!end.sends) return {};
    const DevicePointer arrived = flags_.word(FlagWord::arrived, rank_, channel, peer);
    RONDO_TRY(work.wait(arrived, 1));
    return work.write(arrived, 0);
  });
}

Result<void> CopyExecutor::close_links(const DeviceCall &call, const StreamWork &work) {
  return each_captured_end([&](const CopyEnds &end, uint32_t channel, uint32_t peer) -> Result<void> {
    if (end.sends) {
      RONDO_TRY(work.wait(consumed(call, rank_, channel, peer), end.posted));
      RONDO_TRY(work.write(consumed(call, rank_, channel, peer), 0));
    }
    return end.receives ? work.write(posted(call, rank_, channel, peer), 0) : Result<void>();
  });
}

Result<void> CopyExecutor::wait_for_links(const CopySlice &slice, const DeviceCall &call, const StreamWork &work) {
  for (const uint32_t peer : targets_of(slice)) {
    const uint64_t sent = ends(call, slice.channel, peer).posted;
    if (sent < geometry().slot_count) continue;
    RONDO_TRY(work.wait(consumed(call, rank_, slice.channel, peer), sent + 1 - geometry().slot_count));
  }
  for (const uint32_t peer : sources_of(slice)) {
    CopyEnds &end = ends(call, slice.channel, peer);
    RONDO_TRY(work.wait(posted(call, rank_, slice.channel, peer), end.received + 1));
    if (std::exchange(end.received_number, call.number) == call.number) continue;
    const auto expected = SlotSignature::of(call.number, call.buffers.signature);
    const DevicePointer word = flags_.signature(rank_, slice.channel, peer, slot_index(end.received));
    RONDO_TRY(work.wait(word, expected.value));
    RONDO_TRY(work.wait(word + sizeof(uint64_t), expected.opposite));
  }
  return {};
}

/// Returns the operands of a slice, in the order of src/proto/interpreter.h.
CopyOperands CopyExecutor::operands_of(const CopySlice &slice, const DeviceCall &call) {
  const Step &step = *slice.step;
  const auto place = [&](const Window &window) {
    return reinterpret_cast<DevicePointer>(address_of(window, *slice.program, slice.range.begin));
  };
  CopyOperands operands;
  if ((step.flags & step_acc) != 0) operands.add_input(place(call.buffers.recv));
  if ((step.flags & step_src) != 0) operands.add_input(place(call.buffers.send));
  for (const uint32_t peer : sources_of(slice))
    operands.add_input(slot(slice.channel, peer, rank_, ends(call, slice.channel, peer).received));
  if ((step.flags & step_dst) != 0) operands.add_output(place(call.buffers.recv));
  for (const uint32_t peer : targets_of(slice))
    operands.add_output(slot(slice.channel, rank_, peer, ends(call, slice.channel, peer).posted));
  return operands;
}

Result<void> CopyExecutor::move(const CopySlice &slice, const DeviceCall &call, const StreamWork &work) {
  const CopyOperands operands = operands_of(slice, call);
  const uint64_t bytes = slice.range.count * slice.program->element_bytes;
  DevicePointer from = operands.inputs[0];
  const bool divides = (slice.step->flags & step_finish) != 0 && call.divisor != 0;
  const bool reduces = static_cast<CopyPlan &>(*call.plan).reduction.kernel.function != nullptr;
  if (reduces && (operands.input_count > 1 || divides)) {
    // If this rank keeps the result, the kernel writes it to recv, and copies take it from there. With two ranks, the
    // kernel writes any other result to its only output, the peer's slot. With more, it uses scratch.
    const bool keeps = (slice.step->flags & step_dst) != 0 || segment_.shape().rank_count == 2;
    from = keeps ? operands.outputs[0] : segment_.address() + segment_.shape().plans_offset();
    RONDO_TRY(reduce(slice, call, operands, from, work));
  }
  for (uint32_t output = 0; output < operands.output_count; ++output)
    if (operands.outputs[output] != from)
      RONDO_TRY(work.copy(operands.outputs[output], from, bytes, "cuMemcpyAsync of a slice"));
  return {};
}

Result<void> CopyExecutor::reduce(const CopySlice &slice, const DeviceCall &call, const CopyOperands &operands,
                                   DevicePointer output, const StreamWork &work) const {
  device::ReductionOperation operation;
  for (uint32_t input = 0; input < operands.input_count; ++input)
    operation.inputs[input] = reinterpret_cast<const std::byte *>(operands.inputs[input]);
  operation.input_count = operands.input_count;
  operation.output = reinterpret_cast<std::byte *>(output);
  operation.count = slice.range.count;
  operation.divisor = (slice.step->flags & step_finish) != 0 ? call.divisor : 0;
  operation.mean_shifts = call.divisor != 0 ? slice.step->mean_shifts : 0;
  const uint64_t bytes = slice.range.count * slice.program->element_bytes;
  return static_cast<CopyPlan &>(*call.plan).reduction.launch(*driver_, operation, bytes, work.stream);
}

Result<void> CopyExecutor::tell_links(const CopySlice &slice, const DeviceCall &call, const StreamWork &work) {
  for (const uint32_t peer : targets_of(slice)) {
    CopyEnds &end = ends(call, slice.channel, peer);
    if (std::exchange(end.posted_number, call.number) != call.number) {
      const auto signature = SlotSignature::of(call.number, call.buffers.signature);
      const DevicePointer word = flags_.signature(peer, slice.channel, rank_, slot_index(end.posted));
      RONDO_TRY(work.write(word, signature.value));
      RONDO_TRY(work.write(word + sizeof(uint64_t), signature.opposite));
    }
    RONDO_TRY(work.write(posted(call, peer, slice.channel, rank_), ++end.posted));
  }
  for (const uint32_t peer : sources_of(slice))
    RONDO_TRY(work.write(consumed(call, peer, slice.channel, rank_), ++ends(call, slice.channel, peer).received));
  return {};
}

}  // namespace

std::unique_ptr<ExecutorBase> make_copy_executor() { return std::make_unique<CopyExecutor>(); }

}  // namespace rondo::cuda
