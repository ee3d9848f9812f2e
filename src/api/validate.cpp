// SPDX-License-Identifier: Apache-2.0
#include "src/api/validate.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "src/base/arithmetic.h"
#include "src/base/names.h"
#include "src/bootstrap/messages.h"

namespace rondo {
namespace {

Error overlapping(uint32_t a, uint32_t b) {
  return invalid_argument("the blocks of ranks " + std::to_string(a) + " and " + std::to_string(b) +
                          " overlap; give disjoint displacements");
}

constexpr uint32_t pairwise_rank_count_max = 64;  // above this number, sorting is faster, although it allocates memory

bool overlap(const size_t *counts, const size_t *displacements, uint32_t a, uint32_t b) {
  return counts[a] != 0 && counts[b] != 0 && displacements[a] < displacements[b] + counts[b] &&
         displacements[b] < displacements[a] + counts[a];
}

class BlockHash {
 public:
  BlockHash() { crypto_generichash_init(&state_, nullptr, 0, digest_bytes); }
  void add(size_t begin, size_t count) {
    const uint64_t words[2] = {begin, count};
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char *>(words), sizeof words);
  }
  /// Returns the hash, which is never 0.
  [[nodiscard]] uint64_t finish() {
    unsigned char digest[digest_bytes];
    crypto_generichash_final(&state_, digest, sizeof digest);
    uint64_t hash = 0;
    std::memcpy(&hash, digest, sizeof hash);
    return hash | 1;
  }

 private:
  static constexpr size_t digest_bytes = 16;
  crypto_generichash_state state_;
};

}  // namespace

Error refused_overflow(const std::string &what) {
  return invalid_argument(what + " is more than the address space holds (count * size overflows)");
}

Error refused_block(const char *name, uint32_t peer, size_t count, size_t begin) {
  return refused_overflow("the block of rank " + std::to_string(peer) + " in " + name + " (" + std::to_string(count) +
                          " elements at " + std::to_string(begin) + ")");
}

Result<void> check_disjoint(const size_t *counts, const size_t *displacements, uint32_t rank_count) {
  if (rank_count <= pairwise_rank_count_max) {
    for (uint32_t a = 0; a < rank_count; ++a)
      for (uint32_t b = a + 1; b < rank_count; ++b)
        if (overlap(counts, displacements, a, b)) return overlapping(a, b);
    return {};
  }
  std::vector<uint32_t> order;
  for (uint32_t rank = 0; rank < rank_count; ++rank)
    if (counts[rank] != 0) order.push_back(rank);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return displacements[a] < displacements[b]; });
  for (size_t i = 1; i < order.size(); ++i)
    if (overlap(counts, displacements, order[i - 1], order[i])) return overlapping(order[i - 1], order[i]);
  return {};
}

Result<size_t> bytes_of(size_t count, rondo_type_t type) {
  const size_t size = rondo_type_size(type);
  if (size == 0)
    return invalid_argument("unknown type " + std::to_string(static_cast<int>(type)) +
                            "; known are: " + known_names(rondo_type_string));
  const auto bytes = checked_mul(count, size);
  if (!bytes) return refused_overflow(std::to_string(count) + " elements of " + rondo_type_string(type));
  return *bytes;
}

Result<size_t> times_ranks(size_t bytes, uint32_t rank_count) {
  const auto all = checked_mul<size_t>(bytes, rank_count);
  if (!all)
    return refused_overflow(std::to_string(bytes) + " bytes for each of " + std::to_string(rank_count) + " ranks");
  return *all;
}

Result<void> check_op(rondo_op_t op) {
  if (rondo_op_string(op) != nullptr) return {};
  return invalid_argument("unknown op " + std::to_string(static_cast<int>(op)) +
                          "; known are: " + known_names(rondo_op_string));
}

Error refused_peer(int peer, uint32_t rank_count) {
  return invalid_argument("peer is " + std::to_string(peer) + "; it must be a rank, 0 to " +
                          std::to_string(rank_count - 1));
}

Result<void> check_root(int root, uint32_t rank_count) {
  if (root >= 0 && static_cast<uint32_t>(root) < rank_count) return {};
  return invalid_argument("root is " + std::to_string(root) + "; it must be a rank, 0 to " +
                          std::to_string(rank_count - 1));
}

Result<void> check_rank(int rank, int size) {
  if (size < 1 || static_cast<uint32_t>(size) > rank_count_max)
    return invalid_argument("size is " + std::to_string(size) + "; a communicator has 1 to " +
                            std::to_string(rank_count_max) + " ranks");
  if (rank < 0 || rank >= size)
    return invalid_argument("rank is " + std::to_string(rank) + "; it must be 0 to " + std::to_string(size - 1));
  return {};
}

Error refused_buffer(const char *name, const void *buffer, size_t bytes) {
  if (buffer == nullptr)
    return invalid_argument(std::string(name) + " is NULL; it must hold " + std::to_string(bytes) + " bytes");
  return invalid_argument(std::string(name) + " with " + std::to_string(bytes) +
                          " bytes reaches past the end of the address space");
}

Error refused_type(rondo_op_t op, rondo_type_t made, rondo_type_t called) {
  return invalid_argument("op " + std::to_string(static_cast<int>(op)) + " was made for " + rondo_type_string(made) +
                          ", but the call has " + rondo_type_string(called) + "; make an op for each type");
}

Error refused_overlap() {
  return invalid_argument(
      "send and recv overlap, but not as an operation in place; rondo.h says at each collective what "
      "in place is");
}

Result<BlockLayout> even_blocks(size_t count, uint32_t rank_count, uint32_t rank, rondo_type_t type) {
  BlockLayout layout;
  RONDO_TRY_ASSIGN(layout.own_bytes, bytes_of(count, type));
  RONDO_TRY_ASSIGN(layout.end_bytes, times_ranks(layout.own_bytes, rank_count));
  layout.own_offset_bytes = layout.own_bytes * rank;
  layout.total_count = count * rank_count;
  return layout;
}

Result<BlockLayout> check_blocks(const size_t *counts, const size_t *displacements, uint32_t rank_count, uint32_t rank,
                                 rondo_type_t type) {
  BlockLayout layout;
  BlockHash hash;
  const size_t size = rondo_type_size(type);
  RONDO_TRY_ASSIGN(const BlockExtent extent,
                   lay_out("counts", counts, displacements, rank_count, type,
                           [&](uint32_t peer, size_t begin, size_t count) {
                             hash.add(begin, count);
                             if (peer != rank) return;
                             layout.own_offset_bytes = begin * size;
                             layout.own_bytes = count * size;
                           }));
  if (displacements != nullptr) RONDO_TRY(check_disjoint(counts, displacements, rank_count));
  layout.hash = hash.finish();
  layout.total_count = extent.total_count;
  layout.end_bytes = extent.end * size;
  return layout;
}

}  // namespace rondo
