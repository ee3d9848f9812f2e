// SPDX-License-Identifier: Apache-2.0
// This file has the kernel of messages for emulated blocks.
#include <cassert>

#include "cuda/kernels/transfer.h"
#include "tests/soft_cuda/counting.h"
#include "tests/soft_cuda/emulated_block.h"

namespace {

using namespace rondo::device;

void run_transfer_block(soft_cuda::Block &block, uint32_t thread, void *const *parameters) {
  const auto &operation = *static_cast<const TransferOperation *>(parameters[0]);
  assert(block.shared_bytes >= transfer_shared_bytes(operation.queue_count, operation.block_count));
  const soft_cuda::CountedThread counts(block, thread, operation.base.progress, block.index == 0);
  auto *const barrier = reinterpret_cast<soft_cuda::VotingBarrier *>(block.shared);
  run_transfers(soft_cuda::EmulatedGroup{barrier, thread, block.thread_count, block.give_way}, operation, block.index,
                block.shared);
}

constexpr soft_cuda::KernelEntry transfer_entries[] = {
    {"rondo_run_transfer_copy", run_transfer_block, sizeof(TransferOperation)}, {nullptr, nullptr, 0}};

}  // namespace

const soft_cuda::KernelEntry *soft_kernels_of_transfers() { return transfer_entries; }
