// SPDX-License-Identifier: Apache-2.0
// merge(): rondo_config_t over the environment. The struct comes from a caller of any version, and its enumerations may
// hold anything: they are looked at as numbers until they are known to be names.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "src/base/config.h"
#include "src/base/names.h"

namespace rondo {
namespace {

constexpr uint64_t ns_per_ms = 1'000'000;
constexpr size_t size_first_version = offsetof(rondo_config_t, network_interface) + sizeof(char *);
constexpr size_t size_second_version = offsetof(rondo_config_t, max_ctas) + sizeof(uint32_t);
static_assert(sizeof(rondo_config_t) == size_second_version && size_second_version > size_first_version);
/// No later version is larger; a greater `size` is an uninitialised one, whose tail is better not read.
constexpr size_t size_max = 4096;

Result<void> check_size(const rondo_config_t &caller) {
  if ((caller.size < size_second_version && caller.size != size_first_version) || caller.size > size_max)
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

/// `field` of the caller's struct, which may hold what is no enumerator; 0 is "auto" and leaves `target`.
template <class Enum>
Result<void> take_name(Enum &target, const Enum &field, const char *(*name)(Enum), const char *what) {
  unsigned value = 0;
  static_assert(sizeof value == sizeof field);
  std::memcpy(&value, &field, sizeof value);
  for (unsigned known = 0; name(static_cast<Enum>(known)) != nullptr; ++known) {
    if (known != value) continue;
    if (value != 0) target = static_cast<Enum>(value);
    return {};
  }
  return invalid_argument("rondo_config_t." + std::string(what) + " is " + std::to_string(value) +
                          ", which is none of: " + known_names(name));
}

/// The kernel load_store has no protocol. Where the caller asks for one of the two, what the environment says of the
/// other does not count.
void drop_what_contradicts(const rondo_config_t &caller, Settings &settings) {
  if (settings.kernel != RONDO_KERNEL_LOAD_STORE) return;
  if (caller.kernel == RONDO_KERNEL_LOAD_STORE && caller.protocol == RONDO_PROTOCOL_AUTO)
    settings.protocol = RONDO_PROTOCOL_AUTO;
  if (caller.kernel == RONDO_KERNEL_AUTO && caller.protocol != RONDO_PROTOCOL_AUTO)
    settings.kernel = RONDO_KERNEL_AUTO;
}

/// 0 leaves `target`.
template <class Target>
Result<void> take_number(Target &target, Target value, Target least, Target most, const char *what) {
  if (value == 0) return {};
  if (value < least || value > most)
    return invalid_argument("rondo_config_t." + std::string(what) + " is " + std::to_string(value) +
                            "; it takes 0 (automatic) or " + std::to_string(least) + " to " + std::to_string(most));
  target = value;
  return {};
}

Result<void> check_device(int32_t device) {
  if (device == RONDO_DEVICE_HOST || device >= 0) return {};
  return invalid_argument("rondo_config_t.device is " + std::to_string(device) +
                          "; it takes RONDO_DEVICE_HOST or a CUDA device's number");
}

}  // namespace

Result<Settings> merge(const rondo_config_t *caller, const Config &environment) {
  Settings settings{environment};
  if (caller == nullptr) return settings;
  RONDO_TRY(check_size(*caller));
  RONDO_TRY(check_device(caller->device));
  settings.device = caller->device;
  RONDO_TRY(take_name(settings.algorithm, caller->algorithm, rondo_algorithm_string, "algorithm"));
  RONDO_TRY(take_name(settings.protocol, caller->protocol, rondo_protocol_string, "protocol"));
  RONDO_TRY(take_name(settings.kernel, caller->kernel, rondo_kernel_string, "kernel"));
  drop_what_contradicts(*caller, settings);
  RONDO_TRY(take_number<uint32_t>(settings.channels, caller->channels, 1, channels_max, "channels"));
  RONDO_TRY(take_number<uint64_t>(settings.chunk_bytes, caller->chunk_bytes, chunk_bytes_min, chunk_bytes_max,
                                  "chunk_bytes"));
  if (caller->timeout_ms != 0) settings.timeout_ns = caller->timeout_ms * ns_per_ms;
  if (caller->init_timeout_ms != 0) settings.init_timeout_ns = caller->init_timeout_ms * ns_per_ms;
  if (caller->network_interface != nullptr && *caller->network_interface != '\0')
    settings.network_interface = caller->network_interface;
  if (caller->size < size_second_version) return settings;
  RONDO_TRY(
      take_name(settings.device_executor, caller->device_executor, rondo_device_executor_string, "device_executor"));
  RONDO_TRY(take_number<uint32_t>(settings.max_ctas, caller->max_ctas, 1, max_ctas_max, "max_ctas"));
  return settings;
}

}  // namespace rondo
