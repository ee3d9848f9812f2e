// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernel_set.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>

#include "cuda/kernels_image.h"
#include "cuda/plan_image.h"

namespace rondo::cuda {
namespace {

/// What is loaded in this process, by device; like the driver's table it belongs to the process.
struct Loaded {
  std::mutex mutex;
  std::map<CuDevice, std::weak_ptr<const KernelSet>> sets;
};

Loaded &loaded() {
  static Loaded all;
  return all;
}

}  // namespace

Result<std::shared_ptr<const KernelSet>> KernelSet::load(const PrimaryContext &context) {
  const std::lock_guard lock(loaded().mutex);
  if (auto known = loaded().sets[context.get().device].lock(); known != nullptr) return known;
  const device::KernelsImage image = device::kernels_image();
  static constexpr char no_image[8] = {};  // the driver in software brings kernels of its own
  auto library = load_library(context, image.data != nullptr ? image.data : no_image);
  if (!library.ok()) {
    Error error = library.error();
    if (image.data == nullptr) {
      error.status = RONDO_ERROR_UNSUPPORTED;
      error.message =
          "this build of Rondo has no CUDA kernels, since there was no nvcc; build it with one (" + error.message + ")";
    }
    return error;
  }
  auto set = std::make_shared<KernelSet>();
  set->driver_ = context.get().driver;
  set->context_ = context.get().context;
  set->library_ = std::move(library).value();
  RONDO_TRY(set->find_all(device::kernel_names(), set->waiting_));
  RONDO_TRY(set->find_all(device::combine_kernel_names(), set->combining_));
  loaded().sets[context.get().device] = set;
  return std::shared_ptr<const KernelSet>(set);
}

Result<void> KernelSet::find_all(const std::vector<std::string> &names, Kernels &kernels) const {
  for (const std::string &name : names) {
    RONDO_TRY_ASSIGN(const CuFunction function, find_function(library_, name.c_str()));
    LoadedKernel kernel{function, 0};
    const ContextGuard guard(*driver_, context_);
    RONDO_TRY(guard.status());
    RONDO_TRY(cuda_check(
        *driver_,
        driver_->func_get_attribute(&kernel.block_threads_max, FunctionAttribute::max_threads_per_block, function),
        "cuFuncGetAttribute"));
    kernels.emplace(name, kernel);
  }
  return {};
}

Result<LoadedKernel> KernelSet::find(const std::string &name) const {
  for (const Kernels *kernels : {&waiting_, &combining_})
    if (const auto found = kernels->find(name); found != kernels->end()) return found->second;
  return Error{RONDO_ERROR_UNSUPPORTED, "there is no kernel " + name};
}

Result<int> KernelSet::resident_blocks(int block_threads, size_t shared_bytes) const {
  int least = std::numeric_limits<int>::max();
  const ContextGuard guard(*driver_, context_);
  RONDO_TRY(guard.status());
  for (const auto &[name, kernel] : waiting_) {
    int blocks = 0;
    RONDO_TRY(cuda_check(*driver_,
                         driver_->occupancy_max_blocks(&blocks, kernel.function,
                                                       std::min(block_threads, kernel.block_threads_max), shared_bytes),
                         "cuOccupancyMaxActiveBlocksPerMultiprocessor"));
    least = std::min(least, blocks);
  }
  return least;
}

}  // namespace rondo::cuda
