// SPDX-License-Identifier: Apache-2.0
// A divided model must have the results of the whole model, and so must a model that recomputes activations.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "bench/trainer/exchange/exchange.h"
#include "bench/trainer/model/model.h"
#include "bench/trainer/model/random.h"
#include "tests/catch.h"
#include "tests/unit/train_floats.h"

namespace {

using namespace rondo::train;
using rondo::train_test::distance, rondo::train_test::Floats, rondo::train_test::floats;

const Shape whole_shape{"test", 64, 3, 4, 32};
constexpr size_t whole_batch = 2;

/// The output of a model for the same parameters and samples each time.
struct Result {
  Layout layout;
  Floats parameters, losses, gradients;
  size_t activation_floats = 0;
  std::vector<size_t> order;  ///< the order in which tensors were ready

  [[nodiscard]] bool ordered() const {
    return order.size() == layout.tensors.size() && std::is_sorted(order.begin(), order.end()) &&
           std::adjacent_find(order.begin(), order.end()) == order.end();
  }
};

Result run(bool recompute, const Joint &joint) {
  const auto compute = make_host_compute();
  Model model(whole_shape, whole_batch, *compute, recompute, joint);
  Result result{model.layout(), Floats(model.layout().count), {}, Floats(model.layout().count, 9.0f),
                model.activation_floats(), {}};
  if (!model.allocated()) return result;  // other threads run this, so no assertion
  initialise(result.layout, 3, result.parameters.data());
  for (float &value : result.parameters) value *= 5;  // so that layers matter
  Random random(5);
  std::vector<uint8_t> inputs(model.rows()), targets(model.rows());
  for (uint8_t &token : inputs) token = static_cast<uint8_t>(random.next());
  for (uint8_t &token : targets) token = static_cast<uint8_t>(random.next());
  const float *const losses = model.forward(result.parameters.data(), inputs.data(), targets.data());
  result.losses.assign(losses, losses + model.rows());
  model.backward(result.parameters.data(), 1.0f, result.gradients.data(),
                 [&](size_t tensor) { result.order.push_back(tensor); });
  return result;
}

/// Sums over threads as ranks.
class Sums {
 public:
  explicit Sums(size_t threads) : parts_(threads), barrier_(static_cast<ptrdiff_t>(threads)) {}

  void add_up(size_t thread, float *values, size_t count) {
    parts_[thread] = values;
    barrier_.arrive_and_wait();
    Floats sum(count);
    for (const float *part : parts_)
      for (size_t at = 0; at < count; ++at) sum[at] += part[at];
    barrier_.arrive_and_wait();
    std::memcpy(values, sum.data(), count * sizeof(float));
    barrier_.arrive_and_wait();
  }

 private:
  std::vector<float *> parts_;
  std::barrier<> barrier_;
};

}  // namespace

TEST_CASE("trainer: activations that are computed again give the same bits in less memory", "[train]") {
  const Result kept = run(false, {}), again = run(true, {});
  CHECK((kept.ordered() && again.ordered()));
  CHECK((kept.losses == again.losses));  // in parentheses, or a failure would print them all
  CHECK((kept.gradients == again.gradients));
  CHECK(again.activation_floats < kept.activation_floats / 2);
}

TEST_CASE("trainer: the slices of a model are its parameters, each float once", "[train]") {
  const Layout whole = make_layout(whole_shape);
  Floats all(whole.count);
  initialise(whole, 7, all.data());
  for (const size_t count : {2u, 4u}) {
    std::vector<int> seen(whole.count);
    size_t wrong = 0;  // one check for each float would take most of the time of the test
    for (size_t index = 0; index < count; ++index) {
      const Layout slice = make_layout(whole_shape, {index, count});
      CHECK(slice.count < whole.count);
      Floats mine(slice.count);
      initialise(slice, 7, mine.data());
      for (size_t at = 0; at < slice.tensors.size(); ++at) {
        const Tensor &tensor = slice.tensors[at];
        REQUIRE(tensor.whole_count() == whole.tensors[at].count);
        REQUIRE(tensor.count % 16 == 0);
        for (size_t own = 0; own < tensor.count; ++own) {
          const size_t place = whole.tensors[at].offset + own / tensor.length() * tensor.stride + tensor.begin +
                               own % tensor.length();
          wrong += mine[tensor.offset + own] != all[place];
          if (tensor.split() || index == 0) ++seen[place];
        }
      }
    }
    CHECK(wrong == 0);
    CHECK((seen == std::vector<int>(whole.count, 1)));
  }
}

TEST_CASE("trainer: ranks that share a model find its losses and gradients", "[train]") {
  const Result whole = run(false, {});
  for (const size_t count : {2u, 4u}) {
    for (const bool recompute : {false, true}) {
      Sums sums(count);
      std::vector<Result> results(count);
      std::vector<std::thread> threads;
      for (size_t index = 0; index < count; ++index)
        threads.emplace_back([&, index] {
          results[index] = run(recompute, {{index, count}, floats, [&, index](float *values, size_t floats_in) {
                                             sums.add_up(index, values, floats_in);
                                           }});
        });
      for (std::thread &thread : threads) thread.join();
      for (const Result &mine : results) {
        CHECK(mine.ordered());
        CHECK((mine.losses == results[0].losses));
        CHECK(distance(mine.losses, whole.losses) < 1e-5);
        CHECK(mine.activation_floats < whole.activation_floats);
        for (size_t at = 0; at < mine.layout.tensors.size(); ++at) {
          const Tensor &tensor = mine.layout.tensors[at];
          Floats found, expected;
          for (size_t own = 0; own < tensor.count; ++own) {
            found.push_back(mine.gradients[tensor.offset + own]);
            expected.push_back(whole.gradients[whole.layout.tensors[at].offset + own / tensor.length() * tensor.stride +
                                               tensor.begin + own % tensor.length()]);
          }
          INFO(tensor.name);
          CHECK(distance(found, expected) < 1e-4);
        }
      }
    }
  }
}
