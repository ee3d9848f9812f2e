// SPDX-License-Identifier: Apache-2.0
// This file computes what overlap gains, from steps that were measured in turns. The text output, report.json and the
// page all show these figures, in the same words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rondo::train {

/// One round of measurements. Each field is the time of the slowest rank, or 0 if it was not measured.
struct Round {
  uint64_t computation_ns = 0;    ///< a step without communication
  uint64_t backward_ns = 0;       ///< the last backward pass of that step
  uint64_t communication_ns = 0;  ///< all collectives of a step, and nothing else
  uint64_t gradients_ns = 0;      ///< part of communication_ns: the collectives of gradients
  uint64_t overlapped_ns = 0;     ///< a step with overlap
  uint64_t plain_ns = 0;          ///< a step without overlap
  uint64_t alone_ns = 0;          ///< a step of one rank without communication, while the others wait
  uint64_t passes_alone_ns = 0;   ///< forward and backward of the step without communication
  uint64_t passes_beside_ns = 0;  ///< forward and backward of the step with overlap
  uint64_t product_ns = 0;        ///< one large product, as rate.h uses it

  /// Returns the factor by which communication slows the passes down, or 0 if not measured.
  [[nodiscard]] double slowdown() const;
};

/// A median, and the bounds between which the median of infinitely many rounds lies with 95 % confidence.
struct Estimate {
  double median = 0, low = 0, high = 0;

  [[nodiscard]] double width() const { return high - low; }
};

inline constexpr size_t rounds_min = 6;  ///< fewest rounds for bounds of 95 % confidence

/// Returns the estimate. With fewer values than rounds_min, the bounds are the least and the largest value.
[[nodiscard]] Estimate estimate(std::vector<double> values);

struct OverlapFigures {
  enum class State {
    not_measured,
    off,             ///< all steps were without overlap
    one_rank,        ///< there is no communication to overlap
    too_few_rounds,  ///< fewer than rounds_min, so noise may hide a difference
    measured
  };
  State state = State::not_measured;
  Estimate step_us;      ///< time of a step with overlap
  Estimate plain_us;     ///< time of a step without overlap
  Estimate less;         ///< the share of plain_us that overlap saves; below 0 if overlap costs time
  bool less_told = false;  ///< the saving is larger than the noise
  Estimate hidden_us;    ///< plain_us less step_us, round by round
  Estimate hideable_us;  ///< the shorter of two times: gradients' communication, and the backward pass that can hide it
  /// The share of hideable_us that was hidden. It is empty if hideable_us is small compared with the spread of steps.
  /// It is also empty if more was saved than could be hidden, because then something else saved time.
  std::optional<Estimate> efficiency;
  /// The factor by which communication slows the model's passes down. It is empty if the factor may be 1 or less.
  std::optional<Estimate> slowdown;
};

/// Computes the figures.
/// @param overlap  false if the run had --no-overlap
/// @param ranks  number of ranks that add up gradients
[[nodiscard]] OverlapFigures overlap_figures(std::span<const Round> rounds, bool overlap, size_t ranks);

/// Returns a sentence without a full stop, or an empty text if the state is `not_measured`.
[[nodiscard]] std::string headline(const OverlapFigures &figures);

/// Returns text such as "0.95 (0.90 to 1.00)", or `too small to tell` if `efficiency` has no value. If the state is not
/// `measured`, the text is empty.
[[nodiscard]] std::string efficiency_text(const OverlapFigures &figures);

/// Returns text such as "1.10 (1.05 to 1.14) times as long", or `too small to tell` if `slowdown` has no value. If the
/// state is not `measured`, the text is empty.
[[nodiscard]] std::string slowdown_text(const OverlapFigures &figures);

[[nodiscard]] double median(std::vector<double> values);

}  // namespace rondo::train
