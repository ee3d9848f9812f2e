// SPDX-License-Identifier: Apache-2.0
// One rail of a rank: a port of a device, the completions of all paths on it, and what happens to the port.
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

  /// Makes the queue for the `entries` completions that all paths may cause before they are taken.
  [[nodiscard]] Result<void> make_completion_queue(uint32_t entries);
  [[nodiscard]] const Device &device() const { return *device_; }
  [[nodiscard]] ibv_cq *completions() const { return completions_.get(); }
  void add(Path &path) { paths_.push_back(&path); }
  [[nodiscard]] RailInfo offer() const;

  /// Returns whether there is a completion; polls the queue if all that came before was taken.
  [[nodiscard]] bool fetch() const;
  /// Returns whether one that arrived with others was not taken yet.
  [[nodiscard]] bool has_fetched() const { return fetched_first_ != fetched_end_; }
  /// Returns that completion. A call is valid only after one of the two returned true.
  const ibv_wc &take() { return fetched_[fetched_first_++]; }
  /// Appends the descriptors of completions and of the device. `ready` is always readable, for what arrived meanwhile.
  void watch(std::vector<pollfd> &descriptors, int ready) const;

  /// Handles events of the device. Paths are lost to failures, and to a port that does not come back.
  void look();
  [[nodiscard]] bool look_is_due() const { return look_is_due_; }
  /// Returns whether the port was down around that time. Its event can arrive after the requests that fail for it.
  [[nodiscard]] bool fell_around(uint64_t ns) const;

 private:
  static constexpr size_t completions_per_fetch = 16;

  void take_event(const ibv_async_event &event);
  void lose_all(const std::string &what);

  std::unique_ptr<Device> device_;
  CompletionChannel channel_;
  CompletionQueue completions_;
  std::vector<Path *> paths_;
  // Completions taken from the queue and not handled yet: watch() must know whether there are any.
  mutable std::array<ibv_wc, completions_per_fetch> fetched_;
  mutable size_t fetched_first_ = 0;
  mutable size_t fetched_end_ = 0;
  mutable bool look_is_due_ = true;
  uint64_t port_down_ns_ = 0;  ///< since when, or 0 if it is up
  uint64_t port_fell_ns_ = 0;  ///< when it went down last, or 0
};

}  // namespace rondo::verbs
