// SPDX-License-Identifier: Apache-2.0
// This file declares one rail of a rank: a port of a device, the completions of all paths on it, and the events of the
// port.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "transports/verbs/device.h"
#include "transports/verbs/path.h"

namespace rondo::verbs {

class Rail {
 public:
  explicit Rail(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  /// Makes a completion queue of `entries`, the most completions that all paths cause before they are taken.
  [[nodiscard]] Result<void> make_completion_queue(uint32_t entries);
  [[nodiscard]] const Device &device() const { return *device_; }
  [[nodiscard]] ibv_cq *completions() const { return completions_.get(); }
  void add(Path &path) { paths_.push_back(&path); }
  [[nodiscard]] RailInfo offer() const;

  /// Says whether a completion is available. Polls the queue if all fetched completions were taken.
  [[nodiscard]] bool fetch() const;
  /// Says whether a fetched completion was not taken yet.
  [[nodiscard]] bool has_fetched() const { return fetched_first_ != fetched_end_; }
  /// Returns the next completion. Call it only after fetch() or has_fetched() returned true.
  const ibv_wc &take() { return fetched_[fetched_first_++]; }
  /// Appends the descriptors of completions and of the device. If fetched completions wait, it appends `ready`, which
  /// is always readable.
  void watch(std::vector<pollfd> &descriptors, int ready) const;

  /// Handles events of the device. If the device fails, or its port stays down, the paths of this rail are lost.
  void look();
  [[nodiscard]] bool look_is_due() const { return look_is_due_; }
  /// Says whether the port was down around the time `ns`. When a port goes down, requests may fail before the port's
  /// event arrives.
  [[nodiscard]] bool fell_around(uint64_t ns) const;

 private:
  static constexpr size_t completions_per_fetch = 16;

  void take_event(const ibv_async_event &event);
  void lose_all(const std::string &what);

  std::unique_ptr<Device> device_;
  CompletionChannel channel_;
  CompletionQueue completions_;
  std::vector<Path *> paths_;
  // Completions that were taken from the queue and are not handled yet. watch() must know whether any exist.
  mutable std::array<ibv_wc, completions_per_fetch> fetched_;
  mutable size_t fetched_first_ = 0;
  mutable size_t fetched_end_ = 0;
  mutable bool look_is_due_ = true;
  uint64_t port_down_ns_ = 0;  ///< time since which the port is down; 0 if it is up
  uint64_t port_fell_ns_ = 0;  ///< time at which the port last went down; 0 if never
};

}  // namespace rondo::verbs
