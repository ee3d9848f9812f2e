// SPDX-License-Identifier: Apache-2.0
// This file declares what a rank knows while it makes a communicator. Every request to a transport or a device contains
// this struct, so a new setting reaches them without a change of the code in between.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/config.h"
#include "src/bootstrap/store/store.h"
#include "src/links/group_info.h"

namespace rondo {

/// The referenced objects outlive every call that takes the context. Objects that such a call makes keep no reference
/// to the context.
struct InitContext {
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  const Settings &settings;  ///< the settings of this communicator
  const GroupInfo &group;
  Secret secret{};           ///< the job's secret, or one that is derived from it
  std::string key_prefix{};  ///< prefix of this communicator's keys in the store
  uint64_t deadline_ns = 0;
};

}  // namespace rondo
