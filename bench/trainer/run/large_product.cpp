// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/run/large_product.h"

#include <vector>

#include "bench/trainer/figures/timeline.h"
#include "bench/trainer/model/random.h"

namespace rondo::train {
namespace {

constexpr uint64_t time_min_ns = 1'000'000;
constexpr size_t repetitions = 10;

}  // namespace

Outcome LargeProduct::open(Group &group) {
  size_t chosen = 0;
  if (group.rank() == 0) {
    uint64_t time_ns = 0;
    for (size_t rows = rows_min; rows <= rows_max && time_ns < time_min_ns && allocate(rows); rows *= 2) {
      chosen = rows;
      for (int warm = 0; warm < 2; ++warm)  // the first product also chooses a method
        if (auto failure = multiply(1, time_ns)) return failure;
    }
  }
  if (auto failure = group.broadcast(&chosen, sizeof chosen)) return failure;
  double enough = chosen > 0 && allocate(chosen) ? 1 : 0;
  if (auto failure = group.least(&enough, 1)) return failure;
  if (enough == 0) rows_ = 0;
  if (rows_ == 0) return std::nullopt;
  uint64_t unused_ns = 0;
  return multiply(1, unused_ns);
}

Outcome LargeProduct::measure(uint64_t &time_ns) {
  if (auto failure = multiply(repetitions, time_ns)) return failure;
  time_ns /= repetitions;
  return std::nullopt;
}

bool LargeProduct::allocate(size_t rows) {
  for (Buffer *const matrix : {&a_, &b_, &c_}) *matrix = nullptr;  // smaller and larger ones need not fit together
  const size_t count = rows * rows;
  c_ = compute_.allocate(count);
  if (c_ == nullptr) return false;
  Random random(1);
  std::vector<float> values(count);
  for (Buffer *const matrix : {&a_, &b_}) {
    *matrix = compute_.allocate(compute_.factor_floats(count));
    if (*matrix == nullptr) return false;
    // A device multiplies zeros with less power, and so faster, than numbers.
    for (float &value : values) value = static_cast<float>(random.uniform() - 0.5);
    compute_.write(values.data(), compute_.narrows() ? c_.get() : matrix->get(), count);
    if (compute_.narrows()) compute_.narrow(c_.get(), matrix->get(), RONDO_BFLOAT16, 1.0f, count);
  }
  rows_ = rows;
  return true;
}

Outcome LargeProduct::multiply(size_t times, uint64_t &time_ns) {
  const Factors a{a_.get(), compute_.narrows()}, b{b_.get(), compute_.narrows()};
  const uint64_t begin_ns = now_ns();
  for (size_t time = 0; time < times; ++time)
    compute_.multiply({false, true, rows_, rows_, rows_, a, rows_, b, rows_, c_.get(), rows_});
  auto failure = compute_.finish();
  time_ns = now_ns() - begin_ns;
  return failure;
}

}  // namespace rondo::train
