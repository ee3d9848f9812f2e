/* SPDX-License-Identifier: Apache-2.0
 * The memory that the ranks of a run share, for the harness alone. */
#ifndef RONDO_BENCH_COMPARE_CONTROL_H
#define RONDO_BENCH_COMPARE_CONTROL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <stdatomic.h>

#include "bench/compare/harness.h"

struct compare_control {
  _Alignas(64) _Atomic uint32_t arrived;
  _Alignas(64) _Atomic uint32_t generation; /* generation of the barrier, for which sleeping ranks wait */
  _Alignas(64) int64_t start_ns;            /* written, like the rest, by one rank between two barriers, then read */
  int iterations;
  int cpu[compare_ranks_max];
  uint64_t wrong_count[compare_ranks_max];
  char note[compare_note_bytes];
  double back_to_back_us[compare_ranks_max];
  double time_us[compare_ranks_max][compare_iterations_max];
};

/* Fails where two ranks of a pinned run are on one processor. */
void compare_check_cores(struct compare_job *job);

#endif /* RONDO_BENCH_COMPARE_CONTROL_H */
