// SPDX-License-Identifier: Apache-2.0
// This file declares a store, through which ranks find each other before they have a communicator. Keys and values are
// bytes. A key gets its value once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/cancel.h"
#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/base/unique_handle.h"

namespace rondo {

using Bytes = std::vector<std::byte>;

/// A numeric address ("127.0.0.1", "::1", "fe80::1%eth0") and a TCP port.
struct Endpoint {
  std::string host;
  uint16_t port = 0;

  bool operator==(const Endpoint &) const = default;
};

/// A secret that both ends of every store connection must know. It is never logged, and never on a command line.
struct Secret {
  std::array<std::byte, 32> bytes{};

  bool operator==(const Secret &) const = default;
};

/// A client's connection. It takes one call at a time. Deadlines are CLOCK_MONOTONIC nanoseconds (now_ns()).
class Store {
 public:
  virtual ~Store() = default;

  /// Puts `value` under `key`. An equal value may be put again; another value returns RONDO_ERROR_MISMATCH.
  virtual Result<void> put(std::string_view key, std::span<const std::byte> value, uint64_t deadline_ns) = 0;

  /// Waits until `key` was put and returns its value. RONDO_ERROR_TIMEOUT names the key.
  virtual Result<Bytes> get(std::string_view key, uint64_t deadline_ns) = 0;

  /// Returns the value of `key` if this client knows it by now. Does not wait: a call asks the store, at most twice a
  /// second, and a later call returns the value. A call about another key forgets the value.
  virtual Result<std::optional<Bytes>> try_get(std::string_view key) = 0;

  /// All-gather: puts `value` as the part of `rank` under `key`, waits for all `count` parts and returns them in rank
  /// order. RONDO_ERROR_TIMEOUT lists the ranks that are missing.
  virtual Result<std::vector<Bytes>> gather(std::string_view key, uint32_t rank, uint32_t count,
                                            std::span<const std::byte> value, uint64_t deadline_ns) = 0;

  /// Returns an error if this client knows by now that its group has failed, or that the store is gone. Does not
  /// wait.
  [[nodiscard]] virtual Result<void> check() { return {}; }

  /// Returns the numeric address of the interface by which this host reaches the store, or an empty text if no
  /// interface leads to the store.
  [[nodiscard]] virtual std::string own_address() const { return {}; }

  /// Says whether the store runs on this host. If so, own_address() does not show the route to other hosts.
  [[nodiscard]] virtual bool is_on_this_host() const { return false; }

  /// Says whether check() fails only because the store is gone. It is false if the group's failure was reported before.
  [[nodiscard]] virtual bool gone() const { return false; }

  /// Sets work that the calling thread does about every millisecond while a call of this store waits; an empty function
  /// means no work. The work must not call the store, and must not wait. A store whose calls do not wait ignores the
  /// work. Returns the previous work.
  virtual std::function<void()> set_idle_work(std::function<void()>) { return {}; }

  /// Ends a client that entered a group, because its rank no longer needs the group, or has failed. If a client ends
  /// without this call, its rank counts as dead.
  virtual void leave(const Result<void> &) {}
};

/// While this object exists, a waiting call of `store` runs `work`. The destructor restores the previous work.
class IdleWork {
 public:
  IdleWork(Store &store, std::function<void()> work)
      : store_(store), before_(store_.set_idle_work(std::move(work))) {}
  IdleWork(const IdleWork &) = delete;
  IdleWork &operator=(const IdleWork &) = delete;
  ~IdleWork() { store_.set_idle_work(std::move(before_)); }

  static constexpr uint64_t interval_ns = 1'000'000;

 private:
  Store &store_;
  std::function<void()> before_;
};

/// Checks what the store knows about the group while a rank waits for other ranks by other means than the store.
class StoreWatch {
 public:
  explicit StoreWatch(Store &store) : store_(store) {}

  /// Returns why the group can never be complete, if that is known. It may be called often, because it asks the store
  /// only every 10 ms.
  [[nodiscard]] Result<void> look() {
    const uint64_t now = now_ns();
    if (now < next_ns_) return {};
    next_ns_ = now + interval_ns;
    return store_.check();
  }

  /// Waits a moment for the store's reason after a peer's connection has ended: a rank that gives up closes its
  /// connections shortly before the store learns why.
  [[nodiscard]] Result<void> hear_why() {
    for (const uint64_t until_ns = now_ns() + rumour_ns; now_ns() < until_ns; sleep_for_ns(interval_ns))
      RONDO_TRY(store_.check());
    return {};
  }

  /// Returns why something did not arrive from rank `owner`: the store's reason if it has one, otherwise `error`.
  [[nodiscard]] Error about_owner(Error error, uint32_t owner) {
    if (error.status != RONDO_ERROR_REMOTE && error.status != RONDO_ERROR_TIMEOUT) return error;
    auto known = error.status == RONDO_ERROR_REMOTE ? hear_why() : store_.check();
    if (!known.ok()) return std::move(known).error();
    if (error.peer < 0) error.peer = static_cast<int32_t>(owner);
    return error;
  }

 private:
  static constexpr uint64_t interval_ns = 10'000'000;
  static constexpr uint64_t rumour_ns = 1'200'000'000;  ///< longer than a network's farewell, which takes a second
  Store &store_;
  uint64_t next_ns_ = 0;
};

/// Returns the T of each rank from the result of gather(), in rank order.
template <class T>
  requires std::is_trivially_copyable_v<T>
[[nodiscard]] Result<std::vector<T>> structs_of(const std::vector<Bytes> &parts) {
  std::vector<T> all(parts.size());
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank].size() != sizeof(T))
      return Error{RONDO_ERROR_MISMATCH,
                   "rank " + std::to_string(rank) + " runs another version of Rondo; give all ranks the same", -1,
                   static_cast<int32_t>(rank)};
    std::memcpy(&all[rank], parts[rank].data(), sizeof(T));
  }
  return all;
}

// These functions gather the outcomes of ranks. A rank that has failed sends its failure as its outcome, so the other
// ranks do not wait for it.

/// Gathers the outcome of every rank: bytes for the other ranks, or an error. Every rank calls this.
/// @param names  the ranks' names for people, by rank, or empty. With names, a failed rank waits for the others. All
///               ranks get the error of the lowest failed rank, and that rank's name begins the message. Without
///               names, a failed rank waits only a moment, and gets its own error.
/// @return all parts in rank order, or the lowest failed rank's error, with its status and that rank as the peer. Other
///         errors are as in Store::gather().
[[nodiscard]] Result<std::vector<Bytes>> gather_outcomes(Store &store, std::string_view key, uint32_t rank,
                                                         uint32_t count, const Result<Bytes> &own, uint64_t deadline_ns,
                                                         std::span<const std::string> names = {});

/// Gathers outcomes without bytes. Succeeds if no rank has failed.
[[nodiscard]] Result<void> check_outcomes(Store &store, std::string_view key, uint32_t rank, uint32_t count,
                                          const Result<void> &own, uint64_t deadline_ns,
                                          std::span<const std::string> names = {});

/// The rank and group of a client. The client sends them with its proof.
struct Membership {
  std::string group;  ///< a key; ranks of equal groups meet
  uint32_t rank = 0;
  uint32_t count = 1;
  uint32_t generation = 0;  ///< number of earlier groups of the job
};

/// The meaning of a group's name at a store once all ranks of the group have left.
enum class GroupNames {
  once,      ///< A rank that enters a group of that name again is refused.
  renewed,   ///< A new group begins. The store outlives the job's programs, each of which numbers groups from 0.
  elsewhere  ///< The rank must try again later. Each program of the job has its own store.
};

/// The prefix of the group's name in a rival's request. A rival is rank 0 of a second job with the same description,
/// and would run its own store here. The store refuses it, and reports the second job to the group's ranks.
inline constexpr std::string_view rival_prefix = "rival of ";

/// The process that runs the store. If it ends, the store ends.
struct StoreHost {
  int32_t rank = -1;  ///< the rank that runs in that process; -1 if no rank does, or it is unknown
  std::string name = "the process that runs it";
  bool runs_already = false;  ///< true: the store ran before its address was known, so it has ended if nothing listens
  bool has_secret = false;  ///< true: the store has this secret, so it has ended if the program there has not
  uint64_t attempts_end_ns = std::numeric_limits<uint64_t>::max();  ///< no attempt to connect begins after this time
  std::string secret_source{};  ///< where the secret is from, for the error of a client with another secret
};

/// Connects to the store; both sides authenticate each other. Until the deadline, tries again if no process listens,
/// a busy store rejects the client, or the host's name does not resolve. A name is resolved again at most once a
/// second, and its addresses are tried in turn. Enters the group `member`, if given; then Store::leave() must be
/// called at the end. RONDO_ERROR_AUTHENTICATION: the other side does not know the secret. RONDO_ERROR_REMOTE: the
/// store is gone.
/// @param cancel  null, or an object that ends this call and all waits of the client with RONDO_ERROR_ABORTED; it
///                must outlive both
/// @param absent  null, or set to whether the call failed because no store with this secret was found
[[nodiscard]] Result<std::unique_ptr<Store>> connect_store(const Endpoint &endpoint, const Secret &secret,
                                                           uint64_t deadline_ns,
                                                           const std::optional<Membership> &member = std::nullopt,
                                                           const StoreHost &host = {},
                                                           const Cancel *cancel = nullptr, bool *absent = nullptr);

/// Makes a store for ranks of this process only. It has the core of a store server, but no sockets. Returns `count`
/// clients of the store, each for its own thread. The store lives as long as any of the clients.
[[nodiscard]] std::vector<std::unique_ptr<Store>> make_local_stores(uint32_t count);

/// A server with its own thread. It rejects bad, slow and silent clients without disturbing the others.
class StoreServer {
 public:
  /// Closes all connections and joins the thread. For up to a second, it waits for ranks of failed groups, which must
  /// learn of the failure.
  virtual ~StoreServer() = default;
  [[nodiscard]] virtual const Endpoint &endpoint() const = 0;
  /// Records that the server runs in the process of `rank`, so that clients can name that rank if the server ends. Any
  /// thread may call it.
  virtual void hosted_by(uint32_t rank) = 0;
  /// Reports to the clients that `rank`, which runs in this process, has failed, perhaps before it was a client itself.
  /// An ending server does not wait for that rank. Any thread may call it.
  virtual void host_failed(const Error &error, uint32_t rank) = 0;
  /// Fails the groups that `rank` has not entered, because its process has ended. Any thread may call it.
  virtual void rank_ended(uint32_t rank) = 0;
  /// Calls `report` on the server's thread for each rival (rival_prefix) whose group is already over. A rival that has
  /// arrived before is reported at once. Any thread may call on_rival().
  virtual void on_rival(std::function<void(const Error &)> report) = 0;
  /// Describes the clients that had another secret, for the text of an error. The result is empty if there were none.
  /// Any thread may call it.
  [[nodiscard]] virtual std::string turned_away() = 0;
};

/// Listens on `address`; port 0 means any free port.
/// @param listen_errno  null, or a variable that gets the errno if the system refused the address, and otherwise 0
[[nodiscard]] Result<std::unique_ptr<StoreServer>> start_store_server(const Endpoint &address, const Secret &secret,
                                                                      GroupNames names = GroupNames::once,
                                                                      int *listen_errno = nullptr);

/// The socket on which a store server will listen. Clients may connect before the server runs, and then wait in the
/// socket's queue.
struct StoreListener {
  FileDescriptor socket;
  Endpoint endpoint;
};

/// Listens on `address`; port 0 means any free port.
/// @param listen_errno  null, or a variable that gets the errno if the system refused the address, and otherwise 0
[[nodiscard]] Result<StoreListener> listen_for_store(const Endpoint &address, int *listen_errno = nullptr);

/// Serves the clients of a listener.
[[nodiscard]] Result<std::unique_ptr<StoreServer>> start_store_server(StoreListener listener, const Secret &secret,
                                                                      GroupNames names = GroupNames::once);

/// Returns 32 bytes from the system's random source.
[[nodiscard]] Secret random_secret();

}  // namespace rondo
