// SPDX-License-Identifier: Apache-2.0
#include "src/core/part.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "src/base/clock.h"
#include "src/bootstrap/bytes.h"
#include "src/bootstrap/endpoint.h"
#include "src/bootstrap/store/store.h"
#include "src/core/process.h"

namespace rondo {
namespace {

constexpr uint64_t report_patience_ns = 500'000'000;  // longest time that an aborted rank takes to report to members
constexpr std::string_view derivation = ", format 1";
constexpr size_t shown_members_max = 16;

/// Returns the address at which the members of a part can reach `rank`.
std::string address_of(const Communicator &parent, uint32_t rank) {
  if (parent.group().one_node()) return "127.0.0.1";
  return parent.group().infos[rank].interfaces.front().address;  // exists, because the rank has links to other hosts
}

}  // namespace

void derive_id(const Communicator &parent, std::string_view function, uint32_t server, uint64_t nonce, UniqueId &id) {
  Bytes input;
  append_bytes(input, bytes_of(function));
  append_bytes(input, bytes_of(derivation));
  append_number(input, server);
  append_number(input, nonce);
  std::array<std::byte, sizeof id.secret.bytes + sizeof id.group> derived;
  crypto_generichash(raw(derived.data()), derived.size(), raw(input.data()), input.size(),
                     raw(parent.secret().bytes.data()), parent.secret().bytes.size());
  std::copy_n(derived.begin(), id.secret.bytes.size(), id.secret.bytes.begin());
  std::copy_n(derived.begin() + id.secret.bytes.size(), id.group.size(), id.group.begin());
}

uint64_t group_hash(const Communicator &comm) {
  constexpr std::string_view purpose = "group_hash";
  std::array<std::byte, crypto_generichash_BYTES_MIN> digest;
  crypto_generichash(raw(digest.data()), digest.size(), raw(bytes_of(purpose).data()), purpose.size(),
                     raw(comm.secret().bytes.data()), comm.secret().bytes.size());
  uint64_t hash = 0;
  std::memcpy(&hash, digest.data(), sizeof hash);
  return hash;
}

Result<Settings> part_settings(const Communicator &parent, const rondo_config_t *config) {
  if (config == nullptr) return parent.settings();
  return settings_of(config);
}

PartOffer Part::offer() {
  PartOffer made;
  randombytes_buf(&made.nonce, sizeof made.nonce);
  auto listener = listen_for_store({address_of(*parent_, parent_->rank()), 0});
  if (listener.ok()) listener_ = std::move(listener).value();
  else not_listening_ = std::move(listener).error();  // returned later, since the other ranks wait for this rank
  made.port = listener_.endpoint.port;
  return made;
}

void Part::meet_at(const UniqueId &id, uint32_t server, std::vector<uint32_t> members, uint32_t rank_count) {
  members_ = std::move(members);
  rank_ = static_cast<uint32_t>(std::ranges::find(members_, parent_->rank()) - members_.begin());
  rank_count_ = rank_count;
  server_ = server;
  id_ = id;
}

Result<void> Part::meet(std::vector<uint32_t> members, const PartOffer &first, uint64_t operation) {
  members_ = std::move(members);
  rank_count_ = static_cast<uint32_t>(members_.size());
  server_ = members_.front();
  rank_ = static_cast<uint32_t>(std::ranges::find(members_, parent_->rank()) - members_.begin());
  id_ = id_of(members_.front(), first);
  if (members_.size() > 1 && first.port == 0) {
    if (not_listening_ && serves()) return *not_listening_;
    return Error{RONDO_ERROR_REMOTE,
                 parent_->ranks().describe_rank(members_.front()) +
                     " cannot listen for the ranks of its part; its own error says why",
                 static_cast<int32_t>(parent_->rank()), static_cast<int32_t>(members_.front()), operation};
  }
  if (!serves() || members_.size() == 1) listener_ = {};
  return {};
}

/// Returns the id of the part whose first member has the rank `first` in the parent.
UniqueId Part::id_of(uint32_t first, const PartOffer &offer) const {
  UniqueId id;
  derive_id(*parent_, function_, first, offer.nonce, id);
  id.endpoint = {address_of(*parent_, first), static_cast<uint16_t>(offer.port)};
  const GroupInfo &group = parent_->group();
  if (group.node_of(first) != group.node_of(parent_->rank()))
    id.endpoint = seen_from(address_of(*parent_, parent_->rank()), std::move(id.endpoint));
  id.process = static_cast<uint32_t>(parent_->group().infos[first].process);
  return id;
}

void Part::report_given_up(uint64_t patience_ns) {
  if (rank_count_ == 1) return;
  std::unique_ptr<StoreServer> server;  // destroyed last: it waits for members that have not read the report
  if (serves()) {
    auto started = start_store_server(std::move(listener_), id_.secret);
    if (!started.ok()) return;
    server = std::move(started).value();
  }
  const auto rank = static_cast<int32_t>(rank_);
  const Membership member{group_name(id_) + "/", rank_, rank_count_, 0};
  const auto store = connect_store(id_.endpoint, id_.secret, now_ns() + patience_ns, member, store_host());
  const Error error{RONDO_ERROR_ABORTED, "rank " + std::to_string(rank_) + " was aborted", rank, rank};
  if (store.ok()) store.value()->leave(error);
}

Part::Made Part::make(const Cancel *cancel) {
  const std::string name = group_name(id_);
  if (rank_count_ == 1) return make_alone(name + "/", settings_);
  RONDO_TRY(serve());
  auto made = make_at({id_, store_host(), serves() ? death_watch() : nullptr, serves()}, rank_, rank_count_, settings_,
                      now_ns() + settings_.init_timeout_ns, cancel);
  // Other ranks may still wait for this rank in the store. If this rank serves the store, the store's end informs them.
  if (!made.ok() && cancel != nullptr && cancel->requested() && !serves()) report_given_up(report_patience_ns);
  return made;
}

/// Starts the store's server, if this rank serves the store.
Result<void> Part::serve() {
  if (!listener_.socket.valid()) return {};
  RONDO_TRY_ASSIGN(auto server, start_store_server(std::move(listener_), id_.secret));
  process().id_servers.add(group_name(id_), std::move(server));
  return {};
}

Result<void> Part::gather(uint64_t deadline_ns, const Cancel &cancel,
                          const std::function<Result<void>(const Rendezvous &)> &use) {
  const std::string name = group_name(id_);
  if (rank_count_ == 1) {
    Rendezvous alone;
    alone.key_prefix = name + "/";
    alone.store = std::move(make_local_stores(1).front());
    return use(alone);
  }
  RONDO_TRY(serve());
  const auto join = [&]() -> Result<void> {
    if (serves()) process().id_servers.hosted_by(name, rank_);
    RONDO_TRY_ASSIGN(const Rendezvous group, join_group({id_, store_host(), serves() ? death_watch() : nullptr}, rank_,
                                                        rank_count_, deadline_ns, &cancel));
    const auto done = use(group);
    group.store->leave(done);
    return done;
  };
  const auto done = join();
  if (serves()) process().id_servers.remove(name);
  return done;
}

StoreHost Part::store_host() const {
  const auto place = std::ranges::find(members_, server_) - members_.begin();
  return {.rank = static_cast<int32_t>(place),
          .name = parent_->ranks().describe_rank(server_) + " of the parent",
          .runs_already = true,
          .has_secret = true};
}

/// Returns a function that reports members that die before they enter the store; only ranks of the parent can see that.
std::function<void()> Part::death_watch() const {
  return [parent = parent_, members = members_, name = group_name(id_),
          reported = std::vector<bool>(members_.size())]() mutable {
    for (const uint32_t dead : parent->ranks().find_dead()) {
      const auto place = static_cast<size_t>(std::ranges::find(members, dead) - members.begin());
      if (place == members.size() || reported[place]) continue;
      reported[place] = true;
      process().id_servers.rank_ended(name, static_cast<uint32_t>(place));
    }
  };
}

Error Part::explain(Error error, const std::string &call) const {
  std::string ranks;
  for (size_t at = 0; at < std::min(members_.size(), shown_members_max); ++at)
    ranks += (at == 0 ? "" : ", ") + std::to_string(members_[at]);
  if (members_.size() > shown_members_max) ranks += " and more";
  error.message = call + " (" + ranks + " of the parent): " + error.message;
  for (int32_t *const rank : {&error.rank, &error.peer})
    if (*rank >= 0 && static_cast<size_t>(*rank) < members_.size())
      *rank = static_cast<int32_t>(members_[static_cast<size_t>(*rank)]);
  return error;
}

}  // namespace rondo
