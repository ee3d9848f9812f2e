// SPDX-License-Identifier: Apache-2.0
// This store passes every call on to another store. Derived classes watch, extend or delay some of the calls.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/bootstrap/store/store.h"

namespace rondo {

class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(Store &store) : store_(store) {}
  Result<void> put(std::string_view key, std::span<const std::byte> value, uint64_t deadline_ns) override {
    return store_.put(key, value, deadline_ns);
  }
  Result<Bytes> get(std::string_view key, uint64_t deadline_ns) override { return store_.get(key, deadline_ns); }
  Result<std::optional<Bytes>> try_get(std::string_view key) override { return store_.try_get(key); }
  Result<std::vector<Bytes>> gather(std::string_view key, uint32_t rank, uint32_t count,
                                    std::span<const std::byte> value, uint64_t deadline_ns) override {
    return store_.gather(key, rank, count, value, deadline_ns);
  }
  Result<void> check() override { return store_.check(); }
  std::function<void()> set_idle_work(std::function<void()> work) override {
    return store_.set_idle_work(std::move(work));
  }
  [[nodiscard]] std::string own_address() const override { return store_.own_address(); }
  [[nodiscard]] bool is_on_this_host() const override { return store_.is_on_this_host(); }
  [[nodiscard]] bool gone() const override { return store_.gone(); }
  void leave(const Result<void> &why) override { store_.leave(why); }

 private:
  Store &store_;
};

}  // namespace rondo
