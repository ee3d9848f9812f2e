// SPDX-License-Identifier: Apache-2.0
// This file defines the messages of the store's protocol, without I/O. Numbers are little-endian.
//
// Request  kind u8 | id u64 | key_bytes u16 | key | rest
//            put      value                                     the rest of the body
//            get      nothing
//            gather   rank u32 | count u32 | value              puts rank's part, then answers as collect with first 0
//            collect  rank u32 | count u32 | first u32          asks for the next page of a gather's parts
//            cancel   nothing; the key is empty                 ends request `id` now: the answer to it is a timeout
//            enter    rank u32 | count u32 | generation u32     the key is a group, of which the client is now `rank`
//            leave    status u32 | peer u32 | message           the key is empty; status 0: the rank needs the group no
//                                                               more; otherwise it has failed, and so has the group
//            try_get  nothing                                   like get, but at once; if the key was not put: done
// Reply    kind u8 | id u64 | rest
//            done     nothing
//            value    value
//            parts    first u32 | total u32 | n u32 | n x (bytes u32 | bytes)
//            failure  status u32 | peer u32 (2^32 - 1: none) | message
//            notice   like failure, but without a request, with id 0: the client's group has failed. With status 0,
//                     `peer` is the rank whose process runs the store
//            later    nothing; answers an enter: the group has met here before, and will meet at a later store
//
// A client has one request in flight. Until its reply arrives, the client may only cancel it. Ids count from 1.
#pragma once

#include "src/bootstrap/wire.h"

namespace rondo {

inline constexpr size_t key_bytes_max = 256;
inline constexpr size_t value_bytes_max = wire::body_bytes_max - 512;  ///< leaves room for the fields besides a value
inline constexpr size_t message_bytes_max = 1024;
inline constexpr uint32_t gather_count_max = 65'536;
inline constexpr uint32_t rank_count_max = 4'096;  ///< of a communicator, whose store has a connection for each rank

struct Request {
  enum class Kind : uint8_t {
    put = 1, get = 2, gather = 3, collect = 4, cancel = 5, enter = 6, leave = 7, try_get = 8
  };
  Kind kind = Kind::get;
  uint64_t id = 0;
  std::string key;
  uint32_t rank = 0;
  uint32_t count = 0;
  uint32_t first = 0;       ///< of collect
  uint32_t generation = 0;  ///< of enter
  Bytes value;
  Error error;  ///< of leave: its status, peer and message
};

struct Reply {
  enum class Kind : uint8_t { done = 1, value = 2, parts = 3, failure = 4, notice = 5, later = 6 };
  Kind kind = Kind::done;
  uint64_t id = 0;
  Bytes value;
  uint32_t first = 0;
  uint32_t total = 0;
  std::vector<Bytes> parts;
  Error error;  ///< of a failure or notice: its status, peer and message
};

[[nodiscard]] Bytes encode(const Request &request);
[[nodiscard]] Bytes encode(const Reply &reply);

/// Returns the message in `body`, or nothing if `body` is not exactly one well-formed message within the bounds.
[[nodiscard]] std::optional<Request> decode_request(ByteView body);
[[nodiscard]] std::optional<Reply> decode_reply(ByteView body);

/// Returns how many of `parts`, from index `first` on, fit into one reply: at least one, unless none are left.
[[nodiscard]] uint32_t page_count(const std::vector<ByteView> &parts, uint32_t first);

/// Returns the step in a key such as "g0/join" or "g0//ports": the key without the group. Errors show it to users.
[[nodiscard]] std::string step_of(const std::string &key);

/// Turns the calls of a Store into requests and replies. A derived class transports them.
class RequestStore : public Store {
 public:
  Result<void> put(std::string_view key, std::span<const std::byte> value, uint64_t deadline_ns) final;
  Result<Bytes> get(std::string_view key, uint64_t deadline_ns) final;
  Result<std::optional<Bytes>> try_get(std::string_view key) final;
  Result<std::vector<Bytes>> gather(std::string_view key, uint32_t rank, uint32_t count,
                                    std::span<const std::byte> value, uint64_t deadline_ns) final;
  void leave(const Result<void> &outcome) final;

 protected:
  static constexpr uint64_t farewell_ns = 1'000'000'000;  ///< longest wait for replies in leave()

 private:
  /// Sends the client's last request. The caller does not wait for a reply.
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
