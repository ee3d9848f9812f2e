// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_nvml/soft_nvml.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace soft_nvml {
namespace {

constexpr unsigned device_count_max = 64;
constexpr unsigned link_count_max = 18;

/// Returns the number of inits without a shutdown. While the number is 0, every call is refused, as in NVML.
std::atomic<int> &init_count() {
  static std::atomic<int> count = 0;
  return count;
}

std::string_view variable(const char *name) {
  const char *const text = std::getenv(name);
  return text != nullptr ? text : "";
}

/// Removes the next piece from `text`, up to `separator`, and returns this piece.
std::string take(std::string_view &text, char separator) {
  const size_t end = text.find(separator);
  const std::string piece(text.substr(0, end));
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return piece;
}

unsigned number(const std::string &text) { return static_cast<unsigned>(std::strtoul(text.c_str(), nullptr, 10)); }

unsigned device_count() {
  const std::string_view text = variable("SOFT_NVML_DEVICES");
  return text.empty() ? 1 : number(std::string(text));
}

/// Returns whether SOFT_CUDA_PEERS has the pair.
bool are_peers(unsigned lesser, unsigned greater) {
  std::string_view text = variable("SOFT_CUDA_PEERS");
  if (text.empty() || text == "on") return true;
  const std::string wanted = std::to_string(lesser) + "-" + std::to_string(greater);
  while (!text.empty())
    if (take(text, ' ') == wanted) return true;
  return false;
}

/// Reads "3", "s0", "hidden", "cpu" or "off".
Link read_end(const std::string &text) {
  if (text == "hidden") return {EndKind::hidden_switch, 0};
  if (text == "cpu") return {EndKind::processor, 0};
  if (text == "off") return {EndKind::inactive, 0};
  if (text.starts_with("s")) return {EndKind::nvswitch, number(text.substr(1))};
  return {EndKind::device, number(text)};
}

}  // namespace

Status fault_of(const char *symbol) {
  std::string_view faults = variable("SOFT_NVML_FAULTS");
  while (!faults.empty()) {
    std::string_view fault;
    const std::string piece = take(faults, ' ');
    fault = piece;
    if (take(fault, '=') == symbol) return static_cast<Status>(number(std::string(fault)));
  }
  if (init_count() == 0 && std::strcmp(symbol, "nvmlInit_v2") != 0) return Status::uninitialized;
  return Status::success;
}

bool number_of(DeviceHandle device, unsigned &found) {
  const auto value = reinterpret_cast<uintptr_t>(device);
  found = static_cast<unsigned>(value - 1);
  return value >= 1 && value <= device_count();
}

std::vector<Link> links_of(unsigned device) {
  std::vector<Link> links;
  std::string_view text = variable("SOFT_NVML_LINKS");
  while (!text.empty()) {  // an example is "0-1*4 0-s0*18"
    const std::string piece = take(text, ' ');
    std::string_view rest = piece;
    const unsigned from = number(take(rest, '-'));
    const Link end = read_end(take(rest, '*'));
    const unsigned count = rest.empty() ? 1 : number(std::string(rest));
    Link link = end;
    if (end.kind == EndKind::device && device == end.number)
      link.number = from;
    else if (device != from)
      continue;
    links.insert(links.end(), count, link);
  }
  if (links.size() > link_count_max) links.resize(link_count_max);
  return links;
}

Status find_link(const char *symbol, DeviceHandle device, unsigned link, Link &found) {
  if (const Status fault = fault_of(symbol); fault != Status::success) return fault;
  unsigned of = 0;
  if (!number_of(device, of) || link >= link_count_max) return Status::invalid_argument;
  const std::vector<Link> links = links_of(of);
  if (link >= links.size()) return Status::not_supported;
  found = links[link];
  return Status::success;
}

}  // namespace soft_nvml

using namespace soft_nvml;

namespace {

/// Sets the address. Devices have the numbers of the CUDA driver in software, and switches follow the devices.
void set_address(PciInfo &info, unsigned bus) {
  info = {};
  info.bus = bus;
  std::snprintf(info.bus_id, sizeof info.bus_id, "%08X:%02X:00.0", 0U, bus & 0xFF);
  std::snprintf(info.bus_id_legacy, sizeof info.bus_id_legacy, "%04X:%02X:00.0", 0U, bus & 0xFF);
}

}  // namespace

extern "C" {

Status nvmlInit_v2() {
  const Status fault = fault_of("nvmlInit_v2");
  if (fault == Status::success) ++init_count();
  return fault;
}

Status nvmlShutdown() {
  if (init_count() == 0) return Status::uninitialized;
  --init_count();
  return Status::success;
}

Status nvmlDeviceGetCount_v2(unsigned *count) {
  if (const Status fault = fault_of("nvmlDeviceGetCount_v2"); fault != Status::success) return fault;
  *count = device_count() < device_count_max ? device_count() : device_count_max;
  return Status::success;
}

Status nvmlDeviceGetHandleByIndex_v2(unsigned index, DeviceHandle *device) {
  if (const Status fault = fault_of("nvmlDeviceGetHandleByIndex_v2"); fault != Status::success) return fault;
  if (index >= device_count()) return Status::invalid_argument;
  *device = reinterpret_cast<DeviceHandle>(uintptr_t{index} + 1);
  return Status::success;
}

Status nvmlDeviceGetPciInfo_v3(DeviceHandle device, PciInfo *info) {
  if (const Status fault = fault_of("nvmlDeviceGetPciInfo_v3"); fault != Status::success) return fault;
  unsigned of = 0;
  if (!number_of(device, of)) return Status::invalid_argument;
  set_address(*info, of + 1);
  return Status::success;
}

Status nvmlDeviceGetUUID(DeviceHandle device, char *uuid, unsigned bytes) {
  if (const Status fault = fault_of("nvmlDeviceGetUUID"); fault != Status::success) return fault;
  unsigned of = 0;
  if (!number_of(device, of)) return Status::invalid_argument;
  // The UUID is "soft-cuda-dev-" and the number, as in the CUDA driver in software.
  const int length = std::snprintf(uuid, bytes, "GPU-736f6674-2d63-7564-612d-6465762d%04x", of);
  return length < static_cast<int>(bytes) ? Status::success : Status::insufficient_size;
}

/// Reports the same status as the CUDA driver in software.
Status nvmlDeviceGetP2PStatus(DeviceHandle device, DeviceHandle peer, PeerCapability capability, PeerStatus *status) {
  constexpr auto chipset_not_supported = static_cast<PeerStatus>(1);
  if (const Status fault = fault_of("nvmlDeviceGetP2PStatus"); fault != Status::success) return fault;
  unsigned from = 0, to = 0;
  if (!number_of(device, from) || !number_of(peer, to) || from == to) return Status::invalid_argument;
  const bool reach = capability == PeerCapability::atomics && variable("SOFT_CUDA_NVLINK") == "off"
                         ? false
                         : are_peers(from < to ? from : to, from < to ? to : from);
  *status = reach ? PeerStatus::ok : chipset_not_supported;
  return Status::success;
}

Status nvmlDeviceGetNvLinkState(DeviceHandle device, unsigned link, EnableState *state) {
  Link found;
  if (const Status status = find_link("nvmlDeviceGetNvLinkState", device, link, found); status != Status::success)
    return status;
  *state = found.kind == EndKind::inactive ? EnableState::disabled : EnableState::enabled;
  return Status::success;
}

Status nvmlDeviceGetNvLinkVersion(DeviceHandle device, unsigned link, unsigned *version) {
  Link found;
  if (const Status status = find_link("nvmlDeviceGetNvLinkVersion", device, link, found); status != Status::success)
    return status;
  *version = 6;
  return Status::success;
}

Status nvmlDeviceGetNvLinkRemotePciInfo_v2(DeviceHandle device, unsigned link, PciInfo *info) {
  Link found;
  const Status status = find_link("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link, found);
  if (status != Status::success) return status;
  switch (found.kind) {
    case EndKind::device:
      set_address(*info, found.number + 1);
      break;
    case EndKind::nvswitch:
      set_address(*info, 0xC0 + found.number);
      break;
    case EndKind::processor:
      set_address(*info, 0xF0);
      break;
    case EndKind::hidden_switch:
      set_address(*info, 0);
      break;
    case EndKind::inactive:
      return Status::not_supported;
  }
  return Status::success;
}

}  // extern "C"
