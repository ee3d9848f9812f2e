// SPDX-License-Identifier: Apache-2.0
// This file finds out which RDMA devices exist, and whether one of them can be used.
#include <unistd.h>

#include "transports/verbs/device.h"
#include "transports/verbs/verbs_network.h"

namespace rondo::verbs {

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
