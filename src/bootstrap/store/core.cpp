// SPDX-License-Identifier: Apache-2.0
// This file implements keys, values, gathers, groups and waiting requests.
#include "src/bootstrap/store/core.h"

#include <algorithm>

#include "src/base/parse.h"

namespace rondo {
namespace {

constexpr size_t part_price_bytes = 64;  // bytes counted for each part, in addition to its value
constexpr size_t listed_rank_count_max = 16;

size_t gather_price_bytes(uint32_t count) { return count / 8 + 1; }

Reply failure(uint64_t id, Error error) {
  Reply reply;
  reply.kind = Reply::Kind::failure;
  reply.id = id;
  reply.error = std::move(error);
  return reply;
}

Reply notice(Error error) {
  Reply reply;
  reply.kind = Reply::Kind::notice;
  reply.error = std::move(error);
  return reply;
}

Error mismatch(std::string message) { return {RONDO_ERROR_MISMATCH, std::move(message)}; }

/// Returns e.g. "not arrived at the step 'ports': ranks 1, 4, 5 (3 of 8)".
Error missing_ranks(const std::string &key, uint32_t count, const std::map<uint32_t, Bytes> &parts) {
  std::string list;
  size_t missing_count = 0;
  Error error{RONDO_ERROR_TIMEOUT, ""};
  for (uint32_t rank = 0; rank < count; ++rank) {
    if (parts.contains(rank)) continue;
    if (missing_count == 0) error.peer = static_cast<int32_t>(rank);
    if (missing_count < listed_rank_count_max) list += (missing_count == 0 ? "" : ", ") + std::to_string(rank);
    ++missing_count;
  }
  if (missing_count > listed_rank_count_max)
    list += " and " + std::to_string(missing_count - listed_rank_count_max) + " more";
  error.message = "not arrived at the step " + step_of(key) + ": rank" + (missing_count == 1 ? " " : "s ") + list +
                  " (" + std::to_string(missing_count) + " of " + std::to_string(count) + ")";
  return error;
}

}  // namespace

void StoreCore::handle(uint64_t client, Request request, std::vector<Delivery> &out) {
  const bool ends = request.kind == Request::Kind::cancel || request.kind == Request::Kind::leave;
  if (const Error *const failure = groups_.failure_of(client); failure != nullptr && !ends) {
    out.push_back({client, rondo::failure(request.id, *failure)});
    return;
  }
  switch (request.kind) {
    case Request::Kind::put: return put(client, request, out);
    case Request::Kind::get: return get(client, request, out);
    case Request::Kind::try_get: return try_get(client, request, out);
    case Request::Kind::gather: return gather(client, request, out);
    case Request::Kind::collect: return collect(client, request, out);
    case Request::Kind::cancel: return cancel(client, request, out);
    case Request::Kind::enter: return enter(client, request, out);
    case Request::Kind::leave: return leave(client, request, out);
  }
}

void StoreCore::forget(uint64_t client, std::vector<Delivery> &out) {
  stop_waiting(client);
  groups_.forget(client);
  report_failures(out);
  drop_vacated_keys();
}

void StoreCore::enter(uint64_t client, const Request &request, std::vector<Delivery> &out) {
  Membership member{request.key, request.rank, request.count, request.generation};
  if (member.group.starts_with(rival_prefix)) {
    member.group.erase(0, rival_prefix.size());
    out.push_back({client, failure(request.id, groups_.meet_rival(member))});
    return report_failures(out);
  }
  const auto entered = groups_.enter(client, member);
  Reply done;
  done.id = request.id;
  if (entered.ok() && entered.value().later) done.kind = Reply::Kind::later;
  const bool is_member = entered.ok() && !entered.value().later;
  out.push_back({client, entered.ok() ? std::move(done) : failure(request.id, entered.error())});
  if (is_member && host_rank_)
    out.push_back({client, notice({RONDO_OK, "", -1, static_cast<int32_t>(*host_rank_)})});
  report_failures(out);
}

void StoreCore::leave(uint64_t client, const Request &request, std::vector<Delivery> &out) {
  groups_.leave(client, request.error);
  drop_vacated_keys();
  Reply done;
  done.id = request.id;
  out.push_back({client, std::move(done)});
  report_failures(out);
}

void StoreCore::hosted_by(uint32_t rank, std::vector<Delivery> &out) {
  host_rank_ = rank;
  for (const uint64_t client : groups_.clients())
    out.push_back({client, notice({RONDO_OK, "", -1, static_cast<int32_t>(rank)})});
}

void StoreCore::rank_ended(uint32_t rank, std::vector<Delivery> &out) {
  groups_.rank_ended(rank);
  report_failures(out);
}

void StoreCore::fail_all(Error error, std::optional<uint32_t> failed, std::vector<Delivery> &out) {
  if (error.peer < 0 && host_rank_) error.peer = static_cast<int32_t>(*host_rank_);
  groups_.fail_all(error, failed);
  report_failures(out);
}

/// Reports the failures of groups. A client that waits gets the failure as its reply, and any other client as a notice.
void StoreCore::report_failures(std::vector<Delivery> &out) {
  for (const uint64_t client : groups_.take_told()) {
    const Error &error = *groups_.failure_of(client);
    const auto waiting = waiting_.find(client);
    if (waiting == waiting_.end()) {
      out.push_back({client, notice(error)});
      continue;
    }
    const uint64_t id = waiting->second.id;
    stop_waiting(client);
    out.push_back({client, failure(id, error)});
  }
}

void StoreCore::stop_waiting(uint64_t client) {
  const auto found = waiting_.find(client);
  if (found == waiting_.end()) return;
  auto &waiting_clients = keys_of(client).waiting_clients;
  const auto clients = waiting_clients.find(found->second.key);
  if (clients != waiting_clients.end()) {
    std::erase(clients->second, client);
    if (clients->second.empty()) waiting_clients.erase(clients);
  }
  waiting_.erase(found);
}

/// Frees the keys of the groups that have lost their last rank, because no client asks for these keys any more.
void StoreCore::drop_vacated_keys() {
  for (const uint64_t number : groups_.take_vacated()) {
    const auto found = keys_.find(number);
    if (found == keys_.end()) continue;
    for (const auto &[key, entry] : found->second.entries) used_bytes_ -= price_bytes(entry);
    key_count_ -= found->second.entries.size();
    keys_.erase(found);
  }
}

/// Returns the bytes that the entry adds to used_bytes_.
size_t StoreCore::price_bytes(const Entry &entry) {
  if (!entry.is_gather) return entry.value.size();
  if (entry.gather.over) return 0;
  size_t bytes = gather_price_bytes(entry.gather.count);
  for (const auto &[rank, part] : entry.gather.parts) bytes += part_price_bytes + part.size();
  return bytes;
}

Result<void> StoreCore::charge(size_t bytes) {
  if (bytes > limits_.total_bytes - used_bytes_)
    return Error{RONDO_ERROR_OUT_OF_RESOURCES,
                 "the store is full: its values may take " + std::to_string(limits_.total_bytes) + " bytes in all"};
  used_bytes_ += bytes;
  return {};
}

Result<StoreCore::Entry *> StoreCore::add_entry(Keys &keys, const std::string &key, size_t bytes) {
  if (key_count_ >= limits_.key_count)
    return Error{RONDO_ERROR_OUT_OF_RESOURCES,
                 "the store is full: it holds at most " + std::to_string(limits_.key_count) + " keys"};
  RONDO_TRY(charge(bytes));
  ++key_count_;
  return &keys.entries[key];
}

void StoreCore::put(uint64_t client, Request &request, std::vector<Delivery> &out) {
  Keys &keys = keys_of(client);
  const auto found = keys.entries.find(request.key);
  if (found != keys.entries.end()) {
    const bool equal = !found->second.is_gather && found->second.value == request.value;
    Reply reply;
    reply.id = request.id;
    if (!equal) reply = failure(request.id, mismatch("key " + in_quotes(request.key) + " already has another value"));
    out.push_back({client, std::move(reply)});
    return;
  }
  auto entry = add_entry(keys, request.key, request.value.size());
  if (!entry.ok()) {
    out.push_back({client, failure(request.id, entry.error())});
    return;
  }
  entry.value()->value = std::move(request.value);
  Reply done;
  done.id = request.id;
  out.push_back({client, std::move(done)});
  for (const uint64_t waiting : take_waiting(keys, request.key)) {
    Request wanted = std::move(waiting_.at(waiting));
    waiting_.erase(waiting);
    get(waiting, wanted, out);
  }
}

void StoreCore::get(uint64_t client, Request &request, std::vector<Delivery> &out) {
  const auto &entries = keys_of(client).entries;
  const auto found = entries.find(request.key);
  if (found == entries.end()) return wait(client, std::move(request));
  Reply reply;
  reply.id = request.id;
  reply.kind = Reply::Kind::value;
  if (found->second.is_gather) {
    reply = failure(request.id, mismatch("key " + in_quotes(request.key) + " is a gather, not a value"));
  } else {
    reply.value = found->second.value;
  }
  out.push_back({client, std::move(reply)});
}

void StoreCore::try_get(uint64_t client, Request &request, std::vector<Delivery> &out) {
  if (keys_of(client).entries.contains(request.key)) return get(client, request, out);
  Reply nothing;
  nothing.id = request.id;
  out.push_back({client, std::move(nothing)});
}

Result<StoreCore::Entry *> StoreCore::gather_entry(uint64_t client, const Request &request) {
  Keys &keys = keys_of(client);
  const auto found = keys.entries.find(request.key);
  if (found == keys.entries.end()) {
    if (request.kind == Request::Kind::collect) return mismatch("gather " + in_quotes(request.key) + " was not begun");
    RONDO_TRY_ASSIGN(Entry *const entry, add_entry(keys, request.key, gather_price_bytes(request.count)));
    entry->is_gather = true;
    entry->gather.count = request.count;
    entry->gather.served.resize(request.count);
    return entry;
  }
  Entry &entry = found->second;
  if (!entry.is_gather) return mismatch("key " + in_quotes(request.key) + " is a value, not a gather");
  if (entry.gather.count != request.count)
    return mismatch("rank " + std::to_string(request.rank) + " says that the step " + step_of(request.key) + " is of " +
                    std::to_string(request.count) + " ranks; others say " + std::to_string(entry.gather.count));
  if (entry.gather.over) return mismatch("gather " + in_quotes(request.key) + " is over: each rank has its result");
  return &entry;
}

Result<void> StoreCore::add_part(Entry &entry, Request &request) {
  const auto found = entry.gather.parts.find(request.rank);
  if (found == entry.gather.parts.end()) {
    RONDO_TRY(charge(part_price_bytes + request.value.size()));
    entry.gather.parts.emplace(request.rank, std::move(request.value));
    return {};
  }
  if (found->second == request.value) return {};
  Error error = mismatch("rank " + std::to_string(request.rank) + " arrived at the step " + step_of(request.key) +
                         " twice, with different values; give each rank number to one process only");
  error.peer = static_cast<int32_t>(request.rank);
  return error;
}

void StoreCore::gather(uint64_t client, Request &request, std::vector<Delivery> &out) {
  auto entry = gather_entry(client, request);
  if (!entry.ok()) {
    out.push_back({client, failure(request.id, entry.error())});
    return;
  }
  Gather &gather = entry.value()->gather;
  const bool was_complete = gather.parts.size() == gather.count;
  if (const auto added = add_part(*entry.value(), request); !added.ok()) {
    out.push_back({client, failure(request.id, added.error())});
    return;
  }
  if (gather.parts.size() < gather.count) {
    request.value.clear();
    return wait(client, std::move(request));
  }
  out.push_back({client, page(*entry.value(), request.id, request.rank, 0)});
  if (was_complete) return;
  for (const uint64_t waiting : take_waiting(keys_of(client), request.key)) {
    const Request wanted = std::move(waiting_.at(waiting));
    waiting_.erase(waiting);
    if (wanted.kind == Request::Kind::get) {  // the client waited for a value before the gather began
      out.push_back(
          {waiting, failure(wanted.id, mismatch("key " + in_quotes(wanted.key) + " is a gather, not a value"))});
    } else {
      out.push_back({waiting, page(*entry.value(), wanted.id, wanted.rank, 0)});
    }
  }
}

void StoreCore::collect(uint64_t client, const Request &request, std::vector<Delivery> &out) {
  auto entry = gather_entry(client, request);
  if (entry.ok() && entry.value()->gather.parts.size() < entry.value()->gather.count)
    entry = mismatch("gather " + in_quotes(request.key) + " is not complete");
  out.push_back({client, entry.ok() ? page(*entry.value(), request.id, request.rank, request.first)
                                    : failure(request.id, entry.error())});
}

void StoreCore::cancel(uint64_t client, const Request &request, std::vector<Delivery> &out) {
  const auto found = waiting_.find(client);
  if (found == waiting_.end() || found->second.id != request.id) return;  // the reply was sent before the cancel
  const Request wanted = found->second;
  stop_waiting(client);
  out.push_back({client, failure(wanted.id, what_is_missing(client, wanted))});
}

Error StoreCore::what_is_missing(uint64_t client, const Request &request) {
  if (request.kind == Request::Kind::gather)
    return missing_ranks(request.key, request.count, keys_of(client).entries.at(request.key).gather.parts);
  return {RONDO_ERROR_TIMEOUT, "no rank has reported " + step_of(request.key)};
}

void StoreCore::end(std::vector<Delivery> &out) {
  for (const auto &[client, request] : waiting_) {
    Error error = what_is_missing(client, request);
    error.status = RONDO_ERROR_REMOTE;
    error.message = "the process that runs the store gave up or ended; " + error.message;
    out.push_back({client, failure(request.id, std::move(error))});
  }
  waiting_.clear();
  for (auto &[number, keys] : keys_) keys.waiting_clients.clear();
}

void StoreCore::wait(uint64_t client, Request &&request) {
  keys_of(client).waiting_clients[request.key].push_back(client);
  waiting_[client] = std::move(request);
}

std::vector<uint64_t> StoreCore::take_waiting(Keys &keys, const std::string &key) {
  const auto found = keys.waiting_clients.find(key);
  if (found == keys.waiting_clients.end()) return {};
  std::vector<uint64_t> clients = std::move(found->second);
  keys.waiting_clients.erase(found);
  return clients;
}

Reply StoreCore::page(Entry &entry, uint64_t id, uint32_t rank, uint32_t first) {
  Gather &gather = entry.gather;
  if (gather.over)  // a rank that comes twice with equal values is served once
    return failure(id, mismatch("the gather is over: rank " + std::to_string(rank) + " came to it twice"));
  std::vector<ByteView> parts;
  parts.reserve(gather.count);
  for (const auto &[part_rank, part] : gather.parts) parts.emplace_back(part);
  Reply reply;
  reply.id = id;
  reply.kind = Reply::Kind::parts;
  reply.first = first;
  reply.total = gather.count;
  const uint32_t count = page_count(parts, first);
  for (uint32_t at = first; at < first + count; ++at) reply.parts.emplace_back(parts[at].begin(), parts[at].end());
  if (first + count == gather.count) mark_served(entry, rank);
  return reply;
}

void StoreCore::mark_served(Entry &entry, uint32_t rank) {
  Gather &gather = entry.gather;
  if (gather.served[rank]) return;
  gather.served[rank] = true;
  if (++gather.served_count < gather.count) return;
  used_bytes_ -= price_bytes(entry);
  gather.parts.clear();
  gather.served = {};
  gather.over = true;
}

}  // namespace rondo
