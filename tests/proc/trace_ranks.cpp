// SPDX-License-Identifier: Apache-2.0
// This program has two ranks and two communicators whose operations overlap, for trace_test.py. On rank 0, an
// all-reduce of the first communicator waits on a stream, since rank 1 has not called yet. Meanwhile five operations of
// the second begin and end. `trace_ranks RONDO` prints when it is ready, and ends with its standard input.
#include <rondo/rondo.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

void check(rondo_status_t status) {
  if (status == RONDO_OK) return;
  std::fprintf(stderr, "%s: %s\n", rondo_status_string(status), rondo_last_error_message(nullptr));
  std::exit(1);
}

/// Waits until the recorder shows that the stream has begun the operation.
void wait_until_begun(const std::string &rondo) {
  const std::string look = "test $(" + rondo + " status --json " +
                           std::to_string(::getpid()) + " | grep -c '\"state\": \"running\"') -ge 1";
  for (int turn = 0; turn < 1200; ++turn) {  // a minute
    if (std::system(look.c_str()) == 0) return;
    ::usleep(50'000);
  }
  std::fprintf(stderr, "the stream did not begin\n");
  std::exit(1);
}

}  // namespace

int main(int, char **argv) {
  rondo_comm_t outer = nullptr;
  rondo_comm_t inner = nullptr;
  check(rondo_comm_init_env(&outer, nullptr));
  check(rondo_comm_init_env(&inner, nullptr));
  int rank = 0;
  check(rondo_comm_rank(outer, &rank));
  rondo_stream_t stream = nullptr;
  check(rondo_stream_create(&stream));
  float values[100] = {};
  float others[100] = {};
  if (rank == 0) {
    check(rondo_all_reduce(values, values, 100, RONDO_FLOAT32, RONDO_SUM, outer, stream));
    wait_until_begun(argv[1]);
  }
  check(rondo_barrier(inner, nullptr));
  for (int i = 0; i < 5; ++i) check(rondo_all_reduce(others, others, 100, RONDO_FLOAT32, RONDO_MAX, inner, nullptr));
  // A call may end on rank 1 before it ends on rank 0. Through the barrier, rank 1 also waits for the end of rank 0's.
  check(rondo_barrier(inner, nullptr));
  if (rank == 1) check(rondo_all_reduce(values, values, 100, RONDO_FLOAT32, RONDO_SUM, outer, stream));
  check(rondo_stream_synchronize(stream));
  std::printf("rank %d is ready\n", rank);
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  check(rondo_comm_destroy(inner));
  check(rondo_comm_destroy(outer));
  check(rondo_stream_destroy(stream));
  return 0;
}
