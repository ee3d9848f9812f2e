// SPDX-License-Identifier: Apache-2.0
// Lines of 128 bytes, which the protocol ll128 lives on: stored and loaded by one thread, on a device by eight lanes.
#pragma once

#include <cstdint>

#include "src/proto/memory.h"

namespace rondo::memory {

/// A line: 16 words at a multiple of 128. The last one, its mark, says whose the 15 of payload are. line_threads()
/// threads of a group, side by side, store or load it together, and all make the same calls; `part` is a thread's place
/// among them.
///
/// On a device they are 8 lanes of a warp, with 16 bytes each in one instruction. PTX promises nothing about the 8: to
/// its memory model a line is 16 relaxed scalars without order. That the mark does not come before its payload is a
/// fact of some devices and links (docs/protocol-ll128.md), and lines are for those only. `order` is about everything
/// else: a release publishes what the storing threads did and saw before.
///
/// Elsewhere one thread stores the payload, plain, and then the mark with a release, which loads acquire: an order in
/// the place of the fact, so that ThreadSanitizer sees where it is missing.
inline constexpr uint32_t line_words = 16;

[[nodiscard]] RONDO_HD constexpr uint32_t line_threads() {
#if defined(__CUDA_ARCH__)
  return 8;
#else
  return 1;
#endif
}

/// The lanes of this thread's warp that have the same line.
[[nodiscard]] RONDO_HD inline uint32_t line_lanes() {
#if defined(__CUDA_ARCH__)
  uint32_t lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return 0xFFu << (lane / line_threads() * line_threads());
#else
  return 1;
#endif
}

/// word(i): word i of the payload. `order`: relaxed or release.
template <Order order, Site site, class Word>
RONDO_HD inline void store_line(uint64_t *line, [[maybe_unused]] uint32_t part, const Word &word, uint64_t mark) {
#if defined(__CUDA_ARCH__)
  const Pair pair{word(2 * part), part + 1 == line_threads() ? mark : word(2 * part + 1)};
  const size_t address = __cvta_generic_to_global(line + 2 * part);
  __syncwarp(line_lanes());  // so that one instruction stores the line
  if constexpr (order == release)
    asm volatile("st.release.sys.global.v2.b64 [%0], {%1, %2};"
                 :
                 : "l"(address), "l"(pair.first), "l"(pair.second)
                 : "memory");
  else
    asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};"
                 :
                 : "l"(address), "l"(pair.first), "l"(pair.second)
                 : "memory");
#else
  note(Access::store, line, (line_words - 1) * sizeof *line);
  for (uint32_t index = 0; index + 1 < line_words; ++index) line[index] = word(index);
  store_release<site>(line[line_words - 1], mark);           // pairs with the acquire in load_line()
#endif
}

#if defined(__CUDA_ARCH__)
/// A lane's 16 bytes of the line, by one instruction with the others'.
template <Order order>
[[nodiscard]] __device__ inline Pair load_line_part(const uint64_t *part) {
  Pair pair;
  const size_t address = __cvta_generic_to_global(part);
  __syncwarp(line_lanes());  // so that one instruction loads the line
  if constexpr (order == acquire)
    asm volatile("ld.acquire.sys.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(pair.first), "=l"(pair.second)
                 : "l"(address)
                 : "memory");
  else
    asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(pair.first), "=l"(pair.second)
                 : "l"(address)
                 : "memory");
  return pair;
}
#endif

/// Its mark. If that is the one that is wanted, take(i, word) has had this thread's words of the payload. `order`:
/// relaxed or acquire. Lanes that come apart load a line in pieces, of which that with the mark may be the last: so the
/// payload is that of a second load, which begins when the mark has been seen. (docs/protocol-ll128.md)
template <Order order, class Take>
[[nodiscard]] RONDO_HD inline uint64_t load_line(const uint64_t *line, [[maybe_unused]] uint32_t part, uint64_t wanted,
                                                 const Take &take) {
#if defined(__CUDA_ARCH__)
  Pair pair = load_line_part<order>(line + 2 * part);
  const uint64_t mark = __shfl_sync(line_lanes(), pair.second, line_threads() - 1, line_threads());
  if (mark != wanted) return mark;
  pair = load_line_part<relaxed>(line + 2 * part);
  take(2 * part, pair.first);
  if (part + 1 != line_threads()) take(2 * part + 1, pair.second);
#else
  const uint64_t mark = load_acquire(line[line_words - 1]);  // pairs with the release in store_line()
  if (mark != wanted) return mark;
  note(Access::load, line, (line_words - 1) * sizeof *line);
  for (uint32_t index = 0; index + 1 < line_words; ++index) take(index, line[index]);
#endif
  return mark;
}

}  // namespace rondo::memory
