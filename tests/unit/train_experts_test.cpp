// SPDX-License-Identifier: Apache-2.0
// The gradients of a layer of experts must match finite differences. Ranks that divide it must have one rank's results.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "bench/trainer/model/experts.h"
#include "bench/trainer/model/random.h"
#include "tests/catch.h"
#include "tests/unit/train_floats.h"

namespace {

using namespace rondo::train;
using rondo::train_test::check_gradient, rondo::train_test::distance, rondo::train_test::Floats,
    rondo::train_test::floats, rondo::train_test::random_floats;

constexpr size_t expert_width = 32, wide = 4 * expert_width, experts = 4;
const Shape expert_shape{"test", expert_width, 1, 2, 32, experts};

/// Parameters of experts, or their gradients.
struct Values {
  explicit Values(size_t count)
      : router(experts * expert_width),
        up_weight(count * wide * expert_width),
        up_bias(count * wide),
        down_weight(count * wide * expert_width),
        down_bias(count * expert_width) {}

  ExpertFloats<float> pointers() {
    return {router.data(), up_weight.data(), up_bias.data(), down_weight.data(), down_bias.data()};
  }
  [[nodiscard]] ExpertFloats<const float> constant() const {
    return {router.data(), up_weight.data(), up_bias.data(), down_weight.data(), down_bias.data()};
  }

  Floats router, up_weight, up_bias, down_weight, down_bias;
};

/// Returns parameters of `count` experts from the first one on.
Values parameters(size_t first, size_t count) {
  Values all(experts), part(count);
  all.router = part.router = random_floats(all.router.size(), 1);
  size_t seed = 2;
  for (Floats Values::*const member : {&Values::up_weight, &Values::up_bias, &Values::down_weight,
                                       &Values::down_bias}) {
    const Floats values = random_floats((all.*member).size(), seed++, 0.2);
    const size_t each = values.size() / experts;
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(first * each), count * each, (part.*member).begin());
  }
  return part;
}

/// Returns rows that are each close to one router row, so that small changes choose no other expert.
Floats clear_rows(size_t rows) {
  const Values all = parameters(0, experts);
  Floats x = random_floats(rows * expert_width, 9, 0.5);
  Random random(10);
  for (size_t row = 0; row < rows; ++row) {
    const size_t expert = row % 7 == 0 ? 0 : random.below(experts);  // expert 0 has more rows
    for (size_t at = 0; at < expert_width; ++at)
      x[row * expert_width + at] += 0.6f * all.router[expert * expert_width + at];
  }
  return x;
}

/// Threads that exchange blocks as ranks do.
class Threads {
 public:
  explicit Threads(size_t count) : counts_(count), floats_(count), lengths_(count),
                                   barrier_(static_cast<ptrdiff_t>(count)) {}

  ExpertRoads roads(size_t index) {
    return {{index, counts_.size()}, floats,
            [this, index](const uint64_t *mine, uint64_t *theirs, size_t each) {
              counts_[index] = mine;
              barrier_.arrive_and_wait();
              for (size_t rank = 0; rank < counts_.size(); ++rank)
                std::copy_n(counts_[rank] + index * each, each, theirs + rank * each);
              barrier_.arrive_and_wait();
            },
            [this, index](const float *send, const size_t *send_counts, float *recv, const size_t *recv_counts) {
              floats_[index] = send;
              lengths_[index] = send_counts;
              barrier_.arrive_and_wait();
              for (size_t rank = 0; rank < counts_.size(); ++rank) {
                size_t before = 0;
                for (size_t other = 0; other < index; ++other) before += lengths_[rank][other];
                matched_ = matched_ && lengths_[rank][index] == recv_counts[rank];
                recv = std::copy_n(floats_[rank] + before, recv_counts[rank], recv);
              }
              barrier_.arrive_and_wait();
            }};
  }
  [[nodiscard]] bool matched() const { return matched_; }

 private:
  std::vector<const uint64_t *> counts_;
  std::vector<const float *> floats_;
  std::vector<const size_t *> lengths_;
  std::atomic<bool> matched_{true};
  std::barrier<> barrier_;
};

/// The output of a rank for its rows.
struct Found {
  explicit Found(size_t rows, size_t count)
      : out(rows * expert_width), x_gradients(rows * expert_width), gradients(count) {}

  Floats out, x_gradients;
  Values gradients;
  uint64_t sent_bytes = 0;
};

Found find(const Floats &x, const Floats &base, const Floats &weights, const ExpertRoads &roads) {
  const auto compute = make_host_compute();
  const size_t rows = x.size() / expert_width, own = experts / roads.slice.count;
  const Values mine = parameters(roads.slice.index * own, own);
  Experts layer(expert_shape, rows, *compute, roads);
  Found found(rows, own);
  layer.forward(0, mine.constant(), x.data(), base.data(), found.out.data());
  layer.backward(0, mine.constant(), x.data(), weights.data(), found.gradients.pointers(), found.x_gradients.data());
  found.sent_bytes = layer.sent_bytes();
  return found;
}

Floats part_of(const Floats &all, size_t index, size_t count) {
  const auto each = static_cast<ptrdiff_t>(all.size() / count), first = static_cast<ptrdiff_t>(index) * each;
  return {all.begin() + first, all.begin() + first + each};
}

}  // namespace

TEST_CASE("trainer: the gradients of a layer of experts are those of finite differences", "[train]") {
  constexpr size_t rows = 24;
  const auto compute = make_host_compute();
  const Floats x = clear_rows(rows), base = random_floats(rows * expert_width, 11),
               weights = random_floats(rows * expert_width, 12);
  const Values values = parameters(0, experts);
  Experts layer(expert_shape, rows, *compute, {});
  REQUIRE(layer.allocated());
  Floats out(rows * expert_width);
  const auto loss = [&](const Values &parameters, const Floats &input) {
    layer.forward(0, parameters.constant(), input.data(), base.data(), out.data());
    return rondo::train_test::dot(out, weights);
  };
  (void)loss(values, x);
  Values gradients(experts);
  Floats x_gradients(x.size(), 9.0f);
  layer.backward(0, values.constant(), x.data(), weights.data(), gradients.pointers(), x_gradients.data());
  check_gradient("input", x, x_gradients, [&](const Floats &moved) { return loss(values, moved); });
  const auto check = [&](const char *what, Floats Values::*member) {
    check_gradient(what, values.*member, gradients.*member, [&](const Floats &moved) {
      Values others = values;
      others.*member = moved;
      return loss(others, x);
    });
  };
  check("router", &Values::router);
  check("up weight", &Values::up_weight);
  check("up bias", &Values::up_bias);
  check("down weight", &Values::down_weight);
  check("down bias", &Values::down_bias);
}

TEST_CASE("trainer: ranks that divide the experts find what one rank finds for all rows", "[train]") {
  constexpr size_t rows = 48;
  const Floats x = clear_rows(rows), base = random_floats(rows * expert_width, 11),
               weights = random_floats(rows * expert_width, 12);
  const Found whole = find(x, base, weights, {});
  CHECK(whole.sent_bytes == 0);
  for (const size_t count : {2u, 4u}) {
    Threads ranks(count);
    std::vector<Found> found(count, Found(0, 0));
    std::vector<std::thread> threads;
    for (size_t index = 0; index < count; ++index)
      threads.emplace_back([&, index] {
        found[index] = find(part_of(x, index, count), part_of(base, index, count), part_of(weights, index, count),
                            ranks.roads(index));
      });
    for (std::thread &thread : threads) thread.join();
    CHECK(ranks.matched());
    Floats router(whole.gradients.router.size());
    for (size_t index = 0; index < count; ++index) {
      const Found &mine = found[index];
      CHECK(mine.sent_bytes > 0);
      CHECK(distance(mine.out, part_of(whole.out, index, count)) < 1e-6);
      CHECK(distance(mine.x_gradients, part_of(whole.x_gradients, index, count)) < 1e-5);
      for (Floats Values::*const member : {&Values::up_weight, &Values::up_bias, &Values::down_weight,
                                           &Values::down_bias})
        CHECK(distance(mine.gradients.*member, part_of(whole.gradients.*member, index, count)) < 1e-5);
      for (size_t at = 0; at < router.size(); ++at) router[at] += mine.gradients.router[at];
    }
    CHECK(distance(router, whole.gradients.router) < 1e-5);
  }
}
