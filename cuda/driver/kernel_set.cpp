// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/kernel_set.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "cuda/kernels/plan_image.h"
#include "cuda/driver/shared_table.h"

namespace rondo::cuda {
namespace {

constexpr uint64_t shared_bytes_reserved = 1 << 10;  ///< of each block, for the driver

Result<std::shared_ptr<const Library>> load_image(const PrimaryContext &context) {
  const device::KernelsImage image = device::kernels_image();
  if (const int version = context.get().driver->version; version < device::driver_needed_by(image.compiler_version))
    return image_needs_driver(image.compiler_version, version);
  static constexpr char no_image[8] = {};  // the driver in software brings kernels of its own
  auto library = load_library(context, image.data != nullptr ? image.data : no_image);
  if (library.ok()) return std::make_shared<const Library>(std::move(library).value());
  if (image.data != nullptr) return library.error();
  return Error{RONDO_ERROR_UNSUPPORTED,
               "this build of Rondo has no CUDA kernels, because nvcc was missing; build it with nvcc (" +
                   library.error().message + ")"};
}

}  // namespace

Error image_needs_driver(int compiler_version, int driver_version) {
  const int needed = device::driver_needed_by(compiler_version);
  const int release = device::driver_release_of(needed);
  return {RONDO_ERROR_UNSUPPORTED,
          "the kernels of this build were compiled by nvcc of CUDA " + cuda_version_string(compiler_version) +
              " and need a driver for CUDA " + cuda_version_string(needed) + " or newer" +
              (release != 0 ? " (release " + std::to_string(release) + ")" : std::string()) +
              "; this one is for CUDA " + cuda_version_string(driver_version) +
              ": update it, or build Rondo with nvcc of CUDA " +
              std::to_string(driver_version / 1000) + ".x"};
}

Result<void> launch_kernel(const CudaDriver &driver, const LoadedKernel &kernel, const LaunchSize &size,
                           void *parameter, CuStream stream, const char *what) {
  // A store with release order waits for all earlier stores of its memory-sync domain. Compute kernels are in the
  // default domain, so such a store in the remote domain does not wait for them.
  LaunchAttribute domain{LaunchAttributeId::mem_sync_domain, {}, {}};
  domain.value.mem_sync_domain = MemSyncDomain::remote;
  LaunchConfig config;
  config.grid_x = size.blocks;
  config.block_x = std::min(size.threads, static_cast<uint32_t>(kernel.block_threads_max));
  config.shared_bytes = size.shared_bytes;
  config.stream = stream;
  config.attributes = &domain;
  config.attribute_count = kernel.remote ? 1 : 0;
  void *parameters[] = {parameter};
  return cuda_check(driver, driver.launch_kernel_ex(&config, kernel.function, parameters, nullptr), what);
}

std::vector<KernelFamily> kernel_families(rondo_device_executor_t executor, rondo_kernel_t kernel) {
  if (executor == RONDO_DEVICE_EXECUTOR_COPY) return {KernelFamily::reduce, KernelFamily::operands};
  if (kernel == RONDO_KERNEL_LOAD_STORE) return {KernelFamily::plans, KernelFamily::operands, KernelFamily::load_store};
  return {KernelFamily::plans, KernelFamily::operands};
}

std::vector<std::string> kernel_names(KernelFamily family) {
  switch (family) {
    case KernelFamily::plans: {
      auto names = device::kernel_names(RONDO_PROTOCOL_SIMPLE);
      const auto more = device::kernel_names(RONDO_PROTOCOL_LL);
      names.insert(names.end(), more.begin(), more.end());
      names.push_back(device::transfer_kernel_name);
      return names;
    }
    case KernelFamily::load_store:
      return device::load_store_kernel_names();
    case KernelFamily::joint:
      return device::joint_kernel_names();
    case KernelFamily::reduce:
      return device::reduce_kernel_names();
    case KernelFamily::operands:
      return {"rondo_mean_widen", "rondo_mean_narrow", "rondo_scale"};
  }
  return {};
}

Result<std::shared_ptr<const KernelSet::Loaded>> KernelSet::load_family(const PrimaryContext &context,
                                                                        KernelFamily family) {
  static auto *const images = new SharedTable<CuDevice, const Library>;
  // Lists the families that an image lacks. The list belongs to the process, so that all its ranks get the same
  // answer.
  static auto *const lacking = new std::map<std::pair<CuDevice, KernelFamily>, Error>;  // with load()'s table locked
  const std::pair name_of_family{context.get().device, family};
  if (const auto known = lacking->find(name_of_family); known != lacking->end()) return known->second;
  const CudaDriver &driver = *context.get().driver;
  auto loaded = std::make_shared<Loaded>();
  loaded->waits = family != KernelFamily::reduce && family != KernelFamily::joint && family != KernelFamily::operands;
  RONDO_TRY_ASSIGN(loaded->library, images->find_or_make(context.get().device, [&] { return load_image(context); }));
  const auto domain_count = device_attribute(driver, context.get().device, DeviceAttribute::mem_sync_domain_count);
  const bool has_domains = domain_count.ok() && domain_count.value() > 1;
  for (const std::string &name : kernel_names(family)) {
    const auto found = find_function(*loaded->library, name.c_str());
    if (!found.ok() && found.error().status == RONDO_ERROR_UNSUPPORTED)
      lacking->emplace(name_of_family, found.error());
    RONDO_TRY_ASSIGN(const CuFunction function, found);
    LoadedKernel kernel{function, 0, loaded->waits && has_domains};
    const ContextGuard guard(driver, context.get().context);
    RONDO_TRY(guard.status());
    RONDO_TRY(cuda_check(
        driver,
        driver.func_get_attribute(&kernel.block_threads_max, FunctionAttribute::max_threads_per_block, function),
        "cuFuncGetAttribute"));
    loaded->kernels.emplace(name, kernel);
  }
  return std::shared_ptr<const Loaded>(std::move(loaded));
}

Result<KernelSet> KernelSet::load(const PrimaryContext &context, const std::vector<KernelFamily> &families) {
  static auto *const known = new SharedTable<std::pair<CuDevice, KernelFamily>, const Loaded>;
  KernelSet set;
  set.driver_ = context.get().driver;
  set.context_ = context.get().context;
  for (const KernelFamily family : families) {
    auto loaded = known->find_or_make({context.get().device, family}, [&] { return load_family(context, family); });
    if (!loaded.ok() && family == KernelFamily::load_store) {
      Error error = loaded.error();
      error.message =
          "the kernels 'load_store' cannot be loaded; use RONDO_KERNEL=interpreter (" + error.message + ")";
      return error;
    }
    RONDO_TRY(loaded);
    set.families_.push_back(std::move(loaded).value());
  }
  return set;
}

Result<LoadedKernel> KernelSet::find(const std::string &name) const {
  for (const auto &family : families_)
    if (const auto found = family->kernels.find(name); found != family->kernels.end()) return found->second;
  return Error{RONDO_ERROR_UNSUPPORTED, "there is no kernel " + name};
}

Result<int> KernelSet::resident_blocks(int block_threads, size_t shared_bytes) const {
  int least = std::numeric_limits<int>::max();
  const ContextGuard guard(*driver_, context_);
  RONDO_TRY(guard.status());
  for (const auto &family : families_) {
    if (!family->waits) continue;
    for (const auto &[name, kernel] : family->kernels) {
      int blocks = 0;
      RONDO_TRY(
          cuda_check(*driver_,
                     driver_->occupancy_max_blocks(&blocks, kernel.function,
                                                   std::min(block_threads, kernel.block_threads_max), shared_bytes),
                     "cuOccupancyMaxActiveBlocksPerMultiprocessor"));
      least = std::min(least, blocks);
    }
  }
  fix_carveout(static_cast<uint64_t>(least) * (shared_bytes + shared_bytes_reserved));
  return least;
}

/// Requests `bytes` of a multiprocessor's memory as shared memory, for every kernel that waits. A driver that does not
/// know this attribute chooses the size by itself.
void KernelSet::fix_carveout(uint64_t bytes) const {
  CuDevice device = 0;
  int most = 0;
  if (driver_->ctx_get_device(&device) != CuStatus::success ||
      driver_->device_get_attribute(&most, DeviceAttribute::max_shared_memory_per_multiprocessor, device) !=
          CuStatus::success ||
      most <= 0)
    return;
  const auto whole = static_cast<uint64_t>(most);
  const uint64_t percent = std::min<uint64_t>((100 * bytes + whole - 1) / whole, 100);
  for (const auto &family : families_)
    for (const auto &[name, kernel] : family->kernels)
      if (family->waits)
        static_cast<void>(driver_->func_set_attribute(kernel.function, FunctionAttribute::preferred_shared_carveout,
                                                      static_cast<int>(percent)));
}

}  // namespace rondo::cuda
