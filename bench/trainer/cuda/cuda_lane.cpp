// SPDX-License-Identifier: Apache-2.0
// Computation and collectives use two streams of the device. The stream of a collective waits for an event on the
// stream of computation, so that the collective's input is complete. Before computation reads a result, the host waits
// for the end of the collective. A step records that wait as waiting time.
#include "bench/trainer/cuda/cuda_lane.h"

#include <utility>

#include "bench/trainer/figures/timeline.h"

namespace rondo::train {
namespace {

class CudaLane final : public Lane {
 public:
  CudaLane(Device &device, void *computation) : device_(device), computation_(computation) {}
  ~CudaLane() override {
    if (stream_ != nullptr) (void)device_.wait_for_stream(stream_);
  }
  CudaLane(const CudaLane &) = delete;
  CudaLane &operator=(const CudaLane &) = delete;

  Outcome open(Group &group, rondo_config_t config) {
    config.device = device_.facts().ordinal;
    if (auto failure = group_.join_part(group, 0, &config)) return failure;
    if (auto failure = device_.make_stream(stream_)) return failure;
    if (auto failure = device_.make_event(computed_)) return failure;
    if (auto failure = device_.make_event(origin_)) return failure;
    return set_origin();
  }

  rondo_comm_t comm() const override { return group_.comm(); }
  rondo_stream_t stream() const override { return stream_; }
  Outcome make_event(Event &event) override { return device_.make_event(event); }
  Outcome record(Event event) override { return device_.record(event, stream_); }

  Outcome follow_computation() override {
    if (auto failure = device_.record(computed_, computation_)) return failure;
    return device_.follow(stream_, computed_);
  }
  Outcome wait(Event event) override {
    if (auto failure = device_.wait_for_event(event)) return failure;
    return check();
  }
  Outcome wait_for_all() override {
    if (auto failure = device_.wait_for_stream(stream_)) return failure;
    return check();
  }

  bool time_ns(Event event, uint64_t &time_ns) override {
    double since_ns = 0;
    if (device_.between_ns(origin_, event, since_ns)) return false;
    time_ns = origin_ns_ + static_cast<uint64_t>(since_ns > 0 ? since_ns : 0);
    return true;
  }
  /// Moves the origin of event times to now. Events give floats since the origin, which lose digits as they grow.
  void times_taken() override { (void)set_origin(); }

 private:
  /// Sets the origin while the stream is idle, so that its event is reached at once.
  Outcome set_origin() {
    if (auto failure = device_.record(origin_, stream_)) return failure;
    if (auto failure = device_.wait_for_event(origin_)) return failure;
    origin_ns_ = now_ns();
    return std::nullopt;
  }

  /// Asks the communicator for a failure, because the stream continues after a failed collective.
  Outcome check() {
    rondo_status_t state = RONDO_OK;
    rondo_status_t status = rondo_comm_get_async_error(group_.comm(), &state);
    if (status == RONDO_OK) status = state;
    return group_.check("rondo_all_reduce", status);
  }

  Device &device_;
  void *const computation_;
  void *stream_ = nullptr, *computed_ = nullptr, *origin_ = nullptr;
  uint64_t origin_ns_ = 0;
  Group group_;
};

}  // namespace

Outcome open_cuda_lane(Device &device, void *computation, Group &group, const rondo_config_t &config,
                       std::unique_ptr<Lane> &lane) {
  auto made = std::make_unique<CudaLane>(device, computation);
  if (auto failure = made->open(group, config)) return failure;
  lane = std::move(made);
  return std::nullopt;
}

}  // namespace rondo::train
