// SPDX-License-Identifier: Apache-2.0
// Every type, operation, reducing collective and algorithm through the C interface, bit-equal to the order of rounding
// that docs/schedules.md gives. The order is written here a second time, from the documentation, with the tests' own
// arithmetic; nothing of the builders is used.
#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "src/proto/partition.h"
#include "tests/catch.h"
#include "tests/unit/combine_reference.h"
#include "tests/unit/ranks.h"

using combine_test::Bits;
using rondo_test::Ranks;

namespace {

/// The operands of one element, by rank, and how they are folded.
struct Folder {
  rondo_type_t type;
  rondo_op_t op;
  std::vector<Bits> operand;

  [[nodiscard]] uint32_t count() const { return static_cast<uint32_t>(operand.size()); }
  [[nodiscard]] Bits step(const std::vector<Bits> &values, bool last) const {
    return combine_test::combine_reference(type, op, values, last && op == RONDO_AVG ? count() : 0);
  }

  /// Round the ring, from `first` on.
  [[nodiscard]] Bits ring(uint32_t first) const {
    Bits value = operand[first];
    for (uint32_t k = 1; k < count(); ++k) value = step({operand[(first + k) % count()], value}, k + 1 == count());
    return value;
  }

  [[nodiscard]] Bits rank_order() const {
    Bits value = operand[0];
    for (uint32_t rank = 1; rank < count(); ++rank) value = step({value, operand[rank]}, rank + 1 == count());
    return value;
  }

  /// Halving: rank `rank`'s value once the exchanges down to `distance` are done.
  [[nodiscard]] Bits halved(uint32_t rank, uint32_t distance) const {
    const uint32_t core = std::bit_floor(count());
    if (distance == core)
      return core + rank < count() ? step({operand[rank], operand[core + rank]}, false) : operand[rank];
    return step({halved(rank, 2 * distance), halved(rank ^ distance, 2 * distance)}, distance == 1);
  }

  /// The tree below `position`; `rank_at` says who stands where. A child is a position whose parent this is.
  template <class RankAt>
  [[nodiscard]] Bits tree(uint32_t position, const RankAt &rank_at) const {
    std::vector<Bits> values{operand[rank_at(position)]};
    for (uint32_t child = 1; child < count(); ++child) {
      const uint32_t unit = child & (~child + 1);
      const uint32_t above = (child - unit) | 2 * unit;
      if ((above < count() ? above : child - unit) == position) values.push_back(tree(child, rank_at));
    }
    return values.size() == 1 && position != 0 ? values[0] : step(values, position == 0);
  }
};

struct Case {
  rondo_collective_t collective;
  rondo_algorithm_t algorithm;
  rondo_type_t type;
  rondo_op_t op;
  uint32_t rank_count;
  uint32_t root;
  size_t count;
};

/// Who stands at `position` of the tree of a channel.
uint32_t tree_rank(const Case &it, uint32_t channel, uint32_t position) {
  const uint32_t n = it.rank_count;
  if (it.collective != RONDO_REDUCE) {
    if (channel % 2 == 0) return position;
    return n % 2 == 0 ? n - 1 - position : (position + n - 1) % n;
  }
  uint32_t distance = position;
  if (channel % 2 == 1 && position != 0) distance = n % 2 == 1 ? n - position : (position + n - 3) % (n - 1) + 1;
  return (it.root + distance) % n;
}

Bits expected(const Case &it, const Folder &folder, uint32_t channel, uint32_t chunk) {
  if (it.rank_count == 1) return folder.step({folder.operand[0]}, true);
  switch (it.algorithm) {
    case RONDO_ALGORITHM_RING:
      return folder.ring(((it.collective == RONDO_REDUCE ? it.root : chunk) + 1) % it.rank_count);
    case RONDO_ALGORITHM_TREE:
      return folder.tree(0, [&](uint32_t position) { return tree_rank(it, channel, position); });
    case RONDO_ALGORITHM_HALVING_DOUBLING:
      return folder.halved(chunk, 1);
    default:
      return folder.rank_order();
  }
}

rondo::Partition partition_of(const Case &it, const rondo_plan_info_t &plan, uint32_t channel,
                       const std::vector<rondo::Range> &blocks) {
  const auto size = static_cast<uint32_t>(rondo_type_size(it.type));
  rondo::Partition partition;
  partition.whole = {0, it.count};
  if (it.collective == RONDO_REDUCE_SCATTER) partition.blocks = blocks.data();
  if (it.algorithm == RONDO_ALGORITHM_RING && it.collective != RONDO_REDUCE) partition.chunk_count = it.rank_count;
  if (it.algorithm == RONDO_ALGORITHM_TWO_SHOT) partition.chunk_count = it.rank_count;
  if (it.algorithm == RONDO_ALGORITHM_HALVING_DOUBLING) partition.chunk_count = std::bit_floor(it.rank_count);
  if (partition.blocks != nullptr) partition.chunk_count = it.rank_count;
  partition.channel = channel;
  partition.channel_count = plan.channels;
  partition.align_elements = 64 / size;
  partition.chunk_elements = plan.chunk_bytes / size;
  partition.tile_count = partition.count_tiles();
  return partition;
}

using Buffer = std::vector<unsigned char>;

Bits element_at(const Buffer &buffer, size_t offset, size_t index, size_t size) {
  Bits bits = 0;
  std::memcpy(&bits, buffer.data() + offset + index * size, size);
  return bits;
}

/// The result of every element of the logical vector.
std::vector<Bits> expected_vector(const Case &it, const rondo_plan_info_t &plan, const std::vector<Buffer> &sends,
                                  size_t offset) {
  const size_t size = rondo_type_size(it.type);
  const size_t all = it.collective == RONDO_REDUCE_SCATTER ? it.count * it.rank_count : it.count;
  std::vector<rondo::Range> blocks;
  for (uint32_t rank = 0; rank < it.rank_count; ++rank) blocks.push_back({rank * it.count, it.count});
  std::vector<Bits> result(all);
  Folder folder{it.type, it.op, std::vector<Bits>(it.rank_count)};
  for (uint32_t channel = 0; channel < plan.channels; ++channel) {
    const rondo::Partition partition = partition_of(it, plan, channel, blocks);
    for (uint64_t tile = 0; tile < partition.tile_count; ++tile)
      for (uint32_t chunk = 0; chunk < partition.chunk_count; ++chunk) {
        const rondo::Range range = partition.range(tile, chunk);
        for (uint64_t i = range.begin; i < range.begin + range.count; ++i) {
          for (uint32_t rank = 0; rank < it.rank_count; ++rank)
            folder.operand[rank] = element_at(sends[rank], offset, i, size);
          result[i] = expected(it, folder, channel, chunk);
        }
      }
  }
  return result;
}

/// Values near each other in size, so that rounding matters, and some special ones.
void fill(Buffer &buffer, size_t offset, size_t count, rondo_type_t type, std::mt19937_64 &random) {
  const size_t size = rondo_type_size(type);
  const combine_test::NumberTable *const table = combine_test::number_table(type);
  for (size_t i = 0; i < count; ++i) {
    Bits bits = random();
    const double value = (static_cast<double>(random() % 2'000'001) - 1e6) / 3e5;
    if (random() % 50 != 0) {
      if (table != nullptr) bits = table->encode(value);
      if (type == RONDO_FLOAT32) bits = combine_test::bits(static_cast<float>(value));
      if (type == RONDO_FLOAT64) bits = combine_test::bits(value);
    }
    std::memcpy(buffer.data() + offset + i * size, &bits, size);
  }
}

rondo_status_t call(const Case &it, int rank, rondo_comm_t comm, Buffer &send, Buffer &recv, size_t offset,
                    bool in_place) {
  const size_t own = static_cast<size_t>(rank) * it.count * rondo_type_size(it.type);
  unsigned char *const from = send.data() + offset;
  unsigned char *to = recv.data() + offset;
  if (in_place) to = it.collective == RONDO_REDUCE_SCATTER ? from + own : from;
  rondo_status_t status = RONDO_OK;
  if (it.collective == RONDO_ALL_REDUCE) status = rondo_all_reduce(from, to, it.count, it.type, it.op, comm, nullptr);
  if (it.collective == RONDO_REDUCE_SCATTER)
    status = rondo_reduce_scatter(from, to, it.count, it.type, it.op, comm, nullptr);
  if (it.collective == RONDO_REDUCE)
    status = rondo_reduce(from, to, it.count, it.type, it.op, static_cast<int>(it.root), comm, nullptr);
  if (in_place) std::memcpy(recv.data() + offset, to, it.count * rondo_type_size(it.type));
  return status;
}

/// How many elements of all ranks differ from what is documented; -1: a call failed.
int64_t wrong_elements(Ranks &ranks, const Case &it, std::mt19937_64 &random) {
  const size_t size = rondo_type_size(it.type);
  const size_t all = it.collective == RONDO_REDUCE_SCATTER ? it.count * it.rank_count : it.count;
  const size_t offset = random() % 2 == 0 ? 0 : 1 + random() % 63;  // no alignment is promised
  const bool in_place = random() % 2 == 0;
  rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
  if (rondo_comm_query_plan(ranks[0], it.collective, it.count, it.type, &plan) != RONDO_OK) return -1;
  std::vector<Buffer> sends(it.rank_count, Buffer(all * size + 64));
  std::vector<Buffer> recvs(it.rank_count, Buffer(it.count * size + 64, 0xAB));
  for (Buffer &send : sends) fill(send, offset, all, it.type, random);
  const std::vector<Bits> want = expected_vector(it, plan, sends, offset);
  const auto statuses = ranks.run([&](int rank, rondo_comm_t comm) {
    const auto own = static_cast<size_t>(rank);
    const bool is_receiver = it.collective != RONDO_REDUCE || own == it.root;
    return call(it, rank, comm, sends[own], recvs[own], offset, in_place && is_receiver);
  });
  if (!rondo_test::all_ok(statuses)) return -1;
  int64_t wrong = 0;
  for (uint32_t rank = 0; rank < it.rank_count; ++rank) {
    if (it.collective == RONDO_REDUCE && rank != it.root) {
      wrong += recvs[rank] != Buffer(it.count * size + 64, 0xAB) ? 1 : 0;
      continue;
    }
    const size_t first = it.collective == RONDO_REDUCE_SCATTER ? rank * it.count : 0;
    for (size_t i = 0; i < it.count; ++i)
      if (!combine_test::same_element(it.type, element_at(recvs[rank], offset, i, size), want[first + i])) ++wrong;
  }
  return wrong;
}

void check_algorithm(rondo_algorithm_t algorithm, std::mt19937_64 &random) {
  constexpr size_t counts[] = {0, 1, 7, 61, 262};
  for (uint32_t rank_count = 1; rank_count <= 5; ++rank_count) {
    rondo_config_t config = RONDO_CONFIG_INIT;
    config.algorithm = algorithm;
    config.protocol = rank_count % 2 == 0 ? RONDO_PROTOCOL_SIMPLE : RONDO_PROTOCOL_LL;
    config.channels = 1 + static_cast<uint32_t>(random() % 2);
    config.chunk_bytes = 128;
    Ranks ranks(static_cast<int>(rank_count), config);
    REQUIRE(ranks.status() == RONDO_OK);
    for (const auto collective : {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_REDUCE}) {
      rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
      if (rondo_comm_query_plan(ranks[0], collective, 1, RONDO_INT8, &plan) != RONDO_OK) continue;
      for (int type = 0; rondo_type_string(static_cast<rondo_type_t>(type)) != nullptr; ++type)
        for (int op = 0; rondo_op_string(static_cast<rondo_op_t>(op)) != nullptr; ++op)
          for (const size_t count : counts) {
            const Case it{collective, algorithm, static_cast<rondo_type_t>(type), static_cast<rondo_op_t>(op),
                          rank_count, static_cast<uint32_t>(random() % rank_count), count};
            CAPTURE(rondo_collective_string(collective), rondo_algorithm_string(algorithm), rondo_type_string(it.type),
                    rondo_op_string(it.op), rank_count, it.root, count, config.channels);
            CHECK(wrong_elements(ranks, it, random) == 0);
          }
    }
  }
}

}  // namespace

TEST_CASE("all types, operations and collectives: bit-equal to the documented order of rounding") {
  const uint64_t seed = combine_test::seed_from_environment();
  CAPTURE(seed);  // RONDO_SEED replays
  std::mt19937_64 random(seed);
  for (int algorithm = 1; rondo_algorithm_string(static_cast<rondo_algorithm_t>(algorithm)) != nullptr; ++algorithm)
    check_algorithm(static_cast<rondo_algorithm_t>(algorithm), random);
}
