// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/budget.h"

#include <mutex>

#include "cuda/kernels/load_store_kernels.h"
#include "cuda/kernels/plan_image.h"

namespace rondo::cuda {
namespace {

/// The claims of this process by device. They are never destroyed, because a communicator may live until the process
/// ends.
struct Claims {
  std::mutex mutex;
  std::vector<ClaimedBlocks> devices;

  /// Returns the claim on `device`, with `mutex` held.
  [[nodiscard]] uint64_t &of(const DeviceUuid &device) {
    for (ClaimedBlocks &it : devices)
      if (it.device == device) return it.blocks;
    return devices.emplace_back(ClaimedBlocks{device, 0}).blocks;
  }
};

Claims &claims() {
  static Claims *const all = new Claims;
  return *all;
}

// A block with its operation fits into 48 KiB of shared memory, which a kernel may have without a special request.
static_assert(sizeof(device::DeviceOperation) +
                  device::shared_bytes_for(channel_lanes_max, device::ll_scratch_bytes_for(ll_slot_bytes)) <=
              48 << 10);
static_assert(device::load_store_shared_bytes(device::load_store_rank_count_max) <=
              device::shared_bytes_for(channel_lanes_max, device::ll_scratch_bytes_for(ll_slot_bytes)));

}  // namespace

void BlockClaimTraits::close(const Handle &handle) {
  const std::lock_guard lock(claims().mutex);
  claims().of(handle.device) -= handle.blocks;
}

Result<BlockClaim> claim_blocks(const DeviceUuid &device, uint64_t blocks, uint64_t limit, BlockClaim &&reserved) {
  const std::lock_guard lock(claims().mutex);
  uint64_t &all = claims().of(device);
  const uint64_t claimed = all - reserved.get().blocks;
  if (claimed > limit || blocks > limit - claimed)
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, "a rank needs " + std::to_string(blocks) + " blocks, but of the " +
                                                   std::to_string(limit) + " that can be resident at once " +
                                                   std::to_string(claimed) +
                                                   " belong to ranks and communicators of this process"};
  all = claimed + blocks;
  static_cast<void>(reserved.release());
  return BlockClaim({device, blocks});
}

uint64_t claimed_blocks(const DeviceUuid &device) {
  const std::lock_guard lock(claims().mutex);
  return claims().of(device);
}

Result<BlockBudget> block_budget(const KernelSet &kernels, const CudaDevice &device) {
  BlockBudget budget;
  budget.block_threads = block_threads_max;
  budget.shared_bytes = device::shared_bytes_for(channel_lanes_max, device::ll_scratch_bytes_for(ll_slot_bytes));
  RONDO_TRY_ASSIGN(const int blocks,
                   kernels.resident_blocks(static_cast<int>(budget.block_threads), budget.shared_bytes));
  budget.blocks_per_multiprocessor = static_cast<uint32_t>(blocks);
  budget.multiprocessors = static_cast<uint64_t>(device.multiprocessor_count);
  budget.blocks = budget.blocks_per_multiprocessor * budget.multiprocessors;
  return budget;
}

Result<std::vector<KernelFacts>> kernel_facts(const PrimaryContext &context) {
  const CudaDriver &driver = *context.get().driver;
  const std::vector<KernelFamily> families{KernelFamily::plans, KernelFamily::load_store, KernelFamily::joint,
                                           KernelFamily::reduce, KernelFamily::mean};
  RONDO_TRY_ASSIGN(const KernelSet kernels, KernelSet::load(context, families));
  const ContextGuard guard(driver, context.get().context);
  RONDO_TRY(guard.status());
  std::vector<KernelFacts> all;
  std::vector<std::string> names;
  for (const KernelFamily family : families) {
    const auto more = kernel_names(family);
    names.insert(names.end(), more.begin(), more.end());
  }
  for (const std::string &name : names) {
    RONDO_TRY_ASSIGN(const LoadedKernel kernel, kernels.find(name));
    KernelFacts facts;
    facts.name = name;
    facts.block_threads_max = kernel.block_threads_max;
    const auto ask = [&](int &value, FunctionAttribute attribute) {
      return cuda_check(driver, driver.func_get_attribute(&value, attribute, kernel.function), "cuFuncGetAttribute");
    };
    RONDO_TRY(ask(facts.register_count, FunctionAttribute::register_count));
    RONDO_TRY(ask(facts.shared_bytes, FunctionAttribute::shared_bytes));
    RONDO_TRY(ask(facts.local_bytes, FunctionAttribute::local_bytes));
    all.push_back(std::move(facts));
  }
  return all;
}

}  // namespace rondo::cuda
