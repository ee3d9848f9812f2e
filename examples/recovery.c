/* SPDX-License-Identifier: Apache-2.0
 * A failed operation ends its communicator on every rank, with one cause. A new one is made, and the work goes on.
 *
 *     $ rondo run -n 3 -- recovery
 *     rank 0: ranks disagree; the second communicator's sum is 3
 *     rank 1: ranks disagree; the second communicator's sum is 3
 *     rank 2: ranks disagree; the second communicator's sum is 3
 */
#include <stdio.h>
#include <rondo/rondo.h>

int main(void) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  rondo_comm_t comm = NULL;
  rondo_error_t error = RONDO_ERROR_INIT;
  int rank = 0;
  float numbers[100] = {0};
  config.timeout_ms = 20 * 1000; /* of one operation: no wait is endless */
  if (rondo_comm_init_env(&comm, &config) != RONDO_OK) {
    fprintf(stderr, "%s\n", rondo_last_error_message(NULL));
    return 1;
  }
  rondo_comm_rank(comm, &rank);

  /* This is a mistake: rank 0 has another count than the other ranks. */
  rondo_status_t first =
      rondo_all_reduce(numbers, numbers, rank == 0 ? 100 : 99, RONDO_FLOAT32, RONDO_SUM, comm, NULL);
  if (first == RONDO_OK) return 1;
  rondo_comm_last_error(comm, &error); /* which rank, which operation, and what to do: in error.message */
  fprintf(stderr, "rank %d: operation %d failed: %s\n", rank, (int)error.operation, error.message);
  rondo_comm_destroy(comm); /* frees the failed communicator; buffers and streams stay usable */

  if (rondo_comm_init_env(&comm, &config) != RONDO_OK) { /* the next communicator of the same ranks */
    fprintf(stderr, "%s\n", rondo_last_error_message(NULL));
    return 1;
  }
  numbers[0] = 1;
  rondo_status_t second = rondo_all_reduce(numbers, numbers, 100, RONDO_FLOAT32, RONDO_SUM, comm, NULL);
  if (second == RONDO_OK) second = rondo_comm_finalize(comm);
  if (second == RONDO_OK)
    printf("rank %d: %s; the second communicator's sum is %g\n", rank, rondo_status_string(first), numbers[0]);
  else
    fprintf(stderr, "%s\n", rondo_last_error_message(comm));
  rondo_comm_destroy(comm);
  return second == RONDO_OK ? 0 : 1;
}
