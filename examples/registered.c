/* SPDX-License-Identifier: Apache-2.0
 * This program uses memory that peers read in place, without a copy: memory of Rondo, and memory that it registers.
 *
 *     $ rondo run -n 2 -- registered
 *     2 ranks: 262144 numbers each, 0 wrong, in memory of Rondo and in a registered buffer
 */
#include <stdio.h>
#include <stdlib.h>
#include <rondo/rondo.h>

enum { count = 1 << 18 };

static void check(rondo_status_t status, rondo_comm_t comm) {
  if (status == RONDO_OK) return;
  fprintf(stderr, "%s\n", rondo_last_error_message(comm));
  exit(1); /* the other ranks get an error */
}

/* Gathers the numbers of all ranks in place, rank after rank. Returns how many of them are wrong. */
static int gather(double *all, int rank, int size, rondo_comm_t comm) {
  int wrong = 0;
  for (size_t at = 0; at < count; ++at) all[(size_t)rank * count + at] = rank + 1;
  check(rondo_all_gather(all + (size_t)rank * count, all, count, RONDO_FLOAT64, comm, NULL), comm);
  for (int from = 0; from < size; ++from)
    for (size_t at = 0; at < count; ++at) wrong += all[(size_t)from * count + at] != from + 1;
  return wrong;
}

int main(void) {
  rondo_comm_t comm = NULL;
  rondo_registration_t registration = NULL;
  void *allocated = NULL;
  int rank = 0, size = 0;
  check(rondo_comm_init_env(&comm, NULL), NULL);
  rondo_comm_rank(comm, &rank);
  rondo_comm_size(comm, &size);
  const size_t bytes = (size_t)size * count * sizeof(double);

  check(rondo_mem_alloc(&allocated, bytes), comm);
  int wrong = gather(allocated, rank, size, comm);

  double *own = malloc(bytes);
  if (own == NULL) return 1;
  /* RONDO_REGISTER_MOVE_PAGES in place of 0 lets peers map it, too: see docs/guide.md. */
  check(rondo_comm_register(comm, own, bytes, 0, &registration), comm);
  wrong += gather(own, rank, size, comm);
  check(rondo_comm_deregister(comm, registration), comm); /* before the memory goes */
  free(own);

  check(rondo_comm_finalize(comm), comm);
  rondo_comm_destroy(comm);
  rondo_mem_free(allocated);
  if (rank == 0)
    printf("%d ranks: %d numbers each, %d wrong, in memory of Rondo and in a registered buffer\n", size, count, wrong);
  return wrong != 0;
}
