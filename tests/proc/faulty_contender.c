/* SPDX-License-Identifier: Apache-2.0
 * This contender of bench/compare is wrong or hangs, which the harness must notice: FAULT=sum|input|hang|death. With
 * FAULT=slow it is slow. Without FAULT it is right. Ranks share their inputs through a page of their own.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/compare/harness.h"

enum { elements_max = 1024, slow_us = 50000 };

struct exchange {
  float input[compare_ranks_max][elements_max];
};

static void join(struct compare_job *job) { (void)job; }

static void all_reduce(struct compare_job *job, const void *send, void *recv, size_t count) {
  struct exchange *exchange = job->state;
  const char *fault = getenv("FAULT");
  float *result = recv;
  if (strcmp(fault, "hang") == 0 && job->rank == 1) (void)pause();
  if (strcmp(fault, "death") == 0 && job->rank == 1) abort();
  if (strcmp(fault, "slow") == 0) (void)usleep(slow_us);
  memcpy(exchange->input[job->rank], send, count * sizeof(float));
  compare_barrier(job, false);
  for (size_t i = 0; i < count; ++i) {
    result[i] = 0;
    for (int rank = 0; rank < job->rank_count; ++rank) result[i] += exchange->input[rank][i];
  }
  compare_barrier(job, false);
  /* A wrong sum is in one element of one rank. In timed calls all inputs are zero, and no sum is wrong. */
  if (strcmp(fault, "sum") == 0 && job->rank == 1 && result[count - 1] > 0) result[count - 1] += 1;
  if (strcmp(fault, "input") == 0 && job->rank == 1) *(float *)(uintptr_t)send += 1;
}

int main(int argc, char **argv) {
  static const struct compare_contender contender = {.name = "faulty", .busy_threads = 1, .join = join,
                                                     .all_reduce = all_reduce, .leave = join};
  struct compare_job job;
  compare_parse(&job, &contender, argc, argv);
  if (job.bytes > elements_max * sizeof(float)) compare_fail(&job, "at most %d elements", elements_max);
  job.state = compare_shared_memory(&job, sizeof(struct exchange));
  compare_fork(&job);
  compare_settle(&job);
  compare_run(&job);
  return 0;
}
