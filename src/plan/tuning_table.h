// SPDX-License-Identifier: Apache-2.0
// A measured tuning table: what an operation gets by collective, ranks and size, as `rondo tune` found it on a machine.
// An immutable value of plain data. The tuner asks it before its built-in tables (src/plan/tuner.cpp).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/plan/choice.h"

namespace rondo {

[[nodiscard]] const char *buffer_place_string(BufferPlace place);  ///< null: there is no such

struct TuningRow {
  static constexpr uint64_t any_bytes = std::numeric_limits<uint64_t>::max();

  rondo_collective_t collective = RONDO_ALL_REDUCE;
  uint32_t rank_count = 2;      ///< at which it was measured
  bool oversubscribed = false;  ///< there were more ranks than cores
  uint64_t bytes_max = any_bytes;
  PlanChoice choice;            ///< complete: nothing is AUTO or 0
  bool several_hosts = false;   ///< a network was between some of the ranks
  BufferPlace buffers = BufferPlace::host;  ///< rows of one place say nothing of another

  bool operator==(const TuningRow &) const = default;
};

class TuningTable {
 public:
  static constexpr size_t row_count_max = 4096;
  static constexpr uint32_t rank_count_max = 1u << 20;

  /// Without rows, the built-in tables decide.
  TuningTable() = default;

  /// Makes a table of rows in ascending order of collective, buffers, several_hosts, oversubscribed, ranks and
  /// bytes_max. No row may be there twice, and its algorithm and protocol must be able to do its choice.
  /// RONDO_ERROR_INVALID_ARGUMENT names the row, from 0.
  [[nodiscard]] static Result<TuningTable> make(std::vector<TuningRow> rows);

  [[nodiscard]] std::span<const TuningRow> rows() const { return rows_; }
  /// Returns a hash of the rows, which ranks compare; 0 without rows.
  [[nodiscard]] uint64_t hash() const { return hash_; }

  /// Returns the rows for `rank_count`, by ascending bytes_max. If that number lies between two measured ones, the rows
  /// are for the one whose ratio to it is nearer to 1. If both are equally near, the larger counts. Outside there are
  /// none.
  [[nodiscard]] std::span<const TuningRow> rows_for(rondo_collective_t collective, uint32_t rank_count,
                                                    bool oversubscribed, bool several_hosts = false,
                                                    BufferPlace buffers = BufferPlace::host) const;
  /// Returns whether `rank_count` ranks of one host, with their buffers there, want load_store by some row. On devices
  /// it is loaded first then.
  [[nodiscard]] bool wants_load_store(uint32_t rank_count, BufferPlace buffers) const;

 private:
  std::vector<TuningRow> rows_;
  uint64_t hash_ = 0;
};

inline constexpr const char *tuning_format = "rondo tuning table";
inline constexpr uint64_t tuning_version = 1;
inline constexpr size_t tuning_file_bytes_max = size_t{16} << 20;

/// Parses a table from the text of a file, which may be anything. Keys beside the rows (measurements, the machine) are
/// for people and other programs, and are not read. The message names the place.
[[nodiscard]] Result<TuningTable> parse_tuning(std::string_view text);

/// Calls parse_tuning() on a file. RONDO_ERROR_INVALID_ARGUMENT names file and place, and what to do.
[[nodiscard]] Result<TuningTable> read_tuning_file(const std::string &path);

}  // namespace rondo
