// SPDX-License-Identifier: Apache-2.0
// Store's calls as requests and replies; the class derived from this one carries them.
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
  static constexpr uint64_t farewell_ns = 1'000'000'000;  ///< for the news of a failure, and for what is under way

 private:
  /// Sends a request whose reply nobody waits for; the last one.
  virtual void post(Request request) = 0;
  /// Carries a request within the bounds to the store and returns its reply, which may be a failure. An error means
  /// that there is no reply.
  [[nodiscard]] virtual Result<Reply> carry(Request request, uint64_t deadline_ns) = 0;
  /// Returns the reply if it has arrived. Otherwise sends the request unless that was done. Does not wait. A reply to
  /// another request is dropped.
  [[nodiscard]] virtual Result<std::optional<Reply>> ask(Request request) = 0;

  [[nodiscard]] Result<Reply> exchange(Request request, Reply::Kind wanted, uint64_t deadline_ns);
};

}  // namespace rondo
