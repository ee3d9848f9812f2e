// SPDX-License-Identifier: Apache-2.0
// One disagreement of ranks, as a seed draws it. First all make the same calls. Then the ranks part, in groups that
// agree among themselves, and then all make the same calls again. Every rank must get an error before it reaches the
// end.
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

  /// Compares as the ranks do: fields for which a collective has no use do not count.
  [[nodiscard]] bool same_as(const DrawnCall &other) const;
  /// Returns the text with which errors name it, e.g. "broadcast of 8 int32 from rank 1".
  [[nodiscard]] std::string text() const;
  /// Returns whether it is complete on a rank only after every rank has had a part in it.
  [[nodiscard]] bool waits_for_all() const;
  /// Returns the number of elements of the longest buffer.
  [[nodiscard]] size_t elements(int rank_count) const;
};

struct Disagreement {
  uint64_t seed = 0;
  int rank_count = 2;
  rondo_config_t config = RONDO_CONFIG_INIT;
  std::vector<DrawnCall> before;   ///< all agree
  std::vector<DrawnCall> parting;  ///< by rank
  std::vector<DrawnCall> after;    ///< all agree; then finalize
  std::vector<uint8_t> in_place;   ///< by rank
  std::vector<uint8_t> mapped;     ///< by rank: its buffers are of rondo_mem_alloc()

  [[nodiscard]] std::string text() const;
};

/// blocks: all_to_all, gather and scatter as well, which devices do not have.
[[nodiscard]] Disagreement draw_disagreement(uint64_t seed, bool blocks = false);

/// The result of a rank. It is plain data, since it travels from process to process.
struct Told {
  rondo_error_t error = RONDO_ERROR_INIT;  ///< its first failure; RONDO_OK if none
  uint32_t silent_exchanges = 0;  ///< calls at which all meet that it completed although the ranks had parted before
};

/// A rank's arguments: two buffers of buffer_bytes() where its communicator is.
struct RankPart {
  int rank = 0;
  rondo_comm_t comm = nullptr;
  std::byte *send = nullptr;
  std::byte *recv = nullptr;
  rondo_stream_t stream = nullptr;
  /// Returns the outcome of the call that has just returned RONDO_OK; empty if that is all.
  std::function<rondo_status_t()> settle;
};
[[nodiscard]] size_t buffer_bytes(const Disagreement &drawn);

/// Makes the calls of a rank, to the end or the first failure.
[[nodiscard]] Told live_disagreement(const Disagreement &drawn, const RankPart &part);

/// Returns what is wrong with the errors that the ranks got, or nothing.
[[nodiscard]] std::string judge_disagreement(const Disagreement &drawn, const std::vector<Told> &told);

}  // namespace rondo_test
