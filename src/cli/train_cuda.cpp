// SPDX-License-Identifier: Apache-2.0
#include "src/cli/train_cuda.h"

#include <utility>
#include <vector>

#include "bench/trainer/cuda/kernels_image.h"
#include "cuda/driver/handles.h"
#include "src/cli/visible_devices.h"

namespace rondo::cli {
namespace {

using namespace cuda;
using train::DeviceFacts;
using train::Exit;
using train::Failure;
using train::Grid;
using train::Outcome;

Outcome outcome(const Result<void> &result) {
  if (result.ok()) return std::nullopt;
  return Failure{Exit::communication, result.error().message};
}

class TrainDevice final : public train::Device {
 public:
  ~TrainDevice() override {
    CuContext popped = nullptr;
    if (current_) static_cast<void>(driver_->ctx_pop_current(&popped));
  }

  Result<void> open(const CudaDriver &driver, const CudaDevice &device) {
    driver_ = &driver;
    facts_ = {device.ordinal, device.name, static_cast<uint32_t>(device.multiprocessor_count)};
    RONDO_TRY_ASSIGN(context_, retain_primary_context(driver, device.ordinal));
    RONDO_TRY(cuda_check(driver, driver.ctx_push_current(context_.get().context), "cuCtxPushCurrent"));
    current_ = true;
    const void *const image = train::cuda::kernels_image();
    static constexpr char no_image[8] = {};  // a driver in software has its own kernels
    auto library = load_library(context_, image != nullptr ? image : no_image);
    if (!library.ok() && image == nullptr)
      return Error{RONDO_ERROR_UNSUPPORTED,
                   "this build of rondo train has no CUDA kernels, because nvcc was missing; build it with nvcc (" +
                       library.error().message + ")"};
    RONDO_TRY_ASSIGN(library_, std::move(library));
    return {};
  }

  const DeviceFacts &facts() const override { return facts_; }

  Outcome allocate(size_t bytes, void *&memory) override {
    DevicePointer pointer = 0;
    const CuStatus status = driver_->mem_alloc(&pointer, bytes);
    memory = reinterpret_cast<void *>(pointer);
    if (status != CuStatus::out_of_memory) return check(status, "cuMemAlloc");
    return Failure{Exit::usage, "CUDA device " + std::to_string(facts_.ordinal) + " has not " +
                                    std::to_string(bytes >> 20) + " MiB left; choose a smaller --batch or --model, "
                                    "fewer ranks on the device, or --recompute"};
  }
  void release(void *memory) override {
    static_cast<void>(driver_->mem_free(reinterpret_cast<DevicePointer>(memory)));
  }
  Outcome allocate_pinned(size_t bytes, void *&memory) override {
    return check(driver_->mem_host_alloc(&memory, bytes, host_alloc_portable), "cuMemHostAlloc");
  }
  void release_pinned(void *memory) override { static_cast<void>(driver_->mem_free_host(memory)); }

  Outcome make_stream(void *&stream) override {
    auto made = cuda::make_stream(context_);
    if (!made.ok()) return outcome(made.error());
    stream = made.value().get().object;
    streams_.push_back(std::move(made).value());
    return std::nullopt;
  }
  Outcome make_event(void *&event) override {
    auto made = cuda::make_event(context_, event_default);
    if (!made.ok()) return outcome(made.error());
    event = made.value().get().object;
    events_.push_back(std::move(made).value());
    return std::nullopt;
  }

  Outcome copy(void *to, const void *from, size_t bytes, void *stream) override {
    return check(driver_->memcpy_async(reinterpret_cast<DevicePointer>(to), reinterpret_cast<DevicePointer>(from),
                                       bytes, static_cast<CuStream>(stream)),
                 "cuMemcpyAsync");
  }
  Outcome zero(void *memory, size_t bytes, void *stream) override {
    return check(driver_->memset_d8_async(reinterpret_cast<DevicePointer>(memory), 0, bytes,
                                          static_cast<CuStream>(stream)),
                 "cuMemsetD8Async");
  }
  Outcome launch(void *kernel, const Grid &grid, const void *parameters, void *stream) override {
    void *all[] = {const_cast<void *>(parameters)};
    return check(driver_->launch_kernel(static_cast<CuFunction>(kernel), grid.blocks, 1, 1, grid.threads, 1, 1,
                                        grid.shared_bytes, static_cast<CuStream>(stream), all, nullptr),
                 "cuLaunchKernel");
  }
  Outcome record(void *event, void *stream) override {
    return check(driver_->event_record(static_cast<CuEvent>(event), static_cast<CuStream>(stream)), "cuEventRecord");
  }
  Outcome follow(void *stream, void *event) override {
    return check(driver_->stream_wait_event(static_cast<CuStream>(stream), static_cast<CuEvent>(event), 0),
                 "cuStreamWaitEvent");
  }

  Outcome find_kernel(const char *name, void *&kernel) override {
    auto found = find_function(library_, name);
    if (!found.ok()) return outcome(found.error());
    kernel = found.value();
    return std::nullopt;
  }
  Outcome wait_for_stream(void *stream) override {
    return check(driver_->stream_synchronize(static_cast<CuStream>(stream)), "cuStreamSynchronize");
  }
  Outcome wait_for_event(void *event) override {
    return check(driver_->event_synchronize(static_cast<CuEvent>(event)), "cuEventSynchronize");
  }
  Outcome between_ns(void *from, void *to, double &time_ns) override {
    float milliseconds = 0;
    const CuStatus status =
        driver_->event_elapsed_time(&milliseconds, static_cast<CuEvent>(from), static_cast<CuEvent>(to));
    time_ns = 1e6 * static_cast<double>(milliseconds);
    return check(status, "cuEventElapsedTime");
  }

 private:
  Outcome check(CuStatus status, const char *what) const { return outcome(cuda_check(*driver_, status, what)); }

  const CudaDriver *driver_ = nullptr;
  DeviceFacts facts_;
  PrimaryContext context_;
  bool current_ = false;
  Library library_;
  std::vector<Event> events_;
  std::vector<Stream> streams_;
};

class TrainDevices final : public train::Devices {
 public:
  Outcome count(int &device_count) override {
    auto found = find_visible_devices();
    if (!found.ok()) return Failure{Exit::usage, "--device cuda: " + found.error().message};
    visible_ = std::move(found).value();
    device_count = static_cast<int>(visible_.devices.size());
    return std::nullopt;
  }

  Outcome open(int ordinal, std::unique_ptr<train::Device> &device) override {
    auto made = std::make_unique<TrainDevice>();
    if (const auto opened = made->open(*visible_.driver, visible_.devices[static_cast<size_t>(ordinal)]); !opened.ok())
      return Failure{Exit::usage, "--device cuda: " + opened.error().message};
    device = std::move(made);
    return std::nullopt;
  }

 private:
  VisibleDevices visible_;
};

}  // namespace

std::unique_ptr<train::Devices> make_train_devices() { return std::make_unique<TrainDevices>(); }

}  // namespace rondo::cli
