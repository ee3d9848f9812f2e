// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/transfers.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "cuda/driver/budget.h"
#include "cuda/executors/connection_shape.h"
#include "cuda/kernels/plan_image.h"
#include "src/base/clock.h"
#include "src/proto/memory.h"

namespace rondo::cuda {
namespace {

// The budget counts blocks that run plans, so a block of messages must not need more shared memory than they do.
static_assert(device::transfer_shared_bytes(2 * batch_ranks_max * message_channels_max, 1) <=
              device::shared_bytes_for(channel_lanes_max, device::ll_scratch_bytes_for(ll_slot_bytes)));

static_assert(message_channels_max <= DeviceBatch::channels_max);

constexpr uint64_t list_check_ns = 50'000;

device::DeviceTransfer device_transfer(const DeviceBatch &batch, const DeviceBatch::Part &part, uint32_t rank_count) {
  const Transfer &of = batch.transfers()[part.transfer];
  device::DeviceTransfer made;
  made.data = of.data == nullptr ? nullptr : of.data + part.offset;
  made.bytes = part.bytes;
  made.whole_bytes = of.bytes;
  made.signature = of.signature;
  made.next = part.next;
  made.link = part.channel * rank_count + of.peer;
  made.kind = of.exchanges ? device::TransferKind::exchange
              : of.sends   ? device::TransferKind::send
                           : device::TransferKind::receive;
  return made;
}

/// Returns the count in a word of TransferReport, or 0 if the word is about another batch.
uint32_t count_in(const uint64_t &word, uint64_t turn) {
  const uint64_t value = memory::load_relaxed(word);  // relaxed: it only shows what a batch waits for
  return static_cast<uint32_t>(value >> 32) == static_cast<uint32_t>(turn) ? static_cast<uint32_t>(value) : 0;
}

}  // namespace

void list_transfers(const DeviceBatch &batch, uint32_t rank_count, device::DeviceTransfer *to) {
  for (const DeviceBatch::Part &part : batch.parts()) *to++ = device_transfer(batch, part, rank_count);
}

void TransferWords::use(uint64_t *words, uint32_t queue_count_max, uint32_t block_count_max,
                        const ConnectionGeometry &messages) {
  words_ = words;
  slots_ = {messages.slot_bytes, messages.slot_count};
  queue_count_max_ = queue_count_max;
  block_count_max_ = block_count_max;
  std::fill_n(words, word_count(queue_count_max, block_count_max), 0);
}

/// Returns at least 1: if all blocks of a collective are empty, one thread block still reports its end.
uint32_t TransferWords::block_count(uint32_t queue_count) const {
  return std::clamp(queue_count, 1u, block_count_max_);
}

uint32_t TransferWords::parts_done(uint64_t turn, uint32_t queue) const { return count_in(words_[queue], turn); }

uint32_t TransferWords::quiet_checks(uint64_t turn, uint32_t block) const {
  return count_in(words_[queue_count_max_ + block], turn);
}

uint64_t TransferWords::sent_bytes() const {
  return memory::load_relaxed(words_[queue_count_max_ + block_count_max_]);  // ordered by E3
}

Transfers::Transfers(const PrimaryContext &context, const Segment &segment)
    : context_(context), segment_(segment), lists_(list_memory_bytes) {}

Result<std::unique_ptr<Transfers>> Transfers::make(const PrimaryContext &context, const KernelSet &kernels,
                                                   const Segment &segment, uint32_t block_count) {
  if (segment.shape().message_channels == 0) return std::unique_ptr<Transfers>();
  std::unique_ptr<Transfers> made(new Transfers(context, segment));
  made->driver_ = context.get().driver;
  RONDO_TRY_ASSIGN(made->kernel_, kernels.find(device::transfer_kernel_name));
  const uint32_t queue_count_max = 2 * segment.shape().rank_count * message_channels_max;  // also for blocks
  RONDO_TRY_ASSIGN(made->words_,
                   allocate_host_memory(context, word_count(queue_count_max, block_count) * sizeof(uint64_t)));
  made->use(static_cast<uint64_t *>(made->words_.get().object), queue_count_max, block_count,
            segment.shape().message_geometry);
  RONDO_TRY_ASSIGN(made->memory_, allocate_host_memory(context, list_memory_bytes));
  return made;
}

/// Gives back the lists of operations up to `ended_turn`, and then takes memory for a list.
std::optional<uint64_t> Transfers::take_list(uint64_t bytes, uint64_t ended_turn) {
  while (!held_.empty() && held_.front().turn <= ended_turn) {
    lists_.give_back(held_.front().offset, held_.front().bytes);
    held_.pop_front();
  }
  return lists_.take(bytes);
}

/// Returns memory for the batch's list. If lists use all memory, waits for operations to end.
Result<std::byte *> Transfers::make_list(const DeviceMessages &messages, EnqueueWait &wait,
                                         const std::function<uint64_t()> &ended_turn) {
  const uint64_t bytes = messages.batch->parts().size() * sizeof(device::DeviceTransfer);
  if (messages.captured) return make_captured_list(bytes);
  std::optional<uint64_t> offset = take_list(bytes, ended_turn());
  for (; !offset && !wait.is_over(); offset = take_list(bytes, ended_turn())) sleep_for_ns(list_check_ns);
  if (!offset)
    return Error{RONDO_ERROR_TIMEOUT,
                 "the call waited until its timeout for earlier calls to end, whose lists of transfers use the " +
                     std::to_string(list_memory_bytes) +
                     " bytes that a communicator on a device has for them; check which rank has not called, and what "
                     "holds up the streams, or raise timeout_ms (RONDO_TIMEOUT)"};
  held_.push_back({messages.turn, *offset, bytes});
  return static_cast<std::byte *>(memory_.get().object) + *offset;
}

Result<std::byte *> Transfers::make_captured_list(uint64_t bytes) {
  if (list_memory_bytes - captured_used_bytes_ < bytes) {
    const CaptureModeGuard capture_goes_on(*driver_);
    RONDO_TRY_ASSIGN(auto block, allocate_host_memory(context_, list_memory_bytes));
    captured_.push_back(std::move(block));
    captured_used_bytes_ = 0;
  }
  return static_cast<std::byte *>(captured_.back().get().object) + std::exchange(captured_used_bytes_,
                                                                                 captured_used_bytes_ + bytes);
}

Result<void> Transfers::launch(const DeviceMessages &messages, const device::DeviceOperation &base,
                               EnqueueWait &wait, const std::function<uint64_t()> &ended_turn, CuStream stream) {
  const DeviceBatch &batch = *messages.batch;
  device::TransferOperation operation;
  operation.base = base;
  // A collective that exchanges data blocks uses the links of collectives, so its blocks never meet messages.
  const SegmentShape &shape = segment_.shape();
  operation.ends = reinterpret_cast<device::DeviceLinkEnds *>(messages.blocks ? segment_.ends_address(0, 0)
                                                                               : segment_.message_ends_address());
  operation.slot_bytes = messages.blocks ? shape.geometry.slot_bytes : shape.message_geometry.slot_bytes;
  operation.report = report();
  operation.queue_count = batch.queue_count();
  operation.block_count = operation.base.lane_count = block_count(batch.queue_count());
  device::DeviceTransfer *to = operation.few;
  if (batch.parts().size() > device::transfers_inline_max) {
    RONDO_TRY_ASSIGN(std::byte *const list, make_list(messages, wait, ended_turn));
    operation.list = to = reinterpret_cast<device::DeviceTransfer *>(list);
  }
  list_transfers(batch, shape.rank_count, to);
  const LaunchSize size{operation.block_count, block_threads_max,
                        device::transfer_shared_bytes(operation.queue_count, operation.block_count)};
  return launch_kernel(*driver_, kernel_, size, &operation, stream, "launching messages");
}

}  // namespace rondo::cuda
