// SPDX-License-Identifier: Apache-2.0
// Hands a descriptor over between processes: an abstract unix socket (no file, gone with its owner) and SCM_RIGHTS. The
// socket's name and the token are random and travel through the authenticated store; a peer of another user is refused.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "src/base/result.h"
#include "src/base/unique_handle.h"

namespace rondo::shm {

/// What a taker must know; goes through the store as it is.
struct FdTicket {
  std::array<char, 32> name{};   ///< hexadecimal, without the leading NUL of the abstract name space
  std::array<char, 32> token{};  ///< hexadecimal
};
static_assert(sizeof(FdTicket) == 64);

class FdServer {
 public:
  /// Listens under a fresh random name.
  [[nodiscard]] static Result<FdServer> listen();
  [[nodiscard]] const FdTicket &ticket() const { return ticket_; }
  /// Gives `descriptor` to `taker_count` processes, then returns. Strangers are turned away and do not count.
  Result<void> serve(int descriptor, uint32_t taker_count, uint64_t deadline_ns);

 private:
  FdServer(FileDescriptor socket, const FdTicket &ticket) : socket_(std::move(socket)), ticket_(ticket) {}
  [[nodiscard]] bool serve_one(int client, int descriptor, uint64_t deadline_ns) const;

  FileDescriptor socket_;
  FdTicket ticket_;
};

/// The taker's side.
[[nodiscard]] Result<FileDescriptor> take_descriptor(const FdTicket &ticket, uint64_t deadline_ns);

}  // namespace rondo::shm
