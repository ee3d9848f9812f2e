// SPDX-License-Identifier: Apache-2.0
// This policy leaves out one barrier or release of the program, which RONDO_BREAK_ORDER names.
#pragma once

#include "src/proto/memory_policy.h"

namespace rondo::memory {

struct Policy : PlainPolicy {
  [[nodiscard]] static constexpr bool is_kept(Site site) { return site != Site::RONDO_BREAK_ORDER; }
};

}  // namespace rondo::memory
