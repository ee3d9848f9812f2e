// SPDX-License-Identifier: Apache-2.0
// This file puts flight recordings of any number of ranks, communicators and hosts on one clock. docs/recorder.md
// describes the lines of a recording. Recordings are from files, which may hold anything, or from a running job.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace rondo::cli {

/// The request and the choice of an operation, in the words of the recording. Many operations have the same kind.
struct TracedKind {
  static constexpr std::array text_names{"state", "type", "op", "algorithm", "protocol", "kernel"};
  static constexpr std::array number_names{"count", "root", "channels", "chunk_bytes"};
  std::array<uint32_t, text_names.size()> texts{};  ///< indices into Timeline::names()
  std::array<uint64_t, number_names.size()> numbers{};

  auto operator<=>(const TracedKind &) const = default;
};

struct TracedOperation {
  uint64_t number = 0;
  uint32_t name = 0;        ///< index into Timeline::names(): the collective
  uint32_t kind = 0;        ///< index into Timeline::kinds()
  uint64_t entered_ns = 0;  ///< on the timeline's clock, after align()
  uint64_t ended_ns = 0;    ///< for a running operation, the time of observation
};

/// The operations of one rank in one communicator, in order.
struct TracedLane {
  std::string communicator;
  std::string host;
  std::string clock;  ///< lanes with the same clock need no conversion
  uint64_t rank = 0;  ///< number of the rank in the communicator
  uint64_t process = 0;
  std::vector<TracedOperation> operations;
};

class Timeline {
 public:
  static constexpr uint64_t operations_max = 8u << 20;  ///< each takes some hundred bytes
  static constexpr size_t line_bytes_max = 1u << 20;

  /// Adds one line of a recording. `source` names the recording in messages.
  Result<void> add_line(std::string_view line, const std::string &source);

  /// Converts all lanes to the clock of the first one, and makes the earliest time 0. Call it after the last line.
  /// Fails with RONDO_ERROR_INVALID_ARGUMENT if nothing was recorded, or no line shows how two clocks differ.
  Result<void> align();

  [[nodiscard]] const std::vector<TracedLane> &lanes() const { return lanes_; }
  [[nodiscard]] const std::vector<std::string> &names() const { return names_; }
  [[nodiscard]] const std::vector<TracedKind> &kinds() const { return kinds_; }
  [[nodiscard]] uint64_t operation_count() const { return operation_count_; }
  [[nodiscard]] size_t clock_count() const { return offsets_.size(); }
  /// Returns the largest possible error between two clocks of the timeline.
  [[nodiscard]] uint64_t uncertainty_ns() const;

 private:
  /// The first line of a recording, and what its later lines have added.
  struct Source {
    std::string communicator, host, clock;
    uint64_t made_ns = 0;
    uint64_t looked_ns = 0;
    bool has_rank_0 = false;  ///< has rank 0 of the communicator; the other ranks measured its clock
    std::optional<int64_t> offset_ns;
    uint64_t uncertainty_ns = 0;
    std::map<uint64_t, size_t> lane_of;  ///< the key is the rank's number on its host
  };
  struct Offset {
    int64_t to_first_ns = 0;
    uint64_t uncertainty_ns = 0;
  };
  struct Fields;

  Result<void> add_communicator(const Fields &fields);
  Result<void> add_rank(const Fields &fields);
  Result<void> add_operation(const Fields &fields);
  TracedKind kind_of(const Fields &fields);
  bool connect_clocks();

  std::vector<Source> sources_;
  std::vector<TracedLane> lanes_;
  std::vector<std::string> names_;
  std::map<std::string, uint32_t> name_index_;
  std::vector<TracedKind> kinds_;
  std::map<TracedKind, uint32_t> kind_index_;
  std::map<std::string, Offset> offsets_;  ///< by clock; set by align()
  uint64_t operation_count_ = 0;
};

/// Prints the timeline in the format of Chrome's trace viewer and Perfetto. `sink` gets the text in pieces. If `sink`
/// returns false, printing ends.
[[nodiscard]] bool print_timeline(const Timeline &timeline, const std::function<bool(std::string_view)> &sink);

}  // namespace rondo::cli
