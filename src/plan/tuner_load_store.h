// SPDX-License-Identifier: Apache-2.0
// The tuner's choices with the kernel load_store (docs/load-store.md): for ranks of a host, and for
// kernels of a device. Pure, as tuner.h says.
#pragma once

#include <cstdint>
#include <optional>

#include "src/plan/tuner.h"

namespace rondo {

inline constexpr uint64_t chunk_align_bytes = 64;  // whole elements of every type, whole cache lines

/// Returns the choice with load_store, or nothing if it is impossible or something else was requested. `collective` is
/// the planned one, so no barrier.
[[nodiscard]] std::optional<PlanChoice> choose_load_store(const TunerInput &input, rondo_collective_t collective);

/// Returns for collectives other than all-reduce, on a device, the schedule whose order of reduction load_store keeps.
/// AUTO if it does not do that collective.
[[nodiscard]] rondo_algorithm_t load_store_algorithm(rondo_collective_t collective);

/// Returns the error that load_store was requested for something that it does not do; the message says what it does.
[[nodiscard]] Error no_load_store(const TunerInput &input);

}  // namespace rondo
