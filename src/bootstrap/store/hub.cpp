// SPDX-License-Identifier: Apache-2.0
// This file implements all connections of a store server, without sockets.
#include "src/bootstrap/store/hub.h"

#include <algorithm>
#include <cassert>

namespace rondo {

uint64_t StoreHub::accept(const wire::Challenge &challenge, uint64_t now_ns) {
  assert(can_accept());
  if (silent_.size() >= limits_.silent_count) evict(*silent_.begin(), now_ns);
  const uint64_t connection = ++last_connection_;
  sessions_.emplace(connection, std::make_unique<StoreSession>(secret_, challenge, now_ns));
  silent_.insert(connection);
  return connection;
}

bool StoreHub::make_room(uint64_t now_ns) {
  if (stranger_count() == 0) return false;
  evict(silent_.empty() ? *greeted_.begin() : *silent_.begin(), now_ns);
  return true;
}

void StoreHub::evict(uint64_t stranger, uint64_t now_ns) {
  cut_.push_back({stranger, "it gave way to a newer connection before its handshake was done", false, false});
  remove(stranger, now_ns);
}

/// Sorts a connection by what `session` has received: into silent, greeted or neither.
void StoreHub::sort(uint64_t connection, const StoreSession &session, uint64_t now_ns) {
  if (session.authenticated()) {
    silent_.erase(connection);
    greeted_.erase(connection);
  } else if (session.greeted() && silent_.erase(connection) != 0) {
    if (greeted_.size() >= limits_.greeted_count) evict(*greeted_.begin(), now_ns);
    greeted_.insert(connection);
  }
}

void StoreHub::receive(uint64_t connection, ByteView bytes, uint64_t now_ns) {
  const auto found = sessions_.find(connection);
  if (found == sessions_.end()) return;
  StoreSession &session = *found->second;
  const bool was_authenticated = session.authenticated();
  std::vector<Request> requests;
  session.receive(bytes, now_ns, requests);
  sort(connection, session, now_ns);
  ready_.push_back(connection);
  std::vector<Delivery> deliveries;
  core_.at(now_ns);
  for (Request &request : requests) core_.handle(connection, std::move(request), deliveries);
  deliver(deliveries, now_ns);
  settle(connection, was_authenticated, now_ns);
}

void StoreHub::deliver(const std::vector<Delivery> &deliveries, uint64_t now_ns) {
  for (const Delivery &delivery : deliveries) {
    const auto client = sessions_.find(delivery.client);
    if (client == sessions_.end()) continue;
    client->second->reply(delivery.reply, now_ns);
    ready_.push_back(delivery.client);
  }
}

void StoreHub::end(uint64_t now_ns) {
  std::vector<Delivery> deliveries;
  core_.end(deliveries);
  deliver(deliveries, now_ns);
}

void StoreHub::hosted_by(uint32_t rank, uint64_t now_ns) {
  std::vector<Delivery> deliveries;
  core_.hosted_by(rank, deliveries);
  deliver(deliveries, now_ns);
}

void StoreHub::rank_ended(uint32_t rank, uint64_t now_ns) {
  std::vector<Delivery> deliveries;
  core_.rank_ended(rank, deliveries);
  deliver(deliveries, now_ns);
}

void StoreHub::fail_all(const Error &error, uint64_t now_ns, std::optional<uint32_t> failed) {
  std::vector<Delivery> deliveries;
  core_.fail_all(error, failed, deliveries);
  deliver(deliveries, now_ns);
}

void StoreHub::settle(uint64_t connection, bool was_authenticated, uint64_t now_ns) {
  const auto found = sessions_.find(connection);
  if (found == sessions_.end() || !found->second->cut()) return;
  cut_.push_back({connection, found->second->cut_reason(), was_authenticated, found->second->other_secret()});
  remove(connection, now_ns);
}

void StoreHub::remove(uint64_t connection, uint64_t now_ns) {
  silent_.erase(connection);
  greeted_.erase(connection);
  sessions_.erase(connection);
  std::vector<Delivery> deliveries;
  core_.forget(connection, deliveries);
  deliver(deliveries, now_ns);
}

void StoreHub::closed(uint64_t connection, uint64_t now_ns) { remove(connection, now_ns); }

ByteView StoreHub::output(uint64_t connection) const {
  const auto found = sessions_.find(connection);
  return found == sessions_.end() ? ByteView{} : found->second->output();
}

void StoreHub::sent(uint64_t connection, size_t bytes, uint64_t now_ns) {
  const auto found = sessions_.find(connection);
  if (found != sessions_.end()) found->second->sent(bytes, now_ns);
}

uint64_t StoreHub::next_deadline_ns() const {
  uint64_t next_ns = no_deadline;
  for (const auto &[connection, session] : sessions_) next_ns = std::min(next_ns, session->deadline_ns());
  return next_ns;
}

void StoreHub::on_time(uint64_t now_ns) {
  std::vector<uint64_t> due;
  for (const auto &[connection, session] : sessions_)
    if (now_ns >= session->deadline_ns()) due.push_back(connection);
  for (const uint64_t connection : due) {
    StoreSession &session = *sessions_.at(connection);
    const bool was_authenticated = session.authenticated();
    session.on_time(now_ns);
    settle(connection, was_authenticated, now_ns);
  }
}

bool StoreHub::is_member(uint64_t connection) const {
  const auto found = sessions_.find(connection);
  return found != sessions_.end() && found->second->authenticated();
}

bool StoreHub::has_output() const {
  return std::ranges::any_of(sessions_, [](const auto &item) { return !item.second->output().empty(); });
}

}  // namespace rondo
