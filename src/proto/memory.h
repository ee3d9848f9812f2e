// SPDX-License-Identifier: Apache-2.0
// The only file of src/proto with atomics. Shared words are plain integers in memory that several ranks (threads,
// processes, later a device) map; they are touched through these functions only. There are no free-standing fences:
// order rides on the flag or counter itself, which ThreadSanitizer can check.
//
// `sync` loads and stores are sequentially consistent: a rank that is about to sleep stores "I sleep" and then looks at
// the flags once more, while its peer stores a flag and then looks whether it sleeps; one of the two must see the
// other.
#pragma once

#include <atomic>
#include <cstdint>

namespace rondo::memory {

[[nodiscard]] inline uint64_t load_acquire(const uint64_t &word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t &>(word)).load(std::memory_order_acquire);
}
[[nodiscard]] inline uint64_t load_relaxed(const uint64_t &word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t &>(word)).load(std::memory_order_relaxed);
}
[[nodiscard]] inline uint64_t load_sync(const uint64_t &word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t &>(word)).load(std::memory_order_seq_cst);
}
inline void store_relaxed(uint64_t &word, uint64_t value) {
  std::atomic_ref<uint64_t>(word).store(value, std::memory_order_relaxed);
}
inline void store_release(uint64_t &word, uint64_t value) {
  std::atomic_ref<uint64_t>(word).store(value, std::memory_order_release);
}
inline void store_sync(uint64_t &word, uint64_t value) {
  std::atomic_ref<uint64_t>(word).store(value, std::memory_order_seq_cst);
}

/// Stores `value` if the word is `expected`, sync. True: it was, and everything before is published.
[[nodiscard]] inline bool exchange_if(uint64_t &word, uint64_t expected, uint64_t value) {
  return std::atomic_ref<uint64_t>(word).compare_exchange_strong(expected, value, std::memory_order_seq_cst);
}

}  // namespace rondo::memory
