/* SPDX-License-Identifier: Apache-2.0
 * This file makes any MPI a contender of bench/compare. The mpirun of that MPI starts the ranks. */
#include <mpi.h>

#include <stdlib.h>

#include "bench/compare/harness.h"

/* Calls MPI. Its default error handler ends the job with a message, so a call that returns has succeeded. */
static void all_reduce(struct compare_job *job, const void *send, void *recv, size_t count) {
  (void)job;
  MPI_Allreduce(send == recv ? MPI_IN_PLACE : send, recv, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Probes for messages, so that MPI works on messages that it still owes to others. */
static void progress(struct compare_job *job) {
  int found;
  (void)job;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
}

/* Does nothing. main() calls MPI_Init and MPI_Finalize, because only it knows the rank. */
static void nothing(struct compare_job *job) { (void)job; }

/* Returns the rank if the launcher provides it before MPI starts, otherwise -1. */
static int launched_rank(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    const char *value = getenv(names[i]);
    if (value != NULL) return atoi(value);
  }
  return -1;
}

int main(int argc, char **argv) {
  static const struct compare_contender contender = {.name = "mpi", .busy_threads = 1, .only_float32 = true,
                                                     .join = nothing, .all_reduce = all_reduce, .leave = nothing,
                                                     .progress = progress};
  struct compare_job job;
  compare_parse(&job, &contender, argc, argv);
  if ((job.rank = launched_rank()) >= 0) compare_settle(&job);
  const int rank_before = job.rank, ranks_before = job.rank_count;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.rank_count);
  if (job.rank_count == 1 && ranks_before > 1) compare_fail(&job, "MPI makes this process a job of its own");
  if (rank_before >= 0 && rank_before != job.rank)
    compare_fail(&job, "was bound as rank %d, which its launcher's environment named", rank_before);
  compare_settle(&job); /* again: MPI has now given the number of ranks and this rank's number */
  compare_attach(&job);
  compare_run(&job);
  MPI_Finalize();
  return 0;
}
