// SPDX-License-Identifier: Apache-2.0
// This class watches one operation while the rank waits in it. It checks for a failure of the communicator, the
// deadline, ranks that disagree, and ranks that died or left. The rank that notices one of these first raises it for
// all ranks (Ranks::raise).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "src/engine/waiter.h"
#include "src/links/ranks.h"

namespace rondo {

/// The time between two checks by a watch whether other ranks live.
inline constexpr uint64_t death_check_interval_ns = 50'000'000;
/// The time for which a watch still waits for data that an ended rank of another host had sent. The wait is mostly
/// shorter, because the end of the link is reported at once.
inline constexpr uint64_t delivery_patience_ns = 500'000'000;

class OperationWatch final : public Watch {
 public:
  OperationWatch(Ranks &ranks, uint32_t rank, uint32_t rank_count, uint64_t operation, const OperationInfo &entered,
                 uint64_t timeout_ns)
      : ranks_(ranks),
        rank_(rank),
        rank_count_(rank_count),
        operation_(operation),
        entered_(entered),
        timeout_ns_(timeout_ns) {}

  [[nodiscard]] bool stopped() override { return ranks_.failed(); }
  [[nodiscard]] bool look(uint64_t now_ns) override;

  /// Begins the timeout anew, because an earlier operation was watched until now.
  void restart() { start_ns_ = 0; }

  /// Raises the reason why a peer's slot did not fit this operation. `own_shortage` is PeerAccess::own_shortage().
  void explain_fault(uint32_t peer, Fault fault, int own_shortage = 0);
  /// Sets the size of the block that this rank expects from the peer of explain_fault(), in a _v collective on devices.
  void expect_block(uint64_t bytes) { expected_bytes_ = bytes; }

 private:
  /// An operation that two ranks have entered, and their records of it.
  struct Common {
    uint64_t operation = 0;
    OperationInfo own;
    OperationInfo theirs;
  };

  bool check_agreement();
  bool disagrees(uint32_t peer);
  /// Returns the latest operation that both ranks have entered, or nothing if one of its two records is missing.
  [[nodiscard]] std::optional<Common> latest_in_common(uint32_t peer) const;
  [[nodiscard]] bool is_known_to_agree(uint32_t peer) const;
  void tell_disagreement(uint32_t peer, const Common &latest);
  bool tell_finalized(uint32_t peer, uint64_t operation, const Signature &own, const Signature &theirs);
  void tell_differing_block(uint32_t peer);
  bool check_ended_ranks(uint64_t now_ns);
  void time_out(uint64_t now_ns);
  void raise(rondo_status_t status, int32_t peer, uint64_t operation, const std::string &message);
  [[nodiscard]] std::string operation_name() const;

  Ranks &ranks_;
  uint32_t rank_;
  uint32_t rank_count_;
  uint64_t operation_;
  const OperationInfo &entered_;
  uint64_t timeout_ns_;
  uint64_t start_ns_ = 0;  ///< time of the first check; an operation that does not wait reads no clock
  uint64_t next_death_check_ns_ = 0;
  uint64_t expected_bytes_ = 0;
};

/// Describes an operation: "all_reduce of 8 float32 (sum) by ring, simple, 1 channels, chunks of 65536 bytes"
[[nodiscard]] std::string describe(const OperationInfo &entered);

/// The end of a failure's message, which says what the caller can do next.
inline constexpr const char *what_now =
    "; only rondo_comm_shrink, rondo_comm_abort and rondo_comm_destroy are left for this communicator";

/// Returns why `rank` cannot read a buffer that `peer` has exported. `own_shortage` is PeerAccess::own_shortage().
[[nodiscard]] Error unreadable_buffer(const Ranks &ranks, uint32_t rank, uint32_t peer, int own_shortage,
                                      const std::string &during);

/// Returns the error for a block whose sizes differ: `peer` sends sent_bytes, `rank` expects expected_bytes.
[[nodiscard]] Error differing_block(const Signature &call, uint64_t number, uint32_t rank, uint32_t peer,
                                    uint64_t sent_bytes, uint64_t expected_bytes);

/// Ends of ranks. A `crash` is a death without exit(), or with exit() during an operation. `any` includes departures.
enum class RankEnd : uint8_t { crash, death, any };

/// Returns the lowest rank that died, other than `rank`. A rank does not count if it had left or finalized before its
/// death, or if `counts` returns false for it.
[[nodiscard]] std::optional<uint32_t> find_dead_rank(const Ranks &ranks, uint32_t rank,
                                                     const std::function<bool(uint32_t)> &counts);

/// The departure of a rank: the status of an operation that needs the rank, and text that follows the rank's name.
struct Departure {
  rondo_status_t status;
  const char *how;
};
/// Returns how a rank whose state is has_ended_calls() has left.
[[nodiscard]] Departure departure_of(RankState state);

/// Returns RONDO_ERROR_REMOTE if a rank that has not completed `operation` has died. With RankEnd::any, also returns an
/// error if such a rank has finalized, destroyed or aborted its communicator.
[[nodiscard]] std::optional<Error> find_ended_rank(const Ranks &ranks, uint32_t rank, uint32_t rank_count,
                                                   uint64_t operation, RankEnd which);

}  // namespace rondo
