// SPDX-License-Identifier: Apache-2.0
#include "src/engine/simulate.h"

namespace rondo::sim {

Result<SimResult> simulate(const SimCase &what) {
  RONDO_TRY_ASSIGN(const System system, build_system(what));
  RONDO_TRY_ASSIGN(Outcome outcome, Engine(what, system).run());
  for (uint64_t &bytes : outcome.link_bytes) bytes *= system.copies();
  outcome.move_count *= system.copies();
  return SimResult{system.plan, outcome, system.symmetry};
}

}  // namespace rondo::sim
