// SPDX-License-Identifier: Apache-2.0
// This file encodes and strictly decodes the store's messages. It also turns the calls of a store into messages.
#include "src/bootstrap/messages.h"

#include <algorithm>

#include "src/base/clock.h"
#include "src/base/parse.h"

namespace rondo {
namespace {

constexpr uint32_t no_peer = ~uint32_t{0};
// A page is much smaller than a frame, because a complete gather makes one page for each rank at the same time.
constexpr size_t page_bytes = 64u << 10;

bool valid_status(uint32_t status) {
  return status >= RONDO_ERROR_INVALID_ARGUMENT && status <= RONDO_ERROR_REVOKED;
}

/// Decodes `status | peer | message`. The status may be RONDO_OK only if `may_be_ok`.
bool decode_error(ByteReader &in, bool may_be_ok, Error &error) {
  const auto status = in.number<uint32_t>();
  const auto peer = in.number<uint32_t>();
  const bool known = valid_status(status) || (may_be_ok && status == RONDO_OK);
  if (in.failed() || !known || in.rest_bytes() > message_bytes_max) return false;
  if (peer != no_peer && peer >= gather_count_max) return false;
  error.status = static_cast<rondo_status_t>(status);
  error.peer = peer == no_peer ? -1 : static_cast<int32_t>(peer);
  error.message = text_of(in.rest());
  for (char &c : error.message)  // a received text may be printed on a terminal
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return true;
}

bool decode_rest(ByteReader &in, Request &request) {
  using Kind = Request::Kind;
  switch (request.kind) {
    case Kind::put: {
      const ByteView value = in.rest();
      request.value.assign(value.begin(), value.end());
      return request.value.size() <= value_bytes_max && !request.key.empty();
    }
    case Kind::get:
    case Kind::try_get:
      return !request.key.empty();
    case Kind::gather:
    case Kind::collect: {
      request.rank = in.number<uint32_t>();
      request.count = in.number<uint32_t>();
      if (request.kind == Kind::collect) {
        request.first = in.number<uint32_t>();
      } else {
        const ByteView value = in.rest();
        request.value.assign(value.begin(), value.end());
      }
      return !in.failed() && request.count <= gather_count_max && request.rank < request.count &&
             request.first < request.count && request.value.size() <= value_bytes_max && !request.key.empty();
    }
    case Kind::cancel:
      return request.key.empty();
    case Kind::enter:
      request.rank = in.number<uint32_t>();
      request.count = in.number<uint32_t>();
      request.generation = in.number<uint32_t>();
      return !in.failed() && request.count <= gather_count_max && request.rank < request.count && !request.key.empty();
    case Kind::leave:
      return request.key.empty() && decode_error(in, true, request.error);
  }
  return false;
}

bool decode_parts(ByteReader &in, Reply &reply) {
  reply.first = in.number<uint32_t>();
  reply.total = in.number<uint32_t>();
  const auto count = in.number<uint32_t>();
  if (in.failed() || reply.total > gather_count_max || reply.first >= reply.total) return false;
  if (count == 0 || count > reply.total - reply.first || count > in.rest_bytes() / 4) return false;
  reply.parts.reserve(count);
  for (uint32_t at = 0; at < count; ++at) {
    const auto part_bytes = in.number<uint32_t>();
    const ByteView part = in.bytes(part_bytes);
    if (in.failed()) return false;
    reply.parts.emplace_back(part.begin(), part.end());
  }
  return true;
}

bool decode_rest(ByteReader &in, Reply &reply) {
  using Kind = Reply::Kind;
  switch (reply.kind) {
    case Kind::done:
    case Kind::later:
      return true;
    case Kind::value: {
      const ByteView value = in.rest();
      reply.value.assign(value.begin(), value.end());
      return reply.value.size() <= value_bytes_max;
    }
    case Kind::parts:
      return decode_parts(in, reply);
    case Kind::failure:
      return decode_error(in, false, reply.error);
    case Kind::notice:
      return reply.id == 0 && decode_error(in, true, reply.error);
  }
  return false;
}

void append_error(Bytes &out, const Error &error) {
  append_number(out, static_cast<uint32_t>(error.status));
  append_number(out, error.peer < 0 ? no_peer : static_cast<uint32_t>(error.peer));
  append_bytes(out, bytes_of(std::string_view(error.message).substr(0, message_bytes_max)));
}

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

Bytes encode(const Request &request) {
  using Kind = Request::Kind;
  Bytes out;
  out.reserve(32 + request.key.size() + request.value.size());
  append_number(out, static_cast<uint8_t>(request.kind));
  append_number(out, request.id);
  append_number(out, static_cast<uint16_t>(request.key.size()));
  append_bytes(out, bytes_of(request.key));
  if (request.kind == Kind::gather || request.kind == Kind::collect || request.kind == Kind::enter) {
    append_number(out, request.rank);
    append_number(out, request.count);
  }
  if (request.kind == Kind::collect) append_number(out, request.first);
  if (request.kind == Kind::enter) append_number(out, request.generation);
  if (request.kind == Kind::put || request.kind == Kind::gather) append_bytes(out, request.value);
  if (request.kind == Kind::leave) append_error(out, request.error);
  return out;
}

Bytes encode(const Reply &reply) {
  using Kind = Reply::Kind;
  Bytes out;
  append_number(out, static_cast<uint8_t>(reply.kind));
  append_number(out, reply.id);
  if (reply.kind == Kind::value) append_bytes(out, reply.value);
  if (reply.kind == Kind::parts) {
    append_number(out, reply.first);
    append_number(out, reply.total);
    append_number(out, static_cast<uint32_t>(reply.parts.size()));
    for (const Bytes &part : reply.parts) {
      append_number(out, static_cast<uint32_t>(part.size()));
      append_bytes(out, part);
    }
  }
  if (reply.kind == Kind::failure || reply.kind == Kind::notice) append_error(out, reply.error);
  return out;
}

std::optional<Request> decode_request(ByteView body) {
  ByteReader in(body);
  Request request;
  const auto kind = in.number<uint8_t>();
  request.id = in.number<uint64_t>();
  const auto key_bytes = in.number<uint16_t>();
  if (in.failed() || kind < 1 || kind > 8 || key_bytes > key_bytes_max) return std::nullopt;
  request.kind = static_cast<Request::Kind>(kind);
  request.key = text_of(in.bytes(key_bytes));
  if (in.failed() || !decode_rest(in, request) || !in.complete()) return std::nullopt;
  return request;
}

std::optional<Reply> decode_reply(ByteView body) {
  ByteReader in(body);
  Reply reply;
  const auto kind = in.number<uint8_t>();
  reply.id = in.number<uint64_t>();
  if (in.failed() || kind < 1 || kind > 6) return std::nullopt;
  reply.kind = static_cast<Reply::Kind>(kind);
  if (!decode_rest(in, reply) || !in.complete()) return std::nullopt;
  return reply;
}

uint32_t page_count(const std::vector<ByteView> &parts, uint32_t first) {
  size_t used_bytes = 0;
  uint32_t count = 0;
  for (size_t at = first; at < parts.size(); ++at, ++count) {
    used_bytes += 4 + parts[at].size();
    if (count > 0 && used_bytes > page_bytes) break;
  }
  return count;
}

std::string step_of(const std::string &key) {
  const size_t begin = key.find_first_not_of('/', std::min(key.find('/'), key.size()));
  return in_quotes(key.find('/') == std::string::npos || begin == std::string::npos ? key : key.substr(begin));
}

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
  (void)carry(std::move(request), now_ns() + farewell_ns);  // waits, so that it arrives before the connection closes
}

Result<Reply> RequestStore::exchange(Request request, Reply::Kind wanted, uint64_t deadline_ns) {
  RONDO_TRY(check_bounds(request));
  RONDO_TRY_ASSIGN(Reply reply, carry(std::move(request), deadline_ns));
  RONDO_TRY(check_reply(reply, wanted));
  return reply;
}

}  // namespace rondo
