// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/operand_workspace.h"

#include <algorithm>

#include "src/base/arithmetic.h"

namespace rondo::cuda {
namespace {

constexpr uint64_t bytes_min = 64 << 10;
constexpr uint32_t block_threads = 256;
constexpr uint32_t blocks_max = 128;
constexpr uint32_t scale_blocks_max = 512;  // their loads together keep a device's memory busy

/// Returns the bytes of an element that the plan adds.
uint64_t element_bytes_of(const Plan &plan) {
  return rondo_type_size(static_cast<rondo_type_t>(plan.key.signature.type));
}

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

device::ScaledType scaled_type(rondo_type_t type) {
  using enum device::ScaledType;
  switch (type) {
    case RONDO_INT8:
    case RONDO_UINT8: return int8;
    case RONDO_INT32:
    case RONDO_UINT32: return int32;
    case RONDO_INT64:
    case RONDO_UINT64: return int64;
    case RONDO_FLOAT16: return float16;
    case RONDO_BFLOAT16: return bfloat16;
    case RONDO_FLOAT32: return float32;
    case RONDO_FLOAT64: return float64;
    case RONDO_FLOAT8_E4M3: return float8_e4m3;
    case RONDO_FLOAT8_E5M2: return float8_e5m2;
  }
  return int8;
}

}  // namespace

Result<void> OperandWorkspace::reserve(const PrimaryContext &context, const KernelSet &kernels, const Plan &plan) {
  if (plan.scaling != Scaling::none) {
    RONDO_TRY_ASSIGN(scale_, kernels.find("rondo_scale"));
  }
  if (plan.widened) {
    RONDO_TRY_ASSIGN(widen_, kernels.find("rondo_mean_widen"));
    RONDO_TRY_ASSIGN(narrow_, kernels.find("rondo_mean_narrow"));
  } else if (plan.scaling != Scaling::into_workspace) {
    return {};
  }
  const uint64_t needed = plan.send.count * element_bytes_of(plan);
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
  const bool is_vmm = memory_.back()->is_vmm();
  const uint64_t allocated = is_vmm ? memory_.back()->bytes() : bytes;
  all_bytes_.fetch_add(allocated, std::memory_order_relaxed);  // relaxed: all_bytes() is a mere figure
  if (is_vmm) vmm_bytes_.fetch_add(allocated, std::memory_order_relaxed);  // likewise
  return {};
}

void OperandWorkspace::suspend() {
  for (const auto &memory : memory_)
    if (memory->is_vmm()) memory->release();
}

Result<void> OperandWorkspace::resume() {
  for (const auto &memory : memory_)
    if (memory->is_vmm()) RONDO_TRY(memory->restore());
  return {};
}

Buffers OperandWorkspace::buffers_of(const Plan &plan, const Buffers &called) const {
  Buffers own = called;
  if (plan.scaling == Scaling::into_recv) {
    own.send.data = called.recv.data;
    return own;
  }
  own.send.data = operands();
  if (plan.scaling == Scaling::into_workspace) return own;
  own.recv.data = operands() + (plan.recv.begin - plan.send.begin) * element_bytes_of(plan);
  return own;
}

Result<void> OperandWorkspace::widen(const CudaDriver &driver, const Plan &plan, const Buffers &called,
                                     CuStream stream) const {
  device::MeanOperation operation = operation_of(plan, plan.send);
  operation.from = called.send.data;
  operation.to = buffers_of(plan, called).send.data;
  return launch(driver, widen_, operation, stream, "widening the integers of a mean");
}

Result<void> OperandWorkspace::scale(const CudaDriver &driver, const Plan &plan, const Buffers &called,
                                     const Factor &factor, CuStream stream) const {
  device::ScaleOperation operation;
  operation.from = called.send.data;
  operation.to = buffers_of(plan, called).send.data;
  operation.address = factor.address;
  operation.factor = factor.value;
  operation.count = plan.send.count;
  operation.type = scaled_type(static_cast<rondo_type_t>(plan.called.type));
  if (operation.count == 0) return {};
  const uint64_t vectors = ceil_div<uint64_t>(operation.count * element_bytes_of(plan), device::vector_bytes);
  const uint64_t blocks = std::min<uint64_t>(ceil_div<uint64_t>(vectors, block_threads), scale_blocks_max);
  return launch_kernel(driver, scale_, {static_cast<uint32_t>(blocks), block_threads, 0}, &operation, stream,
                       "scaling the operands of a premul sum");
}

Result<void> OperandWorkspace::narrow(const CudaDriver &driver, const Plan &plan, const Buffers &called,
                                      uint32_t rank_count, CuStream stream) const {
  if (called.recv.data == nullptr) return {};
  device::MeanOperation operation = operation_of(plan, plan.recv);
  operation.from = buffers_of(plan, called).recv.data;
  operation.to = called.recv.data;
  operation.rank_count = rank_count;
  return launch(driver, narrow_, operation, stream, "dividing the integers of a mean");
}

}  // namespace rondo::cuda
