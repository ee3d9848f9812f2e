// SPDX-License-Identifier: Apache-2.0
// A store for tests in which a rank gives up before it passes a message on. The store learns the reason a moment
// later.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "src/bootstrap/store/store.h"

namespace rondo_test {

constexpr uint64_t other_process = 1;  // not a process of this test

/// The store of two ranks, one of this process and one of another. Only a later check of the store reports why the
/// other rank failed.
class LateStore final : public rondo::Store {
 public:
  explicit LateStore(int looks_before) : looks_before_(looks_before) {}
  rondo::Result<void> put(std::string_view, std::span<const std::byte> value, uint64_t) override {
    put_.assign(value.begin(), value.end());
    return {};
  }
  rondo::Result<rondo::Bytes> get(std::string_view, uint64_t) override { return put_; }
  rondo::Result<std::optional<rondo::Bytes>> try_get(std::string_view) override { return std::optional(put_); }
  rondo::Result<std::vector<rondo::Bytes>> gather(std::string_view, uint32_t rank, uint32_t,
                                                         std::span<const std::byte>, uint64_t) override {
    const auto own = static_cast<uint64_t>(::getpid());
    std::vector<rondo::Bytes> parts(2);
    for (uint32_t each = 0; each < 2; ++each) {
      const auto bytes = std::as_bytes(std::span(each == rank ? &own : &other_process, 1));
      parts[each].assign(bytes.begin(), bytes.end());
    }
    return parts;
  }
  rondo::Result<void> check() override {
    if (looks_before_-- > 0) return {};
    return rondo::Error{RONDO_ERROR_OUT_OF_RESOURCES, "rank 0 failed: too few descriptors", -1, 0};
  }
  [[nodiscard]] const rondo::Bytes &what_was_put() const { return put_; }
  void will_give(const rondo::Bytes &value) { put_ = value; }

 private:
  int looks_before_;
  rondo::Bytes put_;
};

}  // namespace rondo_test
