// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/lanes/lane.h"

#include <utility>
#include <vector>

namespace rondo::train {
namespace {

class HostLane final : public Lane {
 public:
  explicit HostLane(Group &group) : group_(group) {}
  ~HostLane() override {
    if (stream_ != nullptr) (void)rondo_stream_destroy(stream_);  // waits for work in flight
    for (const rondo_event_t event : events_) (void)rondo_event_destroy(event);
  }
  HostLane(const HostLane &) = delete;
  HostLane &operator=(const HostLane &) = delete;

  Outcome open() { return group_.check("rondo_stream_create", rondo_stream_create(&stream_)); }

  rondo_comm_t comm() const override { return group_.comm(); }
  rondo_stream_t stream() const override { return stream_; }

  Outcome make_event(Event &event) override {
    rondo_event_t made = nullptr;
    if (auto failure = group_.check("rondo_event_create", rondo_event_create(&made))) return failure;
    events_.push_back(made);
    event = made;
    return std::nullopt;
  }
  Outcome record(Event event) override {
    return group_.check("rondo_event_record", rondo_event_record(handle(event), stream_));
  }
  Outcome follow_computation() override { return std::nullopt; }
  Outcome wait(Event event) override {
    return group_.check("rondo_event_synchronize", rondo_event_synchronize(handle(event)));
  }
  Outcome wait_for_all() override { return group_.check("rondo_all_reduce", rondo_stream_synchronize(stream_)); }
  bool time_ns(Event event, uint64_t &time_ns) override {
    return rondo_event_timestamp_ns(handle(event), &time_ns) == RONDO_OK;
  }

 private:
  static rondo_event_t handle(Event event) { return static_cast<rondo_event_t>(event); }

  Group &group_;
  rondo_stream_t stream_ = nullptr;
  std::vector<rondo_event_t> events_;
};

}  // namespace

Outcome open_host_lane(Group &group, std::unique_ptr<Lane> &lane) {
  auto made = std::make_unique<HostLane>(group);
  if (auto failure = made->open()) return failure;
  lane = std::move(made);
  return std::nullopt;
}

}  // namespace rondo::train
