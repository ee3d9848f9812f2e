// SPDX-License-Identifier: Apache-2.0
#include "src/engine/reduction/integer_mean.h"

#include <cstring>

#include "src/plan/integer_mean.h"
#include "src/proto/integer_mean.h"

namespace rondo {
namespace {

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
