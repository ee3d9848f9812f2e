/* SPDX-License-Identifier: Apache-2.0
 * Processes, cores, barrier and clock of a run; measure.c times and verifies. */
#include "bench/compare/control.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { sleep_ns = 1000000, spins_between_progress = 4096, start_delay_ns = 1000, huge_page_bytes = 2 << 20 };

void compare_fail(const struct compare_job *job, const char *format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "%s: rank %d of %d: %s\n", job->contender->name, job->rank, job->rank_count, text);
  fflush(NULL);
  _exit(1);
}

int64_t compare_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout) {
  (void)syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

/* Waits without a deadline of its own: the alarm of compare_settle() ends a rank that waits here too long. */
static void wait_for_generation(struct compare_job *job, uint32_t generation) {
  struct compare_control *control = job->control;
  const struct timespec nap = {0, sleep_ns};
  void (*progress)(struct compare_job *) = job->contender->progress;
  /* acquire; pairs with the release of the last rank in compare_barrier() */
  for (uint32_t spin = 1; atomic_load_explicit(&control->generation, memory_order_acquire) == generation; ++spin) {
    if (job->oversubscribed) futex(&control->generation, FUTEX_WAIT, generation, &nap);
    else __builtin_ia32_pause();
    if (progress != NULL && (job->oversubscribed || spin % spins_between_progress == 0)) progress(job);
  }
}

void compare_barrier(struct compare_job *job, bool start) {
  struct compare_control *control = job->control;
  const uint32_t generation = atomic_load_explicit(&control->generation, memory_order_relaxed);
  /* acq_rel: this addition pairs with itself on the other ranks, so the last rank has seen what all ranks wrote. */
  if (atomic_fetch_add_explicit(&control->arrived, 1, memory_order_acq_rel) + 1 == (uint32_t)job->rank_count) {
    atomic_store_explicit(&control->arrived, 0, memory_order_relaxed);
    control->start_ns = compare_now_ns() + start_delay_ns;
    /* release; pairs with the acquire of wait_for_generation() */
    atomic_store_explicit(&control->generation, generation + 1, memory_order_release);
    if (job->oversubscribed) futex(&control->generation, FUTEX_WAKE, INT32_MAX, NULL);
  } else {
    wait_for_generation(job, generation);
  }
  if (start && !job->oversubscribed)
    while (compare_now_ns() < control->start_ns) {
    }
}

void compare_share(struct compare_job *job, void *bytes, size_t size) {
  if (size > compare_note_bytes) compare_fail(job, "%zu bytes to share, the most are %d", size, compare_note_bytes);
  if (job->rank == 0) memcpy(job->control->note, bytes, size);
  compare_barrier(job, false);
  memcpy(bytes, job->control->note, size);
  compare_barrier(job, false);
}

void *compare_private_memory(struct compare_job *job, size_t bytes) {
  const size_t length = (bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
  char *at = mmap(NULL, length + huge_page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) compare_fail(job, "no memory for a buffer of %zu bytes: %s", bytes, strerror(errno));
  at += (huge_page_bytes - (uintptr_t)at % huge_page_bytes) % huge_page_bytes;
  (void)madvise(at, length, MADV_NOHUGEPAGE); /* fails only on a kernel that has no huge pages */
  memset(at, 0, length);
  return at;
}

static void *map_shared(struct compare_job *job, size_t bytes, int descriptor) {
  const int flags = MAP_SHARED | (descriptor < 0 ? MAP_ANONYMOUS : 0);
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (at == MAP_FAILED) compare_fail(job, "cannot map %zu bytes for all ranks: %s", bytes, strerror(errno));
  return at;
}

static void *map_file(struct compare_job *job, size_t bytes, const char *path) {
  const int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0 || ftruncate(descriptor, (off_t)bytes) != 0)
    compare_fail(job, "cannot make the shared file %s: %s", path, strerror(errno));
  void *at = map_shared(job, bytes, descriptor);
  close(descriptor);
  return at;
}

void *compare_shared_memory(struct compare_job *job, size_t bytes) {
  char path[4096];
  if (job->control_path == NULL) return map_shared(job, bytes, -1);
  (void)snprintf(path, sizeof path, "%s.more", job->control_path);
  return map_file(job, bytes, path);
}

void compare_attach(struct compare_job *job) {
  if (job->rank_count > compare_ranks_max) compare_fail(job, "at most %d ranks", compare_ranks_max);
  if (job->control_path == NULL) compare_fail(job, "needs --control FILE, one that all ranks can map");
  job->control = map_file(job, sizeof *job->control, job->control_path);
}

/* Waits for all ranks. The first rank that fails ends the others, because they would wait for it. */
static int wait_for_ranks(const struct compare_job *job, pid_t *ranks) {
  int failures = 0;
  for (int left = job->rank_count; left > 0; --left) {
    int status = 0;
    const pid_t ended = wait(&status);
    if (ended < 0) return 1;
    for (int rank = 0; rank < job->rank_count; ++rank)
      if (ranks[rank] == ended) ranks[rank] = 0; /* reaped: the number may soon be another process's */
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (failures++ > 0) continue;
    if (WIFSIGNALED(status))
      fprintf(stderr, "%s: a rank was ended by signal %d%s\n", job->contender->name, WTERMSIG(status),
              WTERMSIG(status) == SIGALRM ? ": its deadline has passed" : "");
    for (int rank = 0; rank < job->rank_count; ++rank)
      if (ranks[rank] != 0) kill(ranks[rank], SIGKILL);
  }
  return failures > 0 ? 1 : 0;
}

void compare_fork(struct compare_job *job) {
  pid_t ranks[compare_ranks_max];
  const pid_t parent = getpid();
  if (job->rank >= 0) {
    compare_attach(job);
    return;
  }
  job->control = map_shared(job, sizeof *job->control, -1);
  for (int rank = 0; rank < job->rank_count; ++rank) {
    ranks[rank] = fork();
    if (ranks[rank] < 0) {
      const int error = errno;
      for (int started = 0; started < rank; ++started) kill(ranks[started], SIGKILL);
      compare_fail(job, "cannot make a process: %s", strerror(error));
    }
    if (ranks[rank] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      job->rank = rank;
      return;
    }
  }
  exit(wait_for_ranks(job, ranks));
}

/* Binds the rank to a core, unless the launcher has bound it already. */
static void take_core(struct compare_job *job) {
  cpu_set_t allowed, mine;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    compare_fail(job, "cannot read which processors it may use: %s", strerror(errno));
  if (CPU_COUNT(&allowed) == 1) return;
  int skip = job->rank;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET((size_t)cpu, &allowed) || skip-- > 0) continue;
    CPU_ZERO(&mine);
    CPU_SET((size_t)cpu, &mine);
    if (sched_setaffinity(0, sizeof mine, &mine) != 0)
      compare_fail(job, "cannot be bound to processor %d: %s", cpu, strerror(errno));
    return;
  }
  compare_fail(job, "a core for each of %d ranks was asked for; %d are there", job->rank_count, CPU_COUNT(&allowed));
}

void compare_settle(struct compare_job *job) {
  alarm(job->deadline_s);
  job->oversubscribed = (long)job->rank_count * job->contender->busy_threads > sysconf(_SC_NPROCESSORS_ONLN);
  if (job->pin) take_core(job);
}

void compare_check_cores(struct compare_job *job) {
  job->control->cpu[job->rank] = sched_getcpu();
  compare_barrier(job, false);
  if (job->pin)
    for (int other = 0; other < job->rank; ++other)
      if (job->control->cpu[other] == job->control->cpu[job->rank])
        compare_fail(job, "shares processor %d with rank %d; its launcher bound both to it",
                     job->control->cpu[other], other);
}
