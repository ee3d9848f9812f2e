// SPDX-License-Identifier: Apache-2.0
// This class keeps an id for growing a communicator, on the rank that made the id. Any thread may call it.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "src/bootstrap/launch/unique_id.h"

namespace rondo {

/// An id, and the nonce from which the old ranks derive it.
struct GrowId {
  UniqueId id;
  uint64_t nonce = 0;
};

class GrowIds {
 public:
  GrowIds() = default;
  GrowIds(const GrowIds &) = delete;
  GrowIds &operator=(const GrowIds &) = delete;
  ~GrowIds();  ///< ends the server of an id that was not used

  /// Keeps and returns the id that `make` returns. RONDO_ERROR_INVALID_USAGE: an earlier id is not used yet.
  template <class Make>
  [[nodiscard]] Result<GrowId> add(Make &&make) {
    const std::lock_guard lock(mutex_);
    RONDO_TRY(check_unused());
    RONDO_TRY_ASSIGN(GrowId made, make());
    kept_ = made;
    return made;
  }
  /// Returns the id and forgets it. Returns none if no id was made or the user has discarded it.
  [[nodiscard]] std::optional<GrowId> take();

 private:
  [[nodiscard]] Result<void> check_unused() const;

  std::mutex mutex_;
  std::optional<GrowId> kept_;
};

}  // namespace rondo
