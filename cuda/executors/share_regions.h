// SPDX-License-Identifier: Apache-2.0
// When a rank announces, opens, withdraws and closes memory that processes share (cuda/transport/regions.h), and for
// how long it waits for the others. A header of cuda/ alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda/transport/regions.h"
#include "src/base/result.h"

namespace rondo::cuda {

/// What is asked about the other ranks.
struct RankQueries {
  std::function<std::vector<uint32_t>()> find_dead;
  std::function<std::string(uint32_t)> describe;
};

/// Announces it, and waits a moment for all ranks to open it. What cannot be shared is used as before.
void share_region(Regions &regions, uint32_t rank, const void *first, size_t bytes);
/// As Executor::unshare().
[[nodiscard]] Result<void> withdraw_region(Regions &regions, const RankQueries &ranks, const void *first);
/// All of this rank's, and of the others', when nothing of the rank is in flight any more. `close_if_quiet`: calls
/// leave() if nothing of the process is; false: something is. Some seconds later the others' are closed all the same.
void leave_regions(Regions &regions, const RankQueries &ranks, uint32_t rank,
                   const std::function<bool()> &close_if_quiet);

}  // namespace rondo::cuda
