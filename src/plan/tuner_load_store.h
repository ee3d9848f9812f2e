// SPDX-License-Identifier: Apache-2.0
// This file has the tuner's choices with the kernel load_store (docs/load-store.md), for ranks of a host and for
// kernels of a device. They depend on their input only, as tuner.h says.
#pragma once

#include <cstdint>
#include <optional>

#include "src/plan/tuner.h"

namespace rondo {

inline constexpr uint64_t chunk_align_bytes = 64;  // a whole number of elements of every type, and of cache lines

/// Returns the choice with load_store, or nothing if it is impossible or something else was requested. `collective` is
/// the planned collective, which is never a barrier.
[[nodiscard]] std::optional<PlanChoice> choose_load_store(const TunerInput &input, rondo_collective_t collective);

/// Returns the algorithm whose order of reduction load_store keeps on a device, for collectives other than all-reduce.
/// AUTO means that load_store does not have the collective.
[[nodiscard]] rondo_algorithm_t load_store_algorithm(rondo_collective_t collective);

/// Returns the error for a request that load_store cannot fulfil. The message lists what load_store can do.
[[nodiscard]] Error no_load_store(const TunerInput &input);

}  // namespace rondo
