// SPDX-License-Identifier: Apache-2.0
// The fuzzers of the store share this file. It turns a fuzzer's bytes into choices and pieces of data. It also has a
// check that ends the run.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "src/bootstrap/bytes.h"

namespace rondo::fuzz {

/// Ends the run if `holds` is false. The fuzzer reports this as a finding.
inline void require(bool holds, const char *what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

class Input {
 public:
  Input(const uint8_t *data, size_t bytes) : rest_(std::as_bytes(std::span(data, bytes))) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }
  [[nodiscard]] uint8_t byte() { return rest_.empty() ? uint8_t{0} : std::to_integer<uint8_t>(take(1)[0]); }
  [[nodiscard]] ByteView take(size_t bytes) {
    const ByteView taken = rest_.first(std::min(bytes, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  ByteView rest_;
};

}  // namespace rondo::fuzz
