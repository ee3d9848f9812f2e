// SPDX-License-Identifier: Apache-2.0
// This file trains without common steps, with a parameter server. Rank 0 has the parameters, and updates them with a
// worker's gradients as soon as these arrive. The worker then continues with the updated parameters. Meanwhile other
// workers may change the parameters. A worker that is too many steps ahead of the slowest one waits (bounded
// staleness).
//
// The server has a separate communicator with each worker, in which the two send each other messages. So a worker waits
// for no other worker.
#pragma once

#include "bench/trainer/figures/records.h"
#include "bench/trainer/options.h"
#include "bench/trainer/run/trainer.h"

namespace rondo::train {

/// Runs all steps of all workers. Afterwards all ranks have the parameters and the first worker's records, with the
/// mean losses of all workers.
[[nodiscard]] Outcome train_async(const Options &options, Ranks &ranks, Trainer &trainer, Run &result);

}  // namespace rondo::train
