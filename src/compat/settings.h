// SPDX-License-Identifier: Apache-2.0
// This file turns the caller's ncclConfig_t and the environment into Rondo's configuration of a communicator.
#pragma once

#include <cstdint>
#include <string>

#include "rondo/rondo.h"
#include "src/compat/abi.h"

namespace rondo::compat {

struct Settings {
  bool blocking = true;
  uint32_t max_ctas = 0;  ///< 0 for no limit
  std::string interfaces;  ///< in the form of RONDO_INTERFACE; if empty, Rondo chooses

  /// Returns Rondo's configuration. The result refers to this object, which must outlive it.
  [[nodiscard]] rondo_config_t config(int device) const;
};

/// Reads `config`, which may be null, and the environment. `function` begins the message of an error.
ncclResult_t read_settings(const ncclConfig_t *config, const char *function, Settings *settings);

/// Returns a variable of the environment. If it is not set or is empty, returns null.
[[nodiscard]] const char *variable(const char *name);

/// Returns the variable's number. If it is not set, or is negative or no number, returns `otherwise`.
[[nodiscard]] long number(const char *name, long otherwise);

/// Returns whether this library reads the variable of NCCL.
[[nodiscard]] bool is_parameter(const char *name);

}  // namespace rondo::compat
