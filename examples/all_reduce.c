/* SPDX-License-Identifier: Apache-2.0
 * This is the example of README.md. Every rank has a number, and every rank gets the sum.
 *
 *     $ rondo run -n 3 -- all_reduce
 *     rank 0 of 3: the sum is 6
 *     rank 1 of 3: the sum is 6
 *     rank 2 of 3: the sum is 6
 */
#include <stdio.h>
#include <rondo/rondo.h>

int main(void) {
  rondo_comm_t comm;
  int rank = 0, size = 0;
  if (rondo_comm_init_env(&comm, NULL) != RONDO_OK) {
    fprintf(stderr, "%s\n", rondo_last_error_message(NULL));
    return 1;
  }
  rondo_comm_rank(comm, &rank);
  rondo_comm_size(comm, &size);
  float mine = (float)(rank + 1), sum = 0;
  rondo_status_t status = rondo_all_reduce(&mine, &sum, 1, RONDO_FLOAT32, RONDO_SUM, comm, NULL);
  if (status == RONDO_OK) status = rondo_comm_finalize(comm);
  if (status == RONDO_OK) printf("rank %d of %d: the sum is %g\n", rank, size, sum);
  else fprintf(stderr, "%s\n", rondo_last_error_message(comm));
  rondo_comm_destroy(comm);
  return status == RONDO_OK ? 0 : 1;
}
