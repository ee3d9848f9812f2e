// SPDX-License-Identifier: Apache-2.0
// This file hands descriptors over between processes by an abstract unix socket (no file, gone with its owner) and
// SCM_RIGHTS. The socket's name and the token are random and travel through the authenticated store. All users of the
// host can read the name in /proc. So the server turns away a peer of another user, or of a process that it does not
// await, before it reads anything from it. It serves the others side by side; the oldest silent one gives way to a new
// one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/result.h"
#include "src/base/unique_handle.h"

namespace rondo {

/// A ticket has what a receiver must know to fetch the descriptor. The store carries it unchanged.
struct FdTicket {
  std::array<char, 32> name{};   ///< hexadecimal, without the leading NUL of the abstract name space
  std::array<char, 32> token{};  ///< hexadecimal
};
static_assert(sizeof(FdTicket) == 64);

/// A wait calls this every few milliseconds, and ends with its failure; null if there is nothing to check.
using WaitCheck = std::function<Result<void>()>;

class FdServer {
 public:
  /// Listens under a fresh random name. RONDO_ERROR_OUT_OF_RESOURCES: there is no descriptor to serve others with.
  [[nodiscard]] static Result<FdServer> listen();
  [[nodiscard]] const FdTicket &ticket() const { return ticket_; }
  /// Gives `descriptors` to each of these processes, then returns; without any, to every process of this user, until
  /// stop(). RONDO_ERROR_TIMEOUT names the processes that did not fetch it.
  Result<void> serve(const std::vector<int> &descriptors, const std::vector<uint64_t> &processes, uint64_t deadline_ns,
                     const WaitCheck &check = {});
  /// Ends serve(), now or when it is called, as if all processes had fetched theirs. Any thread may call it.
  void stop() const;

 private:
  FdServer(FileDescriptor socket, FileDescriptor spare, const FdTicket &ticket)
      : socket_(std::move(socket)), spare_(std::move(spare)), ticket_(ticket) {}
  FileDescriptor socket_;
  FileDescriptor spare_;  ///< kept back for one process at a time, where no other is left
  FdTicket ticket_;
};

/// Gives descriptors to each process that has the ticket, on a thread of its own, until it is destroyed.
class FdOffer {
 public:
  /// They stay the caller's, open as long as this.
  [[nodiscard]] static Result<std::unique_ptr<FdOffer>> make(std::vector<int> descriptors, uint64_t deadline_ns);
  [[nodiscard]] static Result<std::unique_ptr<FdOffer>> make(FileDescriptor descriptor, uint64_t deadline_ns);
  FdOffer(const FdOffer &) = delete;
  FdOffer &operator=(const FdOffer &) = delete;
  ~FdOffer();
  [[nodiscard]] const FdTicket &ticket() const { return server_.ticket(); }

 private:
  FdOffer(FdServer server, std::vector<int> descriptors)
      : server_(std::move(server)), descriptors_(std::move(descriptors)) {}
  Result<void> start(uint64_t deadline_ns);

  FdServer server_;
  std::vector<int> descriptors_;
  FileDescriptor own_;  ///< of them, where it is this object's
  std::atomic<bool> ended_{false};
  std::thread thread_;  ///< last: it uses the others
};

/// The taker's side, which knows how many there are. RONDO_ERROR_REMOTE: the owner is gone, or no longer gives them.
[[nodiscard]] Result<std::vector<FileDescriptor>> take_descriptors(const FdTicket &ticket, size_t count,
                                                                   uint64_t deadline_ns, const WaitCheck &check = {});
/// Takes one descriptor; otherwise equal to take_descriptors().
[[nodiscard]] Result<FileDescriptor> take_descriptor(const FdTicket &ticket, uint64_t deadline_ns,
                                                     const WaitCheck &check = {});

}  // namespace rondo
