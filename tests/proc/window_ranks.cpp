// SPDX-License-Identifier: Apache-2.0
// window_ranks uses windows between processes.
//     window_ranks programs [SEED]   random programs of puts, signals and waits, compared with a model
//     window_ranks death             a rank is killed; its signals count, then the others get an error
//     window_ranks apart             if a rank cannot reach a peer's memory, no rank gets the window
//     window_ranks one_way           the system lets only one of two ranks reach the other's memory
//     window_ranks gone              a put from memory, or into memory, that is gone while both ranks live
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/proc/forked_ranks.h"
#include "tests/window_program.h"

using namespace rondo_test;

namespace {

/// Returns true if the call failed as it must, and its message contains `part`.
bool told(rondo_comm_t comm, rondo_status_t status, rondo_status_t wanted, const char *part) {
  const std::string message = error_of(comm);
  if (status == wanted && message.find(part) != std::string::npos) return true;
  std::printf("wrong: %s: %s\n", rondo_status_string(status), message.c_str());
  std::fflush(stdout);
  return false;
}

/// Runs a program on one rank. Windows of some ranks are memory that peers map. The other windows are reached by
/// cross-memory attach.
rondo_status_t run_rank(uint64_t seed, uint32_t rank, uint32_t rank_count, rondo_comm_t comm) {
  WindowProgram program(seed, rank_count);
  const size_t bytes = program.window_bytes();
  const auto is_mapped = [&](uint32_t of) { return (of + seed) % 2 == 1; };
  void *own = nullptr;
  std::vector<std::byte> plain(bytes + 64), source(bytes);
  if (is_mapped(rank) && rondo_mem_alloc(&own, bytes) != RONDO_OK) return RONDO_ERROR_INTERNAL;
  auto *const memory = own != nullptr ? static_cast<std::byte *>(own) : plain.data() + seed % 64;
  rondo_window_t window = nullptr;
  if (const auto made = rondo_window_register(comm, memory, bytes, 0, &window); made != RONDO_OK) return made;
  for (uint32_t peer = 0; peer < rank_count; ++peer) {
    void *address = nullptr;
    if (const auto got = rondo_window_pointer(window, static_cast<int>(peer), &address); got != RONDO_OK) return got;
    if ((address != nullptr) != (is_mapped(peer) || peer == rank)) return RONDO_ERROR_INTERNAL;
  }
  auto status = program.run(rank, comm, nullptr, window, memory, source.data(), {});
  if (status == RONDO_OK) status = rondo_window_deregister(comm, window);
  if (status == RONDO_OK) status = rondo_comm_finalize(comm);
  if (own != nullptr) static_cast<void>(rondo_mem_free(own));
  return status;
}

bool run_program(uint64_t seed) {
  const auto rank_count = static_cast<uint32_t>(2 + seed % 3);
  IdBoard *const board = make_board<IdBoard>();
  const auto children = start(static_cast<int>(rank_count), [&](int rank) {
    const rondo_comm_t comm = connect(*board, rank, static_cast<int>(rank_count));
    if (comm == nullptr) return 2;
    const rondo_status_t status = run_rank(seed, static_cast<uint32_t>(rank), rank_count, comm);
    if (status != RONDO_OK)
      std::fprintf(stderr, "seed %llu, rank %d: %s: %s\n", static_cast<unsigned long long>(seed), rank,
                   rondo_status_string(status), error_of(comm).c_str());
    static_cast<void>(rondo_comm_destroy(comm));
    return status == RONDO_OK ? 0 : 1;
  });
  bool right = true;
  for (const pid_t child : children) right &= wait_for(child) == 0;
  ::munmap(board, sizeof(IdBoard));
  return right;
}

int run_programs(uint64_t first, uint64_t last) {
  for (uint64_t seed = first; seed <= last; ++seed)
    if (!run_program(seed)) return std::printf("seed %llu failed\n", static_cast<unsigned long long>(seed)), 1;
  std::printf("%llu programs\n", static_cast<unsigned long long>(last - first + 1));
  return 0;
}

/// Runs rank 0 while rank 1 dies. Before its death, rank 1 has put one value and sent one more signal.
int survive(const IdBoard &board, rondo_comm_t comm, const int64_t *own) {
  while (board.gone == 0) ::usleep(1'000);
  for (int each = 0; each < 2; ++each)
    if (rondo_wait_signal(1, 0, 1, comm, nullptr) != RONDO_OK) {
      std::printf("a signal is lost: %s\n", error_of(comm).c_str());
      std::fflush(stdout);
      return 1;
    }
  if (own[0] != 77) return 1;
  return told(comm, rondo_wait_signal(1, 0, 1, comm, nullptr), RONDO_ERROR_REMOTE, "rank 1 (host") ? 0 : 1;
}

int run_death() {
  IdBoard *const board = make_board<IdBoard>();
  const auto children = start(2, [&](int rank) {
    const rondo_comm_t comm = connect(*board, rank, 2);
    if (comm == nullptr) return 2;
    void *own = nullptr;
    if (rondo_mem_alloc(&own, 64) != RONDO_OK) return 2;
    rondo_window_t window = nullptr;
    if (rondo_window_register(comm, own, 64, 0, &window) != RONDO_OK) return 2;
    if (rank != 1) return survive(*board, comm, static_cast<int64_t *>(own));
    const int64_t value = 77;
    if (rondo_put_signal(&value, 8, 0, window, 0, 0, comm, nullptr) != RONDO_OK) return 1;
    if (rondo_signal(0, 0, comm, nullptr) != RONDO_OK) return 1;
    ::kill(::getpid(), SIGKILL);
    return 1;
  });
  const int victim = wait_for(children[1]);
  board->gone = 1;
  const bool survived = wait_for(children[0]) == 0;
  const bool killed = WIFSIGNALED(victim) && WTERMSIG(victim) == SIGKILL;
  if (!killed) std::printf("rank 1 was not killed\n");
  return killed && survived ? 0 : 1;
}

/// Lets a rank die while another rank registers a window. After that, a rank puts into the dead rank's memory by
/// cross-memory attach.
int run_death_while_used() {
  IdBoard *const board = make_board<IdBoard>();
  const auto children = start(3, [&](int rank) {
    const rondo_comm_t comm = connect(*board, rank, 3);
    if (comm == nullptr) return 2;
    std::vector<char> memory(64);
    rondo_window_t window = nullptr;
    if (rondo_window_register(comm, memory.data(), 64, 0, &window) != RONDO_OK) return 2;
    if (rank == 1) ::kill(::getpid(), SIGKILL);
    while (board->gone == 0) ::usleep(1'000);
    if (rank == 0)
      return told(comm, rondo_put_signal(memory.data(), 8, 1, window, 0, 0, comm, nullptr), RONDO_ERROR_REMOTE,
                  "rank 1 (host")
                 ? 0
                 : 1;
    rondo_window_t other = nullptr;
    return told(comm, rondo_window_register(comm, memory.data(), 64, 0, &other), RONDO_ERROR_REMOTE, "rank 1 (host")
               ? 0
               : 1;
  });
  static_cast<void>(wait_for(children[1]));
  board->gone = 1;
  return ((wait_for(children[0]) == 0) & (wait_for(children[2]) == 0)) ? 0 : 1;
}

int run_apart() {
  ::setenv("RONDO_CROSS_MEMORY", "off", 1);
  IdBoard *const board = make_board<IdBoard>();
  const auto children = start(2, [&](int rank) {
    const rondo_comm_t comm = connect(*board, rank, 2);
    if (comm == nullptr) return 2;
    std::vector<char> memory(64);
    void *mapped = nullptr;
    rondo_window_t window = nullptr;
    // Rank 0's buffer can be mapped, and rank 1's cannot, so both ranks fail.
    if (rondo_mem_alloc(&mapped, 64) != RONDO_OK) return 2;
    const auto status = rondo_window_register(comm, rank == 0 ? mapped : memory.data(), 64, 0, &window);
    const char *const part = rank == 0 ? "rank 0 cannot reach the buffer of rank 1" : "rank 0 (host";
    if (!told(comm, status, RONDO_ERROR_UNSUPPORTED, part)) return 1;
    if (rondo_window_register(comm, mapped, 64, 0, &window) != RONDO_OK) return 1;
    return rondo_barrier(comm, nullptr) == RONDO_OK ? 0 : 1;
  });
  return ((wait_for(children[0]) == 0) & (wait_for(children[1]) == 0)) ? 0 : 1;
}

/// Takes from this process the capability by which root reaches every process. Returns whether it is gone.
bool drop_ptrace() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2] = {};
  if (::syscall(SYS_capget, &header, sets) != 0) return false;
  sets[0].effective &= ~(1u << CAP_SYS_PTRACE);
  sets[0].permitted &= ~(1u << CAP_SYS_PTRACE);
  sets[0].inheritable &= ~(1u << CAP_SYS_PTRACE);
  return ::syscall(SYS_capset, &header, sets) == 0;
}

/// Lets rank 0 reach the memory of rank 1, and not the reverse. First only rank 1 has a window, then only rank 0.
int run_one_way() {
  IdBoard *const board = make_board<IdBoard>();
  const auto children = start(2, [&](int rank) {
    if (rank == 0 ? ::prctl(PR_SET_DUMPABLE, 0) != 0 : !drop_ptrace()) return 2;
    const rondo_comm_t comm = connect(*board, rank, 2);
    if (comm == nullptr) return 2;
    void *memory = nullptr;
    rondo_window_t window = nullptr;
    if (rondo_mem_alloc(&memory, 64) != RONDO_OK) return 2;
    const auto made = rondo_window_register(comm, rank == 1 ? memory : nullptr, rank == 1 ? 64 : 0, 0, &window);
    if (made != RONDO_OK) return std::printf("rank %d: %s\n", rank, error_of(comm).c_str()), std::fflush(stdout), 1;
    const int64_t value = 77;
    if (rank == 0 && rondo_put_signal(&value, 8, 1, window, 0, 0, comm, nullptr) != RONDO_OK) return 1;
    if (rank == 1 && rondo_wait_signal(0, 0, 1, comm, nullptr) != RONDO_OK) return 1;
    if (rank == 1 && *static_cast<int64_t *>(memory) != value) return 1;
    const auto other = rondo_window_register(comm, rank == 0 ? memory : nullptr, rank == 0 ? 64 : 0, 0, &window);
    const char *const part = rank == 1 ? "rank 1 cannot reach the buffer of rank 0" : "rank 1 (host";
    return told(comm, other, RONDO_ERROR_UNSUPPORTED, part) ? 0 : 1;
  });
  return ((wait_for(children[0]) == 0) & (wait_for(children[1]) == 0)) ? 0 : 1;
}

/// Lets rank 0 put by cross-memory attach. If `own`, rank 0's buffer is unmapped, otherwise rank 1's window is.
int run_gone(bool own) {
  IdBoard *const board = make_board<IdBoard>();
  const auto children = start(2, [&](int rank) {
    const rondo_comm_t comm = connect(*board, rank, 2);
    if (comm == nullptr) return 2;
    constexpr size_t bytes = 20'000;
    const auto pages = [] {
      return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    };
    void *const memory = pages();
    void *const source = pages();
    rondo_window_t window = nullptr;
    if (rondo_window_register(comm, memory, bytes, 0, &window) != RONDO_OK) return 2;
    if (rank == 1 && !own) ::munmap(memory, bytes);
    if (rank == 0 && own) ::mprotect(source, bytes, PROT_NONE);
    const rondo_status_t met = rondo_barrier(comm, nullptr);  // rank 1 may learn of rank 0's failure first
    if (rank == 0) {
      if (met != RONDO_OK) return 2;
      const auto status = rondo_put_signal(source, bytes, 1, window, 0, 0, comm, nullptr);
      const bool right = told(comm, status, RONDO_ERROR_SYSTEM,
                              own ? "rank 0 cannot read its buffer `send` of 20000 bytes for a put to rank 1"
                                  : "rank 0 cannot write to the window of rank 1");
      board->gone = 1;
      return right ? 0 : 1;
    }
    while (board->gone == 0) ::usleep(1'000);
    return 0;
  });
  return ((wait_for(children[0]) == 0) & (wait_for(children[1]) == 0)) ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (what == "programs") return seed != 0 ? run_programs(seed, seed) : run_programs(2'001, 2'030);
  if (what == "death") return run_death() != 0 ? 1 : run_death_while_used();
  if (what == "apart") return run_apart();
  if (what == "one_way") return run_one_way();
  if (what == "gone") return run_gone(true) != 0 ? 1 : run_gone(false);
  std::fprintf(stderr, "usage: window_ranks programs [SEED] | death | apart | one_way | gone\n");
  return 2;
}
