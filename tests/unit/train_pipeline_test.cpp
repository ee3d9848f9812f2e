// SPDX-License-Identifier: Apache-2.0
// A pipeline's stages must have the results of the whole model. With their order of turns, no stage may wait for ever.
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "bench/trainer/exchange/bucket.h"
#include "bench/trainer/figures/pipeline.h"
#include "bench/trainer/model/model.h"
#include "bench/trainer/model/random.h"
#include "bench/trainer/run/turns.h"
#include "tests/catch.h"
#include "tests/unit/train_floats.h"

namespace {

using namespace rondo::train;
using rondo::train_test::distance, rondo::train_test::Floats, rondo::train_test::floats;

using Link = std::pair<size_t, size_t>;  ///< from a stage to another

/// One stage of a simulated pipeline. A turn of messages ends when each message has met its counterpart.
struct Runner {
  std::vector<Turn> turns;
  size_t at = 0;
  bool begun = false;            ///< the present turn's messages have begun
  std::vector<std::pair<Link, size_t>> sends, receives;  ///< of the present turn: link and number on it
};

/// Runs all stages until nothing moves. Returns false if a stage has not ended by then. Stages have no buffers between
/// them, so a message moves when both stages have begun it.
bool complete(size_t stages, size_t passes) {
  std::vector<Runner> runners(stages);
  for (size_t index = 0; index < stages; ++index) runners[index].turns = turns_of({index, stages}, passes);
  std::map<Link, size_t> sent, received;  // messages that were begun
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t index = 0; index < stages; ++index) {
      Runner &runner = runners[index];
      if (runner.at == runner.turns.size()) continue;
      const Turn &turn = runner.turns[runner.at];
      if (turn.kind == Turn::Kind::messages && !runner.begun) {
        runner.sends.clear();
        runner.receives.clear();
        if (turn.to_next) runner.sends.push_back({{index, index + 1}, ++sent[{index, index + 1}]});
        if (turn.to_previous) runner.sends.push_back({{index, index - 1}, ++sent[{index, index - 1}]});
        if (turn.from_next) runner.receives.push_back({{index + 1, index}, ++received[{index + 1, index}]});
        if (turn.from_previous) runner.receives.push_back({{index - 1, index}, ++received[{index - 1, index}]});
        runner.begun = moved = true;
      }
      if (turn.kind == Turn::Kind::messages) {
        const auto met = [](auto &counterparts) {
          return [&](const auto &message) { return counterparts[message.first] >= message.second; };
        };
        if (!std::all_of(runner.sends.begin(), runner.sends.end(), met(received)) ||
            !std::all_of(runner.receives.begin(), runner.receives.end(), met(sent)))
          continue;
      }
      ++runner.at;
      runner.begun = false;
      moved = true;
    }
  }
  return std::all_of(runners.begin(), runners.end(),
                     [](const Runner &runner) { return runner.at == runner.turns.size(); });
}

const Shape shape{"test", 64, 3, 4, 32};
constexpr size_t batch = 2, batch_rows = batch * 32;

struct Sample {
  std::vector<uint8_t> inputs, targets;
};

Sample sample(uint64_t seed) {
  Random random(seed);
  Sample made{std::vector<uint8_t>(batch_rows), std::vector<uint8_t>(batch_rows)};
  for (uint8_t &token : made.inputs) token = static_cast<uint8_t>(random.next());
  for (uint8_t &token : made.targets) token = static_cast<uint8_t>(random.next());
  return made;
}

Floats parameters_of(const Layout &layout) {
  Floats parameters(layout.count);
  initialise(layout, 3, parameters.data());
  for (float &value : parameters) value *= 5;  // so that layers matter
  return parameters;
}

/// A stage with its part of the parameters and gradients.
struct StagePart {
  StagePart(size_t index, size_t count, Compute &compute, bool recompute, size_t slots)
      : model(shape, batch, compute, recompute, {{}, floats, {}}, {index, count}, slots),
        parameters(parameters_of(model.layout())),
        gradients(model.layout().count, 9.0f) {}

  Model model;
  Floats parameters, gradients;
};

}  // namespace

TEST_CASE("trainer: no stage of a pipeline waits forever, even if messages have no room between stages", "[train]") {
  for (size_t stages = 2; stages <= 6; ++stages)
    for (size_t passes = 1; passes <= 9; ++passes) {
      CAPTURE(stages, passes);
      CHECK(complete(stages, passes));
    }
}

TEST_CASE("trainer: a stage makes each pass once, and keeps no more of them than it has slots", "[train]") {
  for (size_t count = 2; count <= 6; ++count)
    for (size_t index = 0; index < count; ++index)
      for (size_t passes = 1; passes <= 9; ++passes) {
        CAPTURE(count, index, passes);
        const Stage stage{index, count};
        std::deque<size_t> kept;
        size_t forward = 0, backward = 0;
        bool overwritten = false;
        for (const Turn &turn : turns_of(stage, passes)) {
          if (turn.from_previous) overwritten |= kept.size() >= slots_of(stage, passes);
          if (turn.kind == Turn::Kind::forward) {
            CHECK(turn.pass == forward++);
            kept.push_back(turn.pass);
            CHECK(kept.size() <= slots_of(stage, passes));
          } else if (turn.kind == Turn::Kind::backward) {
            CHECK(turn.pass == backward++);
            CHECK(kept.front() == turn.pass);
            kept.pop_front();
          }
        }
        CHECK((forward == passes && backward == passes));
        CHECK_FALSE(overwritten);
      }
}

TEST_CASE("trainer: the stages of a pipeline are the model, each float once, except for the token embedding",
          "[train]") {
  const Layout whole = make_layout(shape);
  const Floats all = parameters_of(whole);
  for (const size_t count : {2u, 3u}) {
    std::vector<int> seen(whole.tensors.size());
    size_t exchanged = 0;
    for (size_t index = 0; index < count; ++index) {
      const Layout layout = make_layout(shape, {}, {index, count});
      for (const Bucket &bucket : make_buckets(layout, 10'000)) exchanged += bucket.count;
      const Floats mine = parameters_of(layout);
      for (const Tensor &tensor : layout.tensors) {
        const Tensor &same = whole.tensors[tensor.number];
        REQUIRE((tensor.name == same.name && tensor.count == same.count));
        CHECK(std::equal(all.begin() + static_cast<ptrdiff_t>(same.offset),
                         all.begin() + static_cast<ptrdiff_t>(same.offset + same.count),
                         mine.begin() + static_cast<ptrdiff_t>(tensor.offset)));
        ++seen[tensor.number];
      }
    }
    for (size_t number = 0; number < seen.size(); ++number) CHECK(seen[number] == (number == whole.token ? 2 : 1));
    CHECK(exchanged == whole.count);  // the embedding is counted once
  }
}

TEST_CASE("trainer: stages find the losses and gradients of the whole model, pass by pass", "[train]") {
  const auto compute = make_host_compute();
  Model whole(shape, batch, *compute);
  const Floats parameters = parameters_of(whole.layout());
  for (const size_t count : {2u, 3u}) {
    for (const bool recompute : {false, true}) {
      constexpr size_t passes = 2;
      std::vector<std::unique_ptr<StagePart>> parts;
      for (size_t index = 0; index < count; ++index)
        parts.push_back(std::make_unique<StagePart>(index, count, *compute, recompute, passes));
      const std::vector<Sample> samples{sample(5), sample(6)};
      // All stages except the last make all forward passes first, so that both slots are in use.
      std::vector<Floats> outputs(passes);
      for (size_t pass = 0; pass < passes; ++pass) {
        Floats flow;
        for (size_t index = 0; index + 1 < count; ++index) {
          StagePart &part = *parts[index];
          if (index > 0) std::copy(flow.begin(), flow.end(), part.model.input(pass));
          CHECK(part.model.forward(part.parameters.data(), samples[pass].inputs.data(), nullptr, pass) == nullptr);
          flow.assign(part.model.output(), part.model.output() + batch_rows * shape.width);
        }
        outputs[pass] = flow;
      }
      for (size_t pass = 0; pass < passes; ++pass) {
        StagePart &last = *parts.back();
        std::copy(outputs[pass].begin(), outputs[pass].end(), last.model.input(pass));
        const float *const found = last.model.forward(last.parameters.data(), nullptr, samples[pass].targets.data(),
                                                      pass);
        REQUIRE(found != nullptr);
        const Floats losses(found, found + batch_rows);
        for (size_t index = count; index-- > 0;) {
          StagePart &part = *parts[index];
          if (index + 1 < count)
            std::copy_n(parts[index + 1]->model.flow(), batch_rows * shape.width, part.model.flow());
          std::vector<size_t> order;
          part.model.backward(part.parameters.data(), 1.0f, part.gradients.data(),
                              [&](size_t tensor) { order.push_back(tensor); }, pass);
          CHECK((order.size() == part.model.layout().tensors.size() && std::is_sorted(order.begin(), order.end())));
        }
        Floats expected(whole.layout().count), sum(whole.layout().count);
        const float *const losses_of_whole =
            whole.forward(parameters.data(), samples[pass].inputs.data(), samples[pass].targets.data());
        CHECK((losses == Floats(losses_of_whole, losses_of_whole + batch_rows)));
        whole.backward(parameters.data(), 1.0f, expected.data(), [](size_t) {});
        for (const auto &part : parts)
          for (const Tensor &tensor : part->model.layout().tensors)
            for (size_t at = 0; at < tensor.count; ++at)
              sum[whole.layout().tensors[tensor.number].offset + at] += part->gradients[tensor.offset + at];
        CHECK(distance(sum, expected) < 1e-6);
      }
    }
  }
}

TEST_CASE("trainer: a pipeline's idle share is that of the schedule if stages take equally long", "[train]") {
  // Four passes of 3 us on each of two stages take 15 us: the second stage begins late, and the first ends late.
  CHECK(std::abs(idle_share({{15'000, 12'000}, {14'000, 12'000}}) - 0.2) < 1e-12);
  CHECK(idle_share({}) == 0);
  const PipelineFigures figures = pipeline_figures(2, 4, std::vector<double>(9, 0.2));
  CHECK(std::abs(figures.ideal - 0.2) < 1e-12);
  CHECK(pipeline_text(figures) == "stages idle 20 % of the passes (20 to 20), ideally 20 %");
  CHECK_FALSE(pipeline_figures(2, 4, std::vector<double>(rounds_min - 1, 0.2)).told);
  std::vector<double> noisy;
  for (size_t at = 0; at < 9; ++at) noisy.push_back(0.1 * static_cast<double>(at));
  CHECK_FALSE(pipeline_figures(2, 4, noisy).told);
  CHECK_THAT(pipeline_text(pipeline_figures(2, 4, noisy)), Contains("too small to tell"));
}
