// SPDX-License-Identifier: Apache-2.0
// This file runs ranks in processes that a test forks. The processes share a board, on which rank 0 puts the unique id.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "rondo/rondo.h"

namespace rondo_test {

/// Memory that the processes share.
struct IdBoard {
  std::atomic<uint32_t> ready = 0;  ///< 1: `id` is there
  std::atomic<uint32_t> gone = 0;   ///< 1: the victim's process has ended
  rondo_unique_id_t id;
};

template <class Board>
Board *make_board() {
  void *const memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return new (memory) Board;
}

/// Makes the communicator of a rank. Returns null after a failure.
inline rondo_comm_t connect(IdBoard &board, int rank, int size) {
  if (rank == 0) {
    if (rondo_get_unique_id(&board.id, nullptr) != RONDO_OK) return nullptr;
    board.ready = 1;
  }
  while (board.ready == 0) ::usleep(1'000);
  rondo_comm_t comm = nullptr;
  return rondo_comm_init(&comm, &board.id, rank, size, nullptr) == RONDO_OK ? comm : nullptr;
}

/// Runs `body` in a process for each rank, and returns their process ids.
inline std::vector<pid_t> start(int rank_count, const std::function<int(int)> &body) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < rank_count; ++rank) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) std::_Exit(body(rank));
    children.push_back(child);
  }
  return children;
}

inline int wait_for(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child ? status : -1;
}

inline std::string error_of(rondo_comm_t comm) {
  rondo_error_t error = RONDO_ERROR_INIT;
  return rondo_comm_last_error(comm, &error) == RONDO_OK ? error.message : "?";
}

}  // namespace rondo_test
