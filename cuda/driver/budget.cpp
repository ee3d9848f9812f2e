// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/budget.h"

#include <mutex>
#include <numeric>

#include "cuda/kernels/load_store_kernels.h"
#include "cuda/kernels/plan_image.h"

namespace rondo::cuda {
namespace {

/// The claims of this process by device. They are never destroyed, because a communicator may live until the process
/// ends.
struct Claims {
  std::mutex mutex;
  std::vector<ClaimedBlocks> devices;

  /// Returns the claims on `device`, with `mutex` held.
  [[nodiscard]] ClaimedBlocks &of(const DeviceUuid &device) {
    for (ClaimedBlocks &it : devices)
      if (it.device == device) return it;
    return devices.emplace_back(ClaimedBlocks{device, 0, 0});
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
  ClaimedBlocks &all = claims().of(handle.device);
  all.blocks -= handle.blocks;
  all.rank_count -= handle.rank_count;
}

uint64_t share_of_rank(const BlockBudget &budget, const ClaimedBlocks &claimed, uint64_t rank_count) {
  const auto rest = [](uint64_t all, uint64_t taken) { return all - std::min(all, taken); };
  const uint64_t free = rest(budget.blocks, claimed.blocks);
  const uint64_t kept_ranks = rest(std::min(kept_ranks_max, budget.blocks / 2), claimed.rank_count + rank_count);
  const uint64_t left = rest(free, kept_ranks);
  const uint64_t wide = std::min({budget.multiprocessors, free / 2, left}) / rank_count;
  const uint64_t narrow = std::min<uint64_t>(default_channel_count, left / rank_count);
  return std::max({wide, narrow, uint64_t{1}});
}

Result<std::vector<BlockClaim>> claim_blocks(const DeviceUuid &device, const BlockBudget &budget,
                                             const BlockWish &wish) {
  const uint64_t ranks = std::accumulate(wish.rank_counts.begin(), wish.rank_counts.end(), uint64_t{0});
  std::vector<BlockClaim> made;
  made.reserve(wish.rank_counts.size());
  const std::lock_guard lock(claims().mutex);
  ClaimedBlocks &all = claims().of(device);
  const uint64_t each = std::max(wish.least, std::min(wish.most, share_of_rank(budget, all, ranks)));
  if (all.blocks > budget.blocks || each * ranks > budget.blocks - all.blocks)
    return Error{RONDO_ERROR_OUT_OF_RESOURCES,
                 std::to_string(ranks) + (ranks == 1 ? " rank needs " : " ranks need ") +
                     std::to_string(each * ranks) + " blocks, " + std::to_string(each) + " each, but of the " +
                     std::to_string(budget.blocks) + " that can be resident at once " + std::to_string(all.blocks) +
                     " belong to " + std::to_string(all.rank_count) + " ranks of other communicators"};
  for (const uint64_t rank_count : wish.rank_counts)
    made.emplace_back(ClaimedBlocks{device, each * rank_count, rank_count});
  all.blocks += each * ranks;
  all.rank_count += ranks;
  return made;
}

void shrink_claim(BlockClaim &claim, uint64_t blocks) {
  const std::lock_guard lock(claims().mutex);
  ClaimedBlocks now = claim.release();
  const uint64_t kept = std::min(now.blocks, blocks * now.rank_count);
  claims().of(now.device).blocks -= now.blocks - kept;
  now.blocks = kept;
  claim = BlockClaim(now);
}

uint64_t claimed_blocks(const DeviceUuid &device) {
  const std::lock_guard lock(claims().mutex);
  return claims().of(device).blocks;
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
                                           KernelFamily::reduce, KernelFamily::operands};
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
