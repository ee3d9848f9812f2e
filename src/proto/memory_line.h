// SPDX-License-Identifier: Apache-2.0
// Lines of 128 bytes for the protocol ll128. One thread stores and loads a line, or eight lanes on a device.
#pragma once

#include <cstdint>

#include "src/proto/memory.h"

namespace rondo::memory {

/// A line is 16 words at a multiple of 128. The last word, its mark, says to which slot and operation the 15 words of
/// payload belong. In a group, line_threads() threads side by side store or load it together; `part` is a thread's
/// place among them.
///
/// On a device they are 8 lanes of a warp, with 16 bytes each in one instruction. PTX promises nothing about the 8: to
/// its memory model a line is 16 relaxed scalars without order. That the mark does not come before its payload is a
/// fact of some devices and links (docs/protocols.md), and lines are for those only. `order` is about everything
/// else: a release publishes what the storing threads did and saw before.
///
/// They are one instruction only if the whole warp executes it together. So warp_lines() lines are stored and loaded at
/// once, by all of its lanes, which all make the same calls. `here`: this thread's line exists. The other lanes execute
/// it as well, and a predicate keeps them from memory.
///
/// Elsewhere one thread stores the payload, plain, and then the mark with a release, which loads acquire. That order
/// takes the place of the fact, so that ThreadSanitizer sees where it is missing.
inline constexpr uint32_t line_words = 16;

[[nodiscard]] RONDO_HD constexpr uint32_t line_threads() {
#if defined(__CUDA_ARCH__)
  return 8;
#else
  return 1;
#endif
}

[[nodiscard]] RONDO_HD constexpr uint32_t warp_lines() {
#if defined(__CUDA_ARCH__)
  return 32 / line_threads();
#else
  return 1;
#endif
}

/// Returns whether `one` is true of all lines that are stored or loaded at once.
[[nodiscard]] RONDO_HD inline bool all_lines(bool one) {
#if defined(__CUDA_ARCH__)
  return __all_sync(0xFFFF'FFFFu, one) != 0;
#else
  return one;
#endif
}

/// Stores a line. `word(i)` returns word i of the payload. `order` is relaxed or release.
template <Order order, Site site, class Word>
RONDO_HD inline void store_line(uint64_t *line, [[maybe_unused]] uint32_t part, const Word &word, uint64_t mark,
                                bool here) {
#if defined(__CUDA_ARCH__)
  const Pair pair{word(2 * part), part + 1 == line_threads() ? mark : word(2 * part + 1)};
  const size_t address = __cvta_generic_to_global(line + 2 * part);
  __syncwarp();  // so that one instruction stores the line
  if constexpr (order == release)
    asm volatile(
        "{\n"
        "  .reg .pred here;\n"
        "  setp.ne.u32 here, %3, 0;\n"
        "  @here st.release.sys.global.v2.b64 [%0], {%1, %2};\n"
        "}"
        :
        : "l"(address), "l"(pair.first), "l"(pair.second), "r"(static_cast<uint32_t>(here))
        : "memory");
  else
    asm volatile(
        "{\n"
        "  .reg .pred here;\n"
        "  setp.ne.u32 here, %3, 0;\n"
        "  @here st.relaxed.sys.global.v2.b64 [%0], {%1, %2};\n"
        "}"
        :
        : "l"(address), "l"(pair.first), "l"(pair.second), "r"(static_cast<uint32_t>(here))
        : "memory");
#else
  if (!here) return;
  note(Access::store, line, (line_words - 1) * sizeof *line);
  for (uint32_t index = 0; index + 1 < line_words; ++index) line[index] = word(index);
  store_release<site>(line[line_words - 1], mark);           // pairs with the acquire in load_line()
#endif
}

#if defined(__CUDA_ARCH__)
/// Loads a lane's 16 bytes of the line, by one instruction with the others'. Without `here` it returns zeros.
template <Order order>
[[nodiscard]] __device__ inline Pair load_line_part(const uint64_t *part, bool here) {
  Pair pair{0, 0};
  const size_t address = __cvta_generic_to_global(part);
  __syncwarp();  // so that one instruction loads the line
  if constexpr (order == acquire)
    asm volatile(
        "{\n"
        "  .reg .pred here;\n"
        "  setp.ne.u32 here, %3, 0;\n"
        "  @here ld.acquire.sys.global.v2.b64 {%0, %1}, [%2];\n"
        "}"
        : "+l"(pair.first), "+l"(pair.second)
        : "l"(address), "r"(static_cast<uint32_t>(here))
        : "memory");
  else
    asm volatile(
        "{\n"
        "  .reg .pred here;\n"
        "  setp.ne.u32 here, %3, 0;\n"
        "  @here ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];\n"
        "}"
        : "+l"(pair.first), "+l"(pair.second)
        : "l"(address), "r"(static_cast<uint32_t>(here))
        : "memory");
  return pair;
}
#endif

/// Loads a line. Returns its mark, or `wanted` without `here`. If the mark is `wanted`, take(i, word) has had this
/// thread's words of the payload. `order` is relaxed or acquire. The payload is of a second load, which begins when the
/// mark has been seen: results were right more often so on a device (docs/protocols.md).
template <Order order, class Take>
[[nodiscard]] RONDO_HD inline uint64_t load_line(const uint64_t *line, [[maybe_unused]] uint32_t part, uint64_t wanted,
                                                 bool here, const Take &take) {
#if defined(__CUDA_ARCH__)
  const Pair first = load_line_part<order>(line + 2 * part, here);
  const uint64_t mark = __shfl_sync(0xFFFF'FFFFu, first.second, line_threads() - 1, line_threads());
  const bool full = here && mark == wanted;
  const Pair pair = load_line_part<relaxed>(line + 2 * part, full);
  if (full) {
    take(2 * part, pair.first);
    if (part + 1 != line_threads()) take(2 * part + 1, pair.second);
  }
  return here ? mark : wanted;
#else
  if (!here) return wanted;
  const uint64_t mark = load_acquire(line[line_words - 1]);  // pairs with the release in store_line()
  if (mark != wanted) return mark;
  note(Access::load, line, (line_words - 1) * sizeof *line);
  for (uint32_t index = 0; index + 1 < line_words; ++index) take(index, line[index]);
  return mark;
#endif
}

}  // namespace rondo::memory
