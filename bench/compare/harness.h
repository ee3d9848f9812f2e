/* SPDX-License-Identifier: Apache-2.0
 *
 * The harness drives every contender of bench/compare with the same buffers, numbers of calls and checks of results.
 * Before each timed call, ranks wait at the harness's own barrier in shared memory, never at the contender's. A
 * contender's file has only the calls of its library. docs/performance.md has the rules and reasons.
 *
 * One process is one rank; one run measures one size. Rank 0 prints one line of JSON, or writes it to a file.
 */
#ifndef RONDO_BENCH_COMPARE_HARNESS_H
#define RONDO_BENCH_COMPARE_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { compare_ranks_max = 16, compare_iterations_max = 20000, compare_note_bytes = 256 };

enum compare_type { compare_float32, compare_bfloat16, compare_float16 };
enum compare_buffers { compare_private, compare_alloc, compare_registered };

struct compare_control; /* shared by all ranks of a run */
struct compare_contender;

/* The state of one rank. */
struct compare_job {
  const struct compare_contender *contender;
  struct compare_control *control;
  void *state; /* the driver's own */
  int rank, rank_count;
  size_t bytes;
  enum compare_type type;
  enum compare_buffers buffers;
  bool in_place;
  bool create;         /* time making and destroying a communicator, instead of an all-reduce */
  bool pin;            /* a core for each rank */
  bool oversubscribed; /* more busy threads than cores: barriers sleep, so that threads that work have the cores */
  int iterations_min;
  unsigned deadline_s; /* the kernel ends a rank that lives longer, wherever it hangs */
  double target_s;     /* about how long a loop of timed calls may take */
  const char *control_path;
  const char *result_path; /* NULL: standard output */
  const char *interface;   /* network interface or RDMA device */
  pid_t keeper; /* process group that keeps the machine's state; 0 if none */
};

/* A library to compare. A failure ends in compare_fail(), which reports it and does not return. */
struct compare_contender {
  const char *name;
  int busy_threads; /* of one rank, with the caller's thread */
  bool only_float32;
  bool only_exchanges; /* makes no sum: out of place, each of two ranks gets what the other has */
  void (*join)(struct compare_job *);
  void (*all_reduce)(struct compare_job *, const void *send, void *recv, size_t count); /* send == recv: in place */
  void (*leave)(struct compare_job *);
  void (*create)(struct compare_job *);                   /* makes and destroys a communicator; NULL if it cannot */
  void (*progress)(struct compare_job *);                 /* called in long waits of the barrier; NULL if not needed */
  void *(*allocate)(struct compare_job *, size_t bytes);  /* for buffers other than private; NULL if it has none */
};

/* The times of iterations. An iteration's time is that of its slowest rank. */
struct compare_summary {
  double median_us, p10_us, p90_us, min_us;
};

/* Reads the options into *job. Ends the process for a bad option, with status 2, and after the text of --help. */
void compare_parse(struct compare_job *job, const struct compare_contender *contender, int argc, char **argv);

/* Makes the control block and job->rank_count processes, and returns in each new process with job->rank set. The caller
 * waits for them, and ends with their status. With --rank, the caller is a rank already, and attaches. */
void compare_fork(struct compare_job *job);

/* Maps the control block at job->control_path, for ranks that a launcher made. */
void compare_attach(struct compare_job *job);

/* Binds this rank to its core and sets its deadline, before any set-up of a library. */
void compare_settle(struct compare_job *job);

/* Does the whole work of a run, from the contender's join() to its leave(). */
void compare_run(struct compare_job *job);

/* Waits for all ranks. With `start`, all ranks that spin continue at the same instant. */
void compare_barrier(struct compare_job *job, bool start);

/* Copies `size` bytes of rank 0 to all other ranks. `size` is at most compare_note_bytes. */
void compare_share(struct compare_job *job, void *bytes, size_t size);

/* Samples a function. In each of `iterations` rounds, every rank calls `prepare`, untimed, unless it is NULL. Then all
 * ranks call `timed` together. Both get `state`. Rank 0 gets the result, and the other ranks get zeros. */
struct compare_summary compare_sample(struct compare_job *job, int iterations, void (*prepare)(void *),
                                      void (*timed)(void *), void *state);

/* Returns zeroed memory that all ranks share. Call it before compare_fork(), or after compare_attach(). */
void *compare_shared_memory(struct compare_job *job, size_t bytes);

/* Returns zeroed private memory of whole pages, aligned to 2 MiB. Its pages are never huge pages. */
void *compare_private_memory(struct compare_job *job, size_t bytes);

int64_t compare_now_ns(void);

__attribute__((noreturn, format(printf, 2, 3)))
void compare_fail(const struct compare_job *job, const char *format, ...);

#ifdef __cplusplus
}
#endif

#endif /* RONDO_BENCH_COMPARE_HARNESS_H */
