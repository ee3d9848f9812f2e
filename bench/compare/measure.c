/* SPDX-License-Identifier: Apache-2.0
 * This file makes a run: warm-up, calls timed one by one, calls timed back to back, and a verified call. */
#include "bench/compare/control.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { warm_up_calls_min = 3, warm_up_calls_max = 8192, poison = 0xa5 };

/* The memory that the loops use, which a job only has during its run. */
struct run {
  struct compare_job *job;
  char *send, *recv; /* equal: in place */
  size_t count;
};

static size_t type_size(enum compare_type type) { return type == compare_float32 ? 4 : 2; }

static void call(void *state) {
  const struct run *run = state;
  struct compare_job *job = run->job;
  if (job->create) job->contender->create(job);
  else job->contender->all_reduce(job, run->send, run->recv, run->count);
}

static int ascending(const void *left, const void *right) {
  const double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static struct compare_summary summarise(struct compare_job *job, int iterations) {
  struct compare_control *control = job->control;
  double *slowest = control->time_us[0];
  for (int i = 0; i < iterations; ++i)
    for (int rank = 1; rank < job->rank_count; ++rank)
      if (control->time_us[rank][i] > slowest[i]) slowest[i] = control->time_us[rank][i];
  qsort(slowest, (size_t)iterations, sizeof *slowest, ascending);
  const int middle = iterations / 2;
  return (struct compare_summary){
      .median_us = iterations % 2 == 1 ? slowest[middle] : (slowest[middle - 1] + slowest[middle]) / 2,
      .p10_us = slowest[iterations / 10],
      .p90_us = slowest[iterations - 1 - iterations / 10],
      .min_us = slowest[0]};
}

struct compare_summary compare_sample(struct compare_job *job, int iterations, void (*prepare)(void *),
                                      void (*timed)(void *), void *state) {
  double *time_us = job->control->time_us[job->rank];
  struct compare_summary summary = {0, 0, 0, 0};
  for (int i = 0; i < iterations; ++i) {
    if (prepare != NULL) prepare(state);
    compare_barrier(job, true);
    const int64_t begin_ns = compare_now_ns();
    timed(state);
    time_us[i] = (double)(compare_now_ns() - begin_ns) * 1e-3;
  }
  compare_barrier(job, false);
  if (job->rank == 0) summary = summarise(job, iterations);
  compare_barrier(job, false); /* no rank writes its next times before these are summarised */
  return summary;
}

/* Makes untimed calls until a quarter of the target time has passed. Then rank 0 decides how many timed calls fit into
 * the target. */
static int warm_up(struct run *run) {
  struct compare_job *job = run->job;
  job->control->iterations = 0;
  compare_barrier(job, false);
  const int64_t begin_ns = compare_now_ns();
  for (int calls = 1;; ++calls) {
    call(run);
    if (calls < warm_up_calls_min || (calls != warm_up_calls_min && (calls & (calls - 1)) != 0)) continue;
    compare_barrier(job, false); /* the ranks agree at the fewest calls, and at powers of two */
    const double seconds = (double)(compare_now_ns() - begin_ns) * 1e-9;
    if (job->rank == 0 && (seconds > job->target_s / 4 || calls >= warm_up_calls_max)) {
      const double fitting = job->target_s / (seconds / calls);
      job->control->iterations = fitting < job->iterations_min        ? job->iterations_min
                                 : fitting > compare_iterations_max ? compare_iterations_max
                                                                    : (int)fitting;
    }
    compare_barrier(job, false);
    if (job->control->iterations > 0) return job->control->iterations;
  }
}

/* Rewrites the input, like an application that has just computed it. An unchanged input would stay in the cache of a
 * peer that reads it directly. */
static void rewrite(void *state) {
  const struct run *run = state;
  if (!run->job->create) memset(run->send, 0, run->job->bytes);
}

static double back_to_back_us(struct run *run, int iterations) {
  struct compare_job *job = run->job;
  compare_barrier(job, true);
  const int64_t begin_ns = compare_now_ns();
  for (int i = 0; i < iterations; ++i) call(run);
  job->control->back_to_back_us[job->rank] = (double)(compare_now_ns() - begin_ns) * 1e-3 / iterations;
  compare_barrier(job, false);
  double slowest_us = 0;
  for (int rank = 0; rank < job->rank_count; ++rank)
    if (job->control->back_to_back_us[rank] > slowest_us) slowest_us = job->control->back_to_back_us[rank];
  compare_barrier(job, false);
  return slowest_us;
}

/* Returns a small whole number. All three types represent it and its sums over all ranks exactly. The numbers are
 * scattered, so that a chunk at the wrong place is detected. */
static uint32_t input(size_t index, int rank) { return ((uint32_t)index * 2654435761u >> 29) + (uint32_t)rank; }

static uint32_t expected(size_t index, const struct compare_job *job) {
  const uint32_t ranks = (uint32_t)job->rank_count;
  if (job->contender->only_exchanges) return input(index, 1 - job->rank);
  return ranks * input(index, 0) + ranks * (ranks - 1) / 2;
}

/* Returns the bits of `value` < 2048 in `type`. */
static uint32_t encode(uint32_t value, enum compare_type type) {
  if (type == compare_float16) {
    if (value == 0) return 0;
    const uint32_t exponent = 31 - (uint32_t)__builtin_clz(value);
    return (exponent + 15) << 10 | ((value << 10 >> exponent) & 0x3ff);
  }
  const float number = (float)value;
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return type == compare_bfloat16 ? bits >> 16 : bits;
}

static void put(char *buffer, size_t index, uint32_t bits, size_t size) {
  memcpy(buffer + index * size, &bits, size); /* little-endian, as every processor that this is built for */
}

static uint32_t get(const char *buffer, size_t index, size_t size) {
  uint32_t bits = 0;
  memcpy(&bits, buffer + index * size, size);
  return bits;
}

/* Returns the number of wrong elements on all ranks. If an out-of-place call changed its input, that counts as wrong,
 * too. */
static uint64_t verify(struct run *run) {
  struct compare_job *job = run->job;
  const size_t size = type_size(job->type);
  uint64_t wrong = 0;
  if (!job->in_place) memset(run->recv, poison, job->bytes);
  for (size_t i = 0; i < run->count; ++i) put(run->send, i, encode(input(i, job->rank), job->type), size);
  compare_barrier(job, false);
  call(run);
  for (size_t i = 0; i < run->count; ++i) {
    bool right = get(run->recv, i, size) == encode(expected(i, job), job->type);
    if (!job->in_place) right = right && get(run->send, i, size) == encode(input(i, job->rank), job->type);
    if (!right && wrong++ == 0)
      fprintf(stderr, "%s: rank %d of %d: element %zu of %zu is wrong: bits 0x%x, not 0x%x\n", job->contender->name,
              job->rank, job->rank_count, i, run->count, get(run->recv, i, size),
              encode(expected(i, job), job->type));
  }
  job->control->wrong_count[job->rank] = wrong;
  compare_barrier(job, false);
  wrong = 0;
  for (int rank = 0; rank < job->rank_count; ++rank) wrong += job->control->wrong_count[rank];
  return wrong;
}

static char *buffer_for(struct compare_job *job) {
  if (job->buffers == compare_private) return compare_private_memory(job, job->bytes);
  return job->contender->allocate(job, job->bytes);
}

/* Stops or continues a keeper of the machine's state. It has idle priority, but ranks that share cores would also yield
 * to it. So it is stopped while the counted calls of such ranks are timed. Back-to-back calls keep the cores busy
 * themselves. */
static void signal_keeper(struct compare_job *job, int number) {
  if (job->keeper == 0 || job->pin) return;
  if (job->rank == 0 && kill(-job->keeper, number) != 0)
    compare_fail(job, "cannot signal the keeper %d: %s", (int)job->keeper, strerror(errno));
  compare_barrier(job, false);
}

void compare_run(struct compare_job *job) {
  struct run run = {.job = job, .count = job->bytes / type_size(job->type)};
  uint64_t wrong = 0;
  double together_us = 0;
  compare_check_cores(job);
  job->contender->join(job);
  if (!job->create) {
    run.recv = buffer_for(job);
    run.send = job->in_place ? run.recv : buffer_for(job);
  }
  const int iterations = warm_up(&run);
  if (job->create) signal_keeper(job, SIGSTOP);
  const struct compare_summary summary = compare_sample(job, iterations, rewrite, call, &run);
  if (!job->create) {
    signal_keeper(job, SIGSTOP);
    together_us = back_to_back_us(&run, iterations);
  }
  signal_keeper(job, SIGCONT);
  if (!job->create) wrong = verify(&run);
  if (job->rank == 0) {
    FILE *const to = job->result_path == NULL ? stdout : fopen(job->result_path, "w");
    if (to == NULL) compare_fail(job, "cannot write %s: %s", job->result_path, strerror(errno));
    fprintf(to, "{\"iterations\": %d, \"median_us\": %.4f, \"p10_us\": %.4f, \"p90_us\": %.4f, \"min_us\": %.4f, "
            "\"back_to_back_us\": %.4f, \"wrong\": %llu}\n",
            iterations, summary.median_us, summary.p10_us, summary.p90_us, summary.min_us, together_us,
            (unsigned long long)wrong);
    if (fflush(to) != 0) compare_fail(job, "cannot write its result: %s", strerror(errno));
    if (to != stdout) (void)fclose(to);
  }
  compare_barrier(job, false);
  if (wrong > 0) compare_fail(job, "%llu elements are wrong", (unsigned long long)wrong);
  job->contender->leave(job);
}
