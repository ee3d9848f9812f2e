// SPDX-License-Identifier: Apache-2.0
#include <emmintrin.h>

#include <algorithm>
#include <cstring>

#include "src/engine/reduction/stream_copy.h"

namespace rondo {
namespace {

constexpr size_t vector_bytes = 16;

}  // namespace

void stream_copy(std::byte *to, const std::byte *from, size_t bytes) {
  const size_t head = std::min(bytes, bytes_to_line(to));
  std::memcpy(to, from, head);
  size_t at = head;
  for (; at + cache_line_bytes <= bytes; at += cache_line_bytes) {
    for (size_t part = 0; part < cache_line_bytes; part += vector_bytes) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + at + part));
      _mm_stream_si128(reinterpret_cast<__m128i *>(to + at + part), value);
    }
  }
  _mm_sfence();  // a release store does not order streaming stores
  std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace rondo
