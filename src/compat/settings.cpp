// SPDX-License-Identifier: Apache-2.0
#include "src/compat/settings.h"

#include <net/if.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>
#include <vector>

#include "src/compat/environment.h"
#include "src/compat/failure.h"

namespace rondo::compat {
namespace {

constexpr long ctas_max = 1024;  // the limit of RONDO_MAX_CTAS
// NCCL has no deadlines. Frameworks have their own deadlines of 10 minutes or more, which should pass before Rondo's.
// Rondo still notices the death of a rank within a second.
constexpr uint32_t timeout_ms = 30 * 60 * 1000;

std::vector<std::string> interfaces_of_host() {
  std::vector<std::string> names;
  struct if_nameindex *const all = ::if_nameindex();
  for (const struct if_nameindex *each = all; each != nullptr && each->if_index != 0; ++each)
    names.emplace_back(each->if_name);
  if (all != nullptr) ::if_freenameindex(all);
  return names;
}

std::string joined(const std::vector<std::string> &names, const char *between, const char *behind = "") {
  std::string text;
  for (const std::string &name : names) text += (text.empty() ? "" : between) + name + behind;
  return text;
}

/// Translates NCCL_SOCKET_IFNAME to the form of RONDO_INTERFACE. Its entries are beginnings of names, or whole names
/// after "=". After "^", they exclude interfaces. If all entries are names of interfaces, each one is a rail.
ncclResult_t translate_interfaces(const char *text, const char *function, std::string *interfaces) {
  const std::string_view value = text;
  const bool excludes = value.starts_with('^'), exact = value.substr(excludes ? 1 : 0).starts_with('=');
  const std::vector<std::string> own = interfaces_of_host();
  std::vector<std::string> entries, names;  // names: the entries that are names of interfaces
  for (std::istringstream rest(text + (excludes ? 1 : 0) + (exact ? 1 : 0)); rest.good();) {
    std::string entry;
    std::getline(rest, entry, ',');
    entry.resize(std::min(entry.size(), entry.find(':')));  // NCCL's entries may name a port
    if (entry.empty()) continue;
    if (entry.find_first_of("*^=") != entry.npos)
      return refuse(function, "NCCL_SOCKET_IFNAME is \"" + std::string(value) +
                                  "\"; ^ and = may only be its beginning, " +
                                  "and the rest are names or beginnings of names, without *");
    if (std::find(own.begin(), own.end(), entry) != own.end()) names.push_back(entry);
    entries.push_back(std::move(entry));
  }
  const auto matches = [&](const std::string &name) {
    return std::any_of(entries.begin(), entries.end(),
                       [&](const std::string &entry) { return exact ? name == entry : name.starts_with(entry); });
  };
  if (std::none_of(own.begin(), own.end(), [&](const std::string &name) { return matches(name) != excludes; }))
    return refuse(function, "NCCL_SOCKET_IFNAME is \"" + std::string(value) +
                                "\", which selects no network interface of this host; it has " + joined(own, ", "));
  if (!excludes && (exact || names.size() == entries.size()))
    *interfaces = joined(names, ",");
  else
    *interfaces = (excludes && !entries.empty() ? "^" : "") + joined(entries, ",", exact ? "" : "*");
  return ncclSuccess;
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

/// A variable takes precedence over the field of ncclConfig_t, as in NCCL.
ncclResult_t read_settings(const ncclConfig_t *config, const char *function, Settings *settings) {
  adopt_environment();
  settings->blocking = number("NCCL_COMM_BLOCKING", 1) != 0;
  if (variable("RONDO_MAX_CTAS") == nullptr)
    settings->max_ctas = static_cast<uint32_t>(std::min(number("NCCL_MAX_CTAS", 0), ctas_max));
  const char *const interfaces = variable("NCCL_SOCKET_IFNAME");
  if (interfaces != nullptr && variable("RONDO_INTERFACE") == nullptr)
    if (const ncclResult_t read = translate_interfaces(interfaces, function, &settings->interfaces);
        read != ncclSuccess)
      return read;
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
