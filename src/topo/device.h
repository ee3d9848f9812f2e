// SPDX-License-Identifier: Apache-2.0
// The part of a Topology that is about GPUs and network cards, as plain data: where each is on PCI, and where NVLinks
// go. The distance of two devices follows from these data (src/topo/distance.h).
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

inline constexpr uint32_t unknown_index = std::numeric_limits<uint32_t>::max();
inline constexpr size_t device_count_max = 256;    ///< of a host
inline constexpr size_t nic_count_max = 8192;      ///< of a host, virtual functions included
inline constexpr uint32_t nvlink_count_max = 256;  ///< of a device; the largest today have 18

/// A function of a PCI device; the name of a device, since it is the same for NVML, hwloc and CUDA.
struct PciAddress {
  uint32_t domain = 0;
  uint8_t bus = 0;
  uint8_t device = 0;
  uint8_t function = 0;

  auto operator<=>(const PciAddress &) const = default;
};

/// Returns e.g. "0000:3b:00.0".
[[nodiscard]] std::string pci_address_string(const PciAddress &address);

/// Parses an address as above, with 1 to 8 digits of the domain, in small or capital letters.
[[nodiscard]] std::optional<PciAddress> parse_pci_address(std::string_view text);

struct PciBridge {
  uint32_t parent = unknown_index;  ///< index in Topology::bridges, below its own; unknown_index if none
  bool is_host = false;             ///< joins the processors with PCI (a root complex); otherwise PCI with PCI

  bool operator==(const PciBridge &) const = default;
};

enum class NvLinkEnd : uint8_t { device, nvswitch };
[[nodiscard]] const char *nvlink_end_string(NvLinkEnd end);  ///< "device", "switch"

/// The active NVLinks from a device to one place.
struct NvLinks {
  NvLinkEnd end = NvLinkEnd::device;
  std::optional<PciAddress> address;  ///< of the other end; a switch may have none that the host sees
  uint32_t count = 1;
  uint32_t version = 0;  ///< NVML's number for it, taken as it comes; 0 if unknown

  bool operator==(const NvLinks &) const = default;
};

/// Returns the form of a topology file: "none", or e.g. "device 0000:02:00.0 x4 v6, switch 0000:c5:00.0 x18 v7, switch
/// x2 v0".
[[nodiscard]] std::string nvlinks_string(std::span<const NvLinks> links);
[[nodiscard]] std::optional<std::vector<NvLinks>> parse_nvlinks(std::string_view text);

/// Adds one link: to the entry of the same end, address and version, if there is one.
void add_nvlinks(std::vector<NvLinks> &links, const NvLinks &more);

struct Device {
  PciAddress address;
  std::string uuid;                    ///< "736f6674-...", without NVML's "GPU-"; empty if unknown
  uint32_t bridge = unknown_index;     ///< index in Topology::bridges of the one above it
  uint32_t numa_node = unknown_index;  ///< index in Topology::numa_nodes
  std::vector<uint32_t> pus;           ///< the nearest processing units; empty if unknown
  bool nvlinks_known = false;          ///< false if nobody could say whether it has any
  std::vector<NvLinks> nvlinks;

  bool operator==(const Device &) const = default;
};

enum class NicKind : uint8_t { network, rdma };
[[nodiscard]] const char *nic_kind_string(NicKind kind);  ///< "network", "rdma"

/// A network card as the operating system names it. One with RDMA is there twice, by either name, at one address.
struct Nic {
  std::string name;  ///< "eth0", "mlx5_0"
  NicKind kind = NicKind::network;
  PciAddress address;
  uint32_t bridge = unknown_index;     ///< as of a Device
  uint32_t numa_node = unknown_index;  ///< as of a Device
  std::vector<uint32_t> pus;           ///< as of a Device

  bool operator==(const Nic &) const = default;
};

}  // namespace rondo
