// SPDX-License-Identifier: Apache-2.0
// This file declares the store itself: keys, values, gathers, groups and waiting requests. The store takes requests and
// returns replies, without I/O and without a clock. A client whose deadline has passed sends a cancel. For a client
// that is gone, the caller calls forget().
//
// A key is either a value or a gather, for good. A gather is open while parts arrive, and complete once it has all
// parts. After that, each rank gets the parts in pages. Once each rank has received the last page, the gather is over.
// Its parts are freed, but its key cannot be used again.
//
// Each group has its own keys, which are freed when its ranks have left it (StoreGroups). So the store holds only the
// keys of present groups. Clients without a group share another set of keys, which stays.
#pragma once

#include <map>
#include <unordered_map>

#include "src/bootstrap/messages.h"
#include "src/bootstrap/store/groups.h"

namespace rondo {

struct StoreLimits {
  size_t key_count = 65'536;
  size_t total_bytes = 64u << 20;  ///< most bytes of values, with 64 more for each part of a gather
};

/// A reply for a client. The caller numbers the clients.
struct Delivery {
  uint64_t client = 0;
  Reply reply;
};

class StoreCore {
 public:
  explicit StoreCore(const StoreLimits &limits = {}, GroupNames names = GroupNames::once)
      : limits_(limits), groups_(names) {}

  /// Handles a request, and appends the resulting replies to `out`: none if the client must wait, a reply for this
  /// client, or replies for all waiting clients. The caller ensures that a client has one request at a time.
  void handle(uint64_t client, Request request, std::vector<Delivery> &out);

  /// Forgets a client that is gone. It gets no more replies, and its rank counts as gone, too. The values that the
  /// client put stay.
  void forget(uint64_t client, std::vector<Delivery> &out);

  /// Records that the process of `rank` runs this store, and informs the clients. If the store ends, the clients can
  /// name that process.
  void hosted_by(uint32_t rank, std::vector<Delivery> &out);

  /// Passes the call on to StoreGroups.
  void rank_ended(uint32_t rank, std::vector<Delivery> &out);
  void fail_all(Error error, std::optional<uint32_t> failed, std::vector<Delivery> &out);

  /// Ends the store. Every waiting request gets RONDO_ERROR_REMOTE, whose text says what was missing.
  void end(std::vector<Delivery> &out);

  [[nodiscard]] bool expects_ranks() const { return groups_.expects_ranks(); }  ///< see StoreGroups
  [[nodiscard]] size_t key_count() const { return key_count_; }
  [[nodiscard]] size_t group_count() const { return groups_.group_count(); }
  void at(uint64_t now_ns) { groups_.at(now_ns); }  ///< see StoreGroups
  [[nodiscard]] std::optional<Error> take_mixed_up() { return groups_.take_mixed_up(); }  ///< see StoreGroups
  [[nodiscard]] size_t used_bytes() const { return used_bytes_; }
  [[nodiscard]] size_t waiting_count() const { return waiting_.size(); }

 private:
  struct Gather {
    uint32_t count = 0;
    std::map<uint32_t, Bytes> parts;
    std::vector<bool> served;  ///< by rank: the last page was sent
    uint32_t served_count = 0;
    bool over = false;
  };
  struct Entry {
    bool is_gather = false;
    Bytes value;
    Gather gather;
  };
  struct Keys {
    std::unordered_map<std::string, Entry> entries;
    std::unordered_map<std::string, std::vector<uint64_t>> waiting_clients;  ///< by key, in the order of arrival
  };

  void put(uint64_t client, Request &request, std::vector<Delivery> &out);
  void get(uint64_t client, Request &request, std::vector<Delivery> &out);
  void try_get(uint64_t client, Request &request, std::vector<Delivery> &out);
  void gather(uint64_t client, Request &request, std::vector<Delivery> &out);
  void collect(uint64_t client, const Request &request, std::vector<Delivery> &out);
  void cancel(uint64_t client, const Request &request, std::vector<Delivery> &out);
  void enter(uint64_t client, const Request &request, std::vector<Delivery> &out);
  void leave(uint64_t client, const Request &request, std::vector<Delivery> &out);
  void report_failures(std::vector<Delivery> &out);
  void stop_waiting(uint64_t client);
  void drop_vacated_keys();
  [[nodiscard]] static size_t price_bytes(const Entry &entry);
  [[nodiscard]] Keys &keys_of(uint64_t client) { return keys_[groups_.number_of(client)]; }
  [[nodiscard]] Result<Entry *> gather_entry(uint64_t client, const Request &request);
  [[nodiscard]] Result<void> add_part(Entry &entry, Request &request);
  [[nodiscard]] Result<void> charge(size_t bytes);
  [[nodiscard]] Result<Entry *> add_entry(Keys &keys, const std::string &key, size_t bytes);
  [[nodiscard]] Error what_is_missing(uint64_t client, const Request &request);
  void wait(uint64_t client, Request &&request);
  [[nodiscard]] static std::vector<uint64_t> take_waiting(Keys &keys, const std::string &key);
  [[nodiscard]] Reply page(Entry &entry, uint64_t id, uint32_t rank, uint32_t first);
  void mark_served(Entry &entry, uint32_t rank);

  StoreLimits limits_;
  size_t used_bytes_ = 0;
  StoreGroups groups_;
  std::optional<uint32_t> host_rank_;
  size_t key_count_ = 0;
  std::unordered_map<uint64_t, Keys> keys_;        ///< by group number
  std::unordered_map<uint64_t, Request> waiting_;  ///< by client
};

}  // namespace rondo
