// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/device.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "transports/verbs/verbs_network.h"

namespace rondo::verbs {
namespace {

constexpr size_t gids_max = 256;  // most GIDs of a device; more are ignored

class DeviceList {
 public:
  explicit DeviceList(const Api &api) : api_(api), devices_(api.get_device_list(&count_)), error_(errno) {}
  DeviceList(const DeviceList &) = delete;
  DeviceList &operator=(const DeviceList &) = delete;
  ~DeviceList() {
    if (devices_ != nullptr) api_.free_device_list(devices_);
  }
  /// Returns an error if the devices cannot be listed. A kernel without RDMA is no error: it has no devices.
  [[nodiscard]] Result<void> check() const {
    if (devices_ != nullptr || error_ == ENOSYS) return {};
    return system_error("looking for RDMA devices", error_);
  }
  [[nodiscard]] size_t size() const { return devices_ == nullptr ? 0 : static_cast<size_t>(count_); }
  [[nodiscard]] ibv_device *at(size_t index) const { return devices_[index]; }

 private:
  const Api &api_;
  int count_ = 0;
  ibv_device **devices_;
  int error_;
};

Result<ibv_port_attr> query_port(ibv_context *context, uint32_t number) {
  verbs_context *const extended = verbs_get_ctx(context);
  ibv_port_attr attributes{};
  if (extended == nullptr || extended->query_port == nullptr)
    return Error{RONDO_ERROR_UNSUPPORTED, "the provider of this RDMA device is older than rdma-core 33"};
  const int error = extended->query_port(context, static_cast<uint8_t>(number), &attributes, sizeof attributes);
  if (error != 0) return system_error("ibv_query_port", error);
  return attributes;
}

uint32_t bytes_of_mtu(ibv_mtu mtu) { return 128u << static_cast<uint32_t>(mtu); }

GidKind kind_of(uint32_t type) {
  if (type == IBV_GID_TYPE_ROCE_V2) return GidKind::roce_v2;
  return type == IBV_GID_TYPE_ROCE_V1 ? GidKind::roce_v1 : GidKind::infiniband;
}

/// Returns the ports of one device that can be queried.
std::vector<Port> ports_of(const Api &api, ibv_context *context, uint32_t port_count) {
  std::array<ibv_gid_entry, gids_max> entries;
  const ssize_t found = api.query_gid_table(context, entries.data(), entries.size(), 0, sizeof entries[0]);
  const auto gid_count = static_cast<size_t>(std::max<ssize_t>(found, 0));
  std::vector<Port> ports;
  for (uint32_t number = 1; number <= port_count; ++number) {
    const auto attributes = query_port(context, number);
    if (!attributes.ok()) continue;
    Port port;
    port.device = api.get_device_name(context->device);
    port.number = number;
    port.active = attributes.value().state == IBV_PORT_ACTIVE;
    port.mtu_bytes = bytes_of_mtu(attributes.value().active_mtu);
    for (size_t index = 0; index < gid_count; ++index) {
      if (entries[index].port_num != number) continue;
      Gid gid{entries[index].gid_index, kind_of(entries[index].gid_type), {}};
      std::copy_n(entries[index].gid.raw, gid.bytes.size(), gid.bytes.begin());
      port.gids.push_back(gid);
    }
    ports.push_back(std::move(port));
  }
  return ports;
}

Result<Context> open_at(const Api &api, const DeviceList &devices, size_t index) {
  Context context(api.open_device(devices.at(index)));
  if (!context.valid())
    return system_error(std::string("opening the RDMA device ") + api.get_device_name(devices.at(index)) +
                            " (is /dev/infiniband readable?)",
                        errno);
  return context;
}

}  // namespace

Result<std::vector<Port>> find_ports() {
  RONDO_TRY_ASSIGN(const Api *const api, load_api());
  const DeviceList devices(*api);
  RONDO_TRY(devices.check());
  std::vector<Port> ports;
  std::optional<Error> refused;
  for (size_t index = 0; index < devices.size(); ++index) {
    const auto context = open_at(*api, devices, index);
    ibv_device_attr limits{};
    if (!context.ok()) refused = context.error();
    if (!context.ok() || api->query_device(context.value().get(), &limits) != 0) continue;
    for (Port &port : ports_of(*api, context.value().get(), limits.phys_port_cnt)) ports.push_back(std::move(port));
  }
  if (ports.empty() && refused) return *refused;
  return ports;
}

Result<std::vector<std::unique_ptr<Device>>> open_devices(const RailsWish &wish) {
  RONDO_TRY_ASSIGN(const std::vector<Port> ports, find_ports());
  RONDO_TRY_ASSIGN(const std::vector<PortChoice> choices, choose_ports(ports, wish));
  std::vector<std::unique_ptr<Device>> devices;
  for (const PortChoice &choice : choices) {
    RONDO_TRY_ASSIGN(auto device, Device::open(ports[choice.port], choice.gid));
    devices.push_back(std::move(device));
  }
  return devices;
}

Result<std::unique_ptr<Device>> Device::open(const Port &port, const Gid &gid) {
  RONDO_TRY_ASSIGN(const Api *const api, load_api());
  std::unique_ptr<Device> device(new Device(*api));
  device->port_ = port;
  device->gid_ = gid;
  const DeviceList devices(*api);
  for (size_t index = 0; index < devices.size() && !device->context_.valid(); ++index) {
    if (device->port_.device != api->get_device_name(devices.at(index))) continue;
    RONDO_TRY_ASSIGN(device->context_, open_at(*api, devices, index));
  }
  if (!device->context_.valid())
    return Error{RONDO_ERROR_SYSTEM, "the RDMA device " + device->port_.device + " has gone while it was opened"};
  if (const int error = api->query_device(device->context(), &device->limits_); error != 0)
    return system_error("ibv_query_device of " + device->port_.device, error);
  RONDO_TRY_ASSIGN(const ibv_port_attr attributes, query_port(device->context(), device->port_.number));
  device->lid_ = attributes.lid;
  const int flags = ::fcntl(device->event_descriptor(), F_GETFL);
  if (flags < 0 || ::fcntl(device->event_descriptor(), F_SETFL, flags | O_NONBLOCK) != 0)
    return system_error("setting up the events of " + device->port_.device, errno);
  return device;
}

bool Device::port_is_active() const {
  const auto attributes = query_port(context(), port_.number);
  return attributes.ok() && attributes.value().state == IBV_PORT_ACTIVE;
}

bool Device::next_event(ibv_async_event &event) const {
  if (api_.get_async_event(context(), &event) != 0) return false;
  api_.ack_async_event(&event);
  return true;
}

Report look_for_verbs() {
  Report report;
  report.built = true;
  if (const auto api = load_api(); !api.ok()) {
    report.why_not = api.error().message;
    return report;
  }
  report.found = true;
  report.registers_dmabufs = load_api().value()->reg_dmabuf_mr != nullptr;
  report.has_peermem = ::access("/sys/module/nvidia_peermem", F_OK) == 0;
  auto ports = find_ports();
  if (!ports.ok()) {
    report.why_not = ports.error().message;
    return report;
  }
  report.ports = std::move(ports).value();
  if (const auto choice = choose_port(report.ports, {}); !choice.ok()) report.why_not = choice.error().message;
  return report;
}

}  // namespace rondo::verbs
