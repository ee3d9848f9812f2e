// SPDX-License-Identifier: Apache-2.0
// Training without steps in common: rank 0 has the parameters and updates them by each worker's gradients as they come;
// the worker goes on from what there is then (a parameter server). Gradients may be of parameters that others have
// changed since; a worker that is too many steps ahead of the slowest waits (bounded staleness).
//
// The server and each worker have a communicator of their own, over which a broadcast goes from one to the other: so
// nobody waits for a worker that is not concerned.
#pragma once

#include "bench/trainer/figures/records.h"
#include "bench/trainer/options.h"
#include "bench/trainer/trainer.h"

namespace rondo::train {

/// All steps of all workers. Afterwards all ranks have the parameters, and rank 0 the first worker's records, with the
/// mean losses of all.
[[nodiscard]] Outcome train_async(const Options &options, Ranks &ranks, Trainer &trainer, Run &result);

}  // namespace rondo::train
