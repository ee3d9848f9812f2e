// SPDX-License-Identifier: Apache-2.0
// This file has the executor of a device that the test controls. A call on this device ends when it is launched. The
// file also has the other objects that such a test's operations need.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "cuda/executors/share_regions.h"
#include "src/base/clock.h"
#include "src/engine/device_executor.h"
#include "src/engine/operations.h"

namespace rondo_test {

/// An exporter without registered memory.
class NoExporter final : public rondo::MemoryExporter {
 public:
  [[nodiscard]] rondo::MemoryHandle find(const std::byte *, size_t) const override { return {}; }
};

class FakeDevice final : public rondo::DeviceExecutor {
 public:
  [[nodiscard]] rondo::ExecutorCapabilities capabilities() const override { return {}; }
  [[nodiscard]] std::string describe() const override { return "a device of the test"; }
  [[nodiscard]] rondo::Result<void> check_buffer(const char *, const void *, size_t) const override { return {}; }
  [[nodiscard]] rondo::Result<uint64_t> check_stream(rondo::StreamRef, rondo::StreamRole) const override {
    return uint64_t{0};
  }
  [[nodiscard]] rondo::StreamRef own_stream() const override { return {}; }
  [[nodiscard]] rondo::Result<std::unique_ptr<rondo::PreparedPlan>> prepare(const rondo::Plan &) override {
    return {nullptr};
  }
  [[nodiscard]] rondo::DeviceReport report() const override {
    rondo::DeviceReport report;
    report.failed = stopped.load();
    report.ended_number = report.failed_number = report.failed ? 1 : launched_number.load();
    report.begun_calls = report.ended_calls = report.ended_number + replay_count;
    return report;
  }
  void stop() override {}
  [[nodiscard]] bool drained() const override { return !busy; }
  [[nodiscard]] bool has_narrowed(uint64_t) const override { return true; }
  [[nodiscard]] rondo::Result<void> check_device() const override {
    if (at_check) at_check();
    return lost ? rondo::Error{RONDO_ERROR_SYSTEM, "as the test wants"} : rondo::Result<void>();
  }
  [[nodiscard]] bool has_peer_news() const override { return has_news; }
  [[nodiscard]] bool follow_peers(rondo::EnqueueWait &wait) override { return follower->follow(wait); }
  [[nodiscard]] bool stop_sharing() override {
    return follower == nullptr || follower->end(rondo::now_ns() + follower_patience_ns);
  }
  [[nodiscard]] bool has_stopped_sharing() override { return follower == nullptr || follower->end(0); }

  std::atomic<bool> stopped = false;  ///< this rank's kernel stopped after another rank's kernel had stopped
  std::atomic<bool> busy = false;     ///< enqueued work has not ended, even after stop()
  std::atomic<bool> lost = false;
  std::atomic<bool> has_news = false;  ///< peers' memory changed; calls handle this by `follower`, the monitor does not
  std::atomic<uint64_t> launched_number = 0, replay_count = 0;
  std::unique_ptr<rondo::cuda::RegionFollower> follower;
  std::function<void()> at_check;  ///< runs at each check of the device, on the thread that checks; set before start()
  uint64_t follower_patience_ns = 10'000'000'000;  ///< limit of stop_sharing(), for a follower that is not stuck

 protected:
  [[nodiscard]] rondo::Result<rondo::Buffers> prepare_operands(const rondo::Plan &,
                                                              const rondo::DeviceCall &call, void *) override {
    return call.buffers;  // this device has no memory
  }
  [[nodiscard]] rondo::Result<void> narrow(const rondo::Plan &, const rondo::DeviceCall &, uint32_t, void *) override {
    return {};
  }
  [[nodiscard]] rondo::Result<void> launch(const rondo::DeviceCall &call, void *) override {
    launched_number = call.number;
    return {};
  }
};

}  // namespace rondo_test
