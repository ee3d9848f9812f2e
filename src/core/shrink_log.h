// SPDX-License-Identifier: Apache-2.0
// This class numbers the shrinks of a communicator on this rank. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "src/core/shrink_note.h"

namespace rondo {

class ShrinkLog {
 public:
  struct Entry {
    uint64_t number = 0;      ///< number of the shrink, from 1
    uint32_t occurrence = 0;  ///< count of shrinks with the same set, from 1
  };

  /// Begins a shrink. Returns none while an earlier shrink runs. The caller must call end() later.
  [[nodiscard]] std::optional<Entry> begin(const RankSet &excluded) {
    const std::lock_guard lock(mutex_);
    if (running_) return std::nullopt;
    running_ = true;
    return Entry{++number_, ++occurrences_[excluded]};
  }
  [[nodiscard]] uint64_t next_revision() {
    const std::lock_guard lock(mutex_);
    return ++revision_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    running_ = false;
  }

 private:
  std::mutex mutex_;
  bool running_ = false;
  uint64_t number_ = 0;
  uint64_t revision_ = 0;
  std::map<RankSet, uint32_t> occurrences_;
};

}  // namespace rondo
