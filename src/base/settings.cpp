// SPDX-License-Identifier: Apache-2.0
// This file overrides the environment's settings with the fields of rondo_config_t, in the order of the table in
// config.cpp. The caller may be compiled with any version of the struct.
#include <algorithm>
#include <cstddef>

#include "src/base/config.h"

namespace rondo {
namespace {

constexpr size_t size_first_version = offsetof(rondo_config_t, network_interface) + sizeof(char *);
constexpr size_t size_second_version = offsetof(rondo_config_t, max_ctas) + sizeof(uint32_t);
constexpr size_t size_third_version = offsetof(rondo_config_t, reserved) + sizeof(uint32_t);
constexpr size_t size_fourth_version = offsetof(rondo_config_t, max_memory_bytes) + sizeof(uint64_t);
static_assert(sizeof(rondo_config_t) == size_fourth_version);
/// A bound above the size of every later version. If a caller's `size` is greater, the struct was not initialised.
constexpr size_t size_max = 4096;

Result<void> check_size(const rondo_config_t &caller) {
  const bool earlier = caller.size == size_first_version || caller.size == size_second_version ||
                       caller.size == size_third_version;
  if ((caller.size < size_fourth_version && !earlier) || caller.size > size_max)
    return invalid_argument("rondo_config_t.size is " + std::to_string(caller.size) + ", not " +
                            std::to_string(sizeof(rondo_config_t)) +
                            " or that of another version; start from RONDO_CONFIG_INIT");
  const auto *bytes = reinterpret_cast<const unsigned char *>(&caller);
  if (caller.size > sizeof(rondo_config_t) &&
      std::any_of(bytes + sizeof(rondo_config_t), bytes + caller.size, [](unsigned char byte) { return byte != 0; }))
    return invalid_argument(
        "rondo_config_t is of a later version and sets a field that this librondo does not know; "
        "leave it zero or use the later library");
  return {};
}

/// Drops an environment's setting that contradicts the caller's: load_store has no protocol. A caller's load_store
/// drops the environment's protocol, and a caller's protocol drops the environment's load_store.
void drop_what_contradicts(const rondo_config_t &caller, Settings &settings) {
  if (settings.kernel != RONDO_KERNEL_LOAD_STORE) return;
  if (caller.kernel == RONDO_KERNEL_LOAD_STORE && caller.protocol == RONDO_PROTOCOL_AUTO)
    settings.protocol = RONDO_PROTOCOL_AUTO;
  if (caller.kernel == RONDO_KERNEL_AUTO && caller.protocol != RONDO_PROTOCOL_AUTO)
    settings.kernel = RONDO_KERNEL_AUTO;
}

Result<void> check_device(int32_t device) {
  if (device == RONDO_DEVICE_HOST || device >= 0) return {};
  return invalid_argument("rondo_config_t.device is " + std::to_string(device) +
                          "; it takes RONDO_DEVICE_HOST or a CUDA device's number");
}

/// Checks the number of channels. Host memory allows fewer channels than devices do.
Result<void> check_channels(const Settings &settings) {
  if (settings.device != RONDO_DEVICE_HOST || settings.channels <= channels_max) return {};
  return invalid_argument("RONDO_CHANNELS: '" + std::to_string(settings.channels) + "' is not a number from 1 to " +
                          std::to_string(channels_max) + ", as host memory has (and rondo_config_t.channels)");
}

Result<bool> nonblocking_of(const rondo_config_t &caller) {
  if (caller.size < size_third_version) return false;
  if (caller.nonblocking != 0 && caller.nonblocking != 1)
    return invalid_argument("rondo_config_t.nonblocking is " + std::to_string(caller.nonblocking) +
                            "; it takes 0 or 1");
  if (caller.reserved != 0) return invalid_argument("rondo_config_t.reserved is not 0; start from RONDO_CONFIG_INIT");
  return caller.nonblocking == 1;
}

}  // namespace

Result<Settings> merge(const rondo_config_t *caller, const Config &environment) {
  Settings settings{environment};
  if (caller == nullptr) {
    RONDO_TRY(check_channels(settings));
    return settings;
  }
  RONDO_TRY(check_size(*caller));
  RONDO_TRY(check_device(caller->device));
  settings.device = caller->device;
  RONDO_TRY_ASSIGN(settings.nonblocking, nonblocking_of(*caller));
  for (const ConfigVariable &variable : config_variables())
    if (variable.field.name != nullptr && caller->size > variable.field.offset)
      RONDO_TRY(variable.field.take(*caller, variable.field.name, settings));
  drop_what_contradicts(*caller, settings);
  RONDO_TRY(check_channels(settings));
  return settings;
}

}  // namespace rondo
