// SPDX-License-Identifier: Apache-2.0
// This file hashes memory to 64 bits, eight bytes at a time. It detects damage and differences, but offers no secrecy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rondo::train {

class Checksum {
 public:
  void add(const void *data, size_t bytes) {
    const auto *at = static_cast<const unsigned char *>(data);
    for (size_t done = 0; done < bytes; done += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, at + done, std::min(bytes - done, sizeof word));
      hash_ = (hash_ ^ word) * 0x9fb21c651e98df25u;
      hash_ ^= hash_ >> 29;
    }
  }
  [[nodiscard]] uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace rondo::train
