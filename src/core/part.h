// SPDX-License-Identifier: Apache-2.0
// A part is a communicator of some ranks of a parent, which already agree on its members.
//
// Meet     The first member serves the part's store on a port that it has offered. Both the secret and the name of the
//          part are derived from the parent's secret and that member's nonce, so no secret crosses the network.
// Make     The members make the part as every other communicator. Nothing that fails from here on concerns the parent.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/cancel.h"
#include "src/bootstrap/store/listener.h"
#include "src/core/communicator.h"
#include "src/core/init.h"

namespace rondo {

/// A rank's offer to serve the store of its part.
struct PartOffer {
  uint32_t port = 0;   ///< 0 if it cannot listen
  uint64_t nonce = 0;  ///< random: makes the secret of each part differ
};

/// Returns the settings of a part. Without a configuration they are the parent's.
[[nodiscard]] Result<Settings> part_settings(const Communicator &parent, const rondo_config_t *config);

/// One rank's making of a part. One thread at a time, except where a function says otherwise.
class Part {
 public:
  using Made = Result<std::shared_ptr<Communicator>>;

  /// `function` is the public function that makes it.
  Part(std::shared_ptr<Communicator> parent, Settings settings, std::string function)
      : parent_(std::move(parent)), settings_(std::move(settings)), function_(std::move(function)) {}

  [[nodiscard]] Communicator &parent() const { return *parent_; }
  [[nodiscard]] const Settings &settings() const { return settings_; }

  /// Listens, so that this rank can serve the store.
  [[nodiscard]] PartOffer offer();
  /// Sets the members, ranks of the parent in the order of the part, and what the first of them has offered.
  /// RONDO_ERROR_REMOTE: it cannot listen. `operation` is for that error.
  [[nodiscard]] Result<void> meet(std::vector<uint32_t> members, const PartOffer &first, uint64_t operation);

  // After meet():
  [[nodiscard]] const std::vector<uint32_t> &members() const { return members_; }
  /// Returns whether this rank serves the store of the part.
  [[nodiscard]] bool serves() const { return members_.front() == parent_->rank(); }
  /// Makes the part. `cancel` may be null.
  [[nodiscard]] Made make(const Cancel *cancel);
  /// Enters the store of the part only to leave it, so that the other members do not wait for this rank.
  void report_given_up(uint64_t patience_ns);
  /// Completes an error that counts ranks as the part does: its fields count them as the parent. `call` begins it.
  [[nodiscard]] Error explain(Error error, const std::string &call) const;

 private:
  [[nodiscard]] UniqueId id_of(uint32_t first, const PartOffer &offer) const;
  [[nodiscard]] StoreHost store_host() const;
  [[nodiscard]] std::function<void()> death_watch() const;

  const std::shared_ptr<Communicator> parent_;
  const Settings settings_;
  const std::string function_;
  StoreListener listener_;  ///< until this rank serves the part's store, or knows that it does not
  std::optional<Error> not_listening_;  ///< why there is no listener
  // meet() sets these:
  std::vector<uint32_t> members_;
  uint32_t rank_ = 0;  ///< of this rank in the part
  UniqueId id_;
};

}  // namespace rondo
