// SPDX-License-Identifier: Apache-2.0
// This part of the test program adds new ranks to communicators.
#include <nccl.h>

#include <string>

#include "src/compat/abi_newer.h"
#include "tests/compat/client.h"

using namespace compat_test;

namespace {

/// Adds two ranks to a communicator of two, by one thread in one group, and checks sums. Rank 1 made the id. If
/// `passes`, rank 1 passes the id to ncclCommGrow(). Otherwise it passes NULL.
void grow_and_sum(Ranks &ranks, bool passes, ncclConfig_t *config) {
  constexpr int size = 4;
  ncclUniqueId id;
  NCCL(ncclCommGetUniqueId(ranks.comm(1), &id));
  ncclComm_t grown[size] = {};
  const OnDevice current(0);
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank)
    NCCL(ncclCommGrow(ranks.comm(rank), size, passes && rank == 1 ? &id : nullptr, -1, &grown[rank], config));
  for (int rank = 2; rank < size; ++rank) NCCL(ncclCommGrow(nullptr, size, &id, rank, &grown[rank], config));
  const ncclResult_t ended = ncclGroupEnd();
  CHECK(ended == (config == nullptr ? ncclSuccess : ncclInProgress));
  const DevicePart more[] = {{0, 2 * half_bytes}, {0, 2 * half_bytes}};
  const auto part = [&](int rank) -> const DevicePart & { return rank < 2 ? ranks.part(rank) : more[rank - 2]; };
  Case it = ranks.sum(100);
  it.rank_count = size;
  for (int each = 0; each < size; ++each) {
    CHECK(wait_while(grown[each], ncclInProgress) == ncclSuccess);
    int count = 0, rank = -1;
    NCCL(ncclCommCount(grown[each], &count));
    NCCL(ncclCommUserRank(grown[each], &rank));
    CHECK(count == size && rank == each);
    part(each).write(before(it, each));
  }
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < size; ++rank) NCCL(call(it, rank, part(rank), grown[rank]));
  NCCL(ncclGroupEnd());
  for (int rank = 0; rank < size; ++rank) check_after(it, rank, part(rank));
  for (const ncclComm_t each : grown) NCCL(ncclCommDestroy(each));
}

}  // namespace

void compat_test::check_grow() {
  Ranks ranks(2);
  ncclUniqueId id;
  ncclComm_t grown = nullptr;
  CHECK_REFUSED(ncclCommGetUniqueId(ranks.comm(0), nullptr), ncclInvalidArgument, "the id is NULL");
  CHECK_REFUSED(ncclCommGetUniqueId(nullptr, &id), ncclInvalidArgument, "communicator is NULL");
  CHECK_REFUSED(ncclCommGrow(ranks.comm(0), 3, nullptr, -1, nullptr, nullptr), ncclInvalidArgument, "newcomm is NULL");
  CHECK_REFUSED(ncclCommGrow(ranks.comm(0), 3, nullptr, 0, &grown, nullptr), ncclInvalidArgument, "the rank is 0");
  CHECK_REFUSED(ncclCommGrow(ranks.comm(0), 2, nullptr, -1, &grown, nullptr), ncclInvalidArgument, "has 2");
  CHECK_REFUSED(ncclCommGrow(nullptr, 3, nullptr, 2, &grown, nullptr), ncclInvalidArgument, "a new rank needs it");
  CHECK(grown == nullptr);
  NCCL(ncclCommGetUniqueId(ranks.comm(0), &id));
  CHECK_REFUSED(ncclCommGetUniqueId(ranks.comm(0), &id), ncclInvalidUsage, "is not used yet");
  const OnDevice current(0);
  CHECK_REFUSED(ncclCommGrow(nullptr, 3, &id, 3, &grown, nullptr), ncclInvalidArgument, "the rank is 3");
  CHECK_REFUSED(ncclCommInitRank(&grown, 3, id, 3), ncclInvalidArgument, "the rank is 3");
  Ranks others(2);
  grow_and_sum(others, true, nullptr);
  grow_and_sum(others, false, nullptr);
  ncclConfig_t config = nonblocking();
  config.size = offsetof(ncclConfig_t, minCTAs);
  grow_and_sum(others, true, &config);
  others.check_usable();
}
