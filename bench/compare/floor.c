/* SPDX-License-Identifier: Apache-2.0
 * Measures what this machine can do at best: the parts of the floor under an all-reduce of two ranks. It also measures
 * how near the two cores' caches are at the moment. docs/performance.md has the formulas. It runs on x86-64 only.
 *
 *     floor state                how long reading 64 KiB takes that the other core has just written
 *     floor keep LOW HIGH S      naps until that time is from LOW to below HIGH, for at most S seconds; then keeps
 *                                both cores busy at idle priority, so that it stays so, until standard input ends
 *     floor BYTES                every part at this size
 *
 * It prints one line of JSON, with times in microseconds. */
#include <emmintrin.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/compare/harness.h"

/* Few iterations, for a busy machine, where each wait takes a turn of the scheduler. */
enum { probe_bytes = 64 << 10, probe_iterations = 201, batches = 10, round_trips = 500, deadline_s = 120 };
enum { nap_us = 20000, look_ns = 1000000, keep_most_s = 3600 };

/* The widest vector that some processors have. For other processors the compiler divides it. */
typedef uint64_t vector __attribute__((vector_size(64), may_alias));

struct flags {
  _Alignas(64) _Atomic uint64_t turn[2][8]; /* a cache line for each rank */
};

struct floor {
  struct compare_job *job;
  struct flags *flags;
  char *shared[2]; /* each written by one rank, read by the other */
  char *from, *to; /* this rank's own buffers */
  size_t bytes;
  volatile uint64_t sink; /* makes the compiler keep the reads */
};

static void copy(void *state) {
  struct floor *floor = state;
  memcpy(floor->to, floor->from, floor->bytes);
}

/* Copies past the cache: memory that is overwritten is not read first. */
static void copy_streaming(void *state) {
  struct floor *floor = state;
  for (size_t at = 0; at < floor->bytes; at += 16)
    _mm_stream_si128((__m128i *)(floor->to + at), _mm_load_si128((const __m128i *)(floor->from + at)));
  _mm_sfence();
}

static void update(void *state) {
  struct floor *floor = state;
  float *at = (float *)floor->to;
  for (size_t i = 0; i < floor->bytes / 4; ++i) at[i] += 1.0f;
}

static void write_shared(void *state) {
  struct floor *floor = state;
  float *at = (float *)floor->shared[floor->job->rank];
  for (size_t i = 0; i < floor->bytes / 4; ++i) at[i] = (float)floor->job->rank;
}

static void read_shared(void *state) {
  struct floor *floor = state;
  const char *at = floor->shared[1 - floor->job->rank];
  vector sums[4] = {{0}, {0}, {0}, {0}};
  size_t done = 0;
  for (; done + sizeof sums <= floor->bytes; done += sizeof sums)
    for (size_t i = 0; i < 4; ++i) sums[i] += *(const vector *)(at + done + i * sizeof(vector));
  sums[0] += sums[1] + sums[2] + sums[3];
  uint64_t sum = 0;
  for (size_t i = 0; i < 8; ++i) sum += sums[0][i];
  for (; done + 8 <= floor->bytes; done += 8) {
    uint64_t word;
    memcpy(&word, at + done, sizeof word);
    sum += word;
  }
  floor->sink = sum;
}

/* Sends a line to the other rank, and receives one. The alarm of compare_settle() bounds it. */
static void ping_pong(struct floor *floor, bool yield) {
  const int rank = floor->job->rank;
  for (uint64_t trip = 1; trip <= round_trips; ++trip) {
    /* release and acquire pair with each other on the two ranks */
    if (rank == 0) atomic_store_explicit(floor->flags->turn[0], trip, memory_order_release);
    while (atomic_load_explicit(floor->flags->turn[1 - rank], memory_order_acquire) < trip)
      if (yield) sched_yield();
      else _mm_pause();
    if (rank == 1) atomic_store_explicit(floor->flags->turn[1], trip, memory_order_release);
  }
}

/* Returns the best of a few batches, because a floor is what is possible. */
static double one_way_us(struct floor *floor, bool yield) {
  double best_us = 0;
  for (int batch = 0; batch < batches; ++batch) {
    compare_barrier(floor->job, false);
    atomic_store_explicit(floor->flags->turn[floor->job->rank], 0, memory_order_relaxed);
    compare_barrier(floor->job, false);
    const int64_t begin_ns = compare_now_ns();
    ping_pong(floor, yield);
    const double us = (double)(compare_now_ns() - begin_ns) * 1e-3 / (2.0 * round_trips);
    if (batch == 0 || us < best_us) best_us = us;
  }
  compare_barrier(floor->job, false);
  return best_us;
}

/* Binds both ranks to one processor, which they pass to each other. */
static double yield_us(struct floor *floor) {
  cpu_set_t own, first;
  int cpu = sched_getcpu();
  compare_share(floor->job, &cpu, sizeof cpu);
  CPU_ZERO(&first);
  CPU_SET((size_t)cpu, &first);
  if (sched_getaffinity(0, sizeof own, &own) != 0 || sched_setaffinity(0, sizeof first, &first) != 0)
    compare_fail(floor->job, "cannot move to processor %d: %s", cpu, strerror(errno));
  floor->job->oversubscribed = true;
  const double us = one_way_us(floor, true);
  floor->job->oversubscribed = false;
  if (sched_setaffinity(0, sizeof own, &own) != 0) compare_fail(floor->job, "cannot move back: %s", strerror(errno));
  return us;
}

static int iterations_for(size_t bytes) {
  return bytes >= 64 << 20 ? 7 : bytes >= 4 << 20 ? 31 : bytes >= 256 << 10 ? 101 : 1001;
}

/* Returns the reading on rank 0, and zero on other ranks. */
static double state_us(struct floor *floor) {
  return compare_sample(floor->job, probe_iterations, write_shared, read_shared, floor).median_us;
}

static void say_state(struct floor *floor, double us) {
  if (floor->job->rank == 0) printf("{\"read_64K_us\": %.4f}\n", us);
  fflush(stdout);
}

/* Naps until reading takes at least low_us and less than high_us. A hypervisor chooses where a virtual processor runs
 * when it wakes, so each nap may change the result. Both ranks return the reading. */
static double seek(struct floor *floor, double low_us, double high_us, double seconds) {
  const int64_t end_ns = compare_now_ns() + (int64_t)(seconds * 1e9);
  for (;;) {
    usleep(nap_us);
    double us = state_us(floor);
    bool late = compare_now_ns() >= end_ns;
    compare_share(floor->job, &us, sizeof us);
    compare_share(floor->job, &late, sizeof late);
    if (us >= low_us && us < high_us) return us;
    if (!late) continue;
    if (floor->job->rank == 0)
      compare_fail(floor->job, "the state did not come within %g s; the last reading was %.2f us", seconds, us);
    pause(); /* this rank ends with rank 0 */
  }
}

/* Keeps the state by never being idle: a hypervisor seldom moves a busy virtual processor. Rank 0 polls for the end of
 * standard input. */
static void keep(struct floor *floor, const char *const *words) {
  struct compare_job *job = floor->job;
  const double us = seek(floor, atof(words[0]), atof(words[1]), atof(words[2]));
  const struct sched_param none = {0};
  if (sched_setscheduler(0, SCHED_IDLE, &none) != 0)
    compare_fail(job, "cannot take the idle priority: %s", strerror(errno));
  compare_barrier(job, false);
  say_state(floor, us);
  _Atomic uint64_t *over = floor->flags->turn[0];
  struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
  for (int64_t look_at_ns = 0; atomic_load_explicit(over, memory_order_relaxed) == 0;) {
    if (job->rank != 0 || compare_now_ns() < look_at_ns) continue;
    if (poll(&in, 1, 0) != 0) atomic_store_explicit(over, 1, memory_order_relaxed);
    look_at_ns = compare_now_ns() + look_ns;
  }
}

static void measure_parts(struct floor *floor, size_t bytes) {
  struct compare_job *job = floor->job;
  const int iterations = iterations_for(bytes);
  const double line_us = one_way_us(floor, false);
  const double copy_us = compare_sample(job, iterations, NULL, copy, floor).median_us;
  double copy_streaming_us = copy_us;
  if (bytes % 64 == 0) copy_streaming_us = compare_sample(job, iterations, NULL, copy_streaming, floor).median_us;
  const double update_us = compare_sample(job, iterations, NULL, update, floor).median_us;
  const double read_us = compare_sample(job, iterations, write_shared, read_shared, floor).median_us;
  const double hand_over_us = yield_us(floor);
  if (job->rank == 0)
    printf("{\"line_us\": %.4f, \"copy_us\": %.4f, \"copy_streaming_us\": %.4f, \"update_us\": %.4f, "
           "\"read_us\": %.4f, \"yield_us\": %.4f}\n",
           line_us, copy_us, copy_streaming_us, update_us, read_us, hand_over_us);
}

static void *shared_memory(struct compare_job *job, size_t bytes) {
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) compare_fail(job, "no shared memory of %zu bytes: %s", bytes, strerror(errno));
  return at;
}

int main(int argc, char **argv) {
  static const struct compare_contender contender = {.name = "floor", .busy_threads = 1};
  const bool state = argc == 2 && strcmp(argv[1], "state") == 0, keeps = argc == 5 && strcmp(argv[1], "keep") == 0;
  struct compare_job job = {.contender = &contender, .rank = -1, .rank_count = 2, .pin = true,
                            .deadline_s = keeps ? keep_most_s : deadline_s};
  char *end = NULL;
  const size_t bytes = state || keeps ? probe_bytes : argc == 2 ? strtoull(argv[1], &end, 10) : 0;
  if (bytes < 8 || bytes % 8 != 0 || bytes > (size_t)8 << 30 || (end != NULL && *end != '\0')) {
    fprintf(stderr, "usage: floor state | keep LOW HIGH SECONDS | BYTES    BYTES: a multiple of 8, at most 8 GiB\n");
    return 2;
  }
  struct floor floor = {.job = &job, .flags = shared_memory(&job, sizeof(struct flags)), .bytes = bytes,
                        .shared = {shared_memory(&job, bytes), shared_memory(&job, bytes)}};
  compare_fork(&job);
  compare_settle(&job);
  floor.from = compare_private_memory(&job, bytes);
  floor.to = compare_private_memory(&job, bytes);
  if (keeps) keep(&floor, (const char *const *)argv + 2);
  else if (state) say_state(&floor, state_us(&floor));
  else measure_parts(&floor, bytes);
  fflush(stdout);
  compare_barrier(&job, false);
  return 0;
}
