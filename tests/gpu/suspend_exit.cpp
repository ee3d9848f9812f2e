// SPDX-License-Identifier: Apache-2.0
// This program exits while a thread of Rondo suspends a communicator. A later handler of exit() checks that the thread
// has ended.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "rondo/rondo.h"

namespace {

constexpr int looks_max = 60'000;  // a limit against hangs
constexpr useconds_t look_us = 1000;
rondo_comm_t comms[2];

rondo_status_t state_of(rondo_comm_t comm) {
  rondo_status_t status = RONDO_ERROR_INTERNAL;
  return rondo_comm_get_async_error(comm, &status) == RONDO_OK ? status : RONDO_ERROR_INTERNAL;
}

void check() {
  const rondo_status_t state = state_of(comms[0]);
  if (state == RONDO_ERROR_ABORTED) return;
  std::fprintf(stderr, "the state after the exit is %s\n", rondo_status_string(state));
  ::_exit(1);
}

}  // namespace

int main() {
  std::atexit(check);  // it runs after the handler of Rondo, which is registered later
  rondo_unique_id_t id;
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.nonblocking = 1;
  config.timeout_ms = 600'000;  // longer than the test may take
  if (rondo_get_unique_id(&id, nullptr) != RONDO_OK) return 2;
  for (int rank = 0; rank < 2; ++rank)
    if (rondo_comm_init(&comms[rank], &id, rank, 2, &config) != RONDO_OK) return 2;
  for (const rondo_comm_t comm : comms)
    for (int look = 0; look < looks_max && state_of(comm) == RONDO_NOT_READY; ++look) ::usleep(look_us);
  return rondo_comm_suspend(comms[0], RONDO_SUSPEND_MEMORY) == RONDO_OK ? 0 : 2;
}
