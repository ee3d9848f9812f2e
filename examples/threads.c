/* SPDX-License-Identifier: Apache-2.0
 * The ranks of this program are threads of one process. One call makes all communicators, and each has its own thread.
 *
 *     $ threads
 *     rank 0: its part of the maximum begins with 30
 *     rank 1: its part of the maximum begins with 31
 *     rank 2: its part of the maximum begins with 32
 *     rank 3: its part of the maximum begins with 33
 */
#include <pthread.h>
#include <stdio.h>
#include <rondo/rondo.h>

enum { rank_count = 4, block = 1 };

static void *run_rank(void *argument) {
  rondo_comm_t comm = argument;
  int rank = 0;
  int32_t mine[rank_count * block], part[block], all[rank_count * block];
  rondo_comm_rank(comm, &rank);
  for (int at = 0; at < rank_count * block; ++at) mine[at] = 10 * rank + at;
  rondo_status_t status = rondo_reduce_scatter(mine, part, block, RONDO_INT32, RONDO_MAX, comm, NULL);
  if (status == RONDO_OK) status = rondo_all_gather(part, all, block, RONDO_INT32, comm, NULL);
  if (status == RONDO_OK) printf("rank %d: its part of the maximum begins with %d\n", rank, (int)all[rank * block]);
  else fprintf(stderr, "rank %d: %s\n", rank, rondo_last_error_message(comm));
  if (status == RONDO_OK) status = rondo_comm_finalize(comm);
  rondo_comm_destroy(comm); /* after a failure this reports it to the other ranks */
  return status == RONDO_OK ? NULL : comm;
}

int main(void) {
  rondo_comm_t comms[rank_count];
  pthread_t threads[rank_count];
  int failed = 0;
  if (rondo_comm_init_all(comms, rank_count, NULL) != RONDO_OK) {
    fprintf(stderr, "%s\n", rondo_last_error_message(NULL));
    return 1;
  }
  for (int rank = 0; rank < rank_count; ++rank)
    if (pthread_create(&threads[rank], NULL, run_rank, comms[rank]) != 0) return 1;
  for (int rank = 0; rank < rank_count; ++rank) {
    void *result = NULL;
    pthread_join(threads[rank], &result);
    failed |= result != NULL;
  }
  return failed;
}
