// SPDX-License-Identifier: Apache-2.0
#include "src/engine/reduction/scale.h"

#include <algorithm>
#include <cstring>

namespace rondo {
namespace {

size_t element_bytes_of(const Plan &plan) {
  return rondo_type_size(static_cast<rondo_type_t>(plan.key.signature.type));
}

}  // namespace

std::unique_ptr<std::byte[]> scaled_operands_of(const Plan &plan) {
  if (plan.scaling != Scaling::into_workspace) return nullptr;
  return std::make_unique_for_overwrite<std::byte[]>(plan.send.count * element_bytes_of(plan));
}

OperandScaler::OperandScaler(const WorkItem &work)
    : element_bytes_(element_bytes_of(*work.plan)),
      multiply_(reduce_function(static_cast<rondo_type_t>(work.plan->key.signature.type), RONDO_PROD)) {
  const Factor &of = *work.factor();
  const void *const factor = of.address != nullptr ? of.address : static_cast<const void *>(&of.value);
  const size_t filled = std::min<size_t>(work.plan->send.count * element_bytes_, factors_bytes);
  if (filled != 0) std::memcpy(factors_, factor, element_bytes_);
  for (size_t done = element_bytes_; done < filled; done *= 2)
    std::memcpy(factors_ + done, factors_, std::min(done, filled - done));
}

void OperandScaler::operator()(std::byte *to, const std::byte *from, size_t bytes) const {
  for (size_t at = 0; at < bytes; at += factors_bytes) {
    ReductionArgs args;
    args.add_input(from + at);
    args.add_input(factors_);
    args.add_output(to + at);
    args.count = std::min(factors_bytes, bytes - at) / element_bytes_;
    multiply_(args);
  }
}

}  // namespace rondo
