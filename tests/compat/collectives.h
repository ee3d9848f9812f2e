// SPDX-License-Identifier: Apache-2.0
// This file has every collective, type and operation of nccl.h that Rondo supports, and the expected contents of each
// rank's buffers.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <iterator>
#include <optional>
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

/// The collectives and three patterns of messages. `ring` sends to the next rank, and `all_to_all_v` exchanges uneven
/// blocks. `hypercube` gathers all blocks in steps, which send what earlier steps have received.
enum class Kind {
  all_reduce,
  reduce,
  broadcast,
  bcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  ring,
  all_to_all_v,
  hypercube
};
constexpr Kind all_kinds[] = {Kind::all_reduce, Kind::reduce,         Kind::broadcast,    Kind::bcast,
                              Kind::all_gather, Kind::reduce_scatter, Kind::all_to_all,   Kind::gather,
                              Kind::scatter,    Kind::ring,           Kind::all_to_all_v, Kind::hypercube};

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
  /// Says whether the ranks only exchange blocks, by the collectives for that or by messages.
  [[nodiscard]] bool exchanges() const { return kind >= Kind::all_to_all; }
  [[nodiscard]] bool can_be_in_place() const {
    return kind != Kind::all_to_all && kind != Kind::ring && kind != Kind::all_to_all_v;
  }
  [[nodiscard]] size_t send_count(int rank) const {
    if (kind == Kind::scatter && rank != root) return 0;
    const bool all = kind == Kind::reduce_scatter || kind == Kind::all_to_all || kind == Kind::all_to_all_v ||
                     kind == Kind::scatter;
    return all ? count * ranks() : count;
  }
  [[nodiscard]] size_t recv_count(int rank) const {
    if ((kind == Kind::reduce || kind == Kind::gather) && rank != root) return 0;
    const bool all = kind == Kind::all_gather || kind == Kind::all_to_all || kind == Kind::all_to_all_v ||
                     kind == Kind::gather || kind == Kind::hypercube;
    return all ? count * ranks() : count;
  }
  /// Returns the elements of a block of all_to_all_v, at most `count`.
  [[nodiscard]] size_t block_count(int from, int to) const {
    return count * static_cast<size_t>((from + 2 * to) % 3) / 2;
  }
  /// Returns how many groups the call takes one after the other.
  [[nodiscard]] int steps() const {
    return kind == Kind::hypercube ? std::countr_zero(static_cast<unsigned>(rank_count)) : 1;
  }
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
  const bool rooted = it.kind == Kind::gather || it.kind == Kind::scatter;
  const bool always = it.kind == Kind::bcast || it.kind == Kind::hypercube;
  if (!always && (!it.in_place || (rooted && rank != it.root))) return {0, half_bytes};
  if (it.kind == Kind::all_gather || it.kind == Kind::hypercube || it.kind == Kind::gather)
    return {half_bytes + block, half_bytes};
  if (it.kind == Kind::reduce_scatter || it.kind == Kind::scatter) return {0, block};
  return {half_bytes, half_bytes};
}

inline std::vector<unsigned char> before(const Case &it, int rank) {
  std::vector<unsigned char> bytes(2 * half_bytes, untouched);
  const size_t send = places_of(it, rank).send;
  for (size_t i = 0; i < it.send_count(rank); ++i)
    put(it.type, element(it.type, rank, i), &bytes[send + i * it.element_bytes()]);
  return bytes;
}

/// Returns the value that element `i` of the rank's result has, or nothing if the element is not received.
inline std::optional<double> result(const Case &it, int rank, size_t i) {
  const auto own = static_cast<size_t>(rank);
  const int block = static_cast<int>(i / it.count);
  switch (it.kind) {
    case Kind::all_gather:
    case Kind::gather:
    case Kind::hypercube: return element(it.type, block, i % it.count);
    case Kind::all_to_all_v:
      if (i % it.count >= it.block_count(block, rank)) return std::nullopt;
      [[fallthrough]];
    case Kind::all_to_all: return element(it.type, block, own * it.count + i % it.count);
    case Kind::scatter: return element(it.type, it.root, own * it.count + i);
    case Kind::ring: return element(it.type, (rank + it.rank_count - 1) % it.rank_count, i);
    case Kind::reduce_scatter: return reduced(it.type, it.op, it.rank_count, own * it.count + i);
    case Kind::all_reduce:
    case Kind::reduce: return reduced(it.type, it.op, it.rank_count, i);
    default: return element(it.type, it.root, i);
  }
}

/// Returns the expected contents of the rank's memory after the call. Memory that receives nothing stays unchanged.
inline std::vector<unsigned char> after(const Case &it, int rank) {
  std::vector<unsigned char> bytes = before(it, rank);
  const size_t recv = places_of(it, rank).recv;
  for (size_t i = 0; i < it.recv_count(rank); ++i)
    if (const auto value = result(it, rank, i)) put(it.type, *value, &bytes[recv + i * it.element_bytes()]);
  return bytes;
}

/// Sends and receives the messages of one step in a group.
template <class Part>
ncclResult_t exchange(const Case &it, int rank, const Part &part, ncclComm_t comm, int step) {
  const Places places = places_of(it, rank);
  const auto at = [&](size_t start, int block) {
    return part.at(start + static_cast<size_t>(block) * it.count * it.element_bytes());
  };
  const auto send = [&](void *from, size_t count, int to) {
    return ncclSend(from, count, it.type, to, comm, part.stream());
  };
  const auto recv = [&](void *to, size_t count, int from) {
    return ncclRecv(to, count, it.type, from, comm, part.stream());
  };
  NCCL(ncclGroupStart());
  if (it.kind == Kind::ring) {
    NCCL(send(part.at(places.send), it.count, (rank + 1) % it.rank_count));
    NCCL(recv(part.at(places.recv), it.count, (rank + it.rank_count - 1) % it.rank_count));
  } else if (it.kind == Kind::hypercube) {
    const int blocks = 1 << step, first = rank & ~(blocks - 1);
    NCCL(send(at(places.recv, first), it.count * static_cast<size_t>(blocks), rank ^ blocks));
    NCCL(recv(at(places.recv, first ^ blocks), it.count * static_cast<size_t>(blocks), rank ^ blocks));
  } else {
    for (int peer = 0; peer < it.rank_count; ++peer) {
      NCCL(send(at(places.send, peer), it.block_count(rank, peer), peer));
      NCCL(recv(at(places.recv, peer), it.block_count(peer, rank), peer));
    }
  }
  return ncclGroupEnd();
}

/// Makes the rank's call, or one step of it. Ranks other than the root pass null for what only the root uses.
template <class Part>
ncclResult_t call(const Case &it, int rank, const Part &part, ncclComm_t comm, int step = 0) {
  const Places places = places_of(it, rank);
  const void *const send = part.at(places.send);
  void *const recv = part.at(places.recv);
  switch (it.kind) {
    case Kind::all_reduce: return ncclAllReduce(send, recv, it.count, it.type, it.op, comm, part.stream());
    case Kind::reduce: return ncclReduce(send, recv, it.count, it.type, it.op, it.root, comm, part.stream());
    case Kind::broadcast: return ncclBroadcast(send, recv, it.count, it.type, it.root, comm, part.stream());
    case Kind::bcast: return ncclBcast(recv, it.count, it.type, it.root, comm, part.stream());
    case Kind::all_gather: return ncclAllGather(send, recv, it.count, it.type, comm, part.stream());
    case Kind::reduce_scatter: return ncclReduceScatter(send, recv, it.count, it.type, it.op, comm, part.stream());
    case Kind::all_to_all: return ncclAlltoAll(send, recv, it.count, it.type, comm, part.stream());
    case Kind::gather:
      return ncclGather(send, rank == it.root ? recv : nullptr, it.count, it.type, it.root, comm, part.stream());
    case Kind::scatter:
      return ncclScatter(rank == it.root ? send : nullptr, recv, it.count, it.type, it.root, comm, part.stream());
    default: return exchange(it, rank, part, comm, step);
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

/// Returns every case, and hypercube for a power of two of ranks. Each rank is the root of some cases. Under a
/// sanitizer, only one type of each size is used. CLIENT_TYPES of 0 to 3 selects a quarter of the types.
inline std::vector<Case> all_cases(int rank_count) {
  constexpr ncclDataType_t of_each_size[] = {ncclInt8, ncclBfloat16, ncclFloat32, ncclUint64};
  const char *const quarter = std::getenv("CLIENT_TYPES");
  const auto is_chosen = [&](int type) {
    if (quarter != nullptr && type % 4 != std::atoi(quarter)) return false;
    return !rondo_test::sanitized() || std::count(std::begin(of_each_size), std::end(of_each_size), type) != 0;
  };
  std::vector<Case> cases;
  for (const Kind kind : all_kinds) {
    if (kind == Kind::hypercube && !std::has_single_bit(static_cast<unsigned>(rank_count))) continue;
    for (int type = 0; type < 12; ++type)
      for (int op = 0; op < 5; ++op)
        for (const size_t count : {size_t{1}, size_t{1021}, case_count_max}) {
          Case it{kind, static_cast<ncclDataType_t>(type), static_cast<ncclRedOp_t>(op), count};
          it.rank_count = rank_count;
          if (!is_chosen(type) || (!it.reduces() && op > 0)) continue;
          it.root = static_cast<int>(cases.size() % static_cast<size_t>(rank_count));
          it.in_place = it.can_be_in_place() && cases.size() / 2 % 2 == 1;
          cases.push_back(it);
        }
  }
  return cases;
}

}  // namespace compat_test
