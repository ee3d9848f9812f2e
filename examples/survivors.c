/* SPDX-License-Identifier: Apache-2.0
 * A rank dies. The others learn which one, and go on in a new communicator without it.
 *
 *     $ survivors
 *     rank 0: the sum of 3 ranks is 6
 *     rank 1: the sum of 3 ranks is 6
 *     rank 0: lost rank 2; the sum of 2 ranks is 3
 *     rank 1: lost rank 2; the sum of 2 ranks is 3
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rondo/rondo.h>

enum { size = 3, victim = 2 };

static int inbox[size][2]; /* a pipe for each process, by which it gets ids */

static void require(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "%s\n", what);
  exit(1); /* the other ranks get an error */
}

/* Makes a communicator of `members`. The first of them makes the id and sends it to the others. */
static rondo_comm_t join(const int *members, int count, int self) {
  rondo_unique_id_t id;
  rondo_comm_t comm = NULL;
  int rank = 0;
  while (members[rank] != self) ++rank;
  if (rank == 0) {
    require(rondo_get_unique_id(&id, NULL) == RONDO_OK, rondo_last_error_message(NULL));
    for (int at = 1; at < count; ++at)
      require(write(inbox[members[at]][1], &id, sizeof id) == (ssize_t)sizeof id, "write failed");
  } else {
    require(read(inbox[self][0], &id, sizeof id) == (ssize_t)sizeof id, "read failed");
  }
  require(rondo_comm_init(&comm, &id, rank, count, NULL) == RONDO_OK, rondo_last_error_message(NULL));
  return comm;
}

static int run(int self) {
  int members[size] = {0, 1, 2}, count = size;
  float mine = (float)(self + 1), sum = 0;
  rondo_error_t error = RONDO_ERROR_INIT;
  rondo_comm_t comm = join(members, count, self);
  require(rondo_all_reduce(&mine, &sum, 1, RONDO_FLOAT32, RONDO_SUM, comm, NULL) == RONDO_OK, "the first sum failed");
  if (self == victim) raise(SIGKILL); /* stands for any sudden end */
  printf("rank %d: the sum of %d ranks is %g\n", self, count, sum);

  while (rondo_all_reduce(&mine, &sum, 1, RONDO_FLOAT32, RONDO_SUM, comm, NULL) != RONDO_OK) {
    rondo_comm_last_error(comm, &error); /* status, peer and message are the same on all ranks that are left */
    require(error.status == RONDO_ERROR_REMOTE && error.peer >= 0, error.message);
    const int lost = members[error.peer]; /* peer is a rank of this communicator */
    rondo_comm_destroy(comm);             /* a failed communicator allows nothing else */
    int left = 0;
    for (int at = 0; at < count; ++at)
      if (members[at] != lost) members[left++] = members[at];
    count = left;
    comm = join(members, count, self);
    printf("rank %d: lost rank %d; ", self, lost);
  }
  printf("the sum of %d ranks is %g\n", count, sum);
  require(rondo_comm_finalize(comm) == RONDO_OK, rondo_last_error_message(comm));
  rondo_comm_destroy(comm);
  return 0;
}

int main(void) {
  int failed = 0, status = 0;
  for (int rank = 0; rank < size; ++rank) require(pipe(inbox[rank]) == 0, "pipe failed");
  for (int rank = 0; rank < size; ++rank) { /* forks come before the first call of Rondo */
    const pid_t process = fork();
    require(process >= 0, "fork failed");
    if (process == 0) return run(rank);
  }
  while (wait(&status) > 0) failed |= WIFEXITED(status) && WEXITSTATUS(status) != 0;
  return failed;
}
