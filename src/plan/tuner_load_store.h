// SPDX-License-Identifier: Apache-2.0
// The tuner's choices with the kernel load_store (docs/load-store.md): for ranks of a host, and for
// kernels of a device. Pure, as tuner.h says.
#pragma once

#include <cstdint>
#include <optional>

#include "src/plan/tuner.h"

namespace rondo {

inline constexpr uint64_t chunk_align_bytes = 64;  // whole elements of every type, whole cache lines

/// The choice with load_store; none where it cannot be, or where something else was asked for. `collective`: what is
/// planned, so no barrier.
[[nodiscard]] std::optional<PlanChoice> choose_load_store(const TunerInput &input, rondo_collective_t collective);

/// On a device, for other collectives than all-reduce: the schedule whose order of reduction load_store keeps. AUTO: it
/// does not do that collective.
[[nodiscard]] rondo_algorithm_t load_store_algorithm(rondo_collective_t collective);

/// load_store was asked for, and this is not for it: what it is for.
[[nodiscard]] Error no_load_store(const TunerInput &input);

}  // namespace rondo
