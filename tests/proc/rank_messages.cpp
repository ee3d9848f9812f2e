// SPDX-License-Identifier: Apache-2.0
// This file has the scenarios of rank_program that exchange messages.
#include <signal.h>
#include <unistd.h>

#include "tests/message_caller.h"
#include "tests/proc/rank_program.h"

using namespace rondo_test;

namespace {

MessageProgram program_of(const Rank &self, uint64_t seed) {
  ProgramMaker::Limits limits;
  limits.ranks_min = limits.ranks_max = static_cast<uint32_t>(self.size);
  limits.comms_max = 1;
  return ProgramMaker(seed, limits).make();
}

rondo_status_t receive_from(const Rank &self, int peer, int32_t &value) {
  return rondo_recv(&value, 1, RONDO_INT32, peer, self.comm, nullptr);
}

}  // namespace

/// FIRST LAST: runs the random programs of the seeds FIRST to LAST, then finalizes.
int run_programs(const Rank &self, const Arguments &args) {
  for (uint64_t seed = std::stoull(args[0]); seed <= std::stoull(args[1]); ++seed) {
    const MessageProgram program = program_of(self, seed);
    const auto status = Caller(program, static_cast<uint32_t>(self.rank), {self.comm}, nullptr).run();
    if (status == RONDO_OK) continue;
    std::printf("seed %llu failed\n", static_cast<unsigned long long>(seed));
    return report(self, status);
  }
  return report(self, rondo_comm_finalize(self.comm));
}

/// Rank 1 sends two messages to rank 0, and is killed. Long after that, rank 0 receives both messages, and waits for a
/// third message. The other ranks wait first for rank 0, and then for rank 1.
int run_last_words(const Rank &self, const Arguments &) {
  if (const auto status = rondo_barrier(self.comm, nullptr); status != RONDO_OK) return report(self, status);
  int32_t value = 0;
  if (self.rank == 1) {
    for (value = 7; value < 9; ++value)
      if (rondo_send(&value, 1, RONDO_INT32, 0, self.comm, nullptr) != RONDO_OK) return 1;
    ::raise(SIGKILL);
  }
  if (self.rank == 0) {
    ::usleep(1'500'000);
    for (const int32_t sent : {7, 8})
      if (const auto status = receive_from(self, 1, value); status != RONDO_OK || value != sent)
        return finish(self, status == RONDO_OK ? -1 : status);
    std::printf("received\n");
    for (int peer = 2; peer < self.size; ++peer)
      if (const auto sent = rondo_send(&value, 1, RONDO_INT32, peer, self.comm, nullptr); sent != RONDO_OK)
        return report(self, sent);
  } else if (const auto status = receive_from(self, 0, value); status != RONDO_OK) {
    return report(self, status);
  }
  return report(self, receive_from(self, 1, value));
}

/// Rank 1 sends a message that rank 0 receives with another size.
int run_other_size(const Rank &self, const Arguments &) {
  float values[4] = {};
  rondo_status_t status = RONDO_OK;
  if (self.rank == 1) status = rondo_send(values, 4, RONDO_FLOAT32, 0, self.comm, nullptr);
  if (self.rank == 0) status = rondo_recv(values, 3, RONDO_FLOAT32, 1, self.comm, nullptr);
  return report(self, status == RONDO_OK ? rondo_barrier(self.comm, nullptr) : status);
}
