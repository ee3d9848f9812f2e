/* SPDX-License-Identifier: Apache-2.0
 *
 * This is a user's program. A plain C compiler builds it with what pkg-config says of the installed library. Two ranks
 * in one process, each with its own stream, add up (1, 2, 3, 4) and (10, 20, 30, 40).
 */
#include <inttypes.h>
#include <rondo/rondo.h>
#include <stdio.h>

enum { rank_count = 2, element_count = 4 };

static int check(rondo_status_t status, const char *what) {
  rondo_error_t error = RONDO_ERROR_INIT;
  if (status == RONDO_OK) return 0;
  (void)rondo_comm_last_error(NULL, &error);
  fprintf(stderr, "%s: %s: %s\n", what, rondo_status_string(status), error.message);
  return 1;
}

int main(void) {
  const int64_t send[rank_count][element_count] = {{1, 2, 3, 4}, {10, 20, 30, 40}};
  int64_t recv[rank_count][element_count] = {{0}};
  rondo_comm_t comms[rank_count];
  rondo_stream_t streams[rank_count];
  int bad = check(rondo_comm_init_all(comms, rank_count, NULL), "rondo_comm_init_all");
  if (bad) return 1;
  for (int rank = 0; rank < rank_count; ++rank) {
    bad |= check(rondo_stream_create(&streams[rank]), "rondo_stream_create");
    bad |= check(rondo_all_reduce(send[rank], recv[rank], element_count, RONDO_INT64, RONDO_SUM, comms[rank],
                                  streams[rank]),
                 "rondo_all_reduce");
  }
  for (int rank = 0; rank < rank_count; ++rank) {
    bad |= check(rondo_stream_synchronize(streams[rank]), "rondo_stream_synchronize");
    bad |= check(rondo_stream_destroy(streams[rank]), "rondo_stream_destroy");
    bad |= check(rondo_comm_destroy(comms[rank]), "rondo_comm_destroy");
    for (int i = 0; i < element_count; ++i) bad |= recv[rank][i] != 11 * (i + 1);
  }
  printf("%" PRId64 " %" PRId64 "\n", recv[0][0], recv[1][element_count - 1]);
  return bad;
}
