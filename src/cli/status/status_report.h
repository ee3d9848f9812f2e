// SPDX-License-Identifier: Apache-2.0
// This file formats the communicators that `rondo status` has found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/core/diagnostics/recorder.h"

namespace rondo::cli {

/// The state of a communicator at one moment.
struct Look {
  const Recording *recording = nullptr;
  std::vector<RankNow> ranks;
  uint64_t at_ns = 0;
};
[[nodiscard]] Look look_at(const Recording &recording);

[[nodiscard]] std::string status_text(const std::vector<Look> &looks);
[[nodiscard]] std::string status_json(const std::vector<Look> &looks, const std::vector<Error> &refused);

}  // namespace rondo::cli
