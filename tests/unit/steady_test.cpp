// SPDX-License-Identifier: Apache-2.0
// A million calls of known shape: no allocation, no growth, no system call. The calls are made in a child process whose
// system calls a seccomp filter hands to a counter.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
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
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/allocation_count.h"
#include "tests/unit/ranks.h"

namespace {

constexpr int call_count = 1'000'000;

struct Counts {
  int32_t failures = -1;  ///< of calls; -1: the child did not come so far
  int32_t filter_errno = 0;
  uint64_t allocations = 0;
  uint64_t heap_growth_bytes = 0;
  uint64_t peak_growth_kilobytes = 0;  ///< of the process's resident memory
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

/// From now on, every system call of all threads but those that the test needs itself ends in count_system_call().
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
  // clock_gettime: where the kernel has no faster clock. poll: a rank that has waited for milliseconds, because the
  // other lost its core, looks whether it is alive. The rest: the test's own end.
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

rondo_status_t call(rondo_comm_t comm, int round, std::array<float, 1'024> &data) {
  const size_t count = round % 64 == 0 ? data.size() : 2;
  if (round % 16 == 1) return rondo_broadcast(data.data(), data.data(), 2, RONDO_FLOAT32, 0, comm, nullptr);
  return rondo_all_reduce(data.data(), data.data(), count, RONDO_FLOAT32, RONDO_MAX, comm, nullptr);
}

/// In the child: the ranks are threads, rank 0 this one. It does not return, for the other thread never ends.
[[noreturn]] void count_in_ranks(int to) {
  const auto tell = [&](const Counts &counts) {
    const bool written = ::write(to, &counts, sizeof counts) == sizeof counts;
    ::_exit(written ? 0 : 1);
  };
  ::setenv("RONDO_WAIT", "spin", 1);
  // Never destroyed: the process ends with them, and destroying needs system calls.
  rondo_test::Ranks &ranks = *new rondo_test::Ranks(2);
  Counts counts;
  if (ranks.status() != RONDO_OK) tell(counts);
  std::atomic<bool> arrived = false;
  std::atomic<bool> go = false;
  std::atomic<int> failures = 0;
  std::atomic<bool> finished = false;
  const auto calls = [&](int rank, int count, std::array<float, 1'024> &data) {
    for (int round = 0; round < count; ++round) failures += call(ranks[rank], round, data) != RONDO_OK ? 1 : 0;
  };
  constexpr int warm_up_count = 200;
  std::thread other([&] {
    std::array<float, 1'024> data{};
    calls(1, warm_up_count, data);
    arrived = true;
    while (!go) continue;
    calls(1, call_count, data);
    finished = true;
    while (true) continue;  // even the end of a thread is system calls
  });
  std::array<float, 1'024> data{};
  calls(0, warm_up_count, data);
  while (!arrived) continue;
  counts.filter_errno = trap_system_calls();
  if (counts.filter_errno != 0) tell(counts);
  const uint64_t heap_before = heap_bytes();
  const uint64_t peak_before = peak_kilobytes();
  const uint64_t allocations_before = rondo_test::allocation_count();
  go = true;
  calls(0, call_count, data);
  while (!finished) continue;
  counts.failures = failures;
  counts.allocations = rondo_test::allocation_count() - allocations_before;
  counts.heap_growth_bytes = heap_bytes() - heap_before;
  counts.peak_growth_kilobytes = peak_kilobytes() - peak_before;
  counts.system_calls = trapped_count;
  counts.first_system_call = first_trapped;
  tell(counts);
  std::abort();
}

Counts count_in_child() {
  Counts counts;
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();  // before this process has used Rondo
  REQUIRE(child >= 0);
  if (child == 0) count_in_ranks(ends[1]);
  ::close(ends[1]);
  const bool whole = ::read(ends[0], &counts, sizeof counts) == sizeof counts;
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(whole);
  return counts;
}

}  // namespace

TEST_CASE("steady path: a million calls allocate nothing, grow nothing and make no system call") {
  if (rondo_test::sanitized() || std::thread::hardware_concurrency() < 2) {
    std::puts("skipped: a million calls: needs two cores and no sanitizer, which makes system calls of its own");
    return;
  }
  const Counts counts = count_in_child();
  if (counts.filter_errno != 0) {
    std::printf("skipped: a million calls: this system allows no seccomp filter (errno %d)\n", counts.filter_errno);
    return;
  }
  CHECK(counts.failures == 0);
  CHECK(counts.allocations == 0);
  CHECK(counts.heap_growth_bytes == 0);
  CHECK(counts.peak_growth_kilobytes <= 1'024);  // the first use of stacks and of pages that were mapped before
  CAPTURE(counts.first_system_call);
  CHECK(counts.system_calls == 0);
}
