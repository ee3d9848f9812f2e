// SPDX-License-Identifier: Apache-2.0
// This file has every collective, type and operation of nccl.h that Rondo supports, and the expected contents of each
// rank's buffers.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "tests/compat/cuda.h"
#include "tests/compat/elements.h"
#include "tests/sanitized.h"

namespace compat_test {

#define CHECK(condition)                                                                            \
  do {                                                                                              \
    if (!(condition)) {                                                                             \
      std::printf("the last error: %s\n", ncclGetLastError(nullptr));                               \
      compat_test::fail_test(#condition, __FILE__, __LINE__, 0);                                    \
    }                                                                                               \
  } while (false)
#define NCCL(call)                                                                                  \
  do {                                                                                              \
    const ncclResult_t nccl_result = call;                                                          \
    if (nccl_result != ncclSuccess) {                                                               \
      std::printf("%s: %s\n", ncclGetErrorString(nccl_result), ncclGetLastError(nullptr));          \
      compat_test::fail_test(#call, __FILE__, __LINE__, static_cast<int>(nccl_result));             \
    }                                                                                               \
  } while (false)

enum class Kind { all_reduce, reduce, broadcast, bcast, all_gather, reduce_scatter };
constexpr Kind all_kinds[] = {Kind::all_reduce, Kind::reduce,     Kind::broadcast,
                              Kind::bcast,      Kind::all_gather, Kind::reduce_scatter};

struct Case {
  Kind kind = Kind::all_reduce;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  size_t count = 0;
  int root = 0, rank_count = 1;
  bool in_place = false;

  [[nodiscard]] bool reduces() const {
    return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
  }
  [[nodiscard]] size_t element_bytes() const { return format_of(type).bytes; }
  [[nodiscard]] size_t send_count() const { return kind == Kind::reduce_scatter ? count * ranks() : count; }
  [[nodiscard]] size_t recv_count() const { return kind == Kind::all_gather ? count * ranks() : count; }
  [[nodiscard]] size_t ranks() const { return static_cast<size_t>(rank_count); }
};

constexpr size_t case_count_max = 5003, rank_count_max = 4;
constexpr size_t half_bytes = case_count_max * rank_count_max * 8 + 64;  ///< bytes of each half of a rank's memory
constexpr unsigned char untouched = 0xA5;

/// The offsets of a rank's data in its memory.
struct Places {
  size_t send, recv;
};

inline Places places_of(const Case &it, int rank) {
  const size_t block = it.count * it.element_bytes() * static_cast<size_t>(rank);
  if (!it.in_place && it.kind != Kind::bcast) return {0, half_bytes};
  if (it.kind == Kind::all_gather) return {half_bytes + block, half_bytes};
  if (it.kind == Kind::reduce_scatter) return {0, block};
  return {half_bytes, half_bytes};
}

inline std::vector<unsigned char> before(const Case &it, int rank) {
  std::vector<unsigned char> bytes(2 * half_bytes, untouched);
  const size_t send = places_of(it, rank).send;
  for (size_t i = 0; i < it.send_count(); ++i)
    put(it.type, element(it.type, rank, i), &bytes[send + i * it.element_bytes()]);
  return bytes;
}

/// Returns the expected contents of the rank's memory after the call. Memory that receives nothing stays unchanged.
inline std::vector<unsigned char> after(const Case &it, int rank) {
  std::vector<unsigned char> bytes = before(it, rank);
  if (it.kind == Kind::reduce && rank != it.root) return bytes;
  const size_t recv = places_of(it, rank).recv;
  for (size_t i = 0; i < it.recv_count(); ++i) {
    double value = 0;
    if (it.kind == Kind::all_gather) value = element(it.type, static_cast<int>(i / it.count), i % it.count);
    else if (it.kind == Kind::reduce_scatter)
      value = reduced(it.type, it.op, it.rank_count, i + static_cast<size_t>(rank) * it.count);
    else if (it.reduces()) value = reduced(it.type, it.op, it.rank_count, i);
    else value = element(it.type, it.root, i);
    put(it.type, value, &bytes[recv + i * it.element_bytes()]);
  }
  return bytes;
}

template <class Part>
ncclResult_t call(const Case &it, int rank, const Part &part, ncclComm_t comm) {
  const Places places = places_of(it, rank);
  const void *const send = part.at(places.send);
  void *const recv = part.at(places.recv);
  switch (it.kind) {
    case Kind::all_reduce: return ncclAllReduce(send, recv, it.count, it.type, it.op, comm, part.stream());
    case Kind::reduce: return ncclReduce(send, recv, it.count, it.type, it.op, it.root, comm, part.stream());
    case Kind::broadcast: return ncclBroadcast(send, recv, it.count, it.type, it.root, comm, part.stream());
    case Kind::bcast: return ncclBcast(recv, it.count, it.type, it.root, comm, part.stream());
    case Kind::all_gather: return ncclAllGather(send, recv, it.count, it.type, comm, part.stream());
    default: return ncclReduceScatter(send, recv, it.count, it.type, it.op, comm, part.stream());
  }
}

inline std::string described(const Case &it) {
  return "kind " + std::to_string(static_cast<int>(it.kind)) + ", type " + std::to_string(it.type) + ", op " +
         std::to_string(it.op) + ", count " + std::to_string(it.count) + ", root " + std::to_string(it.root) +
         (it.in_place ? ", in place" : "");
}

/// Ends the program unless the rank's memory has the expected contents.
template <class Part>
void check_after(const Case &it, int rank, const Part &part) {
  const auto found = part.read(), wanted = after(it, rank);
  if (found == wanted) return;  // many times as fast as std::mismatch()
  const auto [at, other] = std::mismatch(found.begin(), found.end(), wanted.begin());
  std::printf("rank %d: byte %zd is 0x%02x in place of 0x%02x\n", rank, at - found.begin(), *at, *other);
  fail_test(described(it).c_str(), __FILE__, __LINE__, 0);
}

/// Returns every case. Each rank is the root of some cases. Under a sanitizer, only one type of each size is used.
inline std::vector<Case> all_cases(int rank_count) {
  constexpr ncclDataType_t of_each_size[] = {ncclInt8, ncclBfloat16, ncclFloat32, ncclUint64};
  const auto is_chosen = [&](int type) {
    return !rondo_test::sanitized() || std::count(std::begin(of_each_size), std::end(of_each_size), type) != 0;
  };
  std::vector<Case> cases;
  for (const Kind kind : all_kinds)
    for (int type = 0; type < 12; ++type)
      for (int op = 0; op < 5; ++op)
        for (const size_t count : {size_t{1}, size_t{1021}, case_count_max}) {
          Case it{kind, static_cast<ncclDataType_t>(type), static_cast<ncclRedOp_t>(op), count};
          it.rank_count = rank_count;
          if (!is_chosen(type) || (!it.reduces() && op > 0)) continue;
          it.root = static_cast<int>(cases.size() % static_cast<size_t>(rank_count));
          it.in_place = cases.size() / 2 % 2 == 1;
          cases.push_back(it);
        }
  return cases;
}

}  // namespace compat_test
