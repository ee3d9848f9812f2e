// SPDX-License-Identifier: Apache-2.0
// This file describes one disagreement of ranks, drawn from a seed. At first all ranks make the same calls. Then they
// divide into groups whose calls differ. Finally all ranks make the same calls again. Every rank must get an error
// before the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rondo/rondo.h"

namespace rondo_test {

struct DrawnCall {
  rondo_collective_t collective = RONDO_BARRIER;
  rondo_type_t type = RONDO_INT32;
  rondo_op_t op = RONDO_SUM;
  int root = 0;
  size_t count = 0;

  /// Compares calls as ranks do: ignores the fields that the collective does not use.
  [[nodiscard]] bool same_as(const DrawnCall &other) const;
  /// Returns the text that errors show for the call, such as "broadcast of 8 int32 from rank 1".
  [[nodiscard]] std::string text() const;
  /// Says whether a rank completes the call only after every rank has taken part in it.
  [[nodiscard]] bool waits_for_all() const;
  /// Returns the number of elements of the longest buffer.
  [[nodiscard]] size_t elements(int rank_count) const;
};

struct Disagreement {
  uint64_t seed = 0;
  int rank_count = 2;
  rondo_config_t config = RONDO_CONFIG_INIT;
  std::vector<DrawnCall> before;   ///< calls on which all ranks agree
  std::vector<DrawnCall> parting;  ///< by rank: its call where the groups' calls differ
  std::vector<DrawnCall> after;    ///< calls on which all ranks agree; a finalize follows
  std::vector<uint8_t> in_place;   ///< by rank
  std::vector<uint8_t> mapped;     ///< by rank: true if its buffers come from rondo_mem_alloc()

  [[nodiscard]] std::string text() const;
};

/// Draws a disagreement. If `blocks`, its calls may be all_to_all, gather and scatter, which devices do not support.
[[nodiscard]] Disagreement draw_disagreement(uint64_t seed, bool blocks = false);

/// The result of a rank. It is plain data, so that processes can exchange it.
struct Told {
  rondo_error_t error = RONDO_ERROR_INIT;  ///< its first failure, or RONDO_OK
  uint32_t silent_exchanges = 0;  ///< number of calls that waited for all ranks and still succeeded after the parting
};

/// The arguments of a rank: two buffers of buffer_bytes(), in the memory that its communicator uses.
struct RankPart {
  int rank = 0;
  rondo_comm_t comm = nullptr;
  std::byte *send = nullptr;
  std::byte *recv = nullptr;
  rondo_stream_t stream = nullptr;
  /// A function that returns the outcome of a call that has just returned RONDO_OK. Empty if the outcome is known then.
  std::function<rondo_status_t()> settle;
};
[[nodiscard]] size_t buffer_bytes(const Disagreement &drawn);

/// Makes the calls of a rank until the end, or until the first failure.
[[nodiscard]] Told live_disagreement(const Disagreement &drawn, const RankPart &part);

/// Returns what is wrong with the errors of the ranks, or an empty text.
[[nodiscard]] std::string judge_disagreement(const Disagreement &drawn, const std::vector<Told> &told);

}  // namespace rondo_test
