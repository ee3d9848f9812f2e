// SPDX-License-Identifier: Apache-2.0
// The copy-engine executor: walks a plan when it is called, and enqueues each step as waits for flags, copies, where
// operands are combined one small kernel, and writes of flags. Nothing of it occupies a multiprocessor while it waits.
//
// Ordering, for slot c of the connection from s to r (the device orders each by the stream it is on):
//   s  wait consumed >= c + 1 - slot_count     pairs with r's write of consumed: its last reader has finished
//      copy into the slot
//      write signature (an operation's first slot), posted = c + 1, each behind a fence: it publishes the copy
//   r  wait posted >= c + 1, signature equal   pairs with s's writes
//      copy or combine out of the slot
//      write consumed = c + 1
//
// Failure. stop() ends every wait of this rank, and is called again until the streams have come to their end, since
// peers may write those words once more. What then moves is of no use to anybody, slots are written while they are
// read, but it is harmless: memory that is written belongs to this rank, or to a segment that stays as long as it is
// mapped here; and nobody takes it for a result, since the communicator had failed before
// (DeviceReport::ends_when_stopped).
#include <algorithm>
#include <vector>

#include "cuda/copy_walk.h"
#include "cuda/executor_base.h"
#include "cuda/flags.h"
#include "cuda/kernels/combine.h"
#include "cuda/plan_image.h"
#include "src/proto/memory.h"

namespace rondo::cuda {
namespace {

constexpr uint32_t default_channel_count = 1;  // one copy at a time uses a link of a device up
constexpr uint32_t default_slot_count = 4;
constexpr uint64_t slots_bytes_most = 64 << 20;  // of all connections of a rank, where slots may be smaller
constexpr uint32_t default_slot_bytes_most = 4 << 20, default_slot_bytes_least = 64 << 10;
constexpr uint64_t chunk_bytes_least = 256 << 10;
constexpr uint32_t combine_threads = 256;
constexpr uint32_t combine_bytes_per_thread = 64;
constexpr uint32_t combine_blocks_max = 16;  // few multiprocessors, since others compute meanwhile

/// What streams tell the host, in pinned memory; zero at first.
struct alignas(cache_line_bytes) CopyProgress {
  uint64_t begun = 0;   ///< calls
  uint64_t number = 0;  ///< of the last operation that ended
  uint64_t ended = 0;   ///< calls; written last
};

class CopyPlan final : public DevicePlan {
 public:
  const Plan *plan = nullptr;
  LoadedKernel combine;  ///< null: it only moves, or (a barrier) what it moves does not matter
};

/// This rank's ends of the two connections with one peer on one channel, as of what was enqueued.
struct CopyEnds {
  uint64_t posted = 0, received = 0;                ///< slots
  uint64_t posted_number = 0, received_number = 0;  ///< the latest operation that used it
};

/// What a slice reads and writes.
struct CopyOperands {
  DevicePointer inputs[device::inputs_max] = {};
  DevicePointer outputs[device::outputs_max] = {};
  uint32_t input_count = 0, output_count = 0;

  void add_input(DevicePointer address) { inputs[input_count++] = address; }
  void add_output(DevicePointer address) { outputs[output_count++] = address; }
};

uint32_t default_slot_bytes(uint32_t rank_count, uint32_t channel_count) {
  const uint64_t share = slots_bytes_most / default_slot_count / rank_count / channel_count;
  const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(share, default_slot_bytes_most));
  return std::max(bytes / 4096 * 4096, default_slot_bytes_least);
}

class CopyExecutor final : public ExecutorBase {
 public:
  [[nodiscard]] rondo_device_executor_t kind() const override { return RONDO_DEVICE_EXECUTOR_COPY; }
  /// Enough of them to overlap, and few enough that a call does not fill the stream's launch queue.
  [[nodiscard]] uint64_t chunk_bytes(uint64_t bytes) const override {
    return std::min<uint64_t>(std::max(bytes / 16, chunk_bytes_least), geometry().slot_bytes);
  }
  [[nodiscard]] Result<bool> check_stream(void *stream) const override;
  [[nodiscard]] Result<std::unique_ptr<DevicePlan>> prepare(const Plan &plan) override;
  [[nodiscard]] Result<void> launch(const DeviceCall &call, void *stream) override;
  [[nodiscard]] DeviceReport report() const override;
  [[nodiscard]] bool drained() const override { return report().ended_kernels == launch_count_; }
  void stop() override { flags_.release(); }

  [[nodiscard]] Result<void> connect(const DeviceRequest &request, Gathering &gathering) override;

 private:
  [[nodiscard]] CopyProgress &progress() const { return *static_cast<CopyProgress *>(progress_.get().object); }
  [[nodiscard]] CopyEnds &ends(uint32_t channel, uint32_t peer) {
    return ends_[size_t{channel} * segment_.shape().rank_count + peer];
  }
  /// Of the connection from `sender` to `receiver`: the slot of that counter.
  [[nodiscard]] DevicePointer slot(uint32_t channel, uint32_t sender, uint32_t receiver, uint64_t counter) const;
  [[nodiscard]] uint64_t slot_index(uint64_t counter) const { return counter & (geometry().slot_count - 1); }

  [[nodiscard]] Result<void> wait(CuStream stream, DevicePointer word, uint64_t value) const;
  [[nodiscard]] Result<void> write(CuStream stream, DevicePointer word, uint64_t value) const;
  [[nodiscard]] Result<void> copy(CuStream stream, DevicePointer to, DevicePointer from, uint64_t bytes) const;

  [[nodiscard]] Result<void> begin(CuStream stream);
  [[nodiscard]] Result<void> enqueue(const CopySlice &slice, const DeviceCall &call, CuStream stream);
  [[nodiscard]] Result<void> wait_for_links(const CopySlice &slice, const DeviceCall &call, CuStream stream);
  [[nodiscard]] CopyOperands operands_of(const CopySlice &slice, const Buffers &buffers);
  [[nodiscard]] Result<void> move(const CopySlice &slice, const DeviceCall &call, CuStream stream);
  [[nodiscard]] Result<void> combine(const CopySlice &slice, const DeviceCall &call, const CopyOperands &operands,
                                     DevicePointer output, CuStream stream) const;
  [[nodiscard]] Result<void> tell_links(const CopySlice &slice, const DeviceCall &call, CuStream stream);

  uint32_t rank_ = 0;
  unsigned wait_flags_ = wait_value_geq;
  uint64_t launch_count_ = 0;
  std::vector<CopyEnds> ends_;  ///< by channel and peer
  HostMemory progress_;
  Flags flags_;
};

Result<void> CopyExecutor::connect(const DeviceRequest &request, Gathering &gathering) {
  RONDO_TRY(open(request));
  rank_ = request.rank;
  SegmentShape shape;
  shape.rank_count = request.rank_count;
  shape.channel_count = request.channel_count != 0 ? request.channel_count : default_channel_count;
  shape.geometry.slot_count = request.slot_count != 0 ? request.slot_count : default_slot_count;
  shape.geometry.slot_bytes =
      request.slot_bytes != 0 ? request.slot_bytes : default_slot_bytes(shape.rank_count, shape.channel_count);
  shape.geometry.ll_slot_bytes = 0;              // a copy engine has no protocol but flags behind data
  shape.plan_bytes = shape.geometry.slot_bytes;  // scratch: a sum on its way to several peers
  shape.cleared = false;                         // flags are elsewhere
  RONDO_TRY_ASSIGN(const int can_wait,
                   device_attribute(*driver_, device_.ordinal, DeviceAttribute::can_use_64_bit_stream_mem_ops));
  if (can_wait == 0)
    return Error{RONDO_ERROR_UNSUPPORTED,
                 describe() +
                     " has no stream memory operations of 64 bits, which the copy-engine executor needs; set "
                     "RONDO_DEVICE_EXECUTOR=kernel"};
  RONDO_TRY_ASSIGN(const int can_flush,
                   device_attribute(*driver_, device_.ordinal, DeviceAttribute::can_flush_remote_writes));
  if (can_flush != 0) wait_flags_ |= wait_value_flush;
  RONDO_TRY_ASSIGN(progress_, allocate_host_memory(context_, sizeof(CopyProgress)));
  ::new (progress_.get().object) CopyProgress();
  RONDO_TRY(connect_segment(request, shape, gathering));
  ends_.resize(size_t{shape.channel_count} * shape.rank_count);
  const FlagShape flags{shape.rank_count, shape.channel_count, shape.geometry.slot_count};
  RONDO_TRY_ASSIGN(flags_, Flags::connect(context_, flags, gathering));
  return {};
}

/// Counters that only grow have one value for each call: a graph would wait for those of its capture again.
Result<bool> CopyExecutor::check_stream(void *stream) const {
  RONDO_TRY_ASSIGN(const bool captured, ExecutorBase::check_stream(stream));
  if (!captured) return false;
  return Error{RONDO_ERROR_UNSUPPORTED,
               "the stream is being captured, which the copy-engine executor cannot be: what it waits for is another "
               "value in each call; make the communicator with RONDO_DEVICE_EXECUTOR=kernel"};
}

Result<std::unique_ptr<DevicePlan>> CopyExecutor::prepare(const Plan &plan) {
  auto made = std::make_unique<CopyPlan>();
  made->plan = &plan;
  if (const std::string name = device::combine_kernel_name(plan); !name.empty()) {
    RONDO_TRY_ASSIGN(made->combine, kernels_->find(name));
  }
  return std::unique_ptr<DevicePlan>(std::move(made));
}

DevicePointer CopyExecutor::slot(uint32_t channel, uint32_t sender, uint32_t receiver, uint64_t counter) const {
  return segment_.address_of(receiver) + segment_.shape().connection_offset(channel, sender) +
         geometry().slots_offset() + slot_index(counter) * geometry().slot_bytes;
}

Result<void> CopyExecutor::wait(CuStream stream, DevicePointer word, uint64_t value) const {
  return cuda_check(*driver_, driver_->stream_wait_value64(stream, word, value, wait_flags_), "cuStreamWaitValue64");
}

Result<void> CopyExecutor::write(CuStream stream, DevicePointer word, uint64_t value) const {
  return cuda_check(*driver_, driver_->stream_write_value64(stream, word, value, write_value_default),
                    "cuStreamWriteValue64");
}

Result<void> CopyExecutor::copy(CuStream stream, DevicePointer to, DevicePointer from, uint64_t bytes) const {
  return cuda_check(*driver_, driver_->memcpy_async(to, from, bytes, stream), "cuMemcpyAsync of a slice");
}

Result<void> CopyExecutor::launch(const DeviceCall &call, void *stream_handle) {
  auto *const stream = static_cast<CuStream>(stream_handle);
  const ContextGuard guard(*driver_, context_.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY(follow_last_stream(stream, false));
  RONDO_TRY(begin(stream));
  auto done = walk_plan(*static_cast<CopyPlan &>(*call.plan).plan,
                        [&](const CopySlice &slice) { return enqueue(slice, call, stream); });
  if (done.ok()) done = write(stream, reinterpret_cast<DevicePointer>(&progress().number), call.number);
  // Also after a failure: what was enqueued has an end, which somebody will wait for.
  const auto ended = write(stream, reinterpret_cast<DevicePointer>(&progress().ended), launch_count_);
  if (done.ok()) done = ended;
  if (done.ok()) note_last_stream(stream);
  return done;
}

Result<void> CopyExecutor::begin(CuStream stream) {
  RONDO_TRY(write(stream, reinterpret_cast<DevicePointer>(&progress().begun), launch_count_ + 1));
  ++launch_count_;
  return {};
}

Result<void> CopyExecutor::enqueue(const CopySlice &slice, const DeviceCall &call, CuStream stream) {
  RONDO_TRY(wait_for_links(slice, call, stream));
  RONDO_TRY(move(slice, call, stream));
  return tell_links(slice, call, stream);
}

Result<void> CopyExecutor::wait_for_links(const CopySlice &slice, const DeviceCall &call, CuStream stream) {
  const Step &step = *slice.step;
  for (const uint8_t link : step.send_link) {
    if ((step.flags & step_send) == 0 || link == no_link) continue;
    const uint32_t peer = slice.schedule->peers[link];
    const uint64_t posted = ends(slice.channel, peer).posted;
    if (posted < geometry().slot_count) continue;
    RONDO_TRY(wait(stream, flags_.consumed(rank_, slice.channel, peer), posted + 1 - geometry().slot_count));
  }
  for (const uint8_t link : step.recv_link) {
    if ((step.flags & step_recv) == 0 || link == no_link) continue;
    const uint32_t peer = slice.schedule->peers[link];
    CopyEnds &end = ends(slice.channel, peer);
    RONDO_TRY(wait(stream, flags_.posted(rank_, slice.channel, peer), end.received + 1));
    if (std::exchange(end.received_number, call.number) == call.number) continue;
    const auto expected = SlotSignature::of(call.number, call.buffers.signature);
    const DevicePointer word = flags_.signature(rank_, slice.channel, peer, slot_index(end.received));
    RONDO_TRY(wait(stream, word, expected.value));
    RONDO_TRY(wait(stream, word + sizeof(uint64_t), expected.opposite));
  }
  return {};
}

/// In the order of src/proto/interpreter.h.
CopyOperands CopyExecutor::operands_of(const CopySlice &slice, const Buffers &buffers) {
  const Step &step = *slice.step;
  const auto place = [&](const Window &window) {
    return reinterpret_cast<DevicePointer>(address_of(window, *slice.program, slice.range.begin));
  };
  CopyOperands operands;
  if ((step.flags & step_acc) != 0) operands.add_input(place(buffers.recv));
  if ((step.flags & step_src) != 0) operands.add_input(place(buffers.send));
  for (const uint8_t link : step.recv_link) {
    if ((step.flags & step_recv) == 0 || link == no_link) continue;
    const uint32_t peer = slice.schedule->peers[link];
    operands.add_input(slot(slice.channel, peer, rank_, ends(slice.channel, peer).received));
  }
  if ((step.flags & step_dst) != 0) operands.add_output(place(buffers.recv));
  for (const uint8_t link : step.send_link) {
    if ((step.flags & step_send) == 0 || link == no_link) continue;
    const uint32_t peer = slice.schedule->peers[link];
    operands.add_output(slot(slice.channel, rank_, peer, ends(slice.channel, peer).posted));
  }
  return operands;
}

Result<void> CopyExecutor::move(const CopySlice &slice, const DeviceCall &call, CuStream stream) {
  const CopyOperands operands = operands_of(slice, call.buffers);
  const uint64_t bytes = slice.range.count * slice.program->element_bytes;
  DevicePointer from = operands.inputs[0];
  const bool divides = (slice.step->flags & step_finish) != 0 && call.divisor != 0;
  const bool combines = static_cast<CopyPlan &>(*call.plan).combine.function != nullptr;
  if (combines && (operands.input_count > 1 || divides)) {
    // Where this rank keeps the result the kernel writes it; copies take it from there.
    const bool keeps = (slice.step->flags & step_dst) != 0;
    from = keeps ? operands.outputs[0] : segment_.address() + segment_.shape().plans_offset();
    RONDO_TRY(combine(slice, call, operands, from, stream));
  }
  for (uint32_t output = 0; output < operands.output_count; ++output)
    if (operands.outputs[output] != from) RONDO_TRY(copy(stream, operands.outputs[output], from, bytes));
  return {};
}

Result<void> CopyExecutor::combine(const CopySlice &slice, const DeviceCall &call, const CopyOperands &operands,
                                   DevicePointer output, CuStream stream) const {
  const LoadedKernel &kernel = static_cast<CopyPlan &>(*call.plan).combine;
  device::CombineOperation operation;
  for (uint32_t input = 0; input < operands.input_count; ++input)
    operation.inputs[input] = reinterpret_cast<const std::byte *>(operands.inputs[input]);
  operation.input_count = operands.input_count;
  operation.output = reinterpret_cast<std::byte *>(output);
  operation.count = slice.range.count;
  operation.divisor = (slice.step->flags & step_finish) != 0 ? call.divisor : 0;
  const uint64_t bytes = slice.range.count * slice.program->element_bytes;
  constexpr uint64_t block_bytes = uint64_t{combine_threads} * combine_bytes_per_thread;
  const auto blocks = static_cast<unsigned>(std::min<uint64_t>((bytes - 1) / block_bytes + 1, combine_blocks_max));
  const auto threads = std::min(combine_threads, static_cast<uint32_t>(kernel.block_threads_max));
  void *parameters[] = {&operation};
  return cuda_check(
      *driver_, driver_->launch_kernel(kernel.function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr),
      "launching a combining kernel");
}

Result<void> CopyExecutor::tell_links(const CopySlice &slice, const DeviceCall &call, CuStream stream) {
  const Step &step = *slice.step;
  for (const uint8_t link : step.send_link) {
    if ((step.flags & step_send) == 0 || link == no_link) continue;
    const uint32_t peer = slice.schedule->peers[link];
    CopyEnds &end = ends(slice.channel, peer);
    if (std::exchange(end.posted_number, call.number) != call.number) {
      const auto signature = SlotSignature::of(call.number, call.buffers.signature);
      const DevicePointer word = flags_.signature(peer, slice.channel, rank_, slot_index(end.posted));
      RONDO_TRY(write(stream, word, signature.value));
      RONDO_TRY(write(stream, word + sizeof(uint64_t), signature.opposite));
    }
    RONDO_TRY(write(stream, flags_.posted(peer, slice.channel, rank_), ++end.posted));
  }
  for (const uint8_t link : step.recv_link) {
    if ((step.flags & step_recv) == 0 || link == no_link) continue;
    const uint32_t peer = slice.schedule->peers[link];
    RONDO_TRY(write(stream, flags_.consumed(peer, slice.channel, rank_), ++ends(slice.channel, peer).received));
  }
  return {};
}

DeviceReport CopyExecutor::report() const {
  DeviceReport report;
  report.ends_when_stopped = true;
  report.ended_kernels = memory::load_acquire(progress().ended);  // pairs with the stream's writes in launch()
  report.ended_number = memory::load_acquire(progress().number);
  report.begun_kernels = std::max(memory::load_acquire(progress().begun), report.ended_kernels);
  return report;
}

}  // namespace

std::unique_ptr<ExecutorBase> make_copy_executor() { return std::make_unique<CopyExecutor>(); }

}  // namespace rondo::cuda
