// SPDX-License-Identifier: Apache-2.0
#include "src/plan/premul.h"

namespace rondo {

Scaling scaling_of(const Signature &premul, uint32_t rank, uint32_t rank_count) {
  const auto collective = static_cast<rondo_collective_t>(premul.collective);
  if (collective == RONDO_REDUCE_SCATTER) return rank_count == 1 ? Scaling::into_recv : Scaling::into_workspace;
  if (collective == RONDO_REDUCE) return premul.root == rank ? Scaling::into_recv : Scaling::into_workspace;
  return Scaling::into_recv;
}

OperationKey sum_of_scaled(const OperationKey &called, uint32_t rank, uint32_t rank_count) {
  OperationKey sum = called;
  sum.signature.op = RONDO_SUM;
  sum.in_place = scaling_of(called.signature, rank, rank_count) == Scaling::into_recv;
  return sum;
}

}  // namespace rondo
