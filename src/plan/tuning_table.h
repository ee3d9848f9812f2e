// SPDX-License-Identifier: Apache-2.0
// A measured tuning table gives the plan of an operation for a collective, a number of ranks and a size. `rondo tune`
// measures it on a machine. The table is immutable plain data. The tuner reads it before its built-in tables.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/plan/choice.h"

namespace rondo {

[[nodiscard]] const char *buffer_place_string(BufferPlace place);  ///< null for an unknown place

struct TuningRow {
  static constexpr uint64_t any_bytes = std::numeric_limits<uint64_t>::max();

  rondo_collective_t collective = RONDO_ALL_REDUCE;
  uint32_t rank_count = 2;      ///< number of ranks at which the row was measured
  bool oversubscribed = false;  ///< true if there were more ranks than cores
  uint64_t bytes_max = any_bytes;
  PlanChoice choice;            ///< complete: no field is AUTO or 0, except the protocol with load_store
  bool several_hosts = false;   ///< true if a network was between some of the ranks
  BufferPlace buffers = BufferPlace::host;  ///< rows of one kind of memory do not apply to another

  bool operator==(const TuningRow &) const = default;
};

class TuningTable {
 public:
  static constexpr size_t row_count_max = 4096;
  static constexpr uint32_t rank_count_max = 1u << 20;

  /// Makes an empty table. With it, the built-in tables decide.
  TuningTable() = default;

  /// Makes a table. The rows ascend by collective, buffers, several_hosts, oversubscribed, ranks and bytes_max. No row
  /// may occur twice. Each row's algorithm must support the row's collective, ranks and kernel.
  /// RONDO_ERROR_INVALID_ARGUMENT names the row, counted from 0.
  [[nodiscard]] static Result<TuningTable> make(std::vector<TuningRow> rows);

  [[nodiscard]] std::span<const TuningRow> rows() const { return rows_; }
  /// Returns a hash of the rows, which ranks compare. It is 0 without rows.
  [[nodiscard]] uint64_t hash() const { return hash_; }

  /// Returns the rows for `rank_count` ranks, in ascending order of bytes_max. If `rank_count` was not measured,
  /// returns the rows of the measured number that is nearer by ratio, below or above; in a tie, of the larger one.
  /// Returns no rows if `rank_count` is outside of the measured range.
  [[nodiscard]] std::span<const TuningRow> rows_for(rondo_collective_t collective, uint32_t rank_count,
                                                    bool oversubscribed, bool several_hosts = false,
                                                    BufferPlace buffers = BufferPlace::host) const;
  /// Returns whether some row requests load_store for `rank_count` ranks of one host with buffers of this kind. If so,
  /// ranks on devices load the kernels of load_store early.
  [[nodiscard]] bool wants_load_store(uint32_t rank_count, BufferPlace buffers) const;

 private:
  std::vector<TuningRow> rows_;
  uint64_t hash_ = 0;
};

inline constexpr const char *tuning_format = "rondo tuning table";
inline constexpr uint64_t tuning_version = 1;
inline constexpr size_t tuning_file_bytes_max = size_t{16} << 20;

/// Parses a table from a file's text, which may hold anything. It skips the keys that `rondo tune` writes for people
/// and other programs, and refuses unknown keys. The error names the place in the text.
[[nodiscard]] Result<TuningTable> parse_tuning(std::string_view text);

/// Reads and parses a file. RONDO_ERROR_INVALID_ARGUMENT names the file and the place, and gives advice.
[[nodiscard]] Result<TuningTable> read_tuning_file(const std::string &path);

}  // namespace rondo
