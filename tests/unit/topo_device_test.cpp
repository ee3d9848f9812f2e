// SPDX-License-Identifier: Apache-2.0
// These tests read the places of devices from files. The machine has two sockets, eight devices, and NVLinks.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "src/topo/distance.h"
#include "tests/catch.h"
#include "tests/seeds.h"

using namespace rondo;

namespace {

PciAddress at_bus(unsigned bus) { return {0, static_cast<uint8_t>(bus), 0, 0}; }
std::string address(unsigned bus) { return pci_address_string(at_bus(bus)); }

std::string eight_devices() {
  const char *const root = std::getenv("RONDO_SOURCE_ROOT");
  std::ifstream file(std::string(root != nullptr ? root : ".") + "/tests/topologies/eight_devices.xml");
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the machine's XML with an attribute for the device on `bus`.
std::string with_info(std::string xml, unsigned bus, const std::string &name, const std::string &value) {
  const size_t device = xml.find("type=\"PCIDev\"", xml.find("pci_busid=\"" + address(bus)) - 60);
  REQUIRE(device != xml.npos);
  const std::string element = "<info name=\"" + name + "\" value=\"" + value + "\"/>";
  const size_t end = xml.find('>', device);
  if (xml[end - 1] == '/')
    xml.replace(end - 1, 2, ">" + element + "</object>");
  else
    xml.insert(end + 1, element);
  return xml;
}

std::string with_links(const std::string &xml, unsigned bus, const std::string &links) {
  return with_info(xml, bus, "RondoNVLinks", links);
}

Topology read(const std::string &xml) {
  const auto imported = import_topology(xml);
  if (!imported.ok()) FAIL(imported.error().message);
  return imported.value();
}

std::string refusal(const std::string &xml) {
  const auto imported = import_topology(xml);
  if (imported.ok()) return "accepted";
  CHECK(imported.error().status == RONDO_ERROR_INVALID_ARGUMENT);
  return imported.error().message;
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != text.npos; }

/// Returns the row of a table, with the distances from device `from` to each device.
std::vector<std::string> codes_of(const Topology &topology, uint32_t from) {
  std::vector<std::string> codes;
  for (uint32_t to = 0; to < topology.devices.size(); ++to)
    codes.push_back(distance_code(device_distance(topology, from, to)));
  return codes;
}
using Codes = std::vector<std::string>;

void check_symmetric(const Topology &topology) {
  for (uint32_t a = 0; a < topology.devices.size(); ++a)
    for (uint32_t b = 0; b < topology.devices.size(); ++b) {
      CHECK(device_distance(topology, a, b) == device_distance(topology, b, a));
      CHECK((device_distance(topology, a, b).proximity == Proximity::same) == (a == b));
    }
}

}  // namespace

TEST_CASE("devices: a PCI address is read in the ways in which CUDA, NVML and hwloc write it") {
  CHECK(parse_pci_address("0000:3b:00.0") == PciAddress{0, 0x3b, 0, 0});
  CHECK(parse_pci_address("00000000:3B:00.0") == PciAddress{0, 0x3b, 0, 0});
  CHECK(parse_pci_address("10000:ff:1f.7") == PciAddress{0x10000, 0xff, 0x1f, 7});
  CHECK(pci_address_string({0x10000, 0xff, 0x1f, 7}) == "10000:ff:1f.7");
  CHECK(pci_address_string({1, 2, 3, 4}) == "0001:02:03.4");
  for (const char *bad : {"", ":", "3b:00.0", "0000:3b:00", "0000:3b:20.0", "0000:3b:00.8", "0000:3b:00.00", "0:3b:0.0",
                          "0000:3g:00.0", "000000000:3b:00.0", "0000:3b:00.0 ", "-001:3b:00.0"})
    CHECK_FALSE(parse_pci_address(bad));
}

TEST_CASE("devices: NVLinks read back as they were written, and links to one place are one entry") {
  const std::vector<NvLinks> links{{NvLinkEnd::device, at_bus(2), 4, 6},
                                   {NvLinkEnd::nvswitch, at_bus(0xc5), 18, 7},
                                   {NvLinkEnd::nvswitch, std::nullopt, 2, 0}};
  CHECK(nvlinks_string(links) == "device 0000:02:00.0 x4 v6, switch 0000:c5:00.0 x18 v7, switch x2 v0");
  CHECK(parse_nvlinks(nvlinks_string(links)) == links);
  CHECK(nvlinks_string({}) == "none");
  CHECK(parse_nvlinks("none")->empty());
  CHECK(parse_nvlinks("switch x2 v6, switch x3 v6, switch x1 v7")->at(0).count == 5);
  for (const char *bad :
       {"", "None", "device x4 v6", "device 0000:02:00.0 x0 v6", "device 0000:02:00.0 x4", "device 0000:02:00.0 4 v6",
        "bridge 0000:02:00.0 x4 v6", "switch x4 v6,", "switch x4 v6; ", "switch x257 v6",
        "switch x200 v6, switch x57 v6", "switch x4 v-1", "switch  x4 v6", "device 0000:02:00.0 x4 v6 "})
    CHECK_FALSE(parse_nvlinks(bad));
}

TEST_CASE("devices: over PCI, switch, root complex, NUMA node and socket tell distances apart") {
  const Topology topology = read(eight_devices());
  REQUIRE(topology.devices.size() == 8);
  check_symmetric(topology);
  CHECK(codes_of(topology, 0) == Codes{"same", "switch", "root", "node", "across", "across", "across", "across"});
  CHECK(codes_of(topology, 2) == Codes{"root", "root", "same", "node", "across", "across", "across", "across"});
  CHECK(codes_of(topology, 3) == Codes{"node", "node", "node", "same", "across", "across", "across", "across"});
  CHECK(codes_of(topology, 5) == Codes{"across", "across", "across", "across", "switch", "same", "root", "node"});
  for (const Device &device : topology.devices) CHECK_FALSE(device.nvlinks_known);
}

TEST_CASE("devices: each has the NUMA node and the processing units of its root complex") {
  const Topology topology = read(with_info(eight_devices(), 3, "RondoUUID", "ab&amp;cd"));
  for (uint32_t index = 0; index < 8; ++index) {
    const Device &device = topology.devices[index];
    CHECK(device.address == at_bus(index + 1));
    CHECK(device_at(topology, device.address) == index);
    CHECK(device.numa_node == index / 4);
    CHECK(device.pus == topology.numa_nodes[index / 4].pus);
    CHECK(device.uuid == (index == 2 ? "ab&cd" : ""));
  }
  CHECK(device_at(topology, at_bus(9)) == unknown_index);
}

TEST_CASE("network cards: each has name, kind and position of its function on PCI, and distances from devices") {
  const Topology topology = read(eight_devices());
  REQUIRE(topology.nics.size() == 3);
  CHECK(topology.nics[0].name == "ens1");
  CHECK(topology.nics[1].name == "ens2");
  CHECK(topology.nics[2].name == "mlx5_0");
  CHECK(topology.nics[0].kind == NicKind::network);
  CHECK(topology.nics[2].kind == NicKind::rdma);
  CHECK(topology.nics[0].address == at_bus(0x0c));
  CHECK(topology.nics[2].address == at_bus(0x0c));
  CHECK(topology.nics[2].numa_node == 0);
  CHECK(topology.nics[1].pus == topology.numa_nodes[1].pus);
  const auto codes = [&](uint32_t nic) {
    Codes list;
    for (uint32_t device = 0; device < topology.devices.size(); ++device)
      list.push_back(distance_code({nic_proximity(topology, nic, device), 0}));
    return list;
  };
  CHECK(codes(2) == Codes{"switch", "switch", "root", "node", "across", "across", "across", "across"});
  CHECK(codes(1) == Codes{"across", "across", "across", "across", "node", "node", "node", "root"});
}

TEST_CASE("network cards: hwloc 3, which has a bit for each type of a device, describes the same machine") {
  std::string xml = eight_devices();
  const auto replace_all = [&xml](const std::string &from, const std::string &to) {
    for (size_t at = xml.find(from); at != xml.npos; at = xml.find(from, at + to.size()))
      xml.replace(at, from.size(), to);
  };
  replace_all("version=\"2.0\"", "version=\"3.0\"");
  replace_all("osdev_type=\"2\"", "osdev_type=\"16\"");  // network
  replace_all("osdev_type=\"3\"", "osdev_type=\"48\"");  // network and OpenFabrics
  CHECK(read(xml) == read(eight_devices()));
  replace_all("osdev_type=\"48\"", "osdev_type=\"3\"");  // storage and memory
  CHECK(read(xml).nics.size() == 2);
}

TEST_CASE("network cards: those with RDMA are near a process that may run beside them") {
  Topology topology = read(eight_devices());
  CHECK(near_rdma_devices(topology) == std::vector<std::string>{"mlx5_0"});
  for (const uint32_t pu : topology.numa_nodes[0].pus) topology.pus[pu].allowed = false;
  CHECK(near_rdma_devices(topology).empty());
}

TEST_CASE("network cards: one whose function on PCI has no address is refused, and what is no card is none") {
  const std::string xml = eight_devices();
  const auto replaced = [&](const std::string &from, const std::string &to) {
    std::string text = xml;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  CHECK(contains(refusal(replaced("pci_busid=\"0000:0c:00.0\"", "pci_busid=\"0000:0c:00\"")), "network card"));
  const Topology disk = read(replaced("name=\"mlx5_0\" osdev_type=\"3\"", "name=\"sda\" osdev_type=\"0\""));
  CHECK(disk.nics.size() == 2);
}

TEST_CASE("devices: through NVSwitches all are equally near, whatever sockets they are at") {
  std::string xml = eight_devices();
  for (unsigned bus = 1; bus <= 8; ++bus)
    xml = with_links(xml, bus,
                     bus == 8 ? "switch x12 v6"  // a device with links out of service; its switches have no address
                              : "switch 0000:c0:00.0 x5 v6, switch 0000:c1:00.0 x4 v6, switch 0000:c2:00.0 x9 v6");
  const Topology topology = read(xml);
  check_symmetric(topology);
  CHECK(codes_of(topology, 0) == Codes{"same", "NVS18", "NVS18", "NVS18", "NVS18", "NVS18", "NVS18", "NVS12"});
  CHECK(device_distance(topology, 0, 4) == Distance{Proximity::nvswitch, 18});
  CHECK(topology.devices[0].numa_node == 0);
}

TEST_CASE("devices: of a ring of NVLinks only neighbours are near, the others are as far as PCI says") {
  std::string xml = eight_devices();
  const auto link = [](unsigned bus) { return "device " + address(bus) + " x2 v4"; };
  for (unsigned bus = 1; bus <= 4; ++bus)
    xml = with_links(xml, bus, link(bus % 4 + 1) + ", " + link((bus + 2) % 4 + 1));
  const Topology topology = read(xml);
  check_symmetric(topology);
  CHECK(codes_of(topology, 0) == Codes{"same", "NV2", "root", "NV2", "across", "across", "across", "across"});
  CHECK(codes_of(topology, 1) == Codes{"NV2", "same", "NV2", "node", "across", "across", "across", "across"});
}

TEST_CASE("devices: a link counts where both ends have it, or where one has it and the other cannot tell") {
  std::string xml = with_links(eight_devices(), 1,
                               "device 0000:02:00.0 x4 v6, device 0000:03:00.0 x4 v6, "
                               "device 0000:04:00.0 x4 v6, device 0000:77:00.0 x2 v6");
  xml = with_links(xml, 2, "device 0000:01:00.0 x3 v6");
  xml = with_links(xml, 3, "none");
  const Topology topology = read(xml);
  check_symmetric(topology);
  CHECK(codes_of(topology, 0) == Codes{"same", "NV3", "root", "NV4", "across", "across", "across", "across"});
}

TEST_CASE("devices: random links, at any devices, give the same distance in both directions") {
  const auto seed = static_cast<uint32_t>(rondo_test::seed_from_environment());
  CAPTURE(seed);
  std::mt19937 engine(seed);
  const auto below = [&engine](uint32_t count) { return static_cast<uint32_t>(engine() % count); };
  for (int round = 0; round < 20; ++round) {
    std::string xml = eight_devices();
    for (unsigned bus = 1; bus <= 8; ++bus) {
      std::vector<NvLinks> links;
      for (uint32_t count = below(4); count > 0; --count) {
        const bool to_device = below(2) == 0;
        add_nvlinks(links,
                    {to_device ? NvLinkEnd::device : NvLinkEnd::nvswitch, at_bus(1 + below(9)), 1 + below(3), 6});
      }
      if (below(4) != 0) xml = with_links(xml, bus, nvlinks_string(links));
    }
    check_symmetric(read(xml));
  }
}

TEST_CASE("devices: of one that hwloc does not see only NVLinks are known") {
  const std::string misc =
      "<object type=\"Misc\" gp_index=\"99\" name=\"RondoDevice 0000:0a:00.0\">"
      "<info name=\"RondoNVLinks\" value=\"device 0000:01:00.0 x1 v1\"/></object>\n";
  std::string xml = eight_devices();
  xml.insert(xml.rfind("  </object>"), misc);
  const Topology topology = read(xml);
  REQUIRE(topology.devices.size() == 9);
  CHECK(topology.devices[8].address == at_bus(10));
  CHECK(topology.devices[8].numa_node == unknown_index);
  CHECK(topology.devices[8].pus.empty());
  CHECK(codes_of(topology, 8) == Codes{"NV1", "?", "?", "?", "?", "?", "?", "?", "same"});
  check_symmetric(topology);
}

TEST_CASE("devices: those that a topology lacks are added with an unknown position, the others stay") {
  const Topology topology = read(eight_devices());
  const std::vector<PciAddress> seen{at_bus(3), at_bus(0x20), at_bus(1), at_bus(0x20)};
  const Topology more = with_devices(topology, seen);
  REQUIRE(more.devices.size() == 9);
  CHECK(more.devices[8].address == at_bus(0x20));
  CHECK(distance_code(device_distance(more, 8, 0)) == "?");
  CHECK(device_distance(more, 0, 1) == device_distance(topology, 0, 1));
}

TEST_CASE("devices: one that no bridge is above is told by its NUMA node, one that is between nodes by nothing") {
  const auto gpu = [](unsigned bus) {
    return "<object type=\"PCIDev\" pci_busid=\"" + address(bus) + "\" pci_type=\"0300 [10de:1cb6] [1028:11be] a1\"/>";
  };
  const auto package = [](const std::string &set, const std::string &inside) {
    return "<object type=\"Package\" cpuset=\"" + set + "\"><object type=\"NUMANode\" cpuset=\"" + set + "\"/>" +
           inside + "</object>";
  };
  const std::string pus =
      "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\"/><object type=\"PU\" os_index=\"1\" "
      "cpuset=\"0x2\"/>";
  const std::string other_maker =
      "<object type=\"PCIDev\" pci_busid=\"0000:09:00.0\" pci_type=\"0300 [1a03:2000] [1a03:2000] 41\"/>";
  const Topology topology =
      read("<topology version=\"2.0\"><object type=\"Machine\" cpuset=\"0x3\">" + pus +
           package("0x1", gpu(1) + gpu(2) + other_maker) + package("0x2", gpu(3)) + gpu(4) + "</object></topology>");
  REQUIRE(topology.devices.size() == 4);
  CHECK(codes_of(topology, 0) == Codes{"same", "node", "across", "?"});
  CHECK(topology.devices[3].numa_node == unknown_index);
  CHECK(topology.devices[3].pus.size() == 2);
}

TEST_CASE("devices: a file whose devices make no sense is refused with the device and what is wrong") {
  const std::string good = eight_devices();
  std::string message = refusal(with_links(good, 2, "device 0000:01:00.0 four"));
  CHECK(contains(message, "device 0000:02:00.0: RondoNVLinks is 'device 0000:01:00.0 four', not 'none' or a list"));
  CHECK(contains(message, "rondo info --topology-xml"));

  std::string twice = good;
  twice.replace(twice.find("0000:02:00.0"), 12, "0000:01:00.0");
  CHECK(contains(refusal(twice), "two devices at one PCI address"));

  std::string nowhere = good;
  nowhere.replace(nowhere.find("0000:02:00.0"), 12, "0000:02:77.0");
  CHECK(contains(refusal(nowhere), "a device at '0000:02:77.0', which is no PCI address"));

  std::string many = good;
  std::string more;
  for (unsigned number = 0; number < 260; ++number)
    more += "<object type=\"Misc\" name=\"RondoDevice " + std::to_string(1000 + number) + ":0a:00.0\"/>";
  many.insert(many.rfind("  </object>"), more);
  CHECK(contains(refusal(many), "more than 256 devices"));
}

TEST_CASE("devices: nobody looks for them where they are not asked for, and a missing NVML is told but no error") {
  Config config;
  config.nvml_library = "libno-such-nvml.so.1";
  CHECK(discover_topology(config).value().devices.empty());
  const DeviceDiscovery found = discover_devices(config).value();
  CHECK(found.nvml_asked);
  CHECK(contains(found.nvml_error, "libno-such-nvml.so.1"));
  CHECK(contains(found.nvml_error, "RONDO_NVML_LIBRARY"));
  Topology without = found.topology;
  without.devices.clear();
  without.bridges.clear();
  without.nics.clear();
  CHECK(without == discover_topology(config).value());
  CHECK(export_topology_xml(config).ok());
}
