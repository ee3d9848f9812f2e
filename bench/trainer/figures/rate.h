// SPDX-License-Identifier: Apache-2.0
// These figures compare the floating-point operations that a rank computes in a second with the rate of one large
// product. A slow model hides any communication, so the figures of overlap mean little without these.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "bench/trainer/figures/overlap.h"

namespace rondo::train {

struct RateFigures {
  double operations = 0;    ///< floating-point operations of a rank in a step, or 0 if not measured
  size_t product_rows = 0;  ///< rows and columns of the large product's matrices
  Estimate rate;            ///< operations a second in a step, in 10^12
  Estimate product_rate;    ///< operations a second in the large product, in 10^12
  bool enough = false;      ///< there are at least rounds_min rounds
  /// The ratio of both rates, round by round. It is empty if there are too few rounds, or if the bounds are further
  /// apart than the ratio itself.
  std::optional<Estimate> share;
};

/// Computes the figures.
/// @param overlap     whether the run's steps overlap
/// @param operations  operations of a rank in a step, as sample_operations() of shape.h counts them
[[nodiscard]] RateFigures rate_figures(std::span<const Round> rounds, bool overlap, double operations,
                                       size_t product_rows);

/// Returns a sentence without a full stop, or an empty text if nothing was measured.
[[nodiscard]] std::string rate_text(const RateFigures &figures);

/// Returns text such as "52 % (51 to 53)". Without a share, returns `too small to tell` or `too few rounds to tell`.
[[nodiscard]] std::string share_text(const RateFigures &figures);

}  // namespace rondo::train
