// SPDX-License-Identifier: Apache-2.0
// This file writes and reads little-endian numbers and byte strings in buffers. Once a read has run out of bytes, all
// later reads of the same reader fail, too.
#pragma once

#include <concepts>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/bootstrap/store/store.h"

namespace rondo {

using ByteView = std::span<const std::byte>;

[[nodiscard]] inline ByteView bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte *>(text.data()), text.size()};
}

[[nodiscard]] inline std::string text_of(ByteView bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

[[nodiscard]] inline std::string hexadecimal(ByteView bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<size_t>(byte >> 4)];
    text += digits[std::to_integer<size_t>(byte & std::byte{15})];
  }
  return text;
}

[[nodiscard]] inline const unsigned char *raw(const std::byte *bytes) {
  return reinterpret_cast<const unsigned char *>(bytes);
}
[[nodiscard]] inline unsigned char *raw(std::byte *bytes) { return reinterpret_cast<unsigned char *>(bytes); }

template <std::unsigned_integral T>
void append_number(Bytes &out, T value) {
  for (size_t at = 0; at < sizeof(T); ++at)
    out.push_back(static_cast<std::byte>((static_cast<uint64_t>(value) >> (8 * at)) & 0xffu));
}

inline void append_bytes(Bytes &out, ByteView bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

template <std::unsigned_integral T>
[[nodiscard]] T number_at(const std::byte *bytes) {
  uint64_t value = 0;
  for (size_t at = 0; at < sizeof(T); ++at) value |= std::to_integer<uint64_t>(bytes[at]) << (8 * at);
  return static_cast<T>(value);
}

class ByteReader {
 public:
  explicit ByteReader(ByteView bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  [[nodiscard]] T number() {
    const ByteView taken = bytes(sizeof(T));
    return failed_ ? T{0} : number_at<T>(taken.data());
  }

  [[nodiscard]] ByteView bytes(size_t count) {
    if (failed_ || count > rest_.size()) {
      failed_ = true;
      return {};
    }
    const ByteView taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  [[nodiscard]] ByteView rest() { return bytes(rest_.size()); }
  [[nodiscard]] size_t rest_bytes() const { return rest_.size(); }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool complete() const { return !failed_ && rest_.empty(); }

 private:
  ByteView rest_;
  bool failed_ = false;
};

}  // namespace rondo
