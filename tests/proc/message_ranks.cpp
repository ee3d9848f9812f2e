// SPDX-License-Identifier: Apache-2.0
// message_ranks sends messages between processes.
//     message_ranks programs [SEED]   random programs of messages, groups and collectives, compared with a model
//     message_ranks death             a rank is killed; what it had sent is received, then all others get an error
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/message_caller.h"
#include "tests/proc/forked_ranks.h"

using namespace rondo_test;

namespace {

struct Board : IdBoard {
  std::atomic<uint32_t> received = 0;  ///< 1: the victim's messages were received
};

bool run_program(uint64_t seed) {
  ProgramMaker::Limits limits;
  limits.comms_max = 1;
  const MessageProgram program = ProgramMaker(seed, limits).make();
  Board *const board = make_board<Board>();
  const auto children = start(static_cast<int>(program.rank_count), [&](int rank) {
    const rondo_comm_t comm = connect(*board, rank, static_cast<int>(program.rank_count));
    if (comm == nullptr) return 2;
    rondo_status_t status = Caller(program, static_cast<uint32_t>(rank), {comm}, nullptr).run();
    if (status == RONDO_OK) status = rondo_comm_finalize(comm);
    if (status != RONDO_OK)
      std::fprintf(stderr, "seed %llu, rank %d: %s\n", static_cast<unsigned long long>(seed), rank,
                   error_of(comm).c_str());
    static_cast<void>(rondo_comm_destroy(comm));
    return status == RONDO_OK ? 0 : 1;
  });
  bool right = true;
  for (const pid_t child : children) right &= wait_for(child) == 0;
  ::munmap(board, sizeof(Board));
  return right;
}

int run_programs(uint64_t first, uint64_t last) {
  for (uint64_t seed = first; seed <= last; ++seed)
    if (!run_program(seed)) return std::printf("seed %llu failed\n", static_cast<unsigned long long>(seed)), 1;
  std::printf("%llu programs\n", static_cast<unsigned long long>(last - first + 1));
  return 0;
}

/// Returns true if the call failed as it must, and its message contains `part`.
bool told(rondo_comm_t comm, rondo_status_t status, const char *part) {
  const std::string message = error_of(comm);
  if (status == RONDO_ERROR_REMOTE && message.find(part) != std::string::npos) return true;
  std::printf("wrong: %s: %s\n", rondo_status_string(status), message.c_str());
  std::fflush(stdout);
  return false;
}

/// Lets rank 1 send three messages, and kills it in the middle of the last message, which does not fit.
int run_death() {
  constexpr size_t large = 32u << 20;
  Board *const board = make_board<Board>();
  const auto children = start(3, [&](int rank) {
    const rondo_comm_t comm = connect(*board, rank, 3);
    if (comm == nullptr) return 2;
    std::vector<char> memory(large);
    int32_t value = 0;
    if (rank == 1) {
      for (value = 7; value < 9; ++value)
        if (rondo_send(&value, 1, RONDO_INT32, 0, comm, nullptr) != RONDO_OK) return 1;
      if (::fork() == 0) {  // another process kills it, since this one is in the call
        ::usleep(50'000);
        ::kill(::getppid(), SIGKILL);
        std::_Exit(0);
      }
      static_cast<void>(rondo_send(memory.data(), large, RONDO_INT8, 0, comm, nullptr));
      return 1;
    }
    while (board->gone == 0) ::usleep(1'000);
    while (rank == 2 && board->received == 0) ::usleep(1'000);
    if (rank == 2) return told(comm, rondo_recv(&value, 1, RONDO_INT32, 1, comm, nullptr), "rank 1 (host") ? 0 : 1;
    for (const int32_t sent : {7, 8}) {
      const auto status = rondo_recv(&value, 1, RONDO_INT32, 1, comm, nullptr);
      if (status == RONDO_OK && value == sent) continue;
      std::printf("what was sent is lost: %s\n", error_of(comm).c_str());
      std::fflush(stdout);
      board->received = 1;
      return 1;
    }
    board->received = 1;
    return told(comm, rondo_recv(memory.data(), large, RONDO_INT8, 1, comm, nullptr), "rank 1 (host") ? 0 : 1;
  });
  const int victim = wait_for(children[1]);
  board->gone = 1;
  const bool others = (wait_for(children[0]) == 0) & (wait_for(children[2]) == 0);
  const bool killed = WIFSIGNALED(victim) && WTERMSIG(victim) == SIGKILL;
  if (!killed) std::printf("rank 1 was not killed\n");
  return killed && others ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (what == "programs") return seed != 0 ? run_programs(seed, seed) : run_programs(1'001, 1'030);
  if (what == "death") return run_death();
  std::fprintf(stderr, "usage: message_ranks programs [SEED] | death\n");
  return 2;
}
