// SPDX-License-Identifier: Apache-2.0
#include "src/topo/device.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "src/base/runtime_library.h"
#include "src/base/unique_handle.h"
#include "src/topo/nvml_api.h"

namespace rondo {
namespace {

using namespace nvml;

Error unusable(const std::string &library, const std::string &why) {
  return {RONDO_ERROR_UNSUPPORTED, "NVML (" + library + ") cannot be used: " + why};
}

struct NvmlTable {
#define RONDO_NVML_FIELD(field, symbol, needed, parameters) Status(*field) parameters = nullptr;
  RONDO_NVML_ENTRIES(RONDO_NVML_FIELD)
#undef RONDO_NVML_FIELD
  const char *(*error_string)(Status) = nullptr;

  /// Returns a status as text, such as "Driver Not Loaded (9)".
  [[nodiscard]] std::string text(Status status) const {
    const char *const words = error_string != nullptr ? error_string(status) : nullptr;
    return std::string(words != nullptr ? words : "status") + " (" + std::to_string(static_cast<int>(status)) + ")";
  }
};

Result<NvmlTable> load(const std::string &path) {
  RuntimeLibrary library;
  if (!library.open(path))
    return unusable(path, library.why() + "; it comes with NVIDIA's driver, or name another one in RONDO_NVML_LIBRARY");
  NvmlTable nvml;
#define RONDO_NVML_FILL(field, symbol, needed, parameters) library.find(nvml.field, #symbol, needed);
  RONDO_NVML_ENTRIES(RONDO_NVML_FILL)
#undef RONDO_NVML_FILL
  library.find(nvml.error_string, "nvmlErrorString", false);
  if (!library.missing().empty()) return unusable(path, "it has no " + library.missing());
  return nvml;
}

/// A session from nvmlInit to nvmlShutdown. NVML counts these calls, so other users in this process are not affected.
struct SessionTraits {
  using Handle = const NvmlTable *;
  static constexpr Handle invalid = nullptr;
  static void close(Handle nvml) { static_cast<void>(nvml->shutdown()); }
};
using Session = UniqueHandle<SessionTraits>;

/// Returns the text in an array that may lack a terminator.
template <size_t bytes>
std::string_view text_in(const char (&array)[bytes]) {
  return {array, ::strnlen(array, bytes)};
}

/// The end of a link, as NVML reports it. An old NVML reports no types. If so, addresses show which ends are devices.
struct RemoteEnd {
  RemoteType type = RemoteType::unknown;
  std::optional<PciAddress> address;
};

RemoteEnd remote_end(const NvmlTable &nvml, DeviceHandle device, unsigned link) {
  RemoteEnd end;
  if (nvml.nvlink_get_remote_type != nullptr && nvml.nvlink_get_remote_type(device, link, &end.type) != Status::success)
    end.type = RemoteType::unknown;
  PciInfo info{};
  if (nvml.nvlink_get_remote_pci_info(device, link, &info) == Status::success)
    end.address = parse_pci_address(text_in(info.bus_id));
  if (end.address == PciAddress{}) end.address.reset();  // this host does not see the switch
  return end;
}

void add_link(const RemoteEnd &end, uint32_t version, std::span<const Device> all, std::vector<NvLinks> &links) {
  const bool is_device = end.address && std::any_of(all.begin(), all.end(),
                                                    [&](const Device &other) { return other.address == *end.address; });
  if (end.type == RemoteType::nvswitch)
    add_nvlinks(links, {NvLinkEnd::nvswitch, end.address, 1, version});
  else if (end.address && (end.type == RemoteType::device || (end.type == RemoteType::unknown && is_device)))
    add_nvlinks(links, {NvLinkEnd::device, end.address, 1, version});
}

/// Returns the active links of a device, or nothing if NVML does not report them.
std::optional<std::vector<NvLinks>> links_of(const NvmlTable &nvml, DeviceHandle device, std::span<const Device> all) {
  constexpr unsigned link_count_max = 64;
  if (nvml.nvlink_get_state == nullptr || nvml.nvlink_get_remote_pci_info == nullptr) return std::nullopt;
  std::vector<NvLinks> links;
  for (unsigned link = 0; link < link_count_max; ++link) {
    EnableState state = EnableState::disabled;
    const Status status = nvml.nvlink_get_state(device, link, &state);
    if (status == Status::invalid_argument) break;  // the index is above the last link
    if (status == Status::not_supported) continue;  // this device does not have that link
    if (status != Status::success) return std::nullopt;
    if (state != EnableState::enabled) continue;
    unsigned version = 0;
    if (nvml.nvlink_get_version == nullptr || nvml.nvlink_get_version(device, link, &version) != Status::success)
      version = 0;
    add_link(remote_end(nvml, device, link), version, all, links);
  }
  return links;
}

/// Returns the device without its links.
std::optional<Device> device_of(const NvmlTable &nvml, DeviceHandle handle) {
  PciInfo info{};
  if (nvml.device_get_pci_info(handle, &info) != Status::success) return std::nullopt;
  const auto address = parse_pci_address(text_in(info.bus_id));
  if (!address) return std::nullopt;
  Device device;
  device.address = *address;
  char uuid[uuid_bytes] = {};
  if (nvml.device_get_uuid != nullptr && nvml.device_get_uuid(handle, uuid, uuid_bytes) == Status::success) {
    constexpr std::string_view prefix = "GPU-";
    const std::string_view text = text_in(uuid);
    device.uuid = text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  }
  return device;
}

/// The devices that NVML lets us read, without their links.
struct Listing {
  std::vector<DeviceHandle> handles;
  std::vector<Device> devices;
};

/// Begins a session, and lists the devices. The session must end before `nvml` does.
Result<Listing> list_devices(const std::string &library, const NvmlTable &nvml, Session &session) {
  if (const Status status = nvml.init(); status != Status::success)
    return unusable(library, "nvmlInit_v2: " + nvml.text(status));
  session = Session(&nvml);
  unsigned count = 0;
  if (const Status status = nvml.device_get_count(&count); status != Status::success)
    return unusable(library, "nvmlDeviceGetCount_v2: " + nvml.text(status));
  Listing found;
  for (unsigned index = 0; index < std::min<unsigned>(count, device_count_max); ++index) {
    DeviceHandle handle = nullptr;
    if (nvml.device_get_handle_by_index(index, &handle) != Status::success) continue;
    auto device = device_of(nvml, handle);
    if (!device) continue;
    found.handles.push_back(handle);
    found.devices.push_back(std::move(*device));
  }
  return found;
}

PeerReach reach_of(const NvmlTable &nvml, DeviceHandle own, DeviceHandle peer) {
  if (nvml.device_get_p2p_status == nullptr) return PeerReach::unknown;
  PeerReach reach = PeerReach::atomics;
  for (const PeerCapability asked : {PeerCapability::read, PeerCapability::write, PeerCapability::atomics}) {
    PeerStatus status = PeerStatus::unknown;
    if (nvml.device_get_p2p_status(own, peer, asked, &status) != Status::success || status == PeerStatus::unknown)
      return asked == PeerCapability::atomics ? PeerReach::access : PeerReach::unknown;
    if (status != PeerStatus::ok) reach = asked == PeerCapability::atomics ? PeerReach::access : PeerReach::none;
    if (reach == PeerReach::none) break;
  }
  return reach;
}

}  // namespace

Result<std::vector<Device>> ask_nvml(const std::string &library) {
  RONDO_TRY_ASSIGN(const NvmlTable nvml, load(library));
  Session session;
  RONDO_TRY_ASSIGN(Listing found, list_devices(library, nvml, session));
  for (size_t index = 0; index < found.devices.size(); ++index) {
    auto links = links_of(nvml, found.handles[index], found.devices);
    found.devices[index].nvlinks_known = links.has_value();
    if (links) found.devices[index].nvlinks = std::move(*links);
  }
  return std::move(found.devices);
}

std::vector<PeerReach> ask_nvml_about_peers(const std::string &library, const std::string &own,
                                            std::span<const std::string> peers) {
  std::vector<PeerReach> reaches(peers.size(), PeerReach::unknown);
  const auto nvml = load(library);
  if (!nvml.ok()) return reaches;
  Session session;
  const auto found = list_devices(library, nvml.value(), session);
  if (!found.ok()) return reaches;
  const auto handle_of = [&](const std::string &uuid) -> DeviceHandle {
    for (size_t index = 0; index < found.value().devices.size(); ++index)
      if (!uuid.empty() && found.value().devices[index].uuid == uuid) return found.value().handles[index];
    return nullptr;
  };
  const DeviceHandle from = handle_of(own);
  for (size_t index = 0; index < peers.size(); ++index)
    if (const DeviceHandle to = handle_of(peers[index]); from != nullptr && to != nullptr)
      reaches[index] = reach_of(nvml.value(), from, to);
  return reaches;
}

}  // namespace rondo
