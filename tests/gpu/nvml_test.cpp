// SPDX-License-Identifier: Apache-2.0
// These tests use NVML in software: links of every kind, versions that lack functions, and calls that fail.
#include <cstdlib>
#include <string>

#include "src/base/config.h"
#include "src/topo/device.h"
#include "src/topo/distance.h"
#include "tests/catch.h"

using namespace rondo;

namespace {

bool contains(const std::string &text, const std::string &part) { return text.find(part) != text.npos; }

/// Sets a variable of the library in software for one attempt to load it.
class Variable {
 public:
  Variable(const char *name, const std::string &value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  Variable(const Variable &) = delete;
  Variable &operator=(const Variable &) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char *name_;
};

std::string library() { return read_config().value().nvml_library; }
std::string old_library() {
  const char *const name = std::getenv("RONDO_TEST_OLD_NVML");
  REQUIRE(name != nullptr);
  return name;
}

std::string refusal(const std::string &name) {
  const auto told = ask_nvml(name);
  REQUIRE_FALSE(told.ok());
  CHECK(told.error().status == RONDO_ERROR_UNSUPPORTED);
  CHECK(contains(told.error().message, name));
  return told.error().message;
}

std::string links(const Device &device) { return device.nvlinks_known ? nvlinks_string(device.nvlinks) : "unknown"; }

}  // namespace

TEST_CASE("nvml: it says what a device does with the memory of others, whatever CUDA sees") {
  const Variable devices("SOFT_NVML_DEVICES", "3");
  const auto uuid = [](int number) { return "736f6674-2d63-7564-612d-6465762d000" + std::to_string(number); };
  const std::vector<std::string> peers{uuid(1), uuid(2), uuid(3), ""};
  const auto reaches = [&] { return ask_nvml_about_peers(library(), uuid(0), peers); };
  using enum PeerReach;
  const auto beside_unknown = [](PeerReach first, PeerReach second) {
    return std::vector{first, second, unknown, unknown};  // a device that does not exist, and no device
  };
  CHECK(reaches() == beside_unknown(atomics, atomics));
  {
    const Variable pairs("SOFT_CUDA_PEERS", "0-2");
    CHECK(reaches() == beside_unknown(none, atomics));
    const Variable apart("SOFT_CUDA_NVLINK", "off");
    CHECK(reaches() == beside_unknown(none, access));
  }
  for (const char *const fault : {"nvmlInit_v2=9", "nvmlDeviceGetCount_v2=999", "nvmlDeviceGetP2PStatus=3"}) {
    const Variable faults("SOFT_NVML_FAULTS", fault);
    CHECK(reaches() == beside_unknown(unknown, unknown));
  }
  CHECK(ask_nvml_about_peers("libno_such.so", uuid(0), peers) == beside_unknown(unknown, unknown));
}

TEST_CASE("nvml: devices are told with address, UUID and links to devices and switches") {
  const Variable devices("SOFT_NVML_DEVICES", "4");
  const Variable table("SOFT_NVML_LINKS", "0-1*4 1-2*2 0-s5*3 0-s6*1 2-hidden*6 3-off*5 3-cpu*2");
  const auto told = ask_nvml(library());
  REQUIRE(told.ok());
  REQUIRE(told.value().size() == 4);
  CHECK(pci_address_string(told.value()[0].address) == "0000:01:00.0");
  CHECK(told.value()[3].uuid == "736f6674-2d63-7564-612d-6465762d0003");
  CHECK(links(told.value()[0]) == "device 0000:02:00.0 x4 v6, switch 0000:c5:00.0 x3 v6, switch 0000:c6:00.0 x1 v6");
  CHECK(links(told.value()[1]) == "device 0000:01:00.0 x4 v6, device 0000:03:00.0 x2 v6");
  CHECK(links(told.value()[2]) == "device 0000:02:00.0 x2 v6, switch x6 v6");
  CHECK(links(told.value()[3]) == "none");  // inactive links, and links to a processor, lead to no device
}

TEST_CASE("nvml: a library that is missing, is another one, or does not start is named with the reason") {
  CHECK(contains(refusal("libno-such-nvml.so.1"), "RONDO_NVML_LIBRARY"));
  CHECK(contains(refusal("libm.so.6"), "it has no nvmlInit_v2"));
  {
    const Variable fault("SOFT_NVML_FAULTS", "nvmlInit_v2=9");
    CHECK(contains(refusal(library()), "nvmlInit_v2: the driver is not loaded (9)"));
  }
  {
    const Variable fault("SOFT_NVML_FAULTS", "nvmlDeviceGetCount_v2=999");
    CHECK(contains(refusal(library()), "nvmlDeviceGetCount_v2: an error of the library in software (999)"));
    CHECK(contains(refusal(old_library()), "nvmlDeviceGetCount_v2: status (999)"));
  }
  CHECK(ask_nvml(library()).ok());
}

TEST_CASE("nvml: an old one without types of ends is understood by addresses") {
  const Variable devices("SOFT_NVML_DEVICES", "2");
  const Variable table("SOFT_NVML_LINKS", "0-1*4 0-cpu*2 1-hidden*3");
  const auto told = ask_nvml(old_library());
  REQUIRE(told.ok());
  CHECK(links(told.value()[0]) == "device 0000:02:00.0 x4 v6");
  CHECK(links(told.value()[1]) == "device 0000:01:00.0 x4 v6");
}

TEST_CASE("nvml: what one call cannot tell is unknown, and the rest is kept") {
  const Variable devices("SOFT_NVML_DEVICES", "2");
  const Variable table("SOFT_NVML_LINKS", "0-1*4");
  const auto with_fault = [](const std::string &fault) {
    const Variable faults("SOFT_NVML_FAULTS", fault);
    auto told = ask_nvml(library());
    REQUIRE(told.ok());
    return std::move(told).value();
  };
  CHECK(with_fault("nvmlDeviceGetUUID=3")[0].uuid.empty());
  CHECK(links(with_fault("nvmlDeviceGetUUID=3")[0]) == "device 0000:02:00.0 x4 v6");
  CHECK(links(with_fault("nvmlDeviceGetNvLinkVersion=3")[0]) == "device 0000:02:00.0 x4 v0");
  CHECK(links(with_fault("nvmlDeviceGetNvLinkRemoteDeviceType=999")[0]) == "device 0000:02:00.0 x4 v6");
  CHECK(links(with_fault("nvmlDeviceGetNvLinkState=15")[0]) == "unknown");
  CHECK(links(with_fault("nvmlDeviceGetNvLinkState=3")[0]) == "none");
  CHECK(with_fault("nvmlDeviceGetHandleByIndex_v2=4").empty());
  CHECK(with_fault("nvmlDeviceGetPciInfo_v3=15").empty());
}

TEST_CASE("nvml: what it tells is in the topology, and in a file in its place") {
  const Variable devices("SOFT_NVML_DEVICES", "3");
  const Variable table("SOFT_NVML_LINKS", "0-1*4 0-s0*2 2-hidden*2");
  const Config config = read_config().value();
  const DeviceDiscovery found = discover_devices(config).value();
  CHECK(found.nvml_asked);
  CHECK(found.nvml_error.empty());
  // The addresses are of the software's devices. On this machine, hwloc finds other devices there, or none.
  const uint32_t first = device_at(found.topology, {0, 1, 0, 0});
  const uint32_t second = device_at(found.topology, {0, 2, 0, 0});
  const uint32_t third = device_at(found.topology, {0, 3, 0, 0});
  REQUIRE((first != unknown_index && second != unknown_index && third != unknown_index));
  CHECK(device_distance(found.topology, first, second) == Distance{Proximity::nvlink, 4});
  CHECK(device_distance(found.topology, first, third) == Distance{Proximity::nvswitch, 2});
  const Topology again = import_topology(export_topology_xml(config).value()).value();
  CHECK(again.devices == found.topology.devices);
  CHECK(again.bridges == found.topology.bridges);
}
