// SPDX-License-Identifier: Apache-2.0
#include "src/engine/reduction/converted_operands.h"

#include <algorithm>
#include <cstring>

#include "src/plan/premul.h"
#include "src/proto/integer_mean.h"

namespace rondo {
namespace {

size_t element_bytes_of(const Plan &plan) {
  return rondo_type_size(static_cast<rondo_type_t>(plan.key.signature.type));
}

/// Converts elements to words. The caller's pointers need no alignment, so it uses memcpy.
template <class T>
void widen_all(const std::byte *from, size_t count, std::byte *to) {
  using Mean = IntegerMean<T>;
  for (size_t index = 0; index < count; ++index) {
    T value;
    std::memcpy(&value, from + index * sizeof(T), sizeof(T));
    typename Mean::Word words[Mean::word_count];
    Mean::widen(value, words);
    std::memcpy(to + index * sizeof words, words, sizeof words);
  }
}

template <class T>
void narrow_all(const std::byte *from, size_t count, uint32_t ranks, std::byte *to) {
  using Mean = IntegerMean<T>;
  for (size_t index = 0; index < count; ++index) {
    typename Mean::Word words[Mean::word_count];
    std::memcpy(words, from + index * sizeof words, sizeof words);
    const T value = Mean::narrow(words, ranks);
    std::memcpy(to + index * sizeof(T), &value, sizeof(T));
  }
}

/// Calls visit(T()) with the integer type T.
template <class Visit>
void visit_integer(rondo_type_t type, const Visit &visit) {
  switch (type) {
    case RONDO_INT8: return visit(int8_t());
    case RONDO_UINT8: return visit(uint8_t());
    case RONDO_INT32: return visit(int32_t());
    case RONDO_UINT32: return visit(uint32_t());
    case RONDO_INT64: return visit(int64_t());
    case RONDO_UINT64: return visit(uint64_t());
    default: return;
  }
}

rondo_type_t type_of(const Plan &plan) { return static_cast<rondo_type_t>(plan.called.type); }
uint64_t word_bytes(const Plan &plan) { return rondo_type_size(static_cast<rondo_type_t>(plan.key.signature.type)); }

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

MeanWorkspace::MeanWorkspace(const WorkItem &work)
    : recv_offset_((work.plan->recv.begin - work.plan->send.begin) * word_bytes(*work.plan)),
      words_(std::make_unique_for_overwrite<std::byte[]>(work.plan->send.count * word_bytes(*work.plan))) {
  const size_t count = work.plan->send.count / mean_words(type_of(*work.plan));
  visit_integer(type_of(*work.plan), [&](auto kind) { widen_all<decltype(kind)>(work.send, count, send()); });
}

void MeanWorkspace::narrow(const WorkItem &work, uint32_t rank_count) const {
  if (work.recv == nullptr) return;
  const size_t count = work.plan->recv.count / mean_words(type_of(*work.plan));
  visit_integer(type_of(*work.plan), [&](auto kind) {
    narrow_all<decltype(kind)>(recv(), count, rank_count, work.recv);
  });
}

}  // namespace rondo
