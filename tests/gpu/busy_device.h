// SPDX-License-Identifier: Apache-2.0
// This class keeps a device busy with a host function. It can also run other code after a delay, while the test itself
// makes a call that waits for the device.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/driver/handles.h"

namespace rondo_test {

/// Keeps the device busy until go_on(), but at most a minute, so that nothing hangs. The destructor waits for the
/// device, and for what run_later() has begun.
class BusyDevice {
 public:
  BusyDevice() = default;
  BusyDevice(const BusyDevice &) = delete;
  BusyDevice &operator=(const BusyDevice &) = delete;
  ~BusyDevice() {
    later_.clear();
    go_on();
    if (cu_ != nullptr) static_cast<void>(cu_->stream_synchronize(stream_.get().object));
  }

  /// Returns false if the driver failed.
  [[nodiscard]] bool begin(const rondo::cuda::CudaDriver &cu, const rondo::cuda::PrimaryContext &context) {
    auto made = rondo::cuda::make_stream(context);
    if (!made.ok()) return false;
    stream_ = std::move(made).value();
    cu_ = &cu;
    return cu.launch_host_func(stream_.get().object, wait, this) == rondo::cuda::CuStatus::success;
  }
  void go_on() { idle_ = true; }
  /// Says whether the device is still busy. If it is, no call that has ended since begin() has waited for the device.
  [[nodiscard]] bool is_busy() const { return cu_ != nullptr && !idle_; }

  void run_later(std::chrono::milliseconds delay, std::function<void()> what) {
    later_.push_back(std::async(std::launch::async, [delay, what = std::move(what)] {
      std::this_thread::sleep_for(delay);
      what();
    }));
  }

 private:
  static void wait(void *self) {
    std::atomic<bool> &idle = static_cast<BusyDevice *>(self)->idle_;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!idle && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    idle = true;
  }

  const rondo::cuda::CudaDriver *cu_ = nullptr;  ///< null before begin()
  rondo::cuda::Stream stream_;
  std::atomic<bool> idle_ = false;
  std::vector<std::future<void>> later_;
};

}  // namespace rondo_test
