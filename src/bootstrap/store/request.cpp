// SPDX-License-Identifier: Apache-2.0
// This file turns the calls of a Store into requests and replies.
#include "src/bootstrap/store/request.h"

#include <algorithm>

#include "src/base/clock.h"

namespace rondo {
namespace {

Result<void> check_bounds(const Request &request) {
  if (request.key.empty() || request.key.size() > key_bytes_max)
    return invalid_argument("a store key has 1-" + std::to_string(key_bytes_max) + " bytes, not " +
                            std::to_string(request.key.size()));
  if (request.value.size() > value_bytes_max)
    return invalid_argument("value of store key '" + request.key + "': " + std::to_string(request.value.size()) +
                            " bytes; at most " + std::to_string(value_bytes_max) + " are allowed");
  return {};
}

Result<void> check_reply(const Reply &reply, Reply::Kind wanted) {
  if (reply.kind == Reply::Kind::failure) return reply.error;
  if (reply.kind != wanted) return Error{RONDO_ERROR_INTERNAL, "the store sent another kind of reply"};
  return {};
}

}  // namespace

Result<void> RequestStore::put(std::string_view key, std::span<const std::byte> value, uint64_t deadline_ns) {
  Request request;
  request.kind = Request::Kind::put;
  request.key = key;
  request.value.assign(value.begin(), value.end());
  RONDO_TRY(exchange(std::move(request), Reply::Kind::done, deadline_ns));
  return {};
}

Result<Bytes> RequestStore::get(std::string_view key, uint64_t deadline_ns) {
  Request request;
  request.kind = Request::Kind::get;
  request.key = key;
  RONDO_TRY_ASSIGN(Reply reply, exchange(std::move(request), Reply::Kind::value, deadline_ns));
  return std::move(reply.value);
}

Result<std::optional<Bytes>> RequestStore::try_get(std::string_view key) {
  Request request;
  request.kind = Request::Kind::try_get;
  request.key = key;
  RONDO_TRY(check_bounds(request));
  RONDO_TRY_ASSIGN(auto reply, ask(std::move(request)));
  if (!reply || reply->kind == Reply::Kind::done) return std::optional<Bytes>();
  RONDO_TRY(check_reply(*reply, Reply::Kind::value));
  return std::optional<Bytes>(std::move(reply->value));
}

Result<std::vector<Bytes>> RequestStore::gather(std::string_view key, uint32_t rank, uint32_t count,
                                                std::span<const std::byte> value, uint64_t deadline_ns) {
  if (count > gather_count_max || rank >= count)
    return invalid_argument("gather: rank " + std::to_string(rank) + " of " + std::to_string(count) +
                            "; allowed are 0 to count - 1 of at most " + std::to_string(gather_count_max));
  std::vector<Bytes> parts;
  while (parts.size() < count) {  // ends: a page without parts is an error
    Request request;
    request.kind = parts.empty() ? Request::Kind::gather : Request::Kind::collect;
    request.key = key;
    request.rank = rank;
    request.count = count;
    request.first = static_cast<uint32_t>(parts.size());
    if (parts.empty()) request.value.assign(value.begin(), value.end());
    RONDO_TRY_ASSIGN(Reply reply, exchange(std::move(request), Reply::Kind::parts, deadline_ns));
    if (reply.first != parts.size() || reply.total != count || reply.parts.empty())
      return Error{RONDO_ERROR_INTERNAL, "the store's page of gather '" + std::string(key) + "' does not fit"};
    std::ranges::move(reply.parts, std::back_inserter(parts));
  }
  return parts;
}

void RequestStore::leave(const Result<void> &outcome) {
  Request request;
  request.kind = Request::Kind::leave;
  request.error = outcome.ok() ? Error{RONDO_OK, ""} : outcome.error();
  if (outcome.ok()) return post(std::move(request));
  (void)carry(std::move(request), now_ns() + farewell_ns);  // waits, so that it arrives before the connection is closed
}

Result<Reply> RequestStore::exchange(Request request, Reply::Kind wanted, uint64_t deadline_ns) {
  RONDO_TRY(check_bounds(request));
  RONDO_TRY_ASSIGN(Reply reply, carry(std::move(request), deadline_ns));
  RONDO_TRY(check_reply(reply, wanted));
  return reply;
}

}  // namespace rondo
