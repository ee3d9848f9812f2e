// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernel_set.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "cuda/kernels_image.h"
#include "cuda/plan_image.h"

namespace rondo::cuda {
namespace {

/// What is loaded in this process, by device and by the protocol whose kernels are apart (auto: none); like the
/// driver's table it belongs to the process.
struct Loaded {
  std::mutex mutex;
  std::map<std::pair<CuDevice, rondo_protocol_t>, std::weak_ptr<const KernelSet>> sets;
};

Loaded &loaded() {
  static Loaded all;
  return all;
}

Result<Library> load_image(const PrimaryContext &context) {
  const device::KernelsImage image = device::kernels_image();
  static constexpr char no_image[8] = {};  // the driver in software brings kernels of its own
  auto library = load_library(context, image.data != nullptr ? image.data : no_image);
  if (library.ok() || image.data != nullptr) return library;
  return Error{RONDO_ERROR_UNSUPPORTED,
               "this build of Rondo has no CUDA kernels, since there was no nvcc; build it with one (" +
                   library.error().message + ")"};
}

}  // namespace

Result<void> launch_kernel(const CudaDriver &driver, const LoadedKernel &kernel, const LaunchSize &size,
                           void *parameter, CuStream stream, const char *what) {
  const uint32_t threads = std::min(size.threads, static_cast<uint32_t>(kernel.block_threads_max));
  void *parameters[] = {parameter};
  return cuda_check(driver,
                    driver.launch_kernel(kernel.function, size.blocks, 1, 1, threads, 1, 1, size.shared_bytes, stream,
                                         parameters, nullptr),
                    what);
}

Result<std::shared_ptr<const KernelSet>> KernelSet::load(const PrimaryContext &context, rondo_protocol_t protocol) {
  const std::lock_guard lock(loaded().mutex);
  return find_or_load(context, has_kernels_apart(protocol) ? protocol : RONDO_PROTOCOL_AUTO);
}

/// With the mutex held.
Result<std::shared_ptr<const KernelSet>> KernelSet::find_or_load(const PrimaryContext &context,
                                                                 rondo_protocol_t apart) {
  auto &known = loaded().sets[{context.get().device, apart}];
  if (auto set = known.lock(); set != nullptr) return set;
  auto set = std::make_shared<KernelSet>();
  set->driver_ = context.get().driver;
  set->context_ = context.get().context;
  if (apart != RONDO_PROTOCOL_AUTO) {
    RONDO_TRY_ASSIGN(set->others_, find_or_load(context, RONDO_PROTOCOL_AUTO));
    RONDO_TRY(set->find_those_of(apart));
  } else {
    RONDO_TRY_ASSIGN(set->library_, load_image(context));
    RONDO_TRY(set->find_ours());
  }
  known = set;
  return std::shared_ptr<const KernelSet>(set);
}

Result<void> KernelSet::find_ours() {
  for (const auto protocol : {RONDO_PROTOCOL_SIMPLE, RONDO_PROTOCOL_LL})
    RONDO_TRY(find_all(library_, device::kernel_names(protocol), waiting_));
  return find_all(library_, device::combine_kernel_names(), combining_);
}

Result<void> KernelSet::find_those_of(rondo_protocol_t apart) {
  const auto found = find_all(others_->library_, device::kernel_names(apart), waiting_);
  if (found.ok()) return {};
  Error error = found.error();
  error.message = "the kernels of the protocol '" + std::string(rondo_protocol_string(apart)) +
                  "', which was asked for, cannot be loaded; use 'auto', 'simple' or 'll' (" + error.message + ")";
  return error;
}

Result<void> KernelSet::find_all(const Library &library, const std::vector<std::string> &names,
                                 Kernels &kernels) const {
  for (const std::string &name : names) {
    RONDO_TRY_ASSIGN(const CuFunction function, find_function(library, name.c_str()));
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
  if (others_ != nullptr) return others_->find(name);
  return Error{RONDO_ERROR_UNSUPPORTED, "there is no kernel " + name};
}

Result<int> KernelSet::resident_blocks(int block_threads, size_t shared_bytes) const {
  int least = std::numeric_limits<int>::max();
  if (others_ != nullptr) {
    RONDO_TRY_ASSIGN(least, others_->resident_blocks(block_threads, shared_bytes));
  }
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
