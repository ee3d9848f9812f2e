// SPDX-License-Identifier: Apache-2.0
// This file runs a collective beside a large matrix product, and measures what each costs the other (--beside-product).
//
// On every device the first rank repeats the product on a second stream. A round has four runs, each after a barrier.
// The four runs follow each other closely, so slow changes, mainly of the device's clock, affect all of them:
//
//     products alone    only products
//     products beside   calls begin first and end after the last product; the time of the products counts
//     calls alone       only calls
//     calls beside      products begin first and end after the last call; the time of the calls counts
//
// The counted work and the other work each lie between two marks on their stream. The other work begins first and waits
// for nothing; the counted work begins later. A slow-down means little if the two hardly overlap. So the report has the
// smallest share of the counted work's time in which the other work ran, too.
//
// Only ranks that have a product measure times. Each round counts the slowest of them, and the report summarises the
// rounds.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "bench/perf/device_calls.h"
#include "bench/perf/product.h"
#include "bench/perf/timing.h"

namespace rondo::perf {

inline constexpr double window_ns_min = 20e6;  ///< the counted work lasts at least this long
inline constexpr uint32_t window_products_min = 8, window_batches_min = 2;
inline constexpr uint32_t products_max = 512, batches_max = 256;  ///< the most work in one run
inline constexpr double outlasting = 2;  ///< the planned time of the other work, divided by that of the counted work
inline constexpr uint32_t rounds_default = 5;

/// The work that one run enqueues. Calls are in batches of --agg_iters.
struct BesideRun {
  uint32_t lead_batches = 0, batches = 0;
  uint32_t lead_products = 0, products = 0;
};

/// The four runs of a round, planned from the times of one product and one batch alone.
struct BesideRuns {
  BesideRun products_alone, products_beside, calls_alone, calls_beside;
};
[[nodiscard]] BesideRuns plan_runs(double product_ns, double batch_ns);

/// The time in which work ran, counted from an origin.
struct Window {
  double begin_ns = 0, end_ns = 0;

  [[nodiscard]] double length_ns() const { return end_ns - begin_ns; }
};
/// Returns the share of `window` during which `other` ran, too. It is 1 for an empty window.
[[nodiscard]] double covered(const Window &window, const Window &other);

/// One rank's part in these measurements.
class Beside {
 public:
  explicit Beside(Session &session) : session_(session) {}

  /// Opens the products of a rank. Every rank calls open() and measure().
  /// @param members  all ranks.
  [[nodiscard]] Outcome open(const ProductLibrary &library, std::span<const Member> members, ProductFacts &facts);
  /// Measures the calls that measure() in timing.h has timed. Spoils their buffers, and adds to `facts.wrong`.
  [[nodiscard]] Outcome measure(const Case &what, const Shape &shape, Pointers at, BesideTimes &times,
                                ProductFacts &facts);

 private:
  struct Windows {
    Window calls, products;
  };
  [[nodiscard]] Outcome run(DeviceCalls &calls, const BesideRun &what, Windows &windows);
  [[nodiscard]] Outcome enqueue_products(const BesideRun &what);
  [[nodiscard]] Outcome begin_calls(DeviceCalls &calls, const BesideRun &what);
  [[nodiscard]] Outcome end_calls(DeviceCalls &calls, const BesideRun &what);
  [[nodiscard]] Outcome read_windows(const BesideRun &what, Windows &windows);
  [[nodiscard]] Outcome plan(DeviceCalls &calls, BesideRuns &runs);
  [[nodiscard]] Outcome count_wrong(ProductFacts &facts);

  Session &session_;
  std::unique_ptr<SideStream> side_;
  std::optional<Product> product_;  ///< set on the first rank of a device
};

}  // namespace rondo::perf
