/* SPDX-License-Identifier: Apache-2.0
 * Ranks send messages: first around a ring, then through a pipeline.
 *
 *     $ rondo run -n 3 -- messages
 *     rank 0: its neighbour sent 2
 *     rank 1: its neighbour sent 0
 *     rank 2: its neighbour sent 1
 *     the pipeline: 3 items, the last is 22
 */
#include <stdio.h>
#include <stdlib.h>
#include <rondo/rondo.h>

enum { item_count = 3 };

static void check(rondo_status_t status, rondo_comm_t comm) {
  if (status == RONDO_OK) return;
  fprintf(stderr, "%s\n", rondo_last_error_message(comm));
  exit(1); /* the other ranks get an error */
}

/* Sends `mine` to the next rank, and returns what the previous rank sends. */
static int32_t exchange(int32_t mine, int rank, int size, rondo_comm_t comm) {
  int32_t theirs = -1;
  check(rondo_group_begin(), comm);
  check(rondo_send(&mine, 1, RONDO_INT32, (rank + 1) % size, comm, NULL), comm);
  check(rondo_recv(&theirs, 1, RONDO_INT32, (rank + size - 1) % size, comm, NULL), comm);
  check(rondo_group_end(), comm); /* both run at once, so that no rank waits for another one's send */
  return theirs;
}

/* Each rank is a stage: it takes an item from the rank before it, works on it, and passes it on. */
static void run_stage(int rank, int size, rondo_comm_t comm) {
  int32_t item = 0;
  for (int number = 0; number < item_count; ++number) {
    if (rank == 0) item = 10 * number; /* the first stage makes the items */
    else check(rondo_recv(&item, 1, RONDO_INT32, rank - 1, comm, NULL), comm);
    if (rank > 0) item += 1; /* the work of a stage */
    if (rank < size - 1) check(rondo_send(&item, 1, RONDO_INT32, rank + 1, comm, NULL), comm);
  }
  if (rank == size - 1) printf("the pipeline: %d items, the last is %d\n", item_count, (int)item);
}

int main(void) {
  rondo_comm_t comm = NULL;
  int rank = 0, size = 0;
  check(rondo_comm_init_env(&comm, NULL), NULL);
  rondo_comm_rank(comm, &rank);
  rondo_comm_size(comm, &size);
  printf("rank %d: its neighbour sent %d\n", rank, (int)exchange(rank, rank, size, comm));
  run_stage(rank, size, comm);
  check(rondo_comm_finalize(comm), comm);
  rondo_comm_destroy(comm);
  return 0;
}
