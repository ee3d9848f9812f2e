// SPDX-License-Identifier: Apache-2.0
// Every type, operation, reducing collective and algorithm through the C interface, bit-equal to the order of rounding
// that docs/schedules.md gives (tests/fold_order.h), with the tests' own arithmetic; nothing of the builders is used.
#include <cstring>
#include <random>
#include <vector>

#include "src/proto/partition.h"
#include "tests/catch.h"
#include "tests/fold_order.h"
#include "tests/unit/combine_reference.h"
#include "tests/unit/ranks.h"

using combine_test::Bits;
using rondo::test::evaluate;
using rondo::test::Fold;
using rondo::test::fold_chunk_count;
using rondo::test::fold_order;
using rondo_test::Ranks;

namespace {

struct Case {
  rondo_collective_t collective;
  rondo_algorithm_t algorithm;
  rondo_type_t type;
  rondo_op_t op;
  uint32_t rank_count;
  uint32_t root;
  size_t count;
};

/// Folds one element's operands as documented; avg divides in the last step.
Bits expected(const Case &it, const Fold &fold, const std::vector<Bits> &operand) {
  const auto step = [&](const std::vector<Bits> &values, uint32_t divisor) {
    return combine_test::combine_reference(it.type, it.op, values, divisor);
  };
  const auto value_of = [&](const Fold &part) {
    return evaluate(
        part, [&](uint32_t rank) { return operand[rank]; },
        [&](const std::vector<Bits> &values) { return step(values, 0); });
  };
  std::vector<Bits> last;
  for (const Fold &part : fold.operands) last.push_back(value_of(part));
  if (last.empty()) last.push_back(operand[fold.rank]);
  return step(last, it.op == RONDO_AVG ? it.rank_count : 0);
}

rondo::Partition partition_of(const Case &it, const rondo_plan_info_t &plan, uint32_t channel,
                              const std::vector<rondo::Range> &blocks) {
  const auto size = static_cast<uint32_t>(rondo_type_size(it.type));
  rondo::Partition partition;
  partition.whole = {0, it.count};
  if (it.collective == RONDO_REDUCE_SCATTER) partition.blocks = blocks.data();
  partition.chunk_count = fold_chunk_count(it.algorithm, it.collective, it.rank_count);
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
  std::vector<Bits> operand(it.rank_count);
  for (uint32_t channel = 0; channel < plan.channels; ++channel) {
    const rondo::Partition partition = partition_of(it, plan, channel, blocks);
    for (uint64_t tile = 0; tile < partition.tile_count; ++tile)
      for (uint32_t chunk = 0; chunk < partition.chunk_count; ++chunk) {
        const rondo::Range range = partition.range(tile, chunk);
        const Fold fold = fold_order(it.algorithm, it.collective, it.rank_count, it.root, channel, chunk);
        for (uint64_t i = range.begin; i < range.begin + range.count; ++i) {
          for (uint32_t rank = 0; rank < it.rank_count; ++rank)
            operand[rank] = element_at(sends[rank], offset, i, size);
          result[i] = expected(it, fold, operand);
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
  constexpr size_t large_count = 2'003;  // a prime; with the sum only, whose order of rounding shows most
  for (uint32_t rank_count = 1; rank_count <= 5; ++rank_count) {
    rondo_config_t config = RONDO_CONFIG_INIT;
    config.algorithm = algorithm;
    config.protocol = random() % 2 == 0 ? RONDO_PROTOCOL_SIMPLE : RONDO_PROTOCOL_LL;
    config.channels = 1 + static_cast<uint32_t>(random() % 2);
    config.chunk_bytes = 128;
    Ranks ranks(static_cast<int>(rank_count), config);
    REQUIRE(ranks.status() == RONDO_OK);
    for (const auto collective : {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_REDUCE}) {
      rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
      if (rondo_comm_query_plan(ranks[0], collective, 1, RONDO_INT8, &plan) != RONDO_OK) continue;
      for (int type = 0; rondo_type_string(static_cast<rondo_type_t>(type)) != nullptr; ++type)
        for (int op = 0; rondo_op_string(static_cast<rondo_op_t>(op)) != nullptr; ++op)
          for (const size_t count : {counts[0], counts[1], counts[2], counts[3], op == 0 ? large_count : counts[4]}) {
            const Case it{collective,
                          algorithm,
                          static_cast<rondo_type_t>(type),
                          static_cast<rondo_op_t>(op),
                          rank_count,
                          static_cast<uint32_t>(random() % rank_count),
                          count};
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
