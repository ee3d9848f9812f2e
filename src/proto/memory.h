// SPDX-License-Identifier: Apache-2.0
// Only this file of src/proto has atomics. Shared words are plain integers in memory that several ranks (threads,
// processes, devices) map, and only these functions access them. There are no separate fences: the access of the flag
// or counter itself gives the order, which ThreadSanitizer can check. The only exception is in class Releases.
//
// `sync` loads and stores are sequentially consistent. A rank that is about to sleep stores "I sleep", and then checks
// the flags once more. Its peer stores a flag, and then checks whether the rank sleeps. At least one of the two sees
// the other's store. Ranks on devices do not sleep, so on a device acquire and release suffice.
//
// On a device the scope is the system, except in add_among(). The other side may be a thread of another block, of
// another device, or of the host. (docs/gpu-executors.md has the PTX.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/base/host_device.h"
#include "src/proto/memory_policy.h"

#if defined(__CUDACC__)
#include <cuda/atomic>
#else
#include <atomic>
#endif
#if defined(RONDO_MEMORY_POLICY)
#include RONDO_MEMORY_POLICY
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

#if !defined(RONDO_MEMORY_POLICY)
using Policy = PlainPolicy;
#endif
[[nodiscard]] RONDO_HD constexpr bool is_kept(Site site) { return site == Site::none || Policy::is_kept(site); }
/// Notes an access. Each function below calls it for its own accesses.
RONDO_HD inline void note(Access access, const void *at, size_t bytes) { Policy::note(access, at, bytes); }
/// Notes that a thread begins a batch: loads that are in flight together.
RONDO_HD inline void note_batch() { Policy::note_batch(); }

[[nodiscard]] RONDO_HD inline uint64_t load_acquire(const uint64_t &word) {
  note(Access::flag_acquire, &word, sizeof word);
  return Reference<uint64_t>(const_cast<uint64_t &>(word)).load(acquire);
}
[[nodiscard]] RONDO_HD inline uint64_t load_relaxed(const uint64_t &word) {
  note(Access::flag_load, &word, sizeof word);
  return Reference<uint64_t>(const_cast<uint64_t &>(word)).load(relaxed);
}
[[nodiscard]] RONDO_HD inline uint64_t load_sync(const uint64_t &word) {
  return Reference<uint64_t>(const_cast<uint64_t &>(word)).load(sequential);
}
/// Loads a flag or counter of a peer. With `wake`, ranks of the communicator may sleep, so the load is sync.
[[nodiscard]] RONDO_HD inline uint64_t load_flag(const uint64_t &word, bool wake) {
  return wake ? load_sync(word) : load_acquire(word);
}
RONDO_HD inline void store_relaxed(uint64_t &word, uint64_t value) {
  note(Access::store, &word, sizeof word);
  Reference<uint64_t>(word).store(value, relaxed);
}
template <Site site = Site::none>
RONDO_HD inline void store_release(uint64_t &word, uint64_t value) {
  note(Access::store, &word, sizeof word);
  Reference<uint64_t>(word).store(value, is_kept(site) ? release : relaxed);
}
/// Several consecutive releases of one thread. All data that they publish are written before the first release. On a
/// device, one fence serves all of them: in PTX, each later relaxed store of that thread forms a release pattern with
/// the fence. On a host, each store is a release, since ThreadSanitizer does not understand fences.
class Releases {
 public:
  template <Site site>
  RONDO_HD void store(uint64_t &word, uint64_t value) {
#if defined(__CUDA_ARCH__)
    if (!fenced_) asm volatile("fence.acq_rel.sys;" : : : "memory");
    Reference<uint64_t>(word).store(value, relaxed);
#else
    note(Access::store, &word, sizeof word);
    Reference<uint64_t>(word).store(value, is_kept(site) ? release : relaxed);
#endif
    fenced_ = true;
  }

 private:
  bool fenced_ = false;
};
RONDO_HD inline void store_sync(uint64_t &word, uint64_t value) { Reference<uint64_t>(word).store(value, sequential); }

/// Stores `value` if the word equals `expected`. Returns whether it did. It is sync, so it publishes earlier stores.
[[nodiscard]] RONDO_HD inline bool exchange_if(uint64_t &word, uint64_t expected, uint64_t value) {
  note(Access::store, &word, sizeof word);
  return Reference<uint64_t>(word).compare_exchange_strong(expected, value, sequential);
}

/// Adds, and returns the old value. It is acquire and release: the last thread to add sees the earlier threads' work.
template <Site site = Site::none>
[[nodiscard]] RONDO_HD inline uint64_t add(uint64_t &word, uint64_t value) {
  note(Access::store, &word, sizeof word);
  return Reference<uint64_t>(word).fetch_add(value, is_kept(site) ? acquire_release : relaxed);
}

/// Stores a value at the end of a kernel that has not failed. The kernel publishes nothing afterwards. On a device the
/// store needs no order, since all writes of a kernel are visible once the kernel has ended. On a host the store is a
/// release, so that ThreadSanitizer sees the order.
template <Site site>
RONDO_HD inline void store_at_end(uint64_t &word, uint64_t value) {
#if defined(__CUDA_ARCH__)
  store_relaxed(word, value);
#else
  store_release<site>(word, value);
#endif
}
template <Site site>
[[nodiscard]] RONDO_HD inline uint64_t add_at_end(uint64_t &word, uint64_t value) {
#if defined(__CUDA_ARCH__)
  uint64_t before;  // not by cuda::atomic_ref, which would add code for shared memory
  asm volatile("atom.relaxed.sys.global.add.u64 %0, [%1], %2;"
               : "=l"(before)
               : "l"(__cvta_generic_to_global(&word)), "l"(value)
               : "memory");
  return before;
#else
  return add<site>(word, value);
#endif
}

/// Adds as add() does. With `on_one_device`, all adders are threads of one process's kernels on one device. For them
/// the scope of the device suffices, because a kernel's end orders its accesses before later work of its stream.
template <Site site>
[[nodiscard]] RONDO_HD inline uint64_t add_among(uint64_t &word, uint64_t value, [[maybe_unused]] bool on_one_device) {
#if defined(__CUDA_ARCH__)
  if (on_one_device)
    return cuda::atomic_ref<uint64_t, cuda::thread_scope_device>(word).fetch_add(value, acquire_release);
#endif
  return add<site>(word, value);
}

/// Two adjacent words, 16-byte aligned. An access is two relaxed scalar accesses, without an order between them. A
/// device uses one instruction for both.
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
  note(Access::flag_load, words, sizeof(Pair));
  return {Reference<uint64_t>(const_cast<uint64_t &>(words[0])).load(relaxed),
          Reference<uint64_t>(const_cast<uint64_t &>(words[1])).load(relaxed)};
#endif
}
RONDO_HD inline void store_pair_relaxed(uint64_t *words, Pair pair) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.sys.v2.b64 [%0], {%1, %2};" : : "l"(words), "l"(pair.first), "l"(pair.second) : "memory");
#else
  note(Access::store, words, sizeof(Pair));
  Reference<uint64_t>(words[0]).store(pair.first, relaxed);
  Reference<uint64_t>(words[1]).store(pair.second, relaxed);
#endif
}

/// Stores the first pair of a message. With `orders`, the store of its first word is a release, and the load that reads
/// this value is an acquire. So accesses before the store precede accesses after that load. Without `orders`, a device
/// needs no release: between its own ranks the ends of kernels give the order (docs/protocols.md). In code for the
/// host, the store is always a release, so that ThreadSanitizer sees the order.
template <Site site>
RONDO_HD inline void store_first_pair(uint64_t *words, Pair pair, [[maybe_unused]] bool orders) {
#if defined(__CUDA_ARCH__)
  if (!orders) return store_pair_relaxed(words, pair);
  asm volatile("st.release.sys.v2.b64 [%0], {%1, %2};" : : "l"(words), "l"(pair.first), "l"(pair.second) : "memory");
#else
  note(Access::store, words, sizeof(Pair));
  Reference<uint64_t>(words[1]).store(pair.second, relaxed);
  Reference<uint64_t>(words[0]).store(pair.first, is_kept(site) ? release : relaxed);  // pairs with load_first_pair()
#endif
}
[[nodiscard]] RONDO_HD inline Pair load_first_pair(const uint64_t *words, bool orders) {
#if defined(__CUDA_ARCH__)
  if (!orders) return load_pair_relaxed(words);
  Pair pair;
  asm volatile("ld.acquire.sys.v2.b64 {%0, %1}, [%2];" : "=l"(pair.first), "=l"(pair.second) : "l"(words) : "memory");
  return pair;
#else
  note(orders ? Access::flag_acquire : Access::flag_load, words, sizeof(Pair));
  const uint64_t first = Reference<uint64_t>(const_cast<uint64_t &>(words[0])).load(acquire);  // pairs with its store
  return {first, Reference<uint64_t>(const_cast<uint64_t &>(words[1])).load(relaxed)};
#endif
}

/// 16 bytes, 16-byte aligned, that no other thread accesses at the same time. An access is plain, and on a device one
/// instruction. For a struct of other types, the device's compiler would make several narrower accesses.
struct alignas(16) Vector {
  uint32_t words[4];
};
[[nodiscard]] RONDO_HD inline Vector load_vector(const std::byte *at) {
  Vector vector;
#if defined(__CUDA_ARCH__)
  // This load needs no memory clobber to follow acquires and votes: all are volatile (docs/gpu-executors.md).
  asm volatile("ld.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(vector.words[0]), "=r"(vector.words[1]), "=r"(vector.words[2]), "=r"(vector.words[3])
               : "l"(at));
#else
  note(Access::load, at, sizeof vector);
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
  note(Access::store, at, sizeof vector);
  std::memcpy(__builtin_assume_aligned(at, alignof(Vector)), &vector, sizeof vector);
#endif
}

}  // namespace rondo::memory
