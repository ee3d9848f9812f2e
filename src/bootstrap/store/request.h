// SPDX-License-Identifier: Apache-2.0
// This file turns the calls of a Store into requests and replies. A derived class transports them.
#pragma once

#include "src/bootstrap/messages.h"

namespace rondo {

class RequestStore : public Store {
 public:
  Result<void> put(std::string_view key, std::span<const std::byte> value, uint64_t deadline_ns) final;
  Result<Bytes> get(std::string_view key, uint64_t deadline_ns) final;
  Result<std::optional<Bytes>> try_get(std::string_view key) final;
  Result<std::vector<Bytes>> gather(std::string_view key, uint32_t rank, uint32_t count,
                                    std::span<const std::byte> value, uint64_t deadline_ns) final;
  void leave(const Result<void> &outcome) final;

 protected:
  static constexpr uint64_t farewell_ns = 1'000'000'000;  ///< for the report of a failure, and what is in flight

 private:
  /// Sends the last request, for whose reply nobody waits.
  virtual void post(Request request) = 0;
  /// Sends a request that is within the bounds, and returns its reply. The reply may be a failure; an error means that
  /// there is no reply.
  [[nodiscard]] virtual Result<Reply> carry(Request request, uint64_t deadline_ns) = 0;
  /// Returns the reply if it has arrived. Otherwise sends the request, unless it was sent already. Does not wait. A
  /// reply to another request is dropped.
  [[nodiscard]] virtual Result<std::optional<Reply>> ask(Request request) = 0;

  [[nodiscard]] Result<Reply> exchange(Request request, Reply::Kind wanted, uint64_t deadline_ns);
};

}  // namespace rondo
