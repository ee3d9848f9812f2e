// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/exchange/packing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace rondo::train {
namespace {

constexpr size_t alignment = 64;

size_t aligned(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// Returns the bits of the magnitude, which can be compared as an integer. Infinity and NaN are larger than all other
/// values, so they are always sent.
uint32_t magnitude(float value) { return std::bit_cast<uint32_t>(value) & 0x7fff'ffffu; }

/// Packs as int8. A block's scale makes its largest magnitude 127. All scales precede the elements.
class Int8Packing final : public Packing {
 public:
  size_t packed_bytes(size_t count) const override { return elements_at(count) + aligned(count); }

  void pack(float *values, size_t count, std::byte *packed) override {
    std::byte *const elements = packed + elements_at(count);
    for (size_t begin = 0; begin < count; begin += block) {
      const size_t end = std::min(begin + block, count);
      uint32_t most = 0;
      for (size_t at = begin; at < end; ++at) most = std::max(most, magnitude(values[at]));
      const float scale = std::bit_cast<float>(most) / steps;
      std::memcpy(packed + begin / block * sizeof scale, &scale, sizeof scale);
      pack_block(values + begin, end - begin, scale, elements + begin);
    }
  }

  void add(const std::byte *packed, size_t count, float *sums) const override {
    const std::byte *const elements = packed + elements_at(count);
    for (size_t begin = 0; begin < count; begin += block) {
      float scale = 0;
      std::memcpy(&scale, packed + begin / block * sizeof scale, sizeof scale);
      const size_t end = std::min(begin + block, count);
      for (size_t at = begin; at < end; ++at)
        sums[at] += scale * static_cast<float>(static_cast<int8_t>(elements[at]));
    }
  }

 private:
  static constexpr size_t block = 256;
  static constexpr float steps = 127.0f;

  static size_t elements_at(size_t count) { return aligned((count + block - 1) / block * sizeof(float)); }

  /// Packs a block. If the scale is not finite, no rank gets a finite value from the block.
  static void pack_block(float *values, size_t count, float scale, std::byte *elements) {
    const bool usable = std::isfinite(scale) && scale >= std::numeric_limits<float>::min();
    const float factor = usable ? 1.0f / scale : 0.0f;
    for (size_t at = 0; at < count; ++at) {
      const float scaled = usable ? values[at] * factor : 0.0f;
      const auto element = static_cast<int32_t>(scaled + std::copysign(0.5f, scaled));  // to nearest, from -127 to 127
      elements[at] = static_cast<std::byte>(static_cast<int8_t>(element));
      values[at] -= scale * static_cast<float>(element);
    }
    if (!std::isfinite(scale)) std::fill_n(elements, count, std::byte{1});
  }
};

/// Packs the largest magnitudes, as indices and then values. Of equal magnitudes, the first is taken.
class TopPacking final : public Packing {
 public:
  explicit TopPacking(double share) : share_(share) {}

  size_t packed_bytes(size_t count) const override { return aligned(kept(count) * 2 * sizeof(uint32_t)); }

  void pack(float *values, size_t count, std::byte *packed) override {
    const size_t wanted = kept(count);
    magnitudes_.resize(count);
    std::transform(values, values + count, magnitudes_.begin(), magnitude);
    const auto last = magnitudes_.begin() + static_cast<ptrdiff_t>(wanted - 1);
    std::nth_element(magnitudes_.begin(), last, magnitudes_.end(), std::greater<>());
    const uint32_t least = *last;
    const auto above = static_cast<size_t>(std::count_if(magnitudes_.begin(), last, [=](uint32_t value) {
      return value > least;
    }));
    size_t equals = wanted - above, done = 0;
    for (size_t at = 0; at < count && done < wanted; ++at) {
      const uint32_t size = magnitude(values[at]);
      if (size < least || (size == least && equals == 0)) continue;
      if (size == least) --equals;
      const auto place = static_cast<uint32_t>(at);
      std::memcpy(packed + done * sizeof place, &place, sizeof place);
      std::memcpy(packed + (wanted + done) * sizeof(float), values + at, sizeof(float));
      values[at] = 0;
      ++done;
    }
  }

  void add(const std::byte *packed, size_t count, float *sums) const override {
    const size_t wanted = kept(count);
    for (size_t index = 0; index < wanted; ++index) {
      uint32_t place = 0;
      float value = 0;
      std::memcpy(&place, packed + index * sizeof place, sizeof place);
      std::memcpy(&value, packed + (wanted + index) * sizeof value, sizeof value);
      if (place < count) sums[place] += value;
    }
  }

 private:
  size_t kept(size_t count) const {
    return std::clamp<size_t>(static_cast<size_t>(std::ceil(share_ * static_cast<double>(count))), 1, count);
  }

  const double share_;
  std::vector<uint32_t> magnitudes_;
};

}  // namespace

std::unique_ptr<Packing> make_packing(const Compression &compression) {
  if (compression.method == Method::top_k) return std::make_unique<TopPacking>(compression.share);
  return std::make_unique<Int8Packing>();
}

}  // namespace rondo::train
