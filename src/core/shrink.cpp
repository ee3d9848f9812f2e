// SPDX-License-Identifier: Apache-2.0
#include "src/core/derive.h"

#include <string>
#include <utility>

#include "src/core/regroup.h"

namespace rondo {
namespace {

/// A shrink on one rank. The lowest member serves the store.
class Shrink final : public Regroup {
 public:
  Shrink(std::shared_ptr<Communicator> parent, Settings settings, bool aborts)
      : Regroup(std::move(parent), std::move(settings), "rondo_comm_shrink", aborts) {}

 private:
  Result<void> offer(RegroupNote &own) override {
    if (members().front() != parent().rank()) return {};
    const PartOffer offered = part().offer();
    own.port = offered.port;
    own.nonce = offered.nonce;
    return {};
  }
  Result<void> meet() override {
    const RegroupNote &first = note_of(members().front());
    return part().meet(members(), {first.port, first.nonce}, 0);
  }
};

}  // namespace

Result<Initialisation> begin_shrink(std::shared_ptr<Communicator> parent, std::span<const int> excluded, bool aborts,
                                    const rondo_config_t *config) {
  RONDO_TRY(check_regroup(*parent, "rondo_comm_shrink"));
  Regrouping wanted;
  for (const int rank : excluded) {
    if (rank < 0 || static_cast<uint32_t>(rank) >= parent->rank_count())
      return invalid_argument("excluded has rank " + std::to_string(rank) + "; the communicator has ranks 0 to " +
                              std::to_string(parent->rank_count() - 1));
    if (static_cast<uint32_t>(rank) == parent->rank())
      return invalid_argument("excluded has this rank, " + std::to_string(rank) +
                              "; only ranks that are not excluded call rondo_comm_shrink");
    wanted.excluded.insert(static_cast<uint32_t>(rank));
  }
  RONDO_TRY_ASSIGN(Settings settings, part_settings(*parent, config));
  const bool nonblocking = settings.nonblocking;
  const auto shrink = std::make_shared<Shrink>(std::move(parent), std::move(settings), aborts);
  RONDO_TRY(shrink->begin(wanted));
  return Initialisation{[shrink](const Cancel *cancel) { return shrink->run(cancel); }, nonblocking};
}

}  // namespace rondo
