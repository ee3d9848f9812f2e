// SPDX-License-Identifier: Apache-2.0
#include "src/compat/settings.h"

#include <net/if.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "src/compat/failure.h"

namespace rondo::compat {
namespace {

constexpr long ctas_max = 1024;  // the limit of RONDO_MAX_CTAS
// NCCL has no deadlines. Frameworks have their own deadlines of 10 minutes or more, which should pass before Rondo's.
// Rondo still notices the death of a rank within a second.
constexpr uint32_t timeout_ms = 30 * 60 * 1000;

/// Translates NCCL_SOCKET_IFNAME if it lists interfaces of this host by their full names ("eth0,eth1", "=eth0").
/// Prefixes and exclusions ("eth", "^docker") have no counterpart in Rondo. For these, Rondo chooses the interface.
std::string listed_interfaces() {
  const char *const text = variable("NCCL_SOCKET_IFNAME");
  if (text == nullptr || variable("RONDO_INTERFACE") != nullptr) return {};
  const std::string list = *text == '=' ? text + 1 : text;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (::if_nametoindex(list.substr(begin, end - begin).c_str()) == 0) return {};
    begin = end + 1;
  }
  return list;
}

/// A number of an ncclConfig_t, with the limits that NCCL has. Most of these numbers have no effect in Rondo.
struct Field {
  const char *name;
  int ncclConfig_t::*value;
  int min, max;
};
constexpr Field fields[] = {{"blocking", &ncclConfig_t::blocking, 0, 1},
                            {"cgaClusterSize", &ncclConfig_t::cgaClusterSize, 0, INT_MAX},
                            {"minCTAs", &ncclConfig_t::minCTAs, 1, INT_MAX},
                            {"maxCTAs", &ncclConfig_t::maxCTAs, 1, INT_MAX},
                            {"splitShare", &ncclConfig_t::splitShare, 0, 1},
                            {"trafficClass", &ncclConfig_t::trafficClass, INT_MIN, INT_MAX},
                            {"collnetEnable", &ncclConfig_t::collnetEnable, 0, 1},
                            {"CTAPolicy", &ncclConfig_t::CTAPolicy, 0, 3},
                            {"shrinkShare", &ncclConfig_t::shrinkShare, 0, 1},
                            {"nvlsCTAs", &ncclConfig_t::nvlsCTAs, 1, INT_MAX},
                            {"nChannelsPerNetPeer", &ncclConfig_t::nChannelsPerNetPeer, 1, 64},
                            {"nvlinkCentricSched", &ncclConfig_t::nvlinkCentricSched, 0, 1},
                            {"graphUsageMode", &ncclConfig_t::graphUsageMode, 0, 2},
                            {"numRmaCtx", &ncclConfig_t::numRmaCtx, 0, INT_MAX},
                            {"maxP2pPeers", &ncclConfig_t::maxP2pPeers, 1, INT_MAX},
                            {"graphStreamOrdering", &ncclConfig_t::graphStreamOrdering, 0, 1}};

ncclResult_t check_ranges(const ncclConfig_t &config, const char *function) {
  for (const Field &field : fields) {
    const int value = config.*field.value;
    if (value == unset || (value >= field.min && value <= field.max)) continue;
    const std::string range = "at least " + std::to_string(field.min) +
                              (field.max == INT_MAX ? "" : " and at most " + std::to_string(field.max));
    return refuse(function, "the configuration's " + std::string(field.name) + " is " + std::to_string(value) +
                                "; it must be " + range);
  }
  if (config.minCTAs != unset && config.maxCTAs != unset && config.minCTAs > config.maxCTAs)
    return refuse(function, "the configuration's minCTAs (" + std::to_string(config.minCTAs) +
                                ") is more than its maxCTAs (" + std::to_string(config.maxCTAs) + ")");
  return ncclSuccess;
}

/// Copies the fields that the caller's release has. Other fields stay unset. Two releases have padding at their end,
/// where a later release has a field.
ncclConfig_t known_fields(const ncclConfig_t *theirs) {
  ncclConfig_t ours{};
  for (const Field &field : fields) ours.*field.value = unset;
  std::memcpy(&ours, theirs, std::min(theirs->size, sizeof ours));
  if (ours.version != 0 && ours.version < 21700) ours.cgaClusterSize = unset;
  if (ours.version != 0 && ours.version < 23005) ours.graphStreamOrdering = unset;
  return ours;
}

}  // namespace

const char *variable(const char *name) {
  const char *const text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

long number(const char *name, long otherwise) {
  const char *const text = variable(name);
  if (text == nullptr) return otherwise;
  char *end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return *end == '\0' && value >= 0 ? value : otherwise;
}

rondo_config_t Settings::config(int device) const {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.device = device;
  config.max_ctas = max_ctas;
  if (variable("RONDO_TIMEOUT") == nullptr) config.timeout_ms = timeout_ms;
  if (variable("RONDO_INIT_TIMEOUT") == nullptr) config.init_timeout_ms = timeout_ms;
  if (!interfaces.empty()) config.network_interface = interfaces.c_str();
  config.nonblocking = 1;
  return config;
}

/// Reads the environment. A variable takes precedence over the field of ncclConfig_t, as in NCCL.
Settings default_settings() {
  Settings settings;
  settings.blocking = number("NCCL_COMM_BLOCKING", 1) != 0;
  if (variable("RONDO_MAX_CTAS") == nullptr)
    settings.max_ctas = static_cast<uint32_t>(std::min(number("NCCL_MAX_CTAS", 0), ctas_max));
  settings.interfaces = listed_interfaces();
  return settings;
}

ncclResult_t read_settings(const ncclConfig_t *config, const char *function, Settings *settings) {
  *settings = default_settings();
  if (config == nullptr) return ncclSuccess;
  if (config->size < offsetof(ncclConfig_t, blocking) || config->magic != config_magic)
    return refuse(function, "the ncclConfig_t was not initialised with NCCL_CONFIG_INITIALIZER");
  const ncclConfig_t ours = known_fields(config);
  if (const ncclResult_t checked = check_ranges(ours, function); checked != ncclSuccess) return checked;
  if (ours.blocking != unset && variable("NCCL_COMM_BLOCKING") == nullptr) settings->blocking = ours.blocking == 1;
  if (ours.maxCTAs != unset && variable("NCCL_MAX_CTAS") == nullptr && variable("RONDO_MAX_CTAS") == nullptr)
    settings->max_ctas = static_cast<uint32_t>(std::min<long>(ours.maxCTAs, ctas_max));
  return ncclSuccess;
}

}  // namespace rondo::compat
