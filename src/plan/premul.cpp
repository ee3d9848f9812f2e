// SPDX-License-Identifier: Apache-2.0
#include "src/plan/premul.h"

#include "src/base/arithmetic.h"
#include "src/proto/integer_mean.h"

namespace rondo {
namespace {

rondo_type_t word_type(rondo_type_t type) { return rondo_type_size(type) == 1 ? RONDO_INT32 : RONDO_INT64; }

bool is_integer(rondo_type_t type) {
  return type == RONDO_INT8 || type == RONDO_UINT8 || type == RONDO_INT32 || type == RONDO_UINT32 ||
         type == RONDO_INT64 || type == RONDO_UINT64;
}

}  // namespace

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

bool is_integer_mean(const Signature &signature, uint32_t rank_count) {
  return static_cast<rondo_op_t>(signature.op) == RONDO_AVG &&
         is_integer(static_cast<rondo_type_t>(signature.type)) && rank_count > 1;
}

uint32_t mean_words(rondo_type_t type) { return mean_words_of(rondo_type_size(type)); }

Result<OperationKey> widen(const OperationKey &called, uint32_t rank) {
  const auto type = static_cast<rondo_type_t>(called.signature.type);
  const uint64_t words = mean_words(type), element_bytes = words * rondo_type_size(word_type(type));
  if (!checked_mul(vector_elements(called), element_bytes))
    return Error{RONDO_ERROR_OUT_OF_RESOURCES,
                 describe(called.signature) + " needs a workspace of " + std::to_string(element_bytes) +
                     " bytes for each element, which is more than addresses can count; divide it into several calls"};
  OperationKey wide = called;
  wide.signature.type = word_type(type);
  wide.signature.op = RONDO_SUM;
  wide.signature.count *= words;
  for (Range &block : wide.blocks) block = {block.begin * words, block.count * words};
  const auto collective = static_cast<rondo_collective_t>(called.signature.collective);
  wide.in_place = collective != RONDO_REDUCE || called.signature.root == rank;
  return wide;
}

}  // namespace rondo
