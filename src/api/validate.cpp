// SPDX-License-Identifier: Apache-2.0
#include "src/api/validate.h"

#include <sodium.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/base/checked.h"
#include "src/base/names.h"

namespace rondo {
namespace {

Error overflow(const std::string &what) {
  return invalid_argument(what + " is more than the address space holds (count * size overflows)");
}

struct Block {
  size_t begin;
  size_t count;
  uint32_t rank;
};

Result<void> check_disjoint(std::vector<Block> blocks) {
  std::sort(blocks.begin(), blocks.end(), [](const Block &a, const Block &b) { return a.begin < b.begin; });
  const Block *before = nullptr;
  for (const Block &block : blocks) {
    if (block.count == 0) continue;
    if (before != nullptr && before->begin + before->count > block.begin)
      return invalid_argument("the blocks of ranks " + std::to_string(before->rank) + " and " +
                              std::to_string(block.rank) + " overlap; give disjoint displacements");
    before = &block;
  }
  return {};
}

uint64_t hash_of(const std::vector<Block> &blocks) {
  crypto_generichash_state state;
  uint64_t hash = 0;
  crypto_generichash_init(&state, nullptr, 0, 16);
  for (const Block &block : blocks) {
    const uint64_t words[2] = {block.begin, block.count};
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char *>(words), sizeof words);
  }
  unsigned char digest[16];
  crypto_generichash_final(&state, digest, sizeof digest);
  std::copy(digest, digest + sizeof hash, reinterpret_cast<unsigned char *>(&hash));
  return hash | 1;
}

}  // namespace

Result<size_t> bytes_of(size_t count, rondo_type_t type) {
  const size_t size = rondo_type_size(type);
  if (size == 0)
    return invalid_argument("unknown type " + std::to_string(static_cast<int>(type)) +
                            "; known are: " + known_names(rondo_type_string));
  const auto bytes = checked_mul(count, size);
  if (!bytes) return overflow(std::to_string(count) + " elements of " + rondo_type_string(type));
  return *bytes;
}

Result<size_t> times_ranks(size_t bytes, uint32_t rank_count) {
  const auto all = checked_mul<size_t>(bytes, rank_count);
  if (!all) return overflow(std::to_string(bytes) + " bytes for each of " + std::to_string(rank_count) + " ranks");
  return *all;
}

Result<void> check_op(rondo_op_t op) {
  if (rondo_op_string(op) != nullptr) return {};
  return invalid_argument("unknown op " + std::to_string(static_cast<int>(op)) +
                          "; known are: " + known_names(rondo_op_string));
}

Result<void> check_root(int root, uint32_t rank_count) {
  if (root >= 0 && static_cast<uint32_t>(root) < rank_count) return {};
  return invalid_argument("root is " + std::to_string(root) + "; it must be a rank, 0 to " +
                          std::to_string(rank_count - 1));
}

Result<void> check_buffer(const char *name, const void *buffer, size_t bytes) {
  if (bytes == 0) return {};
  if (buffer == nullptr)
    return invalid_argument(std::string(name) + " is NULL; it must hold " + std::to_string(bytes) + " bytes");
  if (!checked_add<uintptr_t>(reinterpret_cast<uintptr_t>(buffer), bytes))
    return invalid_argument(std::string(name) + " with " + std::to_string(bytes) +
                            " bytes reaches past the end of the address space");
  return {};
}

Result<void> check_overlap(const void *outer, size_t outer_bytes, const void *inner, size_t inner_bytes,
                           const void *in_place) {
  if (inner == in_place || inner_bytes == 0 || outer_bytes == 0) return {};
  const auto outer_begin = reinterpret_cast<uintptr_t>(outer);
  const auto inner_begin = reinterpret_cast<uintptr_t>(inner);
  if (inner_begin + inner_bytes <= outer_begin || outer_begin + outer_bytes <= inner_begin) return {};
  return invalid_argument(
      "send and recv overlap, but not as an operation in place; rondo.h says at each collective what "
      "in place is");
}

Result<BlockLayout> check_blocks(const size_t *counts, const size_t *displacements, uint32_t rank_count, uint32_t rank,
                                 rondo_type_t type) {
  if (counts == nullptr) return invalid_argument("counts is NULL; it must have an entry for each rank");
  RONDO_TRY_ASSIGN(const size_t size, bytes_of(1, type));
  std::vector<Block> blocks;
  BlockLayout layout;
  size_t end = 0;
  for (uint32_t peer = 0; peer < rank_count; ++peer) {
    const size_t begin = displacements != nullptr ? displacements[peer] : layout.total_count;
    const auto stop = checked_add(begin, counts[peer]);
    const auto total = checked_add(layout.total_count, counts[peer]);
    if (!stop || !total || !checked_mul(*stop, size))
      return overflow("the block of rank " + std::to_string(peer) + " (" + std::to_string(counts[peer]) +
                      " elements at " + std::to_string(begin) + ")");
    blocks.push_back({begin, counts[peer], peer});
    layout.total_count = *total;
    end = std::max(end, *stop);
  }
  layout.hash = hash_of(blocks);
  layout.end_bytes = end * size;
  layout.own_bytes = blocks[rank].count * size;
  layout.own_offset_bytes = blocks[rank].begin * size;
  RONDO_TRY(check_disjoint(std::move(blocks)));
  return layout;
}

}  // namespace rondo
