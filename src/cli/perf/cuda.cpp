// SPDX-License-Identifier: Apache-2.0
// This file implements memory, streams, events and graphs of `rondo perf` on a CUDA device, by the driver's functions.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "bench/perf/perf.h"
#include "cuda/kernels/operation.h"
#include "cuda/driver/handles.h"
#include "src/base/config.h"
#include "src/cli/commands.h"
#include "src/cli/perf/cuda_staging.h"
#include "src/cli/perf/cuda_streams.h"
#include "src/cli/visible_devices.h"

namespace rondo::cli {
namespace {

using namespace cuda;
using perf::DeviceName;
using perf::Exit;
using perf::Failure;
using perf::Outcome;

constexpr size_t copy_bytes_max = size_t{256} << 20, copy_bytes_min = size_t{1} << 20;
constexpr uint64_t copy_share = 64;  // a copy takes at most 1 / copy_share of the device's memory
constexpr int copy_rounds = 5, copies_per_round = 8;
constexpr size_t page_bytes = 4096;

Outcome failed(const Error &error) { return Failure{Exit::communication, error.message}; }
Outcome outcome(const Result<void> &result) { return perf_outcome(result); }

class CudaPerfDevice final : public perf::Device {
 public:
  Result<void> open(const CudaDriver &driver, const CudaDevice &device);

  [[nodiscard]] DeviceName describe() const override;
  [[nodiscard]] Outcome allocate(size_t bytes, std::byte *&pointer) override;
  [[nodiscard]] Outcome copy_in(std::byte *to, const std::byte *from, size_t bytes) override;
  [[nodiscard]] Outcome copy_out(std::byte *to, const std::byte *from, size_t bytes) override;
  [[nodiscard]] Outcome fill(std::byte *to, size_t bytes, const perf::MakeChunk &make) override {
    return outcome(staging_.fill(to, bytes, make));
  }
  [[nodiscard]] Outcome look(const std::byte *from, size_t bytes, const perf::SeeChunk &see) override {
    return outcome(staging_.look(from, bytes, see));
  }
  [[nodiscard]] rondo_stream_t stream() const override { return stream_.get().object; }
  [[nodiscard]] Outcome mark_begin() override { return outcome(record(begin_)); }
  [[nodiscard]] Outcome mark_end() override { return outcome(record(end_)); }
  [[nodiscard]] Outcome elapsed_ns(double &time_ns) override {
    return perf_take(streams().between_ns(begin_, end_), time_ns);
  }
  [[nodiscard]] Outcome wait() override { return outcome(synchronize()); }
  [[nodiscard]] Outcome ended(bool &yes) override { return perf_take(streams().ended(), yes); }
  [[nodiscard]] Outcome make_current() override;
  [[nodiscard]] Outcome begin_capture() override;
  [[nodiscard]] Outcome end_capture() override { return outcome(make_graph()); }
  [[nodiscard]] Outcome replay() override;
  void forget_graph() override { graph_.reset(); }
  [[nodiscard]] Outcome check_one_graph(int ranks) override;
  [[nodiscard]] Outcome follow(Device &first) override;
  [[nodiscard]] Outcome lead_back(Device &first) override;
  [[nodiscard]] Outcome make_start(uint64_t *&word) override;
  [[nodiscard]] Outcome await_start(const uint64_t *word, uint64_t number) override;
  [[nodiscard]] Outcome measure_copy(double &GBps) override;
  [[nodiscard]] Outcome open_side(std::unique_ptr<perf::SideStream> &side) override {
    return perf_take(make_side_stream(streams()), side);
  }
  [[nodiscard]] bool can_relay() const override;
  [[nodiscard]] Outcome open_relay(const perf::RelayPlace &place, std::unique_ptr<perf::Relay> &relay) override {
    return perf_take(make_relay(streams(), place), relay);
  }

 private:
  [[nodiscard]] PerfStreams streams() const { return {&context_, handle()}; }
  template <class Call>
  Result<void> with_context(const char *what, const Call &call) const {
    return streams().with_context(what, call);
  }
  [[nodiscard]] CuStream handle() const { return stream_.get().object; }
  Result<void> record(const Event &event) const;
  Result<void> synchronize() const;
  Result<void> make_graph();
  Result<void> copy(DevicePointer to, DevicePointer from, size_t bytes) const;
  Result<double> time_copies(DevicePointer to, DevicePointer from, size_t bytes) const;
  Result<void> fill_randomly(DevicePointer at, size_t bytes) const;
  Result<double> copy_bandwidth() const;

  const CudaDriver *driver_ = nullptr;
  CudaDevice device_;
  PrimaryContext context_;
  Stream stream_;
  Event begin_, end_;
  Event branch_;  ///< in a graph: where other streams branch off, or join again
  CudaStaging staging_;
  GraphExec graph_;
  std::vector<DeviceMemory> memory_;
  HostMemory start_;
};

Result<void> CudaPerfDevice::open(const CudaDriver &driver, const CudaDevice &device) {
  driver_ = &driver;
  device_ = device;
  RONDO_TRY_ASSIGN(context_, retain_primary_context(driver, device.ordinal));
  RONDO_TRY_ASSIGN(stream_, make_stream(context_));
  RONDO_TRY_ASSIGN(begin_, make_event(context_, event_default));
  RONDO_TRY_ASSIGN(end_, make_event(context_, event_default));
  RONDO_TRY_ASSIGN(branch_, make_event(context_));
  return staging_.open(streams());
}

DeviceName CudaPerfDevice::describe() const {
  DeviceName name;
  name.ordinal = device_.ordinal;
  static_cast<void>(device_.name.copy(name.name, sizeof name.name - 1));
  std::memcpy(name.uuid, device_.uuid.bytes, sizeof name.uuid);
  return name;
}

Outcome CudaPerfDevice::allocate(size_t bytes, std::byte *&pointer) {
  auto memory = allocate_device_memory(context_, bytes);
  if (!memory.ok() && memory.error().status == RONDO_ERROR_OUT_OF_RESOURCES)
    return Failure{Exit::usage, memory.error().message + " on CUDA device " + std::to_string(device_.ordinal) +
                                    "; lower --maxbytes or the number of ranks"};
  if (!memory.ok()) return failed(memory.error());
  pointer = reinterpret_cast<std::byte *>(memory.value().get().object);
  memory_.push_back(std::move(memory).value());
  return std::nullopt;
}

Outcome CudaPerfDevice::copy_in(std::byte *to, const std::byte *from, size_t bytes) {
  const auto enqueued = with_context("copying inputs to the device", [&](const CudaDriver &cu) {
    return cu.memcpy_htod_async(reinterpret_cast<DevicePointer>(to), from, bytes, handle());
  });
  return enqueued.ok() ? wait() : failed(enqueued.error());
}

Outcome CudaPerfDevice::copy_out(std::byte *to, const std::byte *from, size_t bytes) {
  const auto enqueued = with_context("copying results from the device", [&](const CudaDriver &cu) {
    return cu.memcpy_dtoh_async(to, reinterpret_cast<DevicePointer>(from), bytes, handle());
  });
  return enqueued.ok() ? wait() : failed(enqueued.error());
}

Result<void> CudaPerfDevice::record(const Event &event) const {
  return with_context("cuEventRecord",
                      [&](const CudaDriver &cu) { return cu.event_record(event.get().object, handle()); });
}

Result<void> CudaPerfDevice::synchronize() const {
  return with_context("cuStreamSynchronize", [&](const CudaDriver &cu) { return cu.stream_synchronize(handle()); });
}

Outcome CudaPerfDevice::make_current() {
  return outcome(cuda_check(*driver_, driver_->ctx_push_current(context_.get().context), "cuCtxPushCurrent"));
}

Outcome CudaPerfDevice::begin_capture() {
  // In this mode, driver calls of other ranks' threads do not break the capture. With --one-graph they join it.
  const auto begun = with_context("cuStreamBeginCapture", [&](const CudaDriver &cu) {
    return cu.stream_begin_capture(handle(), CaptureMode::thread_local_);
  });
  return outcome(begun.ok() ? record(branch_) : begun);
}

Outcome CudaPerfDevice::check_one_graph(int ranks) {
  if (ranks > static_cast<int>(rondo::device::ranks_per_kernel_max))
    return Failure{Exit::usage, "--one-graph is of up to " + std::to_string(rondo::device::ranks_per_kernel_max) +
                                    " ranks, which one kernel runs; give --ranks so many at most"};
  const auto config = read_config();
  if (!config.ok()) return failed(config.error());
  if (config.value().device_launch == DeviceLaunch::shared) return std::nullopt;
  return Failure{Exit::usage,
                 "--one-graph wants RONDO_DEVICE_LAUNCH=shared: kernels of each rank wait for each other, but branches "
                 "of a graph need not run beside each other"};
}

Outcome CudaPerfDevice::follow(Device &first) {
  const auto &of = static_cast<const CudaPerfDevice &>(first);
  return outcome(with_context("cuStreamWaitEvent", [&](const CudaDriver &cu) {
    return cu.stream_wait_event(handle(), of.branch_.get().object, 0);
  }));
}

Outcome CudaPerfDevice::lead_back(Device &first) {
  const auto &to = static_cast<const CudaPerfDevice &>(first);
  const auto recorded = record(branch_);
  if (!recorded.ok()) return failed(recorded.error());
  return outcome(to.with_context("cuStreamWaitEvent", [&](const CudaDriver &cu) {
    return cu.stream_wait_event(to.handle(), branch_.get().object, 0);
  }));
}

Result<void> CudaPerfDevice::make_graph() {
  CuGraph captured = nullptr;
  RONDO_TRY(with_context("cuStreamEndCapture",
                         [&](const CudaDriver &cu) { return cu.stream_end_capture(handle(), &captured); }));
  const Graph graph({driver_, context_.get().context, captured});
  CuGraphExec made = nullptr;
  RONDO_TRY(with_context("cuGraphInstantiate",
                         [&](const CudaDriver &cu) { return cu.graph_instantiate(&made, captured, 0); }));
  graph_ = GraphExec({driver_, context_.get().context, made});
  // This saves the first launch from waiting for the device.
  RONDO_TRY(with_context("cuGraphUpload", [&](const CudaDriver &cu) { return cu.graph_upload(made, handle()); }));
  return synchronize();
}

Outcome CudaPerfDevice::replay() {
  const auto launched = with_context(
      "cuGraphLaunch", [&](const CudaDriver &cu) { return cu.graph_launch(graph_.get().object, handle()); });
  return outcome(launched.ok() ? record(branch_) : launched);
}

Outcome CudaPerfDevice::make_start(uint64_t *&word) {
  if (!can_relay())
    return Failure{Exit::usage, "--together needs streams that wait for words of memory, which this device lacks"};
  auto made = allocate_host_memory(context_, page_bytes);
  if (!made.ok()) return failed(made.error());
  start_ = std::move(made).value();
  word = static_cast<uint64_t *>(start_.get().object);
  *word = 0;
  return std::nullopt;
}

Outcome CudaPerfDevice::await_start(const uint64_t *word, uint64_t number) {
  return outcome(with_context("cuStreamWaitValue64", [&](const CudaDriver &cu) {
    return cu.stream_wait_value64(handle(), reinterpret_cast<DevicePointer>(word), number, wait_value_geq);
  }));
}

Result<void> CudaPerfDevice::copy(DevicePointer to, DevicePointer from, size_t bytes) const {
  return with_context("cuMemcpyDtoDAsync",
                      [&](const CudaDriver &cu) { return cu.memcpy_dtod_async(to, from, bytes, handle()); });
}

/// Fills memory with random bytes, because zeros may move faster than data.
Result<void> CudaPerfDevice::fill_randomly(DevicePointer at, size_t bytes) const {
  std::vector<uint64_t> words(copy_bytes_min / sizeof(uint64_t));
  uint64_t state = 1;
  for (uint64_t &word : words) word = state = state * 6364136223846793005u + 1442695040888963407u;
  RONDO_TRY(with_context("cuMemcpyHtoDAsync", [&](const CudaDriver &cu) {
    return cu.memcpy_htod_async(at, words.data(), copy_bytes_min, handle());
  }));
  for (size_t done = copy_bytes_min; done < bytes; done *= 2)
    RONDO_TRY(copy(at + done, at, std::min(done, bytes - done)));
  return synchronize();
}

/// Returns the time of one copy, in milliseconds.
Result<double> CudaPerfDevice::time_copies(DevicePointer to, DevicePointer from, size_t bytes) const {
  RONDO_TRY(record(begin_));
  for (int number = 0; number < copies_per_round; ++number) RONDO_TRY(copy(to, from, bytes));
  RONDO_TRY(record(end_));
  RONDO_TRY(synchronize());
  RONDO_TRY_ASSIGN(const double elapsed_ns, streams().between_ns(begin_, end_));
  return elapsed_ns / 1e6 / copies_per_round;
}

Result<double> CudaPerfDevice::copy_bandwidth() const {
  size_t bytes = std::clamp<size_t>(device_.memory_bytes / copy_share / copy_bytes_min * copy_bytes_min, copy_bytes_min,
                                    copy_bytes_max);
  DeviceMemory from, to;
  for (;; bytes /= 2) {  // other ranks' buffers may leave little memory
    auto first = allocate_device_memory(context_, bytes);
    auto second = allocate_device_memory(context_, bytes);
    if (first.ok() && second.ok()) {
      from = std::move(first).value();
      to = std::move(second).value();
      break;
    }
    if (bytes / 2 < copy_bytes_min) return (first.ok() ? second : first).error();
  }
  RONDO_TRY(fill_randomly(from.get().object, bytes));
  RONDO_TRY(time_copies(to.get().object, from.get().object, bytes));  // warms up
  std::vector<double> times_ms;
  for (int round = 0; round < copy_rounds; ++round) {
    RONDO_TRY_ASSIGN(const double time, time_copies(to.get().object, from.get().object, bytes));
    times_ms.push_back(time);
  }
  std::nth_element(times_ms.begin(), times_ms.begin() + copy_rounds / 2, times_ms.end());
  const double median_ms = times_ms[copy_rounds / 2];
  if (median_ms <= 0) return Error{RONDO_ERROR_SYSTEM, "copies on the device took no time"};
  return 2 * static_cast<double>(bytes) / median_ms / 1e6;
}

bool CudaPerfDevice::can_relay() const {
  const auto can = device_attribute(*driver_, device_.ordinal, DeviceAttribute::can_use_64_bit_stream_mem_ops);
  return can.ok() && can.value() != 0;
}

Outcome CudaPerfDevice::measure_copy(double &GBps) {
  const auto measured = copy_bandwidth();
  if (!measured.ok()) return failed(measured.error());
  GBps = measured.value();
  return std::nullopt;
}

class CudaPerfDevices final : public perf::Devices {
 public:
  [[nodiscard]] Outcome count(int &device_count) override {
    // Ranks that are threads on one device need one hardware queue each. CUDA reads this variable when a context is
    // made.
    static_cast<void>(::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0));
    auto found = find_visible_devices();
    if (!found.ok()) return Failure{Exit::usage, "--device cuda: " + found.error().message};
    visible_ = std::move(found).value();
    device_count = static_cast<int>(visible_.devices.size());
    return std::nullopt;
  }

  [[nodiscard]] Outcome open(int ordinal, std::unique_ptr<perf::Device> &device) override {
    if (static_cast<size_t>(ordinal) >= visible_.devices.size())
      return Failure{Exit::usage, "--device cuda:" + std::to_string(ordinal) + ": this process sees " +
                                      std::to_string(visible_.devices.size()) + " CUDA devices, numbered from 0"};
    auto made = std::make_unique<CudaPerfDevice>();
    if (const auto opened = made->open(*visible_.driver, visible_.devices[static_cast<size_t>(ordinal)]); !opened.ok())
      return failed(opened.error());
    device = std::move(made);
    return std::nullopt;
  }

 private:
  VisibleDevices visible_;
};

}  // namespace

int run_perf(Arguments args) {
  CudaPerfDevices devices;
  return rondo::run_perf(args, devices);
}

}  // namespace rondo::cli
