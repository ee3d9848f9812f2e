// SPDX-License-Identifier: Apache-2.0
// A program with this policy lacks the order of one site, RONDO_BREAK_ORDER.
#pragma once

#include "src/proto/memory_policy.h"

namespace rondo::memory {

struct Policy : PlainPolicy {
  [[nodiscard]] static constexpr bool is_kept(Site site) { return site != Site::RONDO_BREAK_ORDER; }
};

}  // namespace rondo::memory
