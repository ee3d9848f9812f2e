/* SPDX-License-Identifier: Apache-2.0
 * A rank dies. The others learn which one, and go on in a communicator without it.
 *
 *     $ rondo run -n 3 --keep-going survivors
 *     rank 0: the sum of 3 ranks is 6
 *     rank 1: the sum of 3 ranks is 6
 *     rank 0: lost rank 2; the sum of 2 ranks is 3
 *     rank 1: lost rank 2; the sum of 2 ranks is 3
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <rondo/rondo.h>

enum { victim = 2, ranks_max = 64 };

static void require(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "%s\n", what);
  exit(1); /* the other ranks get an error */
}

/* Returns the rank that the last failed call of this thread is about. */
static int lost_rank(void) {
  rondo_error_t error = RONDO_ERROR_INIT;
  rondo_comm_last_error(NULL, &error);
  require(error.status == RONDO_ERROR_REMOTE && error.peer >= 0, error.message);
  return error.peer;
}

/* Returns the communicator of all ranks that live, and destroys `comm`, which has failed. */
static rondo_comm_t without_lost(rondo_comm_t comm) {
  int lost[ranks_max], count = 0;
  rondo_comm_t rest = NULL;
  do {
    require(count < ranks_max, "too many ranks are lost");
    lost[count++] = lost_rank(); /* all ranks that live get the same peer */
  } while (rondo_comm_shrink(comm, lost, count, RONDO_SHRINK_ABORT, NULL, &rest) != RONDO_OK);
  rondo_comm_destroy(comm);
  return rest;
}

int main(void) {
  float mine = 0, sum = 0;
  int rank = 0, size = 0;
  rondo_comm_t comm = NULL;
  require(rondo_comm_init_env(&comm, NULL) == RONDO_OK, rondo_last_error_message(NULL));
  rondo_comm_rank(comm, &rank);
  rondo_comm_size(comm, &size);
  mine = (float)(rank + 1);
  require(rondo_all_reduce(&mine, &sum, 1, RONDO_FLOAT32, RONDO_SUM, comm, NULL) == RONDO_OK, "the first sum failed");
  if (rank == victim) raise(SIGKILL); /* stands for any sudden end */
  printf("rank %d: the sum of %d ranks is %g\n", rank, size, sum);

  while (rondo_all_reduce(&mine, &sum, 1, RONDO_FLOAT32, RONDO_SUM, comm, NULL) != RONDO_OK) {
    const int lost = lost_rank();
    comm = without_lost(comm); /* this rank may have another number in it */
    rondo_comm_size(comm, &size);
    printf("rank %d: lost rank %d; ", rank, lost);
  }
  printf("the sum of %d ranks is %g\n", size, sum);
  require(rondo_comm_finalize(comm) == RONDO_OK, rondo_last_error_message(comm));
  rondo_comm_destroy(comm);
  return 0;
}
