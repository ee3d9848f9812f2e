// SPDX-License-Identifier: Apache-2.0
#include "tests/net/memory_store.h"

#include <chrono>

#include "src/base/clock.h"

namespace rondo::net_test {

Result<void> MemoryStore::put(std::string_view key, std::span<const std::byte> value, uint64_t deadline_ns) {
  return gather(key, 0, 1, value, deadline_ns).ok() ? Result<void>() : Error{RONDO_ERROR_TIMEOUT, "late"};
}

Result<Bytes> MemoryStore::get(std::string_view key, uint64_t) {
  return said(std::string(key), 0);
}

Result<std::optional<Bytes>> MemoryStore::try_get(std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto found = said_.find(std::string(key));
  return found != said_.end() ? std::optional<Bytes>(found->second[0]) : std::optional<Bytes>();
}

Result<std::vector<Bytes>> MemoryStore::gather(std::string_view key, uint32_t rank, uint32_t count,
                                                std::span<const std::byte> value, uint64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  auto &parts = said_[std::string(key)];
  parts[rank].assign(value.begin(), value.end());
  changed_.notify_all();
  const auto patience = std::chrono::nanoseconds(deadline_ns > now_ns() ? deadline_ns - now_ns() : 0);
  if (!changed_.wait_for(lock, patience, [&] { return parts.size() == count; }))
    return Error{RONDO_ERROR_TIMEOUT, "not all came"};
  std::vector<Bytes> all;
  for (const auto &[of, part] : parts) all.push_back(part);
  return all;
}

Bytes MemoryStore::said(const std::string &key, uint32_t rank) {
  const std::lock_guard lock(mutex_);
  return said_[key][rank];
}

}  // namespace rondo::net_test
