/* SPDX-License-Identifier: Apache-2.0
 * This program needs no launcher. One process makes a unique id and hands it to the others, here through pipes.
 *
 *     $ unique_id 4
 *     rank 0 of 4: rank 0's number is 42
 *     rank 1 of 4: rank 0's number is 42
 *     rank 2 of 4: rank 0's number is 42
 *     rank 3 of 4: rank 0's number is 42
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rondo/rondo.h>

enum { size_max = 64 };

static void check(rondo_status_t status, rondo_comm_t comm) {
  if (status == RONDO_OK) return;
  fprintf(stderr, "%s\n", rondo_last_error_message(comm));
  exit(1);
}

static void give_up(const char *what) {
  perror(what);
  exit(1);
}

int main(int argc, char **argv) {
  const int size = argc > 1 ? atoi(argv[1]) : 2;
  int rank = 0, pipes[size_max][2];
  if (size < 1 || size > size_max) {
    fprintf(stderr, "usage: unique_id RANKS, 1 to %d\n", size_max);
    return 2;
  }
  for (int child = 1; child < size && rank == 0; ++child) { /* forks come before the first call of Rondo */
    if (pipe(pipes[child]) != 0) give_up("pipe");
    const pid_t process = fork();
    if (process < 0) give_up("fork");
    if (process == 0) rank = child;
  }

  rondo_unique_id_t id; /* has a secret in it: hand it to the group's members only */
  if (rank == 0) {
    check(rondo_get_unique_id(&id, NULL), NULL);
    for (int child = 1; child < size; ++child)
      if (write(pipes[child][1], &id, sizeof id) != (ssize_t)sizeof id) give_up("write");
  } else if (read(pipes[rank][0], &id, sizeof id) != (ssize_t)sizeof id) {
    give_up("read");
  }

  rondo_comm_t comm = NULL;
  int64_t number = rank == 0 ? 42 : 0;
  check(rondo_comm_init(&comm, &id, rank, size, NULL), NULL);
  check(rondo_broadcast(&number, &number, 1, RONDO_INT64, 0, comm, NULL), comm);
  check(rondo_comm_finalize(comm), comm);
  rondo_comm_destroy(comm);
  printf("rank %d of %d: rank 0's number is %d\n", rank, size, (int)number);

  int failed = 0, status = 0;
  while (rank == 0 && wait(&status) > 0) failed |= status != 0;
  return failed;
}
