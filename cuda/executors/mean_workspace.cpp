// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/mean_workspace.h"

#include <algorithm>

#include "src/base/ceil_div.h"

namespace rondo::cuda {
namespace {

constexpr uint64_t bytes_min = 64 << 10;
constexpr uint32_t block_threads = 256;
constexpr uint32_t blocks_max = 128;

uint64_t word_bytes(const Plan &plan) { return rondo_type_size(static_cast<rondo_type_t>(plan.key.signature.type)); }

device::MeanOperation operation_of(const Plan &plan, const Range &range) {
  const auto type = static_cast<rondo_type_t>(plan.called.type);
  device::MeanOperation operation;
  operation.element_bytes = static_cast<uint32_t>(rondo_type_size(type));
  operation.count = range.count / mean_words_of(operation.element_bytes);
  operation.is_signed = type == RONDO_INT8 || type == RONDO_INT32 || type == RONDO_INT64 ? 1 : 0;
  return operation;
}

Result<void> launch(const CudaDriver &driver, const LoadedKernel &kernel, device::MeanOperation operation,
                    CuStream stream, const char *what) {
  if (operation.count == 0) return {};
  const uint64_t blocks = std::min<uint64_t>(ceil_div<uint64_t>(operation.count, block_threads), blocks_max);
  return launch_kernel(driver, kernel, {static_cast<uint32_t>(blocks), block_threads, 0}, &operation, stream, what);
}

}  // namespace

Result<void> MeanWorkspace::reserve(const PrimaryContext &context, const KernelSet &kernels, const Plan &plan) {
  if (!plan.widened) return {};
  RONDO_TRY_ASSIGN(widen_, kernels.find("rondo_mean_widen"));
  RONDO_TRY_ASSIGN(narrow_, kernels.find("rondo_mean_narrow"));
  const uint64_t needed = plan.send.count * word_bytes(plan);
  if (!memory_.empty() && needed <= bytes_) return {};
  const uint64_t bytes = std::max({needed, 2 * bytes_, bytes_min});
  const CaptureModeGuard capture_goes_on(*context.get().driver);
  auto memory = SharedMemory::allocate(context, bytes, DeviceHandles::vmm);
  if (!memory.ok()) memory = SharedMemory::allocate(context, bytes, DeviceHandles::ipc);
  if (!memory.ok()) {
    Error error = memory.error();
    error.message = describe(plan.called) + " needs a workspace of " + std::to_string(bytes) +
                    " bytes on the device: " + error.message;
    return error;
  }
  memory_.push_back(std::move(memory).value());
  bytes_ = bytes;
  return {};
}

Buffers MeanWorkspace::buffers_of(const Plan &plan, const Buffers &called) const {
  Buffers own = called;
  own.send.data = words();
  own.recv.data = words() + (plan.recv.begin - plan.send.begin) * word_bytes(plan);
  return own;
}

Result<void> MeanWorkspace::widen(const CudaDriver &driver, const Plan &plan, const Buffers &called,
                                  CuStream stream) const {
  device::MeanOperation operation = operation_of(plan, plan.send);
  operation.from = called.send.data;
  operation.to = buffers_of(plan, called).send.data;
  return launch(driver, widen_, operation, stream, "widening the integers of a mean");
}

Result<void> MeanWorkspace::narrow(const CudaDriver &driver, const Plan &plan, const Buffers &called,
                                   uint32_t rank_count, CuStream stream) const {
  if (called.recv.data == nullptr) return {};
  device::MeanOperation operation = operation_of(plan, plan.recv);
  operation.from = buffers_of(plan, called).recv.data;
  operation.to = called.recv.data;
  operation.rank_count = rank_count;
  return launch(driver, narrow_, operation, stream, "dividing the integers of a mean");
}

}  // namespace rondo::cuda
