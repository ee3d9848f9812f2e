// SPDX-License-Identifier: Apache-2.0
// This file simulates ranks that share cores, as threads do that yield while they wait. A rank keeps its core while one
// of its lanes can advance. When no lane can, the rank goes to the end of the line of waiting ranks, and the core
// switches to the first rank of the line. A switch costs switch_us, and that rank may be unable to advance, too.
// Switches are simulated only while some rank in the line could advance.
#include <algorithm>

#include "src/sim/engine.h"

namespace rondo::sim {

void Engine::fill_pools() {
  for (const uint32_t core_count : system_.pool_sizes) pools_.emplace_back().cores.resize(core_count);
  for (const LaneState &lane : lanes_) {  // the lanes of a rank are consecutive
    if (lane.pool == no_index) continue;
    std::deque<uint32_t> &line = pools_[lane.pool].waiting;
    if (line.empty() || line.back() != lane.rank) line.push_back(lane.rank);
  }
  for (Pool &pool : pools_)
    for (Core &core : pool.cores) {
      core.rank = pool.waiting.front();
      pool.waiting.pop_front();
    }
}

/// Requests a core for a lane that could continue at `time_ps`.
void Engine::want_core(uint32_t lane, int64_t time_ps) {
  const uint32_t index = lanes_[lane].pool;
  Pool &pool = pools_[index];
  pool.ready.push_back(lane);
  for (uint32_t core = 0; core < pool.cores.size(); ++core)
    if (pool.cores[core].idle) plan_turn(index, core, time_ps);
}

void Engine::plan_turn(uint32_t pool, uint32_t core, int64_t time_ps) {
  pools_[pool].cores[core].idle = false;
  requests_.push({time_ps, static_cast<uint64_t>(Phase::turn) << 62 | uint64_t{core} << 32 | pool, pool});
}

/// Returns whether some rank without a core could continue.
bool Engine::others_wait(const Pool &pool) const {
  return std::any_of(pool.ready.begin(), pool.ready.end(), [&](uint32_t lane) {
    return std::find(pool.waiting.begin(), pool.waiting.end(), lanes_[lane].rank) != pool.waiting.end();
  });
}

void Engine::take_turn(uint32_t pool_index, uint32_t core_index, int64_t time_ps) {
  Pool &pool = pools_[pool_index];
  Core &core = pool.cores[core_index];
  const auto found =
      std::find_if(pool.ready.begin(), pool.ready.end(), [&](uint32_t lane) { return lanes_[lane].rank == core.rank; });
  if (found != pool.ready.end()) {
    const uint32_t lane = *found;
    LaneState &state = lanes_[lane];
    pool.ready.erase(found);
    state.waits_for_core = false;
    const int64_t end_ps = after(time_ps, cost_ps(state, std::min(state.rest_bytes, system_.slot_bytes)));
    plan_turn(pool_index, core_index, end_ps);
    complete(lane, end_ps);
    wake(lane);
    return;
  }
  core.idle = !others_wait(pool);
  if (core.idle) return;
  pool.waiting.push_back(core.rank);
  core.rank = pool.waiting.front();
  pool.waiting.pop_front();
  plan_turn(pool_index, core_index, after(time_ps, switch_ps_));
}

}  // namespace rondo::sim
