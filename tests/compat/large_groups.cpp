// SPDX-License-Identifier: Apache-2.0
// This part of the test program makes groups with more calls than fit into a launch queue of the driver in software.
#include "tests/compat/client.h"

using namespace compat_test;

/// Checks groups with far more calls than fit into a launch queue. One thread drives all ranks, rank by rank. If a call
/// is refused, none runs.
void compat_test::check_large_groups() {
  constexpr int calls = 200;
  Ranks ranks(2);
  for (const bool by_rank : {true, false}) {
    const Case it = ranks.sum(100);
    ranks.write(it);
    NCCL(ncclGroupStart());
    for (int each = 0; each < 2 * calls; ++each) {
      const int rank = by_rank ? each / calls : each % 2;
      NCCL(call(it, rank, ranks.part(rank), ranks.comm(rank)));
    }
    NCCL(ncclGroupEnd());
    ranks.check(it);
  }
  const Case it = ranks.sum(100);
  ranks.write(it);
  char on_stack = 0;
  NCCL(ncclGroupStart());
  for (int each = 0; each < 2 * calls; ++each)
    NCCL(call(it, each / calls, ranks.part(each / calls), ranks.comm(each / calls)));
  static_cast<void>(ncclAllReduce(&on_stack, &on_stack, 1, ncclInt8, ncclSum, ranks.comm(1), ranks.part(1).stream()));
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  for (int rank = 0; rank < 2; ++rank) CHECK(ranks.part(rank).read() == before(it, rank));
  ranks.check_usable();
}
