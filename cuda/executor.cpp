// SPDX-License-Identifier: Apache-2.0
#include "cuda/executor.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "cuda/budget.h"
#include "cuda/kernel_set.h"
#include "cuda/kernels/operation.h"
#include "cuda/plan_image.h"
#include "cuda/segment.h"
#include "src/proto/memory.h"

namespace rondo::cuda {
namespace {

constexpr uint32_t default_slot_count = 8;
constexpr uint32_t default_slot_bytes = 128 << 10;
constexpr uint64_t plan_memory_bytes = 4 << 20;  // a plan of 64 ranks takes 4 KiB
constexpr uint32_t poll_count = 64;              // looks at a flag in device memory for one at the host's abort word

/// What the host and the kernels share, in pinned memory.
struct HostWords {
  alignas(cache_line_bytes) uint64_t abort = 0;
  device::DeviceResult result;
};

class CudaPlan final : public DevicePlan {
 public:
  CudaPlan(Arena &arena, std::mutex &mutex) : arena_(arena), mutex_(mutex) {}
  CudaPlan(const CudaPlan &) = delete;
  CudaPlan &operator=(const CudaPlan &) = delete;
  ~CudaPlan() override {
    const std::lock_guard lock(mutex_);
    if (bytes != 0) arena_.give_back(offset, bytes);
  }

  LoadedKernel kernel;
  uint64_t offset = 0, bytes = 0;  ///< in the segment's memory for plans, and in the host's copy of it
  uint32_t channel_count = 0, lane_count = 0, lanes_per_channel = 0;
  bool uploaded = false;

 private:
  Arena &arena_;
  std::mutex &mutex_;
};

class CudaExecutor final : public DeviceExecutor {
 public:
  [[nodiscard]] ConnectionGeometry geometry() const override { return segment_.shape().geometry; }
  [[nodiscard]] uint32_t channel_count() const override { return segment_.shape().channel_count; }
  [[nodiscard]] std::string describe() const override {
    return "CUDA device " + std::to_string(device_.ordinal) + " (" + device_.name + ")";
  }
  [[nodiscard]] Result<void> check_buffer(const char *name, const void *pointer, size_t bytes) const override;
  [[nodiscard]] Result<std::unique_ptr<DevicePlan>> prepare(const Plan &plan) override;
  [[nodiscard]] Result<Launched> launch(const DeviceCall &call, void *stream) override;
  [[nodiscard]] void *own_stream() const override { return stream_.get().object; }
  [[nodiscard]] std::byte *barrier_buffer(uint32_t which) const override {
    return reinterpret_cast<std::byte *>(segment_.address() + segment_.shape().barrier_offset(which));
  }
  [[nodiscard]] DeviceReport report() const override;
  void stop() override { memory::store_release(words().abort, 1); }  // pairs with A1 in cuda/kernels/run.h
  [[nodiscard]] Result<void> check_device() const override;

  Result<void> connect(const DeviceRequest &request, Store &store);

 private:
  Result<void> find_device(const DeviceRequest &request);
  [[nodiscard]] Result<void> check_residency() const;
  [[nodiscard]] HostWords &words() const { return *static_cast<HostWords *>(words_.get().object); }
  [[nodiscard]] std::byte *host_plans() const { return static_cast<std::byte *>(host_plans_.get().object); }
  [[nodiscard]] Result<bool> look_at_stream(CuStream stream) const;
  [[nodiscard]] Result<void> follow_last_stream(CuStream stream, bool captured);
  [[nodiscard]] Result<void> upload(CudaPlan &plan, CuStream stream, bool captured);
  [[nodiscard]] Result<void> run(const CudaPlan &plan, const DeviceCall &call, CuStream stream);

  const CudaDriver *driver_ = nullptr;
  CudaDevice device_;
  PrimaryContext context_;
  std::shared_ptr<const KernelSet> kernels_;
  HostMemory words_, host_plans_;
  Segment segment_;
  std::mutex arena_mutex_;
  Arena arena_{plan_memory_bytes};
  Stream stream_;
  Event launched_;  ///< recorded behind every kernel that was not captured
  CuStream last_stream_ = nullptr;
  bool launched_any_ = false;
};

Result<CudaDevice> device_of(const CudaDriver &driver, int32_t ordinal) {
  RONDO_TRY_ASSIGN(const auto devices, cuda_devices(driver));
  if (ordinal >= 0 && static_cast<size_t>(ordinal) < devices.size()) return devices[static_cast<size_t>(ordinal)];
  return invalid_argument("rondo_config_t.device is " + std::to_string(ordinal) + ", but this process sees " +
                          std::to_string(devices.size()) + " CUDA devices, numbered from 0 (CUDA_VISIBLE_DEVICES)");
}

Result<void> CudaExecutor::find_device(const DeviceRequest &request) {
  RONDO_TRY_ASSIGN(driver_, cuda_driver(request.library));
  RONDO_TRY_ASSIGN(device_, device_of(*driver_, request.device));
  RONDO_TRY_ASSIGN(context_, retain_primary_context(*driver_, device_.ordinal));
  return {};
}

Result<void> CudaExecutor::connect(const DeviceRequest &request, Store &store) {
  RONDO_TRY(find_device(request));
  RONDO_TRY_ASSIGN(kernels_, KernelSet::load(context_));
  SegmentShape shape;
  shape.rank_count = request.rank_count;
  shape.channel_count = request.channel_count != 0 ? request.channel_count : default_channel_count;
  if (request.channel_count_max != 0) shape.channel_count = std::min(shape.channel_count, request.channel_count_max);
  shape.geometry.slot_count = request.slot_count != 0 ? request.slot_count : default_slot_count;
  shape.geometry.slot_bytes = request.slot_bytes != 0 ? request.slot_bytes : default_slot_bytes;
  shape.geometry.ll_slot_bytes = ll_slot_bytes;
  shape.plan_bytes = plan_memory_bytes;
  RONDO_TRY_ASSIGN(words_, allocate_host_memory(context_, sizeof(HostWords)));
  ::new (words_.get().object) HostWords();
  RONDO_TRY_ASSIGN(host_plans_, allocate_host_memory(context_, plan_memory_bytes));
  RONDO_TRY_ASSIGN(stream_, make_stream(context_));
  RONDO_TRY_ASSIGN(launched_, make_event(context_));
  RONDO_TRY_ASSIGN(segment_, Segment::connect(context_, stream_.get().object, device_.uuid, shape, request.rank,
                                              request.key_prefix, store, request.deadline_ns));
  return check_residency();
}

/// A block that is not resident never runs while the others wait for it.
Result<void> CudaExecutor::check_residency() const {
  RONDO_TRY_ASSIGN(const BlockBudget budget, block_budget(*kernels_, device_));
  const uint64_t wanted = uint64_t{segment_.neighbour_count()} * channel_count();
  if (wanted <= budget.blocks) return {};
  return Error{
      RONDO_ERROR_OUT_OF_RESOURCES,
      std::to_string(segment_.neighbour_count()) + " ranks of this process on " + describe() + " want " +
          std::to_string(wanted) + " blocks with " + std::to_string(channel_count()) + " channels each, but " +
          std::to_string(budget.blocks) +
          " can be resident at once; ask for fewer channels (RONDO_MAX_CTAS, RONDO_CHANNELS) or put fewer ranks on the "
          "device"};
}

Result<void> CudaExecutor::check_buffer(const char *name, const void *pointer, size_t bytes) const {
  if (bytes == 0) return {};
  const ContextGuard guard(*driver_, context_.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY_ASSIGN(const PointerInfo info, pointer_info(*driver_, pointer));
  if (info.type == MemoryType::unknown || info.type == MemoryType::host)
    return invalid_argument(std::string(name) + " is host memory, but the communicator is on " + describe() +
                            "; give memory of that device, or make a communicator on RONDO_DEVICE_HOST");
  if (info.device != device_.ordinal)
    return invalid_argument(std::string(name) + " is memory of CUDA device " + std::to_string(info.device) +
                            ", but the communicator is on " + describe());
  const uint64_t offset = reinterpret_cast<uint64_t>(pointer) - info.range_start;
  if (info.range_bytes != 0 && (offset > info.range_bytes || bytes > info.range_bytes - offset))
    return invalid_argument(std::string(name) + " has " + std::to_string(bytes) + " bytes, which is more than the " +
                            std::to_string(info.range_bytes - std::min<uint64_t>(offset, info.range_bytes)) +
                            " that are left of its allocation");
  return {};
}

Result<std::unique_ptr<DevicePlan>> CudaExecutor::prepare(const Plan &plan) {
  auto made = std::make_unique<CudaPlan>(arena_, arena_mutex_);
  RONDO_TRY_ASSIGN(made->kernel, kernels_->find(device::kernel_name(plan)));
  const size_t bytes = device::plan_image_bytes(plan);
  {
    const std::lock_guard lock(arena_mutex_);
    const auto offset = arena_.take(bytes);
    if (!offset)
      return Error{RONDO_ERROR_OUT_OF_RESOURCES,
                   "the plans of " + std::to_string(bytes) + " bytes more do not fit into a communicator's " +
                       std::to_string(plan_memory_bytes) + " bytes on its device; use fewer different sizes"};
    made->offset = *offset;
    made->bytes = bytes;
  }
  const uint64_t address = segment_.address() + segment_.shape().plans_offset() + made->offset;
  RONDO_TRY_ASSIGN(const device::PlanImage image,
                   device::make_plan_image(plan, address, [&](uint32_t channel, uint32_t peer) {
                     return segment_.ends_address(channel, peer);
                   }));
  std::memcpy(host_plans() + made->offset, image.bytes.data(), image.bytes.size());
  made->channel_count = image.channel_count;
  made->lane_count = image.lane_count;
  made->lanes_per_channel = image.lanes_per_channel;
  return std::unique_ptr<DevicePlan>(std::move(made));
}

/// True: it is being captured.
Result<bool> CudaExecutor::look_at_stream(CuStream stream) const {
  CaptureStatus capture = CaptureStatus::none;
  RONDO_TRY(cuda_check(*driver_, driver_->stream_is_capturing(stream, &capture), "cuStreamIsCapturing"));
  if (stream == nullptr) return capture != CaptureStatus::none;  // the default stream of the context that is current
  CuContext owner = nullptr;
  RONDO_TRY(cuda_check(*driver_, driver_->stream_get_ctx(stream, &owner), "cuStreamGetCtx"));
  if (owner != context_.get().context)
    return invalid_argument("the stream is not one of " + describe() + ", which the communicator is on");
  return capture != CaptureStatus::none;
}

/// Kernels of a communicator come one after the other, whatever streams they are on: they share the ends of its links.
Result<void> CudaExecutor::follow_last_stream(CuStream stream, bool captured) {
  if (!launched_any_ || stream == last_stream_) return {};
  if (!captured)
    return cuda_check(*driver_, driver_->stream_wait_event(stream, launched_.get().object, 0), "cuStreamWaitEvent");
  // A captured stream cannot wait for what was not captured with it.
  if (driver_->event_query(launched_.get().object) == CuStatus::success) return {};
  return invalid_argument(
      "a stream is being captured while the communicator's calls on another stream still run; "
      "synchronize that stream before the capture begins");
}

Result<void> CudaExecutor::upload(CudaPlan &plan, CuStream stream, bool captured) {
  if (plan.uploaded) return {};
  const DevicePointer address = segment_.address() + segment_.shape().plans_offset() + plan.offset;
  RONDO_TRY(cuda_check(*driver_, driver_->memcpy_htod_async(address, host_plans() + plan.offset, plan.bytes, stream),
                       "copying a plan to the device"));
  plan.uploaded = !captured;  // a captured copy is made when the graph runs, each time
  return {};
}

Result<void> CudaExecutor::run(const CudaPlan &plan, const DeviceCall &call, CuStream stream) {
  const uint32_t scratch = device::scratch_bytes_for(ll_slot_bytes);
  device::DeviceOperation operation;
  operation.channels = reinterpret_cast<const device::DeviceChannel *>(segment_.address() +
                                                                       segment_.shape().plans_offset() + plan.offset);
  operation.abort = &words().abort;
  operation.progress =
      reinterpret_cast<device::DeviceProgress *>(segment_.address() + segment_.shape().progress_offset());
  operation.result = &words().result;
  operation.buffers = call.buffers;
  operation.number = call.number;
  operation.divisor = call.divisor;
  operation.lane_count = plan.lane_count;
  operation.scratch_bytes = scratch;
  operation.poll_count = poll_count;
  const auto threads =
      std::min<uint32_t>(lane_threads * plan.lanes_per_channel, static_cast<uint32_t>(plan.kernel.block_threads_max));
  void *parameters[] = {&operation};
  return cuda_check(
      *driver_,
      driver_->launch_kernel(plan.kernel.function, plan.channel_count, 1, 1, threads, 1, 1,
                             device::shared_bytes_for(plan.lanes_per_channel, scratch), stream, parameters, nullptr),
      "launching a collective");
}

Result<Launched> CudaExecutor::launch(const DeviceCall &call, void *stream_handle) {
  auto *const stream = static_cast<CuStream>(stream_handle);
  auto &plan = static_cast<CudaPlan &>(*call.plan);
  const ContextGuard guard(*driver_, context_.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY_ASSIGN(const bool captured, look_at_stream(stream));
  RONDO_TRY(follow_last_stream(stream, captured));
  RONDO_TRY(upload(plan, stream, captured));
  RONDO_TRY(run(plan, call, stream));
  if (captured) return Launched{true};
  RONDO_TRY(cuda_check(*driver_, driver_->event_record(launched_.get().object, stream), "cuEventRecord"));
  last_stream_ = stream;
  launched_any_ = true;
  return Launched{};
}

DeviceReport CudaExecutor::report() const {
  const device::DeviceResult &result = words().result;
  DeviceReport report;
  report.ended_number = memory::load_acquire(result.number);  // pairs with E3 in cuda/kernels/run.h
  report.ended_kernels = memory::load_relaxed(result.kernels);
  report.begun_kernels = std::max(memory::load_relaxed(result.begun), report.ended_kernels);
  const uint64_t verdict = memory::load_relaxed(result.verdict);  // ordered by E3
  if (verdict == 0) return report;
  report.failed = true;
  report.failed_number = memory::load_relaxed(result.failed_number);
  if (device::outcome_in(verdict) == device::Outcome::fault) report.fault = device::fault_in(verdict);
  report.peer = device::peer_in(verdict);
  return report;
}

Result<void> CudaExecutor::check_device() const {
  const ContextGuard guard(*driver_, context_.get().context);
  RONDO_TRY(guard.status());
  const CuStatus status = driver_->stream_query(stream_.get().object);
  if (status == CuStatus::success || status == CuStatus::not_ready) return {};
  return cuda_error(*driver_, status, describe() + " has failed");
}

}  // namespace

Result<void> check_device(const std::string &library, int32_t device) {
  RONDO_TRY_ASSIGN(const CudaDriver *const driver, cuda_driver(library));
  const auto found = device_of(*driver, device);
  return found.ok() ? Result<void>() : found.error();
}

Result<std::unique_ptr<DeviceExecutor>> connect_device(const DeviceRequest &request, Store &store) {
  auto executor = std::make_unique<CudaExecutor>();
  RONDO_TRY(executor->connect(request, store));
  return std::unique_ptr<DeviceExecutor>(std::move(executor));
}

}  // namespace rondo::cuda
