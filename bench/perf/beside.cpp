// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/beside.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "bench/perf/device_calls.h"
#include "bench/perf/floor.h"

namespace rondo::perf {
namespace {

/// Returns how many products or batches take `time_ns`: at least one, and at most `most`.
uint32_t count_for(double time_ns, double each_ns, uint32_t most) {
  if (each_ns <= 0) return most;
  return static_cast<uint32_t>(std::clamp(std::ceil(time_ns / each_ns), 1.0, static_cast<double>(most)));
}

/// Calibration runs, just large enough for a measurable time.
constexpr BesideRun few_products{0, 0, 1, 4}, few_batches{1, 1, 0, 0};

/// One round's values, by name.
struct Round {
  double product_alone_ns = 0, product_beside_ns = 0, call_alone_ns = 0, call_beside_ns = 0;
  double products_uncovered = 0, calls_uncovered = 0;
};
constexpr size_t round_values = sizeof(Round) / sizeof(double);
static_assert(std::is_trivially_copyable_v<Round> && sizeof(Round) % sizeof(double) == 0);

BesideTimes summarise_rounds(std::span<const Round> rounds) {
  const auto spread = [&](double Round::*value) {
    std::vector<double> values;
    for (const Round &round : rounds) values.push_back(round.*value);
    return spread_of(values);
  };
  const auto covered_min = [&](double Round::*uncovered) {
    double min = 1;
    for (const Round &round : rounds) min = std::min(min, 1 - round.*uncovered);
    return min;
  };
  return {spread(&Round::call_alone_ns),          spread(&Round::call_beside_ns),
          spread(&Round::product_alone_ns),       spread(&Round::product_beside_ns),
          covered_min(&Round::calls_uncovered), covered_min(&Round::products_uncovered)};
}

}  // namespace

BesideRuns plan_runs(double product_ns, double batch_ns) {
  const double window_ns =
      std::max({window_ns_min, window_products_min * product_ns, window_batches_min * batch_ns});
  const uint32_t products = count_for(window_ns, product_ns, products_max);
  const uint32_t batches = count_for(window_ns, batch_ns, batches_max);
  // The limits may have lowered the counts above, so the amount of the other work is computed from the counts.
  const uint32_t many_batches = count_for(outlasting * products * product_ns, batch_ns, batches_max);
  const uint32_t many_products = count_for(outlasting * batches * batch_ns, product_ns, products_max);
  return {{0, 0, 1, products}, {1, many_batches, 0, products}, {1, batches, 0, 0}, {0, batches, 1, many_products}};
}

double covered(const Window &window, const Window &other) {
  if (window.length_ns() <= 0) return 1;
  const double both_ns = std::min(window.end_ns, other.end_ns) - std::max(window.begin_ns, other.begin_ns);
  return std::clamp(both_ns / window.length_ns(), 0.0, 1.0);
}

Outcome Beside::open(const ProductLibrary &library, std::span<const Member> members, ProductFacts &facts) {
  facts.library = library.path();
  facts.size = session_.options.product_size;
  const auto rank = static_cast<size_t>(session_.group.rank());
  if (first_on_device(members, rank) == rank) {
    if (auto failure = session_.device->open_side(side_)) return failure;
    product_.emplace(library, *session_.device, *side_, facts.size);
    if (auto failure = product_->prepare()) return failure;
    facts.version = product_->version();
  }
  return session_.group.barrier();  // after the barrier, kernels of other ranks may wait for this rank
}

Outcome Beside::enqueue_products(const BesideRun &what) {
  if (!product_ || what.products == 0) return std::nullopt;
  if (what.lead_batches != 0)
    if (auto failure = side_->follow(Lane::side, Mark::origin)) return failure;
  if (auto failure = side_->mark(Lane::side, Mark::work_begin)) return failure;
  if (auto failure = product_->enqueue(what.products)) return failure;
  return side_->mark(Lane::side, Mark::work_end);
}

Outcome Beside::begin_calls(DeviceCalls &calls, const BesideRun &what) {
  if (what.batches == 0) return std::nullopt;
  if (product_ && what.lead_products != 0)
    if (auto failure = side_->follow(Lane::calls, Mark::origin)) return failure;
  if (side_ != nullptr)
    if (auto failure = side_->mark(Lane::calls, Mark::calls_begin)) return failure;
  return calls.enqueue_all();
}

Outcome Beside::end_calls(DeviceCalls &calls, const BesideRun &what) {
  if (what.batches == 0) return std::nullopt;
  for (uint32_t batch = 1; batch < what.batches; ++batch)
    if (auto failure = calls.enqueue_all()) return failure;
  return side_ != nullptr ? side_->mark(Lane::calls, Mark::calls_end) : std::nullopt;
}

Outcome Beside::read_windows(const BesideRun &what, Windows &windows) {
  const auto read = [&](Mark begin, Mark end, Window &window) -> Outcome {
    if (auto failure = side_->between_ns(Mark::origin, begin, window.begin_ns)) return failure;
    return side_->between_ns(Mark::origin, end, window.end_ns);
  };
  if (what.products != 0)
    if (auto failure = read(Mark::work_begin, Mark::work_end, windows.products)) return failure;
  return what.batches != 0 ? read(Mark::calls_begin, Mark::calls_end, windows.calls) : std::nullopt;
}

/// Runs one of the four measurements. The other work begins before the counted work is enqueued, and lasts longer.
Outcome Beside::run(DeviceCalls &calls, const BesideRun &what, Windows &windows) {
  windows = {};
  if (auto failure = session_.group.barrier()) return failure;
  for (uint32_t batch = 0; batch < what.lead_batches; ++batch)
    if (auto failure = calls.enqueue_all()) return failure;
  if (product_ && what.lead_products != 0)
    if (auto failure = product_->enqueue(what.lead_products)) return failure;
  const bool calls_first = what.lead_batches != 0;
  if (side_ != nullptr)
    if (auto failure = side_->mark(calls_first ? Lane::calls : Lane::side, Mark::origin)) return failure;
  if (calls_first)
    if (auto failure = begin_calls(calls, what)) return failure;
  if (auto failure = enqueue_products(what)) return failure;
  if (!calls_first)
    if (auto failure = begin_calls(calls, what)) return failure;
  if (auto failure = end_calls(calls, what)) return failure;
  if (what.batches != 0)
    if (auto failure = calls.wait()) return failure;
  if (side_ == nullptr) return std::nullopt;
  if (auto failure = side_->wait()) return failure;
  return read_windows(what, windows);
}

Outcome Beside::plan(DeviceCalls &calls, BesideRuns &runs) {
  Windows of_products, of_calls;
  if (auto failure = run(calls, few_products, of_products)) return failure;
  if (auto failure = run(calls, few_batches, of_calls)) return failure;
  double each_ns[] = {of_products.products.length_ns() / few_products.products,
                      of_calls.calls.length_ns() / few_batches.batches};
  if (auto failure = session_.group.max(each_ns)) return failure;  // so that all ranks make the same number of calls
  runs = plan_runs(each_ns[0], each_ns[1]);
  return std::nullopt;
}

Outcome Beside::count_wrong(ProductFacts &facts) {
  uint64_t wrong = 0;
  if (product_)
    if (auto failure = product_->count_wrong(wrong)) return failure;
  if (auto failure = session_.group.sum(wrong)) return failure;
  facts.wrong += wrong;
  return std::nullopt;
}

Outcome Beside::measure(const Case &what, const Shape &shape, Pointers at, BesideTimes &times, ProductFacts &facts) {
  const uint32_t calls_per_batch = session_.options.aggregate_count;
  DeviceCalls calls(session_, what, shape, at, calls_per_batch);
  if (auto failure = calls.prepare()) return failure;
  if (product_)
    if (auto failure = product_->spoil()) return failure;
  BesideRuns runs;
  if (auto failure = plan(calls, runs)) return failure;
  std::vector<Round> rounds(session_.options.iteration_count.value_or(rounds_default));
  for (Round &round : rounds) {
    Windows windows;
    if (auto failure = run(calls, runs.products_alone, windows)) return failure;
    round.product_alone_ns = windows.products.length_ns() / runs.products_alone.products;
    if (auto failure = run(calls, runs.products_beside, windows)) return failure;
    round.product_beside_ns = windows.products.length_ns() / runs.products_beside.products;
    round.products_uncovered = 1 - covered(windows.products, windows.calls);
    if (auto failure = run(calls, runs.calls_alone, windows)) return failure;
    round.call_alone_ns = windows.calls.length_ns() / runs.calls_alone.batches / calls_per_batch;
    if (auto failure = run(calls, runs.calls_beside, windows)) return failure;
    round.call_beside_ns = windows.calls.length_ns() / runs.calls_beside.batches / calls_per_batch;
    round.calls_uncovered = 1 - covered(windows.calls, windows.products);
  }
  std::vector<double> values(rounds.size() * round_values);
  std::memcpy(values.data(), rounds.data(), values.size() * sizeof(double));
  if (auto failure = session_.group.max(values)) return failure;
  std::memcpy(static_cast<void *>(rounds.data()), values.data(), values.size() * sizeof(double));
  times = summarise_rounds(rounds);
  return count_wrong(facts);
}

}  // namespace rondo::perf
