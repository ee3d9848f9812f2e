// SPDX-License-Identifier: Apache-2.0
// This file has a network with scripted events, and a control plane whose other host has ended.
#pragma once

#include <sys/eventfd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/net/pair.h"
#include "tests/net/scene_ranks.h"
#include "transports/net/control.h"

namespace rondo::net_test {

/// A network that returns the events of its script once.
class ScriptedNetwork final : public net::Network {
 public:
  explicit ScriptedNetwork(std::vector<net::Event> events) : events_(std::move(events)) {}

  const char *name() const override { return "scripted"; }
  bool put(uint32_t, const net::Message &) override { return true; }
  bool credit(uint32_t, uint64_t) override { return true; }
  uint32_t poll(std::span<net::Event> events) override {
    std::copy(events_.begin(), events_.end(), events.begin());
    return static_cast<uint32_t>(std::exchange(events_, {}).size());
  }
  bool flushed() const override { return true; }
  bool delivered() const override { return delivers; }
  void watch(std::vector<pollfd> &) const override {}
  Error why_lost(uint32_t) const override { return {RONDO_ERROR_REMOTE, "scripted"}; }

  bool delivers = true;  ///< false if no data ever reaches the peers' hosts

 private:
  std::vector<net::Event> events_;
};

/// Makes the parts of rank 0. Its peer on the other host has ended.
inline net::Control::Parts alone(SceneRanks &ranks) {
  auto [far, near] = connected_sockets();
  const FileDescriptor file = net::ControlMemory::create(2, 2).value();
  net::Control::Parts parts;
  parts.host_of = {0, 1};
  parts.local = &ranks;
  parts.share.memory = net::ControlMemory::map(file.get(), 2, 2).value();
  parts.share.bell.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  parts.share.sockets.resize(2);
  parts.share.sockets[1] = std::move(near);
  return parts;
}

}  // namespace rondo::net_test
