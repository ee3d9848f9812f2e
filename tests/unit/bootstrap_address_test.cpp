// SPDX-License-Identifier: Apache-2.0
// These tests choose among the addresses and network interfaces of a host.
#include "src/bootstrap/address.h"

#include <string>
#include <vector>

#include "tests/catch.h"

using namespace rondo;

TEST_CASE("address: a list of interfaces is a rail each") {
  const auto chosen = [](const char *wanted) {
    const auto addresses = choose_addresses(wanted);
    std::string text;
    for (const HostAddress &each : addresses.value()) text += each.interface + "=" + each.address + " ";
    return text;
  };
  CHECK(chosen("lo") == "lo=127.0.0.1 ");
  CHECK(chosen("127.0.0.1,127.0.0.2") == "lo=127.0.0.1 =127.0.0.2 ");  // no interface has the second
  CHECK(choose_address("127.0.0.2,127.0.0.1").value() == "127.0.0.2");
  CHECK(rail_count("") == 1);
  CHECK(rail_count("a,b,c") == 3);
  Config config;
  config.network_interface = "a,b,c";
  config.ib_devices = "a,b";
  CHECK(rail_count(config) == 3);
  config.network = NetworkChoice::verbs;
  CHECK(rail_count(config) == 2);
  for (const char *empty : {",lo", "lo,", "lo,,127.0.0.2", ","}) {
    CHECK(choose_addresses(empty).error().message.find("empty entry") != std::string::npos);
    CHECK(choose_address(empty).error().status == RONDO_ERROR_INVALID_ARGUMENT);
  }
  CHECK(choose_addresses("lo,127.0.0.1").error().message.find("names the address 127.0.0.1 twice") !=
        std::string::npos);
  CHECK(check_rails("1,2,3,4,5,6,7,8").ok());
  CHECK(check_rails("1,2,3,4,5,6,7,8,9").error().message.find("more than 8") != std::string::npos);
}

TEST_CASE("address: an interface or an address is found; without a wish, global before loopback and IPv4 before IPv6") {
  const std::vector<HostAddress> host{
      {"lo", "127.0.0.1", true, true, false, false},     {"lo", "::1", true, true, true, false},
      {"eth0", "fe80::1%eth0", true, false, true, true}, {"eth0", "2001:db8::7", true, false, true, false},
      {"eth0", "192.0.2.7", true, false, false, false},  {"eth1", "192.0.2.8", false, false, false, false}};
  CHECK(pick_address(host, "").value() == "192.0.2.7");
  std::vector<HostAddress> bridged = host;  // addresses like 172.17.0.1 exist on many hosts
  for (const char *bridge : {"docker0", "virbr0", "br-1b2c"})
    bridged.insert(bridged.begin(), {bridge, "172.17.0.1", true, false, false, false});
  bridged.insert(bridged.begin(), {"eth7", "10.9.9.9", true, false, false, false, false});
  CHECK(pick_address(bridged, "").value() == "192.0.2.7");
  bridged.push_back({"br-0", "198.51.100.4", true, false, false, false, true, true});  // it has the default route
  CHECK(pick_address(bridged, "").value() == "198.51.100.4");
  CHECK(pick_address({bridged.begin(), bridged.begin() + 2}, "").value() == "10.9.9.9");
  CHECK(pick_address(host, "lo").value() == "127.0.0.1");
  CHECK(pick_address(host, "eth0").value() == "192.0.2.7");
  CHECK(pick_address(host, "::1").value() == "::1");
  CHECK(pick_address(host, "::0001").value() == "::1");
  CHECK(pick_address(host, "127.0.0.9").value() == "127.0.0.9");
  CHECK(pick_address({host.begin(), host.begin() + 4}, "").value() == "2001:db8::7");
  CHECK(pick_address({host.begin(), host.begin() + 3}, "").value() == "127.0.0.1");
  CHECK(pick_address({host.begin() + 2, host.begin() + 3}, "eth0").value() == "fe80::1%eth0");
  CHECK(pick_address({}, "").value() == "127.0.0.1");
  CHECK(pick_address(host, "", "2001:db8::7").value() == "2001:db8::7");
  CHECK(pick_address(host, "", "fe80::1%eth0").value() == "fe80::1%eth0");
  CHECK(pick_address(host, "lo", "2001:db8::7").value() == "127.0.0.1");
  for (const char *of_no_use : {"127.0.0.1", "::1", "192.0.2.8", "198.51.100.1"})  // loopback, down, or of another host
    CHECK(pick_address(host, "", of_no_use).value() == "192.0.2.7");
  for (const char *wrong : {"eth1", "wlan9", "192.0.2.99"}) {
    const auto refused = pick_address(host, wrong);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("eth0 (192.0.2.7)") != std::string::npos);
  }
}

TEST_CASE("address: a choice admits or excludes interfaces by names and their beginnings, and is one rail") {
  const std::vector<HostAddress> host{{"lo", "127.0.0.1", true, true, false, false},
                                      {"docker0", "172.17.0.1", true, false, false, false},
                                      {"eth0", "192.0.2.7", true, false, false, false},
                                      {"eth10", "192.0.2.10", true, false, false, false, true, true},
                                      {"ib0", "198.51.100.4", true, false, false, false},
                                      {"ib1", "fe80::1%ib1", true, false, true, true},
                                      {"wlan0", "192.0.2.9", false, false, false, false}};
  const auto picked = [&](const char *choice, const char *by_route = "") {
    return pick_address(host, choice, by_route).value();
  };
  CHECK(picked("eth*") == "192.0.2.10");  // it has the default route
  CHECK(picked("eth*", "192.0.2.7") == "192.0.2.7");
  CHECK(picked("eth*", "198.51.100.4") == "192.0.2.10");
  CHECK(picked("eth0,ib*") == "192.0.2.7");
  CHECK(picked("none*,ib0") == "198.51.100.4");
  CHECK(picked("ib1*") == "fe80::1%ib1");
  CHECK(picked("lo*") == "127.0.0.1");
  CHECK(picked("*") == "192.0.2.10");
  CHECK(picked("^eth10") == "192.0.2.7");
  CHECK(picked("^eth*") == "198.51.100.4");
  CHECK(picked("^eth1*,eth0,ib*") == "172.17.0.1");
  CHECK(picked("^eth*,ib*,docker0") == "127.0.0.1");
  for (const char *wrong : {"wlan*", "^*", "eth1,x*"})
    CHECK(pick_address(host, wrong)
              .error()
              .message.find(" selects no network interface that is up and has an address; "
                            "this host has: lo (127.0.0.1), docker0") != std::string::npos);
  CHECK(rail_count("^docker*,lo") == 1);
  CHECK(rail_count("eth*,ib0") == 1);
  CHECK(choose_addresses("l*,none").value().front().address == "127.0.0.1");
  CHECK(choose_address("^none*,none").ok());
  for (const char *wrong : {"e*h0", "eth0,^lo", "^^lo", "^", "^,lo", "**"}) CHECK_FALSE(check_rails(wrong).ok());
  CHECK(check_rails("eth0,^lo").error().message.find("put ^ before the first name, and * behind a name") !=
        std::string::npos);
}

TEST_CASE("address: the interfaces of default routes are read from the kernel's tables") {
  const std::string routes =
      "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
      "eth0\t00000000\t0102000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
      "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
      "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n";  // routes for half of all addresses
  const std::string zeros(32, '0');
  const std::string ipv6 =
      zeros + " 00 " + zeros + " 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     ib0\n" +
      zeros + " 00 " + zeros + " 00 " + zeros + " ffffffff 00000001 00000000 00200200       lo\n" +
      "20010db8000000000000000000000000 40 " + zeros + " 00 " + zeros + " 00000100 00000001 00000000 00000001  eth1\n";
  CHECK(default_route_interfaces(routes, ipv6) == std::vector<std::string>{"eth0", "ib0"});
  for (const char *nonsense : {"", "\n\n", "eth0", "eth0 00000000"})
    CHECK(default_route_interfaces(nonsense, nonsense).empty());
}
