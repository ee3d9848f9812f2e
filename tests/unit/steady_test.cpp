// SPDX-License-Identifier: Apache-2.0
// Calls of known shapes must not allocate, grow memory, or make a system call. Child processes make many such calls. If
// the ranks are threads of one child, a seccomp filter passes the child's system calls to a counter.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/allocation_count.h"
#include "tests/unit/ranks.h"

namespace {

constexpr size_t element_count = 65'536;  ///< of every buffer: 256 KiB
constexpr int warm_up_count = 2'000;      // more than the flight recorder keeps

/// Calls in rounds. Their shapes repeat after fewer rounds than the warm-up has.
struct Load {
  int call_count;
  rondo_status_t (*call)(rondo_comm_t comm, int round, float *data);
};

struct Counts {
  int32_t failures = -1;  ///< failed calls, or -1 if the child ended early
  int32_t filter_errno = 0;
  rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;  ///< for whole buffers
  uint64_t allocations = 0;
  uint64_t heap_growth_bytes = 0;
  uint64_t peak_growth_kilobytes = 0;  ///< growth of the process's peak resident memory
  uint64_t shared_growth_bytes = 0;    ///< growth of the communicator's used shared memory
  uint64_t system_calls = 0;
  int32_t first_system_call = -1;
};

std::atomic<uint64_t> trapped_count = 0;
std::atomic<int> first_trapped = -1;

void count_system_call(int, siginfo_t *info, void *) {
  int none = -1;
  first_trapped.compare_exchange_strong(none, info->si_syscall);
  trapped_count.fetch_add(1);
}

/// Lets count_system_call() count all later system calls of all threads, except calls that the test itself needs.
int trap_system_calls() {
  struct sigaction action {};
  action.sa_sigaction = count_system_call;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSYS, &action, nullptr);
  constexpr auto allow = [](unsigned number) {
    return std::array<sock_filter, 2>{sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
                                      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  };
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  // clock_gettime is needed on a kernel without a faster clock. If the other rank has lost its core for milliseconds, a
  // rank calls poll to check whether the other is alive. The test's end needs the other calls.
  for (const unsigned number :
       {SYS_clock_gettime, SYS_poll, SYS_getrusage, SYS_write, SYS_exit_group, SYS_rt_sigreturn}) {
    const auto rule = allow(number);
    program.insert(program.end(), rule.begin(), rule.end());
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0) return errno;
  return 0;
}

uint64_t heap_bytes() { return mallinfo2().uordblks; }

uint64_t peak_kilobytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss);
}

uint64_t shared_bytes(rondo_comm_t comm) {
  uint64_t used = 0;
  return rondo_comm_memory(comm, nullptr, &used) == RONDO_OK ? used : UINT64_MAX;
}

rondo_status_t call_small(rondo_comm_t comm, int round, float *data) {
  const size_t count = round % 64 == 0 ? 1'024 : 2;
  if (round % 16 == 1) return rondo_broadcast(data, data, 2, RONDO_FLOAT32, 0, comm, nullptr);
  if (round % 16 == 2) return rondo_all_to_all(data, data, 2, RONDO_FLOAT32, comm, nullptr);
  return rondo_all_reduce(data, data, count, RONDO_FLOAT32, RONDO_MAX, comm, nullptr);
}

rondo_status_t call_large(rondo_comm_t comm, int, float *data) {
  return rondo_all_reduce(data, data, element_count, RONDO_FLOAT32, RONDO_MAX, comm, nullptr);
}

/// Two ranks exchange messages in a group.
rondo_status_t call_exchange(rondo_comm_t comm, int round, float *data) {
  constexpr std::array<size_t, 4> counts{2, 10, 1'000, 3'000};
  const size_t count = counts[static_cast<size_t>(round) % counts.size()];
  int rank = 0;
  if (const auto status = rondo_comm_rank(comm, &rank); status != RONDO_OK) return status;
  static_cast<void>(rondo_group_begin());  // if a call is refused, the end returns why
  static_cast<void>(rondo_send(data, count, RONDO_FLOAT32, 1 - rank, comm, nullptr));
  static_cast<void>(rondo_recv(data + element_count / 2, count, RONDO_FLOAT32, 1 - rank, comm, nullptr));
  return rondo_group_end();
}

void tell_plan(rondo_comm_t comm, Counts *counts) {
  static_cast<void>(rondo_comm_query_plan(comm, RONDO_ALL_REDUCE, element_count, RONDO_FLOAT32, &counts->plan));
}

/// The state before the calls.
struct Before {
  uint64_t heap = heap_bytes();
  uint64_t peak = peak_kilobytes();
  uint64_t allocations = rondo_test::allocation_count();

  void tell_growth(Counts *counts) const {
    counts->allocations = rondo_test::allocation_count() - allocations;
    counts->heap_growth_bytes = heap_bytes() - heap;
    counts->peak_growth_kilobytes = peak_kilobytes() - peak;
  }
};

[[noreturn]] void tell_and_exit(int to, const Counts &counts) {
  const bool written = ::write(to, &counts, sizeof counts) == sizeof counts;
  ::_exit(written ? 0 : 1);
}

/// Counts in a child whose two ranks are threads. This thread is rank 0. It never returns, and neither does rank 1.
[[noreturn]] void count_in_threads(const Load &load, int to) {
  ::setenv("RONDO_WAIT", "spin", 1);
  // The ranks are never destroyed, because that needs system calls. They end with the process.
  rondo_test::Ranks &ranks = *new rondo_test::Ranks(2);
  Counts counts;
  if (ranks.status() != RONDO_OK) tell_and_exit(to, counts);
  tell_plan(ranks[0], &counts);
  std::atomic<bool> arrived = false;
  std::atomic<bool> go = false;
  std::atomic<int> failures = 0;
  std::atomic<bool> finished = false;
  const auto calls = [&](int rank, int count, float *data) {
    for (int round = 0; round < count; ++round) failures += load.call(ranks[rank], round, data) != RONDO_OK ? 1 : 0;
  };
  std::thread other([&] {
    std::vector<float> data(element_count);
    calls(1, warm_up_count, data.data());
    arrived = true;
    while (!go) continue;
    calls(1, load.call_count, data.data());
    finished = true;
    while (true) continue;  // even a thread's end makes system calls
  });
  std::vector<float> data(element_count);
  calls(0, warm_up_count, data.data());
  while (!arrived) continue;
  counts.filter_errno = trap_system_calls();
  if (counts.filter_errno != 0) tell_and_exit(to, counts);
  const Before before;
  go = true;
  calls(0, load.call_count, data.data());
  while (!finished) continue;
  counts.failures = failures;
  before.tell_growth(&counts);
  counts.system_calls = trapped_count;
  counts.first_system_call = first_trapped;
  tell_and_exit(to, counts);
}

/// Counts in a child process that is one of two ranks on one core. Each rank maps the other's buffers. System calls are
/// not counted, since a rank that waits yields the core by a system call.
[[noreturn]] void count_in_process(const Load &load, int rank, const int id_ends[2], int to) {
  cpu_set_t allowed;
  cpu_set_t one;
  CPU_ZERO(&one);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  CPU_SET(core, &one);
  ::sched_setaffinity(0, sizeof one, &one);
  Counts counts;
  rondo_unique_id_t id{};
  if (rank == 0) static_cast<void>(rondo_get_unique_id(&id, nullptr));  // if it fails, later calls fail, too
  const ssize_t passed = rank == 0 ? ::write(id_ends[1], &id, sizeof id) : ::read(id_ends[0], &id, sizeof id);
  if (passed != sizeof id) tell_and_exit(to, counts);
  rondo_comm_t comm = nullptr;
  void *buffers[2] = {};
  int failures = rondo_comm_init(&comm, &id, rank, 2, nullptr) == RONDO_OK ? 0 : 1;
  for (void *&buffer : buffers) failures += rondo_mem_alloc(&buffer, element_count * sizeof(float)) == RONDO_OK ? 0 : 1;
  if (failures != 0) tell_and_exit(to, counts);
  const auto calls = [&](int count) {
    for (int round = 0; round < count; ++round)
      failures += load.call(comm, round, static_cast<float *>(buffers[round % 2])) != RONDO_OK ? 1 : 0;
    failures += rondo_barrier(comm, nullptr) != RONDO_OK ? 1 : 0;
  };
  tell_plan(comm, &counts);
  calls(warm_up_count);
  const uint64_t shared_before = shared_bytes(comm);
  const Before before;
  calls(load.call_count);
  before.tell_growth(&counts);
  counts.shared_growth_bytes = shared_bytes(comm) - shared_before;
  failures += rondo_comm_destroy(comm) != RONDO_OK ? 1 : 0;
  counts.failures = failures;
  tell_and_exit(to, counts);
}

/// Returns the counts of children that run `bodies`.
std::vector<Counts> count_in_children(const std::vector<std::function<void(int to)>> &bodies) {
  std::vector<Counts> all(bodies.size());
  std::vector<pid_t> children;
  std::vector<int> from;
  for (const auto &body : bodies) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    children.push_back(::fork());  // before this process has used Rondo
    REQUIRE(children.back() >= 0);
    if (children.back() == 0) body(ends[1]);
    ::close(ends[1]);
    from.push_back(ends[0]);
  }
  for (size_t child = 0; child < bodies.size(); ++child) {
    CHECK(::read(from[child], &all[child], sizeof(Counts)) == sizeof(Counts));
    ::close(from[child]);
    int status = 0;
    REQUIRE(::waitpid(children[child], &status, 0) == children[child]);
  }
  return all;
}

void check_growth(const Counts &counts) {
  CHECK(counts.failures == 0);
  CHECK(counts.allocations == 0);
  CHECK(counts.shared_growth_bytes == 0);
  if (rondo_test::sanitized()) return;  // a sanitizer has its own memory
  CHECK(counts.heap_growth_bytes == 0);
  CHECK(counts.peak_growth_kilobytes <= 1'024);  // first uses of stacks and of mapped pages
}

void check_threads(const Load &load) {
  if (rondo_test::sanitized() || std::thread::hardware_concurrency() < 2) {
    std::puts("skipped: calls of threads: needs two cores and no sanitizer, which makes system calls of its own");
    return;
  }
  const Counts counts = count_in_children({[&](int to) { count_in_threads(load, to); }})[0];
  if (counts.filter_errno != 0) {
    std::printf("skipped: calls of threads: this system allows no seccomp filter (errno %d)\n", counts.filter_errno);
    return;
  }
  check_growth(counts);
  CHECK(counts.plan.algorithm == RONDO_ALGORITHM_RING);  // for whole buffers
  CHECK(counts.plan.kernel == RONDO_KERNEL_LOAD_STORE);
  CAPTURE(counts.first_system_call);
  CHECK(counts.system_calls == 0);
}

}  // namespace

TEST_CASE("steady path: a million calls allocate nothing, grow nothing and make no system call") {
  check_threads({1'000'000, call_small});
}

TEST_CASE("steady path: ten thousand calls of 256 KiB allocate nothing, grow nothing and make no system call") {
  check_threads({10'000, call_large});
}

TEST_CASE("steady path: a hundred thousand exchanges of messages allocate nothing and make no system call") {
  check_threads({100'000, call_exchange});
}

TEST_CASE("steady path: two processes on one core, whose buffers are mapped, allocate nothing and grow nothing") {
  int id_ends[2];
  REQUIRE(::pipe(id_ends) == 0);
  const Load load{rondo_test::sanitized() ? 500 : 10'000, call_large};
  if (rondo_test::sanitized()) std::puts("skipped: 9,500 of the calls: take long under a sanitizer; done without one");
  const auto all = count_in_children({[&](int to) { count_in_process(load, 0, id_ends, to); },
                                      [&](int to) { count_in_process(load, 1, id_ends, to); }});
  ::close(id_ends[0]);
  ::close(id_ends[1]);
  for (const Counts &counts : all) {
    check_growth(counts);
    CHECK(counts.plan.algorithm == RONDO_ALGORITHM_RING);
    CHECK(counts.plan.kernel == RONDO_KERNEL_LOAD_STORE);
  }
}
