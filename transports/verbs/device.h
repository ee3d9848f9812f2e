// SPDX-License-Identifier: Apache-2.0
// This file declares an open RDMA device, with the port and the GID that carry the links, and with its events. It also
// declares how memory is registered for the device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/links/links.h"
#include "transports/verbs/api.h"
#include "transports/verbs/ports.h"

namespace rondo::verbs {

/// Returns the ports of all devices of this host that can be opened. If none can be opened, returns an error.
[[nodiscard]] Result<std::vector<Port>> find_ports();

class Device {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Device>> open(const Port &port, const Gid &gid);

  [[nodiscard]] const Api &api() const { return api_; }
  [[nodiscard]] ibv_context *context() const { return context_.get(); }
  [[nodiscard]] const Port &port() const { return port_; }
  [[nodiscard]] const Gid &gid() const { return gid_; }
  [[nodiscard]] uint16_t lid() const { return lid_; }
  [[nodiscard]] uint32_t completions_max() const { return static_cast<uint32_t>(limits_.max_cqe); }
  [[nodiscard]] uint32_t requests_max() const { return static_cast<uint32_t>(limits_.max_qp_wr); }
  /// Returns "rxe0 port 1 (GID 1, RoCE v2, 192.0.2.7)" or the like.
  [[nodiscard]] std::string describe() const { return port_.describe() + " (" + gid_.describe() + ")"; }
  /// Asks the device whether the port is active.
  [[nodiscard]] bool port_is_active() const;
  /// Returns a descriptor that is readable when next_event() has an event.
  [[nodiscard]] int event_descriptor() const { return context_.get()->async_fd; }
  /// Copies the next event and acknowledges it. Returns false if there is none.
  bool next_event(ibv_async_event &event) const;

 private:
  explicit Device(const Api &api) : api_(api) {}

  const Api &api_;
  Context context_;
  ibv_device_attr limits_{};
  Port port_;
  Gid gid_;
  uint16_t lid_ = 0;
};

/// Opens a device for each rail, in their order.
[[nodiscard]] Result<std::vector<std::unique_ptr<Device>>> open_devices(const RailsWish &wish);

// These functions register memory for RDMA. If possible, the bus may reorder the card's accesses
// (IBV_ACCESS_RELAXED_ORDERING), which is faster on many hosts. Both ends read memory only after a completion, so the
// order of writes does not matter.

/// Returns the address as the card knows it.
[[nodiscard]] inline uint64_t address_of(const void *memory) { return reinterpret_cast<uint64_t>(memory); }

/// Registers memory of the host.
[[nodiscard]] Result<MemoryRegion> register_host(const Api &api, ibv_pd *domain, void *memory, size_t bytes,
                                                 int access);

/// Registers a part of device memory by its dmabuf, if the memory has one and the card's driver supports that.
/// Otherwise registers the address, which the kernel module nvidia-peermem resolves. `card` is a name for people.
[[nodiscard]] Result<MemoryRegion> register_in_device(const Api &api, const std::string &card, ibv_pd *domain,
                                                      const RdmaMemory &memory, std::byte *first, size_t bytes,
                                                      int access);

}  // namespace rondo::verbs
