// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/run/turns.h"

#include <algorithm>

namespace rondo::train {

size_t slots_of(const Stage &stage, size_t passes) { return std::min(stage.count - stage.index, passes); }

std::vector<Turn> turns_of(const Stage &stage, size_t passes) {
  const size_t early = std::min(stage.count - 1 - stage.index, passes), rest = passes - early;
  std::vector<Turn> turns;
  const auto exchange = [&](Turn turn) {
    if (stage.first()) turn.to_previous = turn.from_previous = false;
    if (stage.last()) turn.to_next = turn.from_next = false;
    if (turn.to_next || turn.from_next || turn.to_previous || turn.from_previous) turns.push_back(turn);
  };
  const auto forward = [&](size_t pass) { turns.push_back({.kind = Turn::Kind::forward, .pass = pass}); };
  const auto backward = [&](size_t pass) { turns.push_back({.kind = Turn::Kind::backward, .pass = pass}); };
  for (size_t pass = 0; pass < early; ++pass) {
    exchange({.pass = pass, .from_previous = true});
    forward(pass);
    exchange({.to_next = true});
  }
  if (rest > 0) exchange({.pass = early, .from_previous = true});
  for (size_t pass = 0; pass < rest; ++pass) {
    forward(early + pass);
    exchange({.to_next = true, .from_next = true});
    backward(pass);
    exchange({.pass = early + pass + 1, .to_previous = true, .from_previous = pass + 1 < rest});
  }
  for (size_t pass = rest; pass < passes; ++pass) {
    exchange({.from_next = true});
    backward(pass);
    exchange({.to_previous = true});
  }
  return turns;
}

}  // namespace rondo::train
