// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/call_data.h"

#include <array>
#include <cstring>

namespace rondo::sim {
namespace {

/// Rank r adds rank_weights[r]. The rank_weights ascend. Added to the largest base they are below 256, so they fit
/// every type.
constexpr std::array<uint64_t, 16> rank_weights{1, 2, 4, 7, 12, 20, 29, 38, 49, 61, 74, 88, 103, 119, 136, 155};
constexpr uint64_t base_count = 100;

template <class T>
struct Type {
  using type = T;
};

template <class Body>
auto with_type(uint32_t type, const Body &body) {
  switch (type) {
    case RONDO_UINT8: return body(Type<uint8_t>{});
    case RONDO_INT64: return body(Type<int64_t>{});
    case RONDO_FLOAT32: return body(Type<float>{});
    case RONDO_FLOAT64: return body(Type<double>{});
    default: return body(Type<int32_t>{});
  }
}

}  // namespace

CallData::CallData(const PlannedCall &planned, uint32_t rank, uint32_t rank_count, uint64_t salt)
    : planned_(planned), rank_(rank), rank_count_(rank_count), salt_(salt) {
  const Signature &signature = planned_.signature;
  const size_t size = rondo_type_size(static_cast<rondo_type_t>(signature.type));
  const size_t block = signature.count * size;
  const size_t whole = vector_count(planned_, rank_count) * size;
  const bool is_root = signature.root == rank;
  call_.signature = signature;
  const auto put = [&](std::byte *at, uint64_t first, uint64_t count) {
    with_type(signature.type, [&](auto type) { fill<typename decltype(type)::type>(at, first, count, rank); });
  };
  switch (static_cast<rondo_collective_t>(signature.collective)) {
    case RONDO_BARRIER:
      return;
    case RONDO_REDUCE_SCATTER:
      first_.resize(whole + 1);
      second_.resize(block + 1);
      put(first_.data(), 0, signature.count * rank_count);
      call_.send = first_.data();
      call_.recv = planned_.in_place ? first_.data() + block * rank : second_.data();
      break;
    case RONDO_ALL_GATHER:
      first_.resize(block + 1);
      second_.resize(whole + 1);
      put(planned_.in_place ? second_.data() + block * rank : first_.data(), signature.count * rank, signature.count);
      call_.send = planned_.in_place ? second_.data() + block * rank : first_.data();
      call_.recv = second_.data();
      break;
    default:
      first_.resize(whole + 1);
      second_.resize(whole + 1);
      put(first_.data(), 0, signature.count);
      call_.send = first_.data();
      call_.recv = planned_.in_place ? first_.data() : second_.data();
      break;
  }
  call_.in_place = planned_.in_place;
  if (signature.collective == RONDO_BROADCAST && !is_root) {
    call_.send = nullptr;
    call_.in_place = false;
    std::memset(call_.recv, 0xEE, whole);
  }
  if (signature.collective == RONDO_REDUCE && !is_root) {
    call_.recv = nullptr;
    call_.in_place = false;
  }
}

uint64_t CallData::value(uint64_t element, uint32_t rank) const {
  return (element * 7 + salt_ * 13) % base_count + rank_weights[rank];
}

uint64_t CallData::expected(uint64_t element) const {
  const Signature &signature = planned_.signature;
  if (signature.collective == RONDO_BROADCAST) return value(element, signature.root);
  if (signature.collective == RONDO_ALL_GATHER)
    return value(element, static_cast<uint32_t>(element / signature.count));
  if (signature.op == RONDO_MIN) return value(element, 0);
  if (signature.op == RONDO_MAX) return value(element, rank_count_ - 1);
  uint64_t sum = 0;
  for (uint32_t rank = 0; rank < rank_count_; ++rank) sum += value(element, rank);
  return sum;
}

template <class T>
void CallData::fill(std::byte *at, uint64_t first, uint64_t count, uint32_t rank) const {
  for (uint64_t i = 0; i < count; ++i) {
    const T number = static_cast<T>(value(first + i, rank));
    std::memcpy(at + i * sizeof(T), &number, sizeof(T));
  }
}

template <class T>
std::string CallData::compare() const {
  const Signature &signature = planned_.signature;
  const bool block = signature.collective == RONDO_REDUCE_SCATTER;
  const uint64_t count = block ? signature.count : vector_count(planned_, rank_count_);
  const uint64_t first = block ? signature.count * rank_ : 0;
  for (uint64_t i = 0; i < count; ++i) {
    T got;
    std::memcpy(&got, static_cast<const std::byte *>(call_.recv) + i * sizeof(T), sizeof(T));
    const T wanted = static_cast<T>(expected(first + i));
    if (std::memcmp(&got, &wanted, sizeof(T)) != 0)
      return "element " + std::to_string(i) + " of " + std::to_string(count) + " is " + std::to_string(got) +
             ", not " + std::to_string(wanted);
  }
  return {};
}

std::string CallData::wrong() const {
  if (call_.recv == nullptr) return {};
  return with_type(planned_.signature.type,
                   [&](auto type) { return compare<typename decltype(type)::type>(); });
}

}  // namespace rondo::sim
