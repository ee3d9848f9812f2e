// SPDX-License-Identifier: Apache-2.0
// This part of the test program shrinks, revokes and aborts communicators.
#include <string>

#include "tests/compat/client.h"

using namespace compat_test;

namespace {

constexpr int keep = 0, abort_first = 1;  // the macros NCCL_SHRINK_DEFAULT and NCCL_SHRINK_ABORT

/// Shrinks four ranks to three, without rank 2, by one thread in a group. Checks sums of the survivors.
void shrink_and_sum(Ranks &ranks, int flags) {
  int excluded[] = {2};
  ncclComm_t rest[4] = {};
  NCCL(ncclGroupStart());
  for (const int rank : {0, 1, 3}) NCCL(ncclCommShrink(ranks.comm(rank), excluded, 1, &rest[rank], nullptr, flags));
  NCCL(ncclGroupEnd());
  Case it = ranks.sum(100);
  it.rank_count = 3;
  const int members[] = {0, 1, 3};
  for (int place = 0; place < 3; ++place) {
    int count = 0, rank = -1;
    NCCL(ncclCommCount(rest[members[place]], &count));
    NCCL(ncclCommUserRank(rest[members[place]], &rank));
    CHECK(count == 3 && rank == place);
    ranks.part(place).write(before(it, place));
  }
  NCCL(ncclGroupStart());
  for (int place = 0; place < 3; ++place) NCCL(call(it, place, ranks.part(place), rest[members[place]]));
  NCCL(ncclGroupEnd());
  for (int place = 0; place < 3; ++place) check_after(it, place, ranks.part(place));
  for (const int member : members) NCCL(ncclCommDestroy(rest[member]));
}

/// Checks that calls say that the communicator was revoked, though the rank's state is `wanted`.
void check_revoked(Ranks &ranks, int rank, ncclResult_t wanted) {
  const ncclResult_t other = wanted == ncclSuccess ? ncclInvalidUsage : ncclSuccess;
  CHECK(wait_while(ranks.comm(rank), other) == wanted);
  CHECK(call(ranks.sum(100), rank, ranks.part(rank), ranks.comm(rank)) == ncclInvalidUsage);
  CHECK(std::string(ncclGetLastError(ranks.comm(rank))).find("revoked the communicator") != std::string::npos);
}

/// Checks that the state of a rank is a success once the rank has revoked, also if a call waits for another rank. Until
/// then, a rank that another one has revoked has a failure.
void check_revoke() {
  Ranks ranks(4);
  CHECK_REFUSED(ncclCommRevoke(ranks.comm(0), 1), ncclInvalidArgument, "the flags are 1");
  NCCL(ncclCommRevoke(nullptr, 0));
  NCCL(call(ranks.sum(100), 0, ranks.part(0), ranks.comm(0)));
  NCCL(ncclCommRevoke(ranks.comm(0), 0));
  CHECK_REFUSED(ncclCommRevoke(ranks.comm(0), 0), ncclInvalidArgument, "revoked before");
  check_revoked(ranks, 0, ncclSuccess);
  for (const int rank : {1, 2, 3}) check_revoked(ranks, rank, ncclInvalidUsage);
  for (const int rank : {1, 3}) {
    NCCL(ncclCommRevoke(ranks.comm(rank), 0));
    check_revoked(ranks, rank, ncclSuccess);
  }
  CHECK_REFUSED(ncclCommFinalize(ranks.comm(0)), ncclInvalidArgument, "was revoked");
  shrink_and_sum(ranks, keep);
  Ranks finalized(1);
  NCCL(ncclCommFinalize(finalized.comm(0)));
  CHECK_REFUSED(ncclCommRevoke(finalized.comm(0), 0), ncclInvalidArgument, "was finalized");
}

/// Checks the same of communicators that do not block.
void check_nonblocking_revoke() {
  const OnDevice current(0);
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = nonblocking();
  ncclComm_t comms[2] = {};
  for (const int rank : {0, 1}) CHECK(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config) == ncclInProgress);
  for (const ncclComm_t comm : comms) CHECK(wait_while(comm, ncclInProgress) == ncclSuccess);
  for (const ncclComm_t comm : comms) {
    NCCL(ncclCommRevoke(comm, 0));
    CHECK(wait_while(comm, ncclInProgress) == ncclSuccess);
    CHECK_REFUSED(ncclCommFinalize(comm), ncclInvalidArgument, "was revoked");
  }
  for (const ncclComm_t comm : comms) NCCL(ncclCommDestroy(comm));
}

/// Checks that a rank which aborts with nothing in flight does not fail the other. The other rank gets an error once it
/// needs that rank.
void check_abort_after_a_run() {
  Ranks ranks(2);
  ranks.check_usable();
  NCCL(ncclCommAbort(ranks.comm(0)));
  ranks.comm(0) = nullptr;
  ncclResult_t state = ncclInternalError;
  NCCL(ncclCommGetAsyncError(ranks.comm(1), &state));
  CHECK(state == ncclSuccess);
  const Case it = ranks.sum(100);
  NCCL(call(it, 1, ranks.part(1), ranks.comm(1)));
  CHECK(wait_while(ranks.comm(1), ncclSuccess) == ncclRemoteError);
  const std::string said = ncclGetLastError(ranks.comm(1));
  CHECK(said.find("rank 0 (host") != std::string::npos && said.find("rondo_comm_abort") != std::string::npos);
}

/// Checks that a rank whose graph may run a call again ends the operations of the other rank at once.
void check_abort_after_a_capture() {
  Ranks ranks(2);
  const OnDevice current(0);
  Graph graph = nullptr;
  CU(begin_capture(ranks.part(0).stream(), 0));
  NCCL(call(ranks.sum(100), 0, ranks.part(0), ranks.comm(0)));
  CU(end_capture(ranks.part(0).stream(), &graph));
  NCCL(ncclCommAbort(ranks.comm(0)));
  ranks.comm(0) = nullptr;
  CHECK(wait_while(ranks.comm(1), ncclSuccess) == ncclRemoteError);
  CU(graph_destroy(graph));
}

/// Checks that a replay ends if the other rank has aborted before.
void check_abort_before_a_replay() {
  Ranks ranks(2);
  const OnDevice current(0);
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  CU(begin_capture(ranks.part(1).stream(), 0));
  NCCL(call(ranks.sum(100), 1, ranks.part(1), ranks.comm(1)));
  CU(end_capture(ranks.part(1).stream(), &graph));
  CU(instantiate(&exec, graph, 0));
  NCCL(ncclCommAbort(ranks.comm(0)));
  ranks.comm(0) = nullptr;
  CU(launch(exec, ranks.part(1).stream()));
  CHECK(wait_while(ranks.comm(1), ncclSuccess) == ncclRemoteError);
  CU(synchronize(ranks.part(1).stream()));
  CU(exec_destroy(exec));
  CU(graph_destroy(graph));
}

}  // namespace

void compat_test::check_shrink() {
  Ranks ranks(4);
  ncclComm_t rest = nullptr;
  int excluded[] = {2, 4};
  CHECK_REFUSED(ncclCommShrink(ranks.comm(2), excluded, 1, &rest, nullptr, keep), ncclInvalidArgument, "this rank, 2");
  CHECK_REFUSED(ncclCommShrink(ranks.comm(0), excluded, 2, &rest, nullptr, keep), ncclInvalidArgument, "has rank 4");
  CHECK_REFUSED(ncclCommShrink(ranks.comm(0), excluded, 1, &rest, nullptr, 2), ncclInvalidArgument, "the flags are 2");
  CHECK_REFUSED(ncclCommShrink(ranks.comm(0), nullptr, 1, &rest, nullptr, keep), ncclInvalidArgument, "no list");
  CHECK_REFUSED(ncclCommShrink(ranks.comm(0), excluded, 1, nullptr, nullptr, keep), ncclInvalidArgument, "newcomm");
  CHECK(rest == nullptr);
  shrink_and_sum(ranks, keep);
  ranks.check_usable();
  NCCL(call(ranks.sum(100), 0, ranks.part(0), ranks.comm(0)));  // waits for the other ranks until it is aborted
  shrink_and_sum(ranks, abort_first);
  for (const int rank : {0, 1, 3}) check_revoked(ranks, rank, ncclSuccess);
  check_revoked(ranks, 2, ncclInvalidUsage);
  check_revoke();
  check_nonblocking_revoke();
  check_abort_after_a_run();
  check_abort_after_a_capture();
  check_abort_before_a_replay();
}
