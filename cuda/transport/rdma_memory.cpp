// SPDX-License-Identifier: Apache-2.0
#include "cuda/transport/rdma_memory.h"

#include <algorithm>
#include <array>

#include "cuda/driver/handles.h"
#include "src/base/arithmetic.h"
#include "src/base/unique_handle.h"

namespace rondo::cuda {
namespace {

constexpr size_t page_bytes = 65'536;  // a device page; a multiple of the host's page, which dmabufs need

class CudaRdmaMemory final : public RdmaMemory {
 public:
  CudaRdmaMemory(PrimaryContext context, DeviceMemory memory, size_t bytes, const GpuDirect &ways)
      : context_(std::move(context)), memory_(std::move(memory)), ways_(ways) {
    const DevicePointer first = round_up<DevicePointer>(memory_.get().object, page_bytes);
    bytes_ = {reinterpret_cast<std::byte *>(first), bytes};
  }

  void find_out() {
    const CudaDriver &driver = *context_.get().driver;
    const auto first = reinterpret_cast<DevicePointer>(bytes_.data());
    void *host = nullptr;
    PointerAttribute attribute = PointerAttribute::host_pointer;
    void *value = &host;
    const CuStatus asked = driver.pointer_get_attributes(1, &attribute, &value, first);
    in_reach_of_host_ = asked == CuStatus::success && host == bytes_.data();
    int descriptor = -1;
    if (ways_.dmabuf && driver.mem_get_range_handle(&descriptor, first, bytes_.size(),
                                                    RangeHandleType::dma_buf_descriptor, 0) == CuStatus::success)
      dmabuf_.reset(descriptor);
  }

  std::span<std::byte> bytes() const override { return bytes_; }
  bool is_in_reach_of_host() const override { return in_reach_of_host_; }
  int dmabuf() const override { return dmabuf_.get(); }
  void run(const std::function<void()> &work) const override {
    const CudaDriver &driver = *context_.get().driver;
    const ContextGuard guard(driver, context_.get().context);
    const CaptureModeGuard capture_goes_on(driver);
    work();
  }
  Result<void> flush() const override {
    if (!ways_.needs_flush) return {};
    const CudaDriver &driver = *context_.get().driver;
    return cuda_check(driver, driver.flush_gpu_direct_writes(FlushTarget::current_context, FlushScope::to_owner),
                      "cuFlushGPUDirectRDMAWrites");
  }

 private:
  const PrimaryContext context_;  ///< destroyed after the memory
  const DeviceMemory memory_;
  const GpuDirect ways_;
  std::span<std::byte> bytes_;
  bool in_reach_of_host_ = false;
  FileDescriptor dmabuf_;
};

int attribute_or_0(const CudaDriver &driver, CuDevice device, DeviceAttribute attribute) {
  const auto value = device_attribute(driver, device, attribute);
  return value.ok() ? value.value() : 0;
}

}  // namespace

Result<GpuDirect> gpu_direct_of(const CudaDriver &driver, CuDevice device) {
  const auto ask = [&](DeviceAttribute attribute) { return attribute_or_0(driver, device, attribute); };
  const auto refuse = [&](const char *why) {
    return Error{RONDO_ERROR_UNSUPPORTED, "CUDA device " + std::to_string(device) + why};
  };
  if (ask(DeviceAttribute::gpu_direct_rdma_supported) == 0)
    return refuse(" does not support GPUDirect RDMA, according to its driver");
  GpuDirect ways;
  // Order for the owner suffices, because the reader is a kernel of the device that owns the memory.
  ways.needs_flush =
      ask(DeviceAttribute::gpu_direct_rdma_writes_ordering) < static_cast<int>(GpuDirectOrdering::owner);
  const auto flushes = static_cast<unsigned>(ask(DeviceAttribute::gpu_direct_rdma_flush_writes_options));
  if (ways.needs_flush && (flushes & gpu_direct_flush_by_host) == 0)
    return refuse(" does not order what network cards write into its memory, and the host cannot flush it");
  ways.dmabuf = ask(DeviceAttribute::dma_buf_supported) != 0;
  return ways;
}

Result<std::shared_ptr<const RdmaMemory>> allocate_rdma_memory(const std::string &library, int32_t ordinal,
                                                                   size_t bytes) {
  RONDO_TRY_ASSIGN(const CudaDriver *const driver, cuda_driver(library));
  RONDO_TRY_ASSIGN(const GpuDirect ways, gpu_direct_of(*driver, ordinal));
  RONDO_TRY_ASSIGN(PrimaryContext context, retain_primary_context(*driver, ordinal));
  bytes = round_up(std::max<size_t>(bytes, 1), page_bytes);
  RONDO_TRY_ASSIGN(auto memory, allocate_device_memory(context, bytes + page_bytes));  // it may begin inside of a page
  auto made = std::make_shared<CudaRdmaMemory>(std::move(context), std::move(memory), bytes, ways);
  made->run([&] { made->find_out(); });
  return std::shared_ptr<const RdmaMemory>(std::move(made));
}

}  // namespace rondo::cuda
