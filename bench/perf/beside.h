// SPDX-License-Identifier: Apache-2.0
// A collective beside a large matrix product, and what each costs the other (--beside-product).
//
// On every device the device's first rank repeats the product on a second stream. A round has four runs, each after a
// barrier. So slow changes, mainly of the device's clock, affect all four alike:
//
//     products alone    products only
//     products beside   calls come first and go on after the last product: the time of the products counts
//     calls alone       calls only
//     calls beside      products come first and go on after the last call: the time of the calls counts
//
// The one that counts lies between two marks on its stream, and so does the other. The report has the least share of
// the one that the other covered, since a slow-down means little if the two hardly met. The one that comes first waits
// for nothing and is not counted; the one that follows waits for its end.
//
// Times are of the ranks that have the product, the slowest one's for each round; summarised over the rounds.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "bench/perf/device_calls.h"
#include "bench/perf/product.h"
#include "bench/perf/timing.h"

namespace rondo::perf {

inline constexpr double window_ns_min = 20e6;  ///< what counts lasts as long
inline constexpr uint32_t window_products_min = 8, window_batches_min = 2;
inline constexpr uint32_t products_max = 512, batches_max = 256;  ///< in a run
inline constexpr double outlasting = 2;  ///< the one that does not count is to last this many times as long
inline constexpr uint32_t rounds_default = 5;

/// The work that a run enqueues, with calls in batches of --agg_iters.
struct BesideRun {
  uint32_t lead_batches = 0, batches = 0;
  uint32_t lead_products = 0, products = 0;
};

/// The four runs of a round, by what one product and one batch take alone.
struct BesideRuns {
  BesideRun products_alone, products_beside, calls_alone, calls_beside;
};
[[nodiscard]] BesideRuns plan_runs(double product_ns, double batch_ns);

/// When something was under way, from an origin.
struct Window {
  double begin_ns = 0, end_ns = 0;

  [[nodiscard]] double length_ns() const { return end_ns - begin_ns; }
};
/// Returns the share of `window` in which `other` was under way, too; 1 of an empty one.
[[nodiscard]] double covered(const Window &window, const Window &other);

/// One rank's part.
class Beside {
 public:
  explicit Beside(Session &session) : session_(session) {}

  /// Opens the products of a rank. Every rank calls both.
  /// @param members  all ranks.
  [[nodiscard]] Outcome open(const ProductLibrary &library, std::span<const Member> members, ProductFacts &facts);
  /// Adds to `facts.wrong`. After measure() of the same calls; spoils their buffers.
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
  std::optional<Product> product_;  ///< of the first rank on a device
};

}  // namespace rondo::perf
