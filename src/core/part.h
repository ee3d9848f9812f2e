// SPDX-License-Identifier: Apache-2.0
// A part is a communicator whose members are ranks of a parent. They agree on the members before they make the part.
//
// Meet     The first member offers a port, on which it serves the part's store. The part's secret and name are derived
//          from the parent's secret and that member's nonce, so no secret crosses the network. A part that a grow makes
//          also has ranks from outside the parent. These ranks know only an id.
// Make     The members make the part as any communicator is made. A failure in this phase does not affect the parent.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/cancel.h"
#include "src/bootstrap/store/store.h"
#include "src/core/communicator.h"
#include "src/core/init.h"

namespace rondo {

/// A rank's offer to serve the store of its part.
struct PartOffer {
  uint32_t port = 0;   ///< 0 if the rank cannot listen
  uint64_t nonce = 0;  ///< random, so that each part has another secret
};

/// Writes a part's secret and name into `id`. The parent's rank `server` serves its store. `function` makes the part.
void derive_id(const Communicator &parent, std::string_view function, uint32_t server, uint64_t nonce, UniqueId &id);

/// Returns a number that is equal on all ranks of a communicator, and different for others. The number is derived from
/// the secret, but does not reveal the secret.
[[nodiscard]] uint64_t group_hash(const Communicator &comm);

/// Returns the settings of a part. If `config` is null, the parent's settings apply.
[[nodiscard]] Result<Settings> part_settings(const Communicator &parent, const rondo_config_t *config);

/// One rank's work to make a part. Only one thread at a time may call its functions.
class Part {
 public:
  using Made = Result<std::shared_ptr<Communicator>>;

  /// Begins the work. `function` is the name, for messages, of the public function that makes the part.
  Part(std::shared_ptr<Communicator> parent, Settings settings, std::string function)
      : parent_(std::move(parent)), settings_(std::move(settings)), function_(std::move(function)) {}

  [[nodiscard]] Communicator &parent() const { return *parent_; }
  [[nodiscard]] const Settings &settings() const { return settings_; }

  /// Starts to listen, so that this rank can serve the store.
  [[nodiscard]] PartOffer offer();
  /// Sets the members, in the order of the part, and the offer of the first member. Returns RONDO_ERROR_REMOTE if the
  /// first member cannot listen; `operation` is the operation's number in that error.
  [[nodiscard]] Result<void> meet(std::vector<uint32_t> members, const PartOffer &first, uint64_t operation);

  /// Replaces meet() for a part that also has ranks from outside the parent, numbered after the members. Rank `server`
  /// of the parent already serves the store of `id`. `rank_count` counts all ranks of the part.
  void meet_at(const UniqueId &id, uint32_t server, std::vector<uint32_t> members, uint32_t rank_count);

  // Call these functions only after meet() or meet_at().
  [[nodiscard]] const std::vector<uint32_t> &members() const { return members_; }
  /// Returns whether this rank serves the store of the part.
  [[nodiscard]] bool serves() const { return server_ == parent_->rank(); }
  /// Makes the part. `cancel` may be null.
  [[nodiscard]] Made make(const Cancel *cancel);
  /// Instead of making the part, meets its members in the store and calls use() with the store. All members call it
  /// after meet(), at any time until `deadline_ns`. Fails as use() does, or if a member does not come. `cancel` ends
  /// all waits in the store.
  [[nodiscard]] Result<void> gather(uint64_t deadline_ns, const Cancel &cancel,
                                    const std::function<Result<void>(const Rendezvous &)> &use);
  /// Enters the part's store, reports that this rank was aborted, and leaves. So other members do not wait for it.
  void report_given_up(uint64_t patience_ns);
  /// Completes an error of the part: its fields get the parent's rank numbers, and its message begins with `call`.
  [[nodiscard]] Error explain(Error error, const std::string &call) const;

 private:
  [[nodiscard]] UniqueId id_of(uint32_t first, const PartOffer &offer) const;
  [[nodiscard]] StoreHost store_host() const;
  [[nodiscard]] Result<void> serve();
  [[nodiscard]] std::function<void()> death_watch() const;

  const std::shared_ptr<Communicator> parent_;
  const Settings settings_;
  const std::string function_;
  StoreListener listener_;  ///< valid until this rank serves the part's store, or knows that it will not
  std::optional<Error> not_listening_;  ///< why there is no listener
  // meet() or meet_at() sets these:
  std::vector<uint32_t> members_;
  uint32_t rank_ = 0;  ///< number of this rank in the part
  uint32_t rank_count_ = 1;  ///< number of ranks of the part
  uint32_t server_ = 0;      ///< rank of the parent that serves the store
  UniqueId id_;
};

}  // namespace rondo
