// SPDX-License-Identifier: Apache-2.0
// This file writes the defaults of each struct with a field `size`, for callers that cannot use initialiser macros.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "src/api/boundary.h"

using namespace rondo;

namespace {

/// A bound above the size of every later version. A greater argument `size` is refused as a mistake.
constexpr size_t size_max = 4096;

/// Writes the defaults into a caller's struct. `size_min` is the size of the first version. If the caller has a later
/// version than this library, its additional fields get zeros.
template <class Struct>
Result<void> write_default(Struct *target, size_t size, Struct defaults, size_t size_min, const char *name) {
  if (target == nullptr) return invalid_argument(std::string(name) + " is NULL");
  if (size < size_min || size > size_max)
    return invalid_argument("size is " + std::to_string(size) + "; give the bytes of your " + name + ", which are " +
                            std::to_string(sizeof(Struct)) + " in this version");
  defaults.size = size;
  std::memset(static_cast<void *>(target), 0, size);
  std::memcpy(static_cast<void *>(target), &defaults, std::min(size, sizeof(Struct)));
  return {};
}

}  // namespace

extern "C" {

rondo_status_t rondo_config_default(rondo_config_t *config, size_t size) noexcept {
  constexpr size_t earlier = offsetof(rondo_config_t, nonblocking);
  return at_light_boundary([&] {
    return write_default<rondo_config_t>(config, size, RONDO_CONFIG_INIT,
                                         size == earlier ? earlier : sizeof(rondo_config_t), "rondo_config_t");
  });
}

rondo_status_t rondo_comm_properties_default(rondo_comm_properties_t *properties, size_t size) noexcept {
  constexpr size_t earlier = offsetof(rondo_comm_properties_t, group_hash);
  return at_light_boundary([&] {
    return write_default<rondo_comm_properties_t>(properties, size, RONDO_COMM_PROPERTIES_INIT,
                                                  size == earlier ? earlier : sizeof(rondo_comm_properties_t),
                                                  "rondo_comm_properties_t");
  });
}

rondo_status_t rondo_plan_info_default(rondo_plan_info_t *info, size_t size) noexcept {
  return at_light_boundary([&] {
    return write_default<rondo_plan_info_t>(info, size, RONDO_PLAN_INFO_INIT, sizeof(rondo_plan_info_t),
                                            "rondo_plan_info_t");
  });
}

rondo_status_t rondo_statistics_default(rondo_statistics_t *statistics, size_t size) noexcept {
  return at_light_boundary([&] {
    return write_default<rondo_statistics_t>(statistics, size, RONDO_STATISTICS_INIT, sizeof(rondo_statistics_t),
                                             "rondo_statistics_t");
  });
}

rondo_status_t rondo_error_default(rondo_error_t *error, size_t size) noexcept {
  return at_light_boundary([&] {
    return write_default<rondo_error_t>(error, size, RONDO_ERROR_INIT, sizeof(rondo_error_t), "rondo_error_t");
  });
}

}  // extern "C"
