// SPDX-License-Identifier: Apache-2.0
// The only file of src/proto with atomics. Shared words are plain integers in memory that several ranks (threads,
// processes, devices) map; they are touched through these functions only. There are no free-standing fences:
// order rides on the flag or counter itself, which ThreadSanitizer can check.
//
// `sync` loads and stores are sequentially consistent: a rank that is about to sleep stores "I sleep" and then looks at
// the flags once more, while its peer stores a flag and then looks whether it sleeps; one of the two must see the
// other. Nobody sleeps on a device; there, acquire and release do.
//
// On a device the scope of every access is the system: the other side may be a thread of another block, of another
// device, or of the host. (docs/gpu.md has the PTX.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/base/host_device.h"

#if defined(__CUDACC__)
#include <cuda/atomic>
#else
#include <atomic>
#endif

namespace rondo::memory {

#if defined(__CUDACC__)
template <class T>
using Reference = cuda::atomic_ref<T, cuda::thread_scope_system>;
using Order = cuda::std::memory_order;
inline constexpr Order relaxed = cuda::std::memory_order_relaxed;
inline constexpr Order acquire = cuda::std::memory_order_acquire;
inline constexpr Order release = cuda::std::memory_order_release;
inline constexpr Order acquire_release = cuda::std::memory_order_acq_rel;
inline constexpr Order sequential = cuda::std::memory_order_seq_cst;
#else
template <class T>
using Reference = std::atomic_ref<T>;
using Order = std::memory_order;
inline constexpr Order relaxed = std::memory_order_relaxed;
inline constexpr Order acquire = std::memory_order_acquire;
inline constexpr Order release = std::memory_order_release;
inline constexpr Order acquire_release = std::memory_order_acq_rel;
inline constexpr Order sequential = std::memory_order_seq_cst;
#endif

/// The places on which order depends, each by its name, so that a test program can be built without one of them
/// (RONDO_BREAK_ORDER=NAME: a release becomes relaxed, a barrier is left out) and be seen to fail. (R2 of ll has none:
/// what it orders are atomic accesses only, so no test on a strongly ordered processor would miss it.)
enum class Site : uint8_t {
  none,
  simple_post,      ///< S3
  simple_release,   ///< R3
  ll_post,          ///< W2 of unit 0
  ll_post_barrier,  ///< in a group: every thread's W2 before that of unit 0
  slice_barrier,    ///< in a group: operands read and results written before the slice is published
  lane_end,         ///< the lanes of a kernel before the last one of them reports
  operation_end,    ///< that report
};

#if defined(RONDO_BREAK_ORDER)
inline constexpr Site missing_site = Site::RONDO_BREAK_ORDER;
#else
inline constexpr Site missing_site = Site::none;
#endif
[[nodiscard]] RONDO_HD constexpr bool is_kept(Site site) { return site == Site::none || site != missing_site; }

[[nodiscard]] RONDO_HD inline uint64_t load_acquire(const uint64_t &word) {
  return Reference<uint64_t>(const_cast<uint64_t &>(word)).load(acquire);
}
[[nodiscard]] RONDO_HD inline uint64_t load_relaxed(const uint64_t &word) {
  return Reference<uint64_t>(const_cast<uint64_t &>(word)).load(relaxed);
}
[[nodiscard]] RONDO_HD inline uint64_t load_sync(const uint64_t &word) {
  return Reference<uint64_t>(const_cast<uint64_t &>(word)).load(sequential);
}
/// A flag or counter of a peer. wake: ranks of the communicator may sleep.
[[nodiscard]] RONDO_HD inline uint64_t load_flag(const uint64_t &word, bool wake) {
  return wake ? load_sync(word) : load_acquire(word);
}
RONDO_HD inline void store_relaxed(uint64_t &word, uint64_t value) { Reference<uint64_t>(word).store(value, relaxed); }
template <Site site = Site::none>
RONDO_HD inline void store_release(uint64_t &word, uint64_t value) {
  Reference<uint64_t>(word).store(value, is_kept(site) ? release : relaxed);
}
RONDO_HD inline void store_sync(uint64_t &word, uint64_t value) { Reference<uint64_t>(word).store(value, sequential); }

/// Stores `value` if the word is `expected`, sync. True: it was, and everything before is published.
[[nodiscard]] RONDO_HD inline bool exchange_if(uint64_t &word, uint64_t expected, uint64_t value) {
  return Reference<uint64_t>(word).compare_exchange_strong(expected, value, sequential);
}

/// Adds; returns what was there. Acquire and release: who adds last sees what all before it did.
template <Site site = Site::none>
[[nodiscard]] RONDO_HD inline uint64_t add(uint64_t &word, uint64_t value) {
  return Reference<uint64_t>(word).fetch_add(value, is_kept(site) ? acquire_release : relaxed);
}

/// Two words side by side, 16-byte aligned, as two relaxed scalar accesses: no order and no tie between them. On a
/// device one instruction makes both.
struct Pair {
  uint64_t first;
  uint64_t second;
};
[[nodiscard]] RONDO_HD inline Pair load_pair_relaxed(const uint64_t *words) {
#if defined(__CUDA_ARCH__)
  Pair pair;
  asm volatile("ld.relaxed.sys.v2.b64 {%0, %1}, [%2];" : "=l"(pair.first), "=l"(pair.second) : "l"(words) : "memory");
  return pair;
#else
  return {load_relaxed(words[0]), load_relaxed(words[1])};
#endif
}
RONDO_HD inline void store_pair_relaxed(uint64_t *words, Pair pair) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.sys.v2.b64 [%0], {%1, %2};" : : "l"(words), "l"(pair.first), "l"(pair.second) : "memory");
#else
  store_relaxed(words[0], pair.first);
  store_relaxed(words[1], pair.second);
#endif
}

/// 16 bytes that no other thread touches meanwhile, at a multiple of 16: plain, one instruction on a device (of parts
/// of other types its compiler makes narrower accesses).
struct alignas(16) Vector {
  uint32_t words[4];
};
[[nodiscard]] RONDO_HD inline Vector load_vector(const std::byte *at) {
  Vector vector;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(vector.words[0]), "=r"(vector.words[1]), "=r"(vector.words[2]), "=r"(vector.words[3])
               : "l"(at)
               : "memory");
#else
  std::memcpy(&vector, __builtin_assume_aligned(at, alignof(Vector)), sizeof vector);
#endif
  return vector;
}
RONDO_HD inline void store_vector(std::byte *at, const Vector &vector) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(at), "r"(vector.words[0]), "r"(vector.words[1]), "r"(vector.words[2]), "r"(vector.words[3])
               : "memory");
#else
  std::memcpy(__builtin_assume_aligned(at, alignof(Vector)), &vector, sizeof vector);
#endif
}

}  // namespace rondo::memory
