// SPDX-License-Identifier: Apache-2.0
// This part of the test program makes ids, and children of fork() that use them. The children's ranks meet at their
// parent, which runs the store.
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "tests/compat/client.h"

using namespace compat_test;

namespace {

/// Runs a rank: for each id it makes a communicator, sums, and destroys the communicator.
void run_rank(int rank, int rank_count, const std::vector<ncclUniqueId> &ids) {
  const OnDevice current(0);
  const DevicePart part(0, 2 * half_bytes);
  for (const ncclUniqueId &id : ids) {
    ncclComm_t comm = nullptr;
    NCCL(ncclCommInitRank(&comm, rank_count, id, rank));
    Case it;
    it.count = 1000;
    it.rank_count = rank_count;
    part.write(before(it, rank));
    NCCL(call(it, rank, part, comm));
    check_after(it, rank, part);
    NCCL(ncclCommDestroy(comm));
  }
}

/// Starts a child, which ends with status 0 if `run` returns.
template <class Run>
pid_t start_child(const Run &run) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  CHECK(child >= 0);
  if (child != 0) return child;
  run();
  std::fflush(stdout);
  std::exit(0);  // runs the exit handlers of the libraries
}

void wait_for(const std::vector<pid_t> &children) {
  for (const pid_t child : children) {
    int status = -1;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

}  // namespace

/// Checks children that are all ranks, and then a parent that is a rank itself. Finally checks that a child is refused
/// if its parent had communicators.
void compat_test::check_fork() {
  std::vector<ncclUniqueId> ids(2);
  for (ncclUniqueId &id : ids) NCCL(ncclGetUniqueId(&id));
  std::vector<pid_t> children;
  for (int rank = 0; rank < 3; ++rank) children.push_back(start_child([&] { run_rank(rank, 3, ids); }));
  wait_for(children);
  for (ncclUniqueId &id : ids) NCCL(ncclGetUniqueId(&id));
  wait_for({start_child([&] {  // this child makes an id, which its own child uses
    std::vector<ncclUniqueId> own(1);
    NCCL(ncclGetUniqueId(&own[0]));
    const pid_t grandchild = start_child([&] { run_rank(1, 2, own); });
    run_rank(0, 2, own);
    wait_for({grandchild});
  })});
  const pid_t other = start_child([&] { run_rank(1, 2, ids); });
  run_rank(0, 2, ids);
  wait_for({other});
  wait_for({start_child([] {
    ncclUniqueId id;
    CHECK_REFUSED(ncclGetUniqueId(&id), ncclInvalidUsage, "this process was forked");
  })});
}
