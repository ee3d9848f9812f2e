// SPDX-License-Identifier: Apache-2.0
// This file declares what a rank knows while a communicator is made. Requests to transports and devices begin with it.
// So each of them has all settings, and a new setting needs no member on its way.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/config.h"
#include "src/bootstrap/store/store.h"
#include "src/links/group_info.h"

namespace rondo {

/// The objects that it refers to outlive the calls that take it. What these calls make keeps no reference to it.
struct InitContext {
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  const Settings &settings;  ///< in force for this communicator
  const GroupInfo &group;
  Secret secret{};           ///< of the job; or derived from it, where a request says so
  std::string key_prefix{};  ///< of this communicator's keys in the store
  uint64_t deadline_ns = 0;
};

}  // namespace rondo
