// SPDX-License-Identifier: Apache-2.0
#include "src/core/derive.h"

#include <sodium.h>

#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "src/bootstrap/address.h"
#include "src/bootstrap/messages.h"
#include "src/bootstrap/store/store.h"
#include "src/core/process.h"
#include "src/core/regroup.h"

namespace rondo {
namespace {

constexpr const char *function = "rondo_comm_grow";

/// Returns a number, never 0, with which ranks compare ids.
uint64_t tag_of(const UniqueId &id) {
  uint64_t tag = 0;
  std::memcpy(&tag, id.group.data(), sizeof tag);
  return tag == 0 ? 1 : tag;
}

/// Returns the id without its secret and its name.
Result<RegroupNote::Place> place_of(UniqueId id) {
  id.secret = {};
  id.group = {};
  RONDO_TRY_ASSIGN(const rondo_unique_id_t encoded, encode_unique_id(id));
  return std::bit_cast<RegroupNote::Place>(encoded);
}

/// A grow on one old rank.
class Grow final : public Regroup {
 public:
  Grow(std::shared_ptr<Communicator> parent, Settings settings)
      : Regroup(std::move(parent), std::move(settings), function, false) {}
  Grow(const Grow &) = delete;
  Grow &operator=(const Grow &) = delete;
  ~Grow() override;

  /// `tag` belongs to the id that the caller has passed, or is 0 if the caller has passed none.
  Result<void> begin(uint32_t size, uint64_t tag) {
    tag_ = tag;
    return Regroup::begin({{}, size});
  }

 private:
  Result<void> offer(RegroupNote &own) override;
  Result<void> meet() override;
  void on_failure(const Error &error) override;
  [[nodiscard]] Result<uint32_t> find_maker() const;

  std::optional<GrowId> own_;  ///< set if this rank has made the id
  uint64_t tag_ = 0;
};

Grow::~Grow() {
  if (own_) process().id_servers.remove(group_name(own_->id));
}

Result<void> Grow::offer(RegroupNote &own) {
  own.id_tag = tag_;
  own_ = parent().grow_ids().take();
  if (!own_) return {};
  own.port = own_->id.endpoint.port;
  own.nonce = own_->nonce;
  RONDO_TRY_ASSIGN(own.place, place_of(own_->id));
  return {};
}

/// Returns the rank that has made the id. The result is equal on all ranks.
Result<uint32_t> Grow::find_maker() const {
  std::optional<uint32_t> maker;
  const auto named = [&](uint32_t rank) { return parent().ranks().describe_rank(rank); };
  for (const uint32_t member : members()) {
    if (note_of(member).port == 0) continue;
    if (maker)
      return about(RONDO_ERROR_MISMATCH,
                   call() + ": " + named(*maker) + " and " + named(member) +
                       " have both called rondo_comm_grow_id; call it on one rank only",
                   member);
    maker = member;
  }
  if (!maker)
    return Error{RONDO_ERROR_INVALID_USAGE,
                 call() + ": no rank has an unused id of rondo_comm_grow_id; call it on one rank, and give the id to "
                          "the new ranks",
                 static_cast<int32_t>(parent().rank())};
  return *maker;
}

Result<void> Grow::meet() {
  RONDO_TRY_ASSIGN(const uint32_t maker, find_maker());
  const RegroupNote &offered = note_of(maker);
  RONDO_TRY_ASSIGN(UniqueId id, decode_unique_id(std::bit_cast<rondo_unique_id_t>(offered.place)));
  derive_id(parent(), function, maker, offered.nonce, id);
  for (const uint32_t member : members())
    if (const uint64_t passed = note_of(member).id_tag; passed != 0 && passed != tag_of(id))
      return about(RONDO_ERROR_MISMATCH,
                   call() + ": " + parent().ranks().describe_rank(member) + " passes another id than the one that " +
                       parent().ranks().describe_rank(maker) + " has made with rondo_comm_grow_id",
                   member);
  part().meet_at(id, maker, members(), offered.wanted.grown_size);
  return {};
}

/// Reports the failure to the new ranks that wait, if this rank serves their store.
void Grow::on_failure(const Error &error) {
  if (!own_) return;
  const std::string group = group_name(own_->id);
  Error told = error;
  told.message.insert(0, "rank " + std::to_string(parent().rank()) + " failed: ");
  process().id_servers.host_failed(group, told, parent().rank());
  if (error.status == RONDO_ERROR_ABORTED) process().id_servers.dismiss(group);
  else process().id_servers.remove(group);
}

}  // namespace

GrowIds::~GrowIds() {
  if (kept_) process().id_servers.remove(group_name(kept_->id));
}

Result<void> GrowIds::check_unused() const {
  if (!kept_ || !process().id_servers.contains(group_name(kept_->id))) return {};
  return Error{RONDO_ERROR_INVALID_USAGE,
               "an earlier id of rondo_comm_grow_id is not used yet; use it for rondo_comm_grow, or discard it by "
               "rondo_unique_id_free"};
}

std::optional<GrowId> GrowIds::take() {
  const std::lock_guard lock(mutex_);
  const bool discarded = check_unused().ok();
  std::optional<GrowId> kept = std::exchange(kept_, std::nullopt);
  return discarded ? std::nullopt : kept;
}

Result<rondo_unique_id_t> make_grow_id(Communicator &parent) {
  RONDO_TRY(check_regroup(parent, "rondo_comm_grow_id"));
  const auto make = [&]() -> Result<GrowId> {
    GrowId grow;
    randombytes_buf(&grow.nonce, sizeof grow.nonce);
    derive_id(parent, function, parent.rank(), grow.nonce, grow.id);
    grow.id.process = static_cast<uint32_t>(parent.group().infos[parent.rank()].process);
    RONDO_TRY_ASSIGN(const Offer offer, offer_addresses(parent.settings().network_interface));
    RONDO_TRY_ASSIGN(auto server, start_store_server({offer.listen, 0}, grow.id.secret));
    grow.id.endpoint = {offer.host, server->endpoint().port};
    process().id_servers.add(group_name(grow.id), std::move(server));
    return grow;
  };
  RONDO_TRY_ASSIGN(const GrowId made, parent.grow_ids().add(make));
  return encode_unique_id(made.id);
}

Result<Initialisation> begin_grow(std::shared_ptr<Communicator> parent, const rondo_unique_id_t *id, int size,
                                  const rondo_config_t *config) {
  RONDO_TRY(check_regroup(*parent, function));
  if (size < 0 || static_cast<uint32_t>(size) <= parent->rank_count())
    return invalid_argument("size is " + std::to_string(size) + "; the communicator has " +
                            std::to_string(parent->rank_count()) +
                            " ranks, and grows: give the number of old and new ranks together");
  if (static_cast<uint32_t>(size) > rank_count_max)
    return invalid_argument("size is " + std::to_string(size) + "; a communicator has at most " +
                            std::to_string(rank_count_max) + " ranks");
  uint64_t tag = 0;
  if (id != nullptr) {
    RONDO_TRY_ASSIGN(const UniqueId decoded, decode_unique_id(*id));
    tag = tag_of(decoded);
  }
  RONDO_TRY_ASSIGN(Settings settings, part_settings(*parent, config));
  const bool nonblocking = settings.nonblocking;
  const auto grow = std::make_shared<Grow>(std::move(parent), std::move(settings));
  RONDO_TRY(grow->begin(static_cast<uint32_t>(size), tag));
  return Initialisation{[grow](const Cancel *cancel) { return grow->run(cancel); }, nonblocking};
}

}  // namespace rondo
