// SPDX-License-Identifier: Apache-2.0
// This program is one rank of a job, for tests of whole processes: `rank_program SCENARIO [ARGUMENTS]`. It uses only
// the public interface, checks every result, and prints its last status: `rank R: STATUS peer P operation N: MESSAGE`
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/proc/rank_program.h"

namespace {

/// sum ROUNDS COUNT: runs ROUNDS sums of COUNT elements
int run_sum(const Rank &self, const Arguments &args) {
  return sums(self, std::stoi(args[0]), std::stoul(args[1]), [](int) {});
}

/// signal NUMBER RANK ROUND COUNT: that rank sends the signal NUMBER to itself before round ROUND
int run_signal(const Rank &self, const Arguments &args) {
  return sums(self, 1'000'000, std::stoul(args[3]), [&](int round) {
    if (self.rank == std::stoi(args[1]) && round == std::stoi(args[2])) ::raise(std::stoi(args[0]));
  });
}

/// Makes no collective call, and polls until the communicator has failed.
int wait_for_failure(const Rank &self) {
  rondo_status_t now = RONDO_OK;
  for (int look = 0; look < 12'000 && now == RONDO_OK; ++look) {  // two minutes
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (rondo_comm_get_async_error(self.comm, &now) != RONDO_OK) return 4;
  }
  return report(self, now);
}

/// idle RANK: that rank dies after one sum. The others make no collective call, and poll for asynchronous errors.
int run_idle(const Rank &self, const Arguments &args) {
  const int begun = sums(self, 1, 100, [](int) {});
  if (begun != 0) return begun;
  if (self.rank == std::stoi(args[0])) ::raise(SIGKILL);
  return wait_for_failure(self);
}

/// exits RANK: after one sum that rank, which is not 0, calls exit(), without a destroy. The others poll. For a second
/// there is no failure. Then rank 0 begins another sum, which fails.
int run_exits(const Rank &self, const Arguments &args) {
  const int begun = sums(self, 1, 100, [](int) {});
  if (begun != 0) return begun;
  if (self.rank == std::stoi(args[0])) std::exit(0);
  if (self.rank != 0) return wait_for_failure(self);
  for (int look = 0; look < 100; ++look) {
    rondo_status_t now = RONDO_OK;
    if (rondo_comm_get_async_error(self.comm, &now) != RONDO_OK || now != RONDO_OK) return report(self, now);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::printf("rank 0: no failure yet\n");
  return sums(self, 1, 100, [](int) {});
}

/// leave RANK ROUND: that rank destroys its communicator before round ROUND, and soon exits normally
int run_leave(const Rank &self, const Arguments &args) {
  bool destroyed = false;
  const int outcome = sums(self, std::stoi(args[1]) - (self.rank == std::stoi(args[0]) ? 1 : 0), 5000, [](int) {});
  if (self.rank == std::stoi(args[0])) destroyed = rondo_comm_destroy(self.comm) == RONDO_OK;
  if (destroyed) std::this_thread::sleep_for(std::chrono::seconds(1));
  return outcome;
}

/// exec RANK ROUND: before round ROUND that rank becomes the program `sleep`, without finalize or destroy
int run_exec(const Rank &self, const Arguments &args) {
  return sums(self, 1'000'000, 5000, [&](int round) {
    if (self.rank != std::stoi(args[0]) || round != std::stoi(args[1])) return;
    ::execlp("sleep", "sleep", "60", static_cast<char *>(nullptr));
    std::exit(5);
  });
}

/// orphan KIND RANK ROUND: before round ROUND that rank leaves a process running, and kills itself. KIND is fork,
/// double (a child's child) or exec (a child that becomes another program). The process outlives the test, so only
/// tests that make their own hosts may use this.
int run_orphan(const Rank &self, const Arguments &args) {
  return sums(self, 1'000'000, 5000, [&](int round) {
    if (self.rank != std::stoi(args[1]) || round != std::stoi(args[2])) return;
    const pid_t child = ::fork();
    if (child != 0) {
      if (args[0] == "double") ::waitpid(child, nullptr, 0);
      ::raise(SIGKILL);
    }
    const int null = ::open("/dev/null", O_RDWR);  // the test reads its pipe until no process holds it
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, descriptor);
    if (args[0] == "double" && ::fork() != 0) ::_exit(0);
    if (args[0] == "exec") ::execlp("sleep", "sleep", "200", static_cast<char *>(nullptr));
    ::sleep(200);
    ::_exit(0);
  });
}

/// starved RANK: that rank has no descriptor left when it must open the other ranks' buffers
int run_starved(const Rank &self, const Arguments &args) {
  constexpr size_t count = 1'000'000;
  void *memory = nullptr;
  if (rondo_mem_alloc(&memory, count * sizeof(int32_t)) != RONDO_OK) return 4;
  rlimit limit{};
  if (self.rank == std::stoi(args[0]) && ::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = 3;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 4;
  }
  return finish(self, sum_once(self, memory, count, 1));
}

/// closed ROUNDS: the program was started with descriptors 0 to 2 closed, and they must stay closed
int run_closed(const Rank &self, const Arguments &args) {
  bool stay_closed = true;
  const int outcome = sums(self, std::stoi(args[0]), 5000, [&](int) {
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      stay_closed = stay_closed && ::fcntl(descriptor, F_GETFD) < 0;
  });
  return stay_closed ? outcome : 6;
}

/// close RANK: that rank closes every descriptor above 2 after a sum. In the next sum the other ranks wait for it, and
/// in the sum after that it waits for them.
int run_close(const Rank &self, const Arguments &args) {
  const bool closes = self.rank == std::stoi(args[0]);
  return sums(self, 4, 100, [&](int round) {
    for (int descriptor = 3; closes && round == 2 && descriptor < 1024; ++descriptor) ::close(descriptor);
    if (round == (closes ? 2 : 3)) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  });
}

/// early RANK ROUND COUNT: that rank calls rondo_comm_finalize instead of that round's sum
int run_early(const Rank &self, const Arguments &args) {
  const int last = std::stoi(args[1]);
  const bool early = self.rank == std::stoi(args[0]);
  const int outcome = sums(self, early ? last - 1 : last, std::stoul(args[2]), [](int) {});
  return early && outcome == 0 ? report(self, rondo_comm_finalize(self.comm)) : outcome;
}

/// disagree WHAT RANK: after three sums that rank's call differs from the others' calls
int run_disagree(const Rank &self, const Arguments &args) {
  const int begun = sums(self, 3, 100, [](int) {});
  if (begun != 0) return begun;
  const bool odd = self.rank == std::stoi(args[1]);
  const std::string what = odd ? args[0] : "";
  std::vector<int32_t> send(4096, 1);
  std::vector<int32_t> recv(4096);
  rondo_status_t status = RONDO_OK;
  if (what == "order") status = rondo_barrier(self.comm, nullptr);
  const size_t count = what == "count" ? 999 : what == "zero" ? 0 : 1000;
  const rondo_type_t type = what == "type" ? RONDO_FLOAT32 : RONDO_INT32;
  const rondo_op_t op = what == "op" ? RONDO_MAX : RONDO_SUM;
  const int root = what == "root" ? 0 : 1;
  if (status == RONDO_OK && (what == "root" || args[0] == "root")) {
    status = rondo_reduce(send.data(), recv.data(), count, type, op, root, self.comm, nullptr);
  } else if (status == RONDO_OK && what == "collective") {
    status = rondo_broadcast(send.data(), recv.data(), count, type, root, self.comm, nullptr);
  } else if (status == RONDO_OK) {
    status = rondo_all_reduce(send.data(), recv.data(), count, type, op, self.comm, nullptr);
  }
  for (int later = 0; later < 3 && status == RONDO_OK; ++later) status = rondo_barrier(self.comm, nullptr);
  return report(self, status);
}

/// missing RANK: that rank stops calling after one sum, until the communicator has failed
int run_missing(const Rank &self, const Arguments &args) {
  if (self.rank != std::stoi(args[0])) return sums(self, 2, 100, [](int) {});
  const int begun = sums(self, 1, 100, [](int) {});
  return begun != 0 ? begun : wait_for_failure(self);
}

/// gone: after a sum the last rank stops calling. The rank before it first calls a broadcast of rank 0.
int run_gone(const Rank &self, const Arguments &) {
  const int begun = sums(self, 1, 100, [](int) {});
  if (begun != 0) return begun;
  if (self.rank == self.size - 1) return wait_for_failure(self);
  int32_t value = 0;
  const rondo_status_t status = rondo_broadcast(&value, &value, 1, RONDO_INT32, 0, self.comm, nullptr);
  if (status != RONDO_OK) return report(self, status);
  return self.rank == self.size - 2 ? wait_for_failure(self) : sums(self, 1, 100, [](int) {});
}

/// abort RANK: all ranks except that one wait for a barrier. That rank aborts from a second thread.
int run_abort(const Rank &self, const Arguments &args) {
  const int begun = sums(self, 1, 100, [](int) {});
  if (begun != 0) return begun;
  if (self.rank != std::stoi(args[0])) return report(self, rondo_barrier(self.comm, nullptr));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  static_cast<void>(rondo_comm_abort(self.comm));
  return report(self, rondo_barrier(self.comm, nullptr));
}

/// aborts MS: rank 0 broadcasts, aborts and exits. The others begin the broadcast MS milliseconds later, and then wait
/// for a barrier.
int run_aborts(const Rank &self, const Arguments &args) {
  const int begun = sums(self, 1, 100, [](int) {});
  if (begun != 0) return begun;
  int32_t value = self.rank == 0 ? 7 : 0;
  if (self.rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds(200 + std::stoi(args[0])));
  const rondo_status_t status = rondo_broadcast(&value, &value, 1, RONDO_INT32, 0, self.comm, nullptr);
  if (status != RONDO_OK) return report(self, status);
  if (self.rank == 0) return rondo_comm_abort(self.comm) == RONDO_OK ? 0 : 4;
  std::printf("got %d\n", value);
  return report(self, rondo_barrier(self.comm, nullptr));
}

/// hasty RANK: does the same as `abort`, after more operations than are recorded. The process exits as soon as it has
/// the error.
int run_hasty(const Rank &self, const Arguments &args) {
  const int begun = sums(self, 1100, 10, [](int) {});
  std::exit(begun != 0 ? begun : run_abort(self, args));
}

/// mixed THREADS: each process has THREADS ranks of a second communicator
int run_mixed(const Rank &self, const Arguments &args) {
  const int threads = std::stoi(args[0]);
  rondo_unique_id_t id{};
  rondo_status_t status = RONDO_OK;
  if (self.rank == 0) status = rondo_get_unique_id(&id, nullptr);
  if (status == RONDO_OK) status = rondo_broadcast(&id, &id, sizeof id, RONDO_UINT8, 0, self.comm, nullptr);
  if (status != RONDO_OK) return report(self, status);
  std::vector<int> outcomes(static_cast<size_t>(threads), -1);
  std::vector<std::thread> ranks;
  for (int thread = 0; thread < threads; ++thread)
    ranks.emplace_back([&, thread] {
      Rank inner;
      inner.rank = self.rank * threads + thread;
      inner.size = self.size * threads;
      const rondo_status_t made = rondo_comm_init(&inner.comm, &id, inner.rank, inner.size, nullptr);
      if (made != RONDO_OK) {
        outcomes[static_cast<size_t>(thread)] = report(inner, made);
        return;
      }
      std::vector<int32_t> values(100'000);
      int outcome = RONDO_OK;
      for (int round = 0; round < 20 && outcome == RONDO_OK; ++round)
        outcome = sum_once(inner, values.data(), round % 2 == 0 ? values.size() : 3, round);
      outcomes[static_cast<size_t>(thread)] = finish(inner, outcome);
      static_cast<void>(rondo_comm_destroy(inner.comm));
    });
  for (std::thread &rank : ranks) rank.join();
  for (const int outcome : outcomes)
    if (outcome != 0) return 3;
  return sums(self, 5, 1000, [](int) {});
}

/// several COUNT: makes COUNT communicators from the environment, and uses them in turn. One of them is aborted.
int run_several(const Rank &self, const Arguments &args) {
  std::vector<Rank> ranks(static_cast<size_t>(std::stoi(args[0])), self);
  for (Rank &rank : ranks) {
    const rondo_status_t status = rondo_comm_init_env(&rank.comm, nullptr);
    if (status != RONDO_OK) return report({nullptr, self.rank, self.size}, status);
  }
  std::vector<int32_t> values(10'000);
  int outcome = RONDO_OK;
  if (self.rank == 0) static_cast<void>(rondo_comm_abort(ranks[0].comm));
  for (int round = 0; round < 10 && outcome == RONDO_OK; ++round)
    for (size_t i = 1; i < ranks.size() && outcome == RONDO_OK; ++i)
      outcome = sum_once(ranks[i], values.data(), values.size(), round);
  for (const Rank &rank : ranks) static_cast<void>(rondo_comm_destroy(rank.comm));
  return finish(self, outcome);
}

/// memory THREADS: prints the communicator's memory after a sum, as `memory RESERVED USED`. If THREADS is more than
/// one, threads are the ranks of a communicator of this process alone.
int run_memory(const Rank &self, const Arguments &args) {
  std::vector<rondo_comm_t> comms(static_cast<size_t>(std::stoi(args[0])), self.comm);
  const bool threads = comms.size() > 1;
  if (threads && rondo_comm_init_all(comms.data(), std::stoi(args[0]), nullptr) != RONDO_OK) return 4;
  std::vector<int> outcomes(comms.size());
  const auto tell = [&](size_t index) {
    Rank rank{comms[index]};
    static_cast<void>(rondo_comm_rank(rank.comm, &rank.rank));
    static_cast<void>(rondo_comm_size(rank.comm, &rank.size));
    outcomes[index] = sums(rank, 1, 100'000, [](int) {});
    uint64_t reserved = 0;
    uint64_t used = 0;
    if (rondo_comm_memory(rank.comm, &reserved, &used) != RONDO_OK) outcomes[index] = 4;
    std::printf("memory %llu %llu\n", static_cast<unsigned long long>(reserved), static_cast<unsigned long long>(used));
    if (threads) static_cast<void>(rondo_comm_destroy(rank.comm));
  };
  std::vector<std::thread> ranks;
  for (size_t index = 1; index < comms.size(); ++index) ranks.emplace_back(tell, index);
  tell(0);
  for (std::thread &rank : ranks) rank.join();
  for (const int outcome : outcomes)
    if (outcome != 0) return outcome;
  return 0;
}

struct Scenario {
  const char *name;
  size_t argument_count;
  int (*run)(const Rank &, const Arguments &);
};

constexpr Scenario scenarios[] = {
    {"sum", 2, run_sum},
    {"signal", 4, run_signal},
    {"leave", 2, run_leave},
    {"disagree", 2, run_disagree},
    {"missing", 1, run_missing},
    {"abort", 1, run_abort},
    {"buffers", 2, run_buffers},
    {"mixed", 1, run_mixed},
    {"several", 1, run_several},
    {"huge", 0, run_huge},
    {"exports", 3, run_lend},
    {"idle", 1, run_idle},
    {"exits", 1, run_exits},
    {"aborts", 1, run_aborts},
    {"hasty", 1, run_hasty},
    {"memory", 1, run_memory},
    {"gone", 0, run_gone},
    {"exec", 2, run_exec},
    {"close", 1, run_close},
    {"replace", 4, run_replace},
    {"orphan", 3, run_orphan},
    {"closed", 1, run_closed},
    {"starved", 1, run_starved},
    {"programs", 2, run_programs},
    {"last_words", 0, run_last_words},
    {"other_size", 0, run_other_size},
    {"unanswered", 1, run_unanswered},
    {"windows", 2, run_windows},
    {"last_put", 2, run_last_put},
    {"early", 3, run_early},
    {"busy", 2, run_busy},
    {"quiet", 1, run_quiet},
    {"last", 2, run_last},
};

}  // namespace

int main(int argc, char **argv) {
  const Arguments args(argv + (argc < 2 ? argc : 2), argv + argc);
  for (const Scenario &scenario : scenarios) {
    if (argc < 2 || std::strcmp(argv[1], scenario.name) != 0 || args.size() != scenario.argument_count) continue;
    Rank self;
    const rondo_status_t status = rondo_comm_init_env(&self.comm, nullptr);
    if (status != RONDO_OK) return report(self, status);
    static_cast<void>(rondo_comm_rank(self.comm, &self.rank));
    static_cast<void>(rondo_comm_size(self.comm, &self.size));
    const int outcome = scenario.run(self, args);
    static_cast<void>(rondo_comm_destroy(self.comm));
    return outcome;
  }
  std::fprintf(stderr, "usage: rank_program SCENARIO ARGUMENTS, see the source\n");
  return 2;
}
