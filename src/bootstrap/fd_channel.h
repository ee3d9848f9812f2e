// SPDX-License-Identifier: Apache-2.0
// This file passes descriptors between processes over an abstract unix socket with SCM_RIGHTS. Such a socket has no
// file, and disappears with its owner. Its name and its token are random. Processes get both from the authenticated
// store. All users of the host can read the name in /proc. So before the server reads any data of a peer, it rejects a
// peer of another user and a process that it does not expect. It serves several peers at a time. If there are too many,
// a new peer replaces the oldest one that has sent nothing.
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

/// The name and token that a receiver needs to fetch descriptors. The store passes this object on unchanged.
struct FdTicket {
  std::array<char, 32> name{};   ///< hexadecimal, without the leading NUL of the abstract name space
  std::array<char, 32> token{};  ///< hexadecimal
};
static_assert(sizeof(FdTicket) == 64);

/// A function that a wait calls every few milliseconds. If it returns an error, the wait ends with that error.
using WaitCheck = std::function<Result<void>()>;

class FdServer {
 public:
  /// Listens under a new random name. RONDO_ERROR_OUT_OF_RESOURCES: no descriptor is free.
  [[nodiscard]] static Result<FdServer> listen();
  [[nodiscard]] const FdTicket &ticket() const { return ticket_; }
  /// Passes `descriptors` to each of `processes`, then returns. If `processes` is empty, passes them to every process
  /// of this user that asks, until stop(). RONDO_ERROR_TIMEOUT names the processes that did not fetch them.
  Result<void> serve(const std::vector<int> &descriptors, const std::vector<uint64_t> &processes, uint64_t deadline_ns,
                     const WaitCheck &check = {});
  /// Ends this and every later serve() as if all processes had fetched the descriptors. Any thread may call it.
  void stop() const;

 private:
  FdServer(FileDescriptor socket, FileDescriptor spare, const FdTicket &ticket)
      : socket_(std::move(socket)), spare_(std::move(spare)), ticket_(ticket) {}
  FileDescriptor socket_;
  FileDescriptor spare_;  ///< freed to accept one process at a time if no other descriptor is free
  FdTicket ticket_;
};

/// Passes descriptors to each process that has the ticket, on its own thread, until it is destroyed.
class FdOffer {
 public:
  /// Makes the offer. The caller keeps the descriptors open as long as the offer exists.
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
  FileDescriptor own_;  ///< one of the descriptors, if this object owns it
  std::atomic<bool> ended_{false};
  std::thread thread_;  ///< last, because it uses the other members
};

/// Takes `count` descriptors from the owner. RONDO_ERROR_REMOTE: the owner is gone, or has ended the offer.
[[nodiscard]] Result<std::vector<FileDescriptor>> take_descriptors(const FdTicket &ticket, size_t count,
                                                                   uint64_t deadline_ns, const WaitCheck &check = {});
/// Takes one descriptor, as take_descriptors() does.
[[nodiscard]] Result<FileDescriptor> take_descriptor(const FdTicket &ticket, uint64_t deadline_ns,
                                                     const WaitCheck &check = {});

}  // namespace rondo
