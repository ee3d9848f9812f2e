// SPDX-License-Identifier: Apache-2.0
// This class numbers a rank's shrinks and grows of a communicator, and its notes. Any thread may call the functions.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "src/core/regroup_note.h"

namespace rondo {

class RegroupLog {
 public:
  struct Entry {
    uint64_t number = 0;      ///< number of the call's note, from 1
    uint32_t occurrence = 0;  ///< count of the calls with equal Regrouping::counted(), from 1
  };

  /// Begins a call. Returns nothing while an earlier call runs. The caller must call end() later.
  [[nodiscard]] std::optional<Entry> begin(const Regrouping &wanted) {
    const std::lock_guard lock(mutex_);
    if (running_) return std::nullopt;
    const uint32_t occurrence = ++occurrences_[wanted.counted()];  // may throw; then no call runs
    running_ = true;
    return Entry{++number_, occurrence};
  }
  /// Raises the count of the running call to `occurrence`, because another rank has called more often.
  void catch_up(const Regrouping &wanted, uint32_t occurrence) {
    const std::lock_guard lock(mutex_);
    occurrences_[wanted.counted()] = occurrence;
  }
  /// Returns the revision of this rank's next note, whether or not the note is about a shrink or a grow.
  [[nodiscard]] uint64_t next_revision() {
    const std::lock_guard lock(mutex_);
    return ++revision_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    running_ = false;
  }
  [[nodiscard]] bool is_running() {
    const std::lock_guard lock(mutex_);
    return running_;
  }

 private:
  std::mutex mutex_;
  bool running_ = false;
  uint64_t number_ = 0;
  uint64_t revision_ = 0;
  std::map<Regrouping, uint32_t> occurrences_;
};

}  // namespace rondo
