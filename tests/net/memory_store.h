// SPDX-License-Identifier: Apache-2.0
// This file has a store at which both ends of a network in one process meet.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "src/bootstrap/store/store.h"

namespace rondo::net_test {

/// A store between threads of one process. Published values stay readable.
class MemoryStore final : public Store {
 public:
  Result<void> put(std::string_view key, std::span<const std::byte> value, uint64_t deadline_ns) override;
  Result<Bytes> get(std::string_view key, uint64_t deadline_ns) override;
  Result<std::optional<Bytes>> try_get(std::string_view key) override;
  Result<std::vector<Bytes>> gather(std::string_view key, uint32_t rank, uint32_t count,
                                    std::span<const std::byte> value, uint64_t deadline_ns) override;

  [[nodiscard]] Bytes said(const std::string &key, uint32_t rank);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::map<uint32_t, Bytes>> said_;
};

}  // namespace rondo::net_test
