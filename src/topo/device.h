// SPDX-License-Identifier: Apache-2.0
// This file is the part of a Topology for GPUs and network cards, as plain data. It has the PCI address of each device,
// and the other ends of its NVLinks. From these data, the functions of src/topo/distance.h compute the distance of two
// devices.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace rondo {

inline constexpr uint32_t unknown_index = std::numeric_limits<uint32_t>::max();
inline constexpr size_t device_count_max = 256;    ///< most devices of a host
inline constexpr size_t nic_count_max = 8192;      ///< most network cards of a host, including virtual functions
inline constexpr uint32_t nvlink_count_max = 256;  ///< most links of a device; the largest devices now have 18

/// The PCI address of a function of a device. NVML, hwloc and CUDA report the same address, so it identifies a device.
struct PciAddress {
  uint32_t domain = 0;
  uint8_t bus = 0;
  uint8_t device = 0;
  uint8_t function = 0;

  auto operator<=>(const PciAddress &) const = default;
};

/// Returns the address as text, such as "0000:3b:00.0".
[[nodiscard]] std::string pci_address_string(const PciAddress &address);

/// Parses such an address. The domain may have 1 to 8 digits, and letters may be small or capital.
[[nodiscard]] std::optional<PciAddress> parse_pci_address(std::string_view text);

struct PciBridge {
  uint32_t parent = unknown_index;  ///< index in Topology::bridges of the bridge above, or unknown_index
  bool is_host = false;  ///< true for a root complex, which connects processors with PCI

  bool operator==(const PciBridge &) const = default;
};

enum class NvLinkEnd : uint8_t { device, nvswitch };
[[nodiscard]] const char *nvlink_end_string(NvLinkEnd end);  ///< "device", "switch"

/// The active NVLinks from a device to one other end.
struct NvLinks {
  NvLinkEnd end = NvLinkEnd::device;
  std::optional<PciAddress> address;  ///< address of the other end; empty for a switch that the host does not see
  uint32_t count = 1;
  uint32_t version = 0;  ///< NVML's number of the version, unchanged; 0 if unknown

  bool operator==(const NvLinks &) const = default;
};

/// Returns the text that a topology file has for the links. It is "none", or for instance
/// "device 0000:02:00.0 x4 v6, switch 0000:c5:00.0 x18 v7, switch x2 v0".
[[nodiscard]] std::string nvlinks_string(std::span<const NvLinks> links);
[[nodiscard]] std::optional<std::vector<NvLinks>> parse_nvlinks(std::string_view text);

/// Adds links. If an entry has the same end, address and version, its count grows.
void add_nvlinks(std::vector<NvLinks> &links, const NvLinks &more);

struct Device {
  PciAddress address;
  std::string uuid;                    ///< "736f6674-...", without NVML's "GPU-"; empty if unknown
  uint32_t bridge = unknown_index;     ///< index of the bridge above in Topology::bridges
  uint32_t numa_node = unknown_index;  ///< index in Topology::numa_nodes
  std::vector<uint32_t> pus;           ///< the nearest processing units; empty if unknown
  bool nvlinks_known = false;          ///< false if no source reports whether the device has links
  std::vector<NvLinks> nvlinks;

  bool operator==(const Device &) const = default;
};

enum class NicKind : uint8_t { network, rdma };
[[nodiscard]] const char *nic_kind_string(NicKind kind);  ///< "network", "rdma"

/// A network card as the operating system names it. A card with RDMA occurs twice, with two names and one address.
struct Nic {
  std::string name;  ///< "eth0", "mlx5_0"
  NicKind kind = NicKind::network;
  PciAddress address;
  uint32_t bridge = unknown_index;     ///< as in Device
  uint32_t numa_node = unknown_index;  ///< as in Device
  std::vector<uint32_t> pus;           ///< as in Device

  bool operator==(const Nic &) const = default;
};

/// Returns the devices that `library` (Config::nvml_library) knows, in its order, with address, UUID and NVLinks. A
/// device that cannot be read is left out. RONDO_ERROR_UNSUPPORTED: the library does not exist, lacks a function, or
/// does not work. The message has the reason. NVML is in use only during the call.
[[nodiscard]] Result<std::vector<Device>> ask_nvml(const std::string &library);

/// The access that kernels of one device have to another device's memory: loads and stores, or also atomics.
enum class PeerReach : uint8_t { unknown, none, access, atomics };

/// Returns how device `own` can use the memory of each device of `peers`. CUDA need not see the peers in this process.
/// `own` and `peers` are as in Device::uuid. The answer is unknown if NVML cannot be used or does not report it.
[[nodiscard]] std::vector<PeerReach> ask_nvml_about_peers(const std::string &library, const std::string &own,
                                                          std::span<const std::string> peers);

}  // namespace rondo
