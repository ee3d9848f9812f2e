/* SPDX-License-Identifier: Apache-2.0
 * Every rank brings its number; every rank learns the sum. `rondo run -n 4 -- ./all_reduce` */
#include <rondo/rondo.h>
#include <stdio.h>

int main(void) {
  rondo_comm_t comm;
  int rank, size;
  if (rondo_comm_init_env(&comm, NULL) != RONDO_OK) return 1;
  rondo_comm_rank(comm, &rank);
  rondo_comm_size(comm, &size);
  float mine = (float)rank, sum = 0;
  if (rondo_all_reduce(&mine, &sum, 1, RONDO_FLOAT32, RONDO_SUM, comm, NULL) == RONDO_OK)
    printf("rank %d of %d: the sum is %g\n", rank, size, sum);
  const rondo_status_t status = rondo_comm_finalize(comm);
  rondo_comm_destroy(comm);
  return status == RONDO_OK ? 0 : 1;
}
