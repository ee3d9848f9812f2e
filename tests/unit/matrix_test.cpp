// SPDX-License-Identifier: Apache-2.0
// Tests every type, operation, reducing collective and algorithm through the C interface. Results must have the bits of
// the documented order of rounding (docs/schedules.md, tests/reduction_order.h). The tests have their own arithmetic,
// and do not use the builders of schedules.
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "src/proto/partition.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/rank_order_reference.h"
#include "tests/unit/ranks.h"

using reduction_test::Bits;
using reduction_test::element_at;
using reduction_test::rank_order_reference;
using rondo::test::Reduction;
using rondo::test::reduce_chunk_count;
using rondo::test::reduction_order;
using rondo_test::Ranks;

namespace {

struct Case {
  rondo_collective_t collective;
  rondo_algorithm_t algorithm;
  rondo_type_t type;
  rondo_op_t op;
  uint32_t rank_count;
  uint32_t root;
  size_t count;         ///< elements of the whole call, or of a block in reduce-scatter
  bool uneven = false;  ///< reduce-scatter: by counts that differ from block to block
};

/// Returns how many elements the block of `rank` has.
size_t block_count(const Case &it, uint32_t rank) { return it.uneven ? it.count * (rank * 2 % 3) + rank : it.count; }

/// Returns the blocks of a reduce-scatter, one after the other.
std::vector<rondo::Range> blocks_of(const Case &it) {
  std::vector<rondo::Range> blocks;
  uint64_t next = 0;
  for (uint32_t rank = 0; rank < it.rank_count; ++rank) {
    blocks.push_back({next, block_count(it, rank)});
    next += block_count(it, rank);
  }
  return blocks;
}

/// Returns the number of elements of the logical vector.
size_t vector_count(const Case &it) {
  if (it.collective != RONDO_REDUCE_SCATTER) return it.count;
  const auto blocks = blocks_of(it);
  return blocks.back().begin + blocks.back().count;
}

/// Returns the part of the logical vector that `rank` receives.
rondo::Range received(const Case &it, uint32_t rank) {
  return it.collective == RONDO_REDUCE_SCATTER ? blocks_of(it)[rank] : rondo::Range{0, it.count};
}

rondo::Partition partition_of(const Case &it, const rondo_plan_info_t &plan, uint32_t channel,
                              const std::vector<rondo::Range> &blocks) {
  const auto size = static_cast<uint32_t>(rondo_type_size(it.type));
  rondo::Partition partition;
  partition.whole = {0, it.count};
  if (it.collective == RONDO_REDUCE_SCATTER) partition.blocks = blocks.data();
  partition.chunk_count = reduce_chunk_count(it.algorithm, it.collective, it.rank_count);
  partition.channel = channel;
  partition.channel_count = plan.channels;
  partition.align_elements = 64 / size;
  partition.chunk_elements = plan.chunk_bytes / size;
  partition.tile_count = partition.count_tiles();
  return partition;
}

using Buffer = std::vector<unsigned char>;

bool is_integer_mean(const Case &it) { return it.op == RONDO_AVG && it.type <= RONDO_UINT64; }

/// Returns the mean of integers, which depends on no order and no plan.
std::vector<Bits> expected_means(const Case &it, const std::vector<Buffer> &sends, size_t offset) {
  std::vector<Bits> result(vector_count(it)), operands(it.rank_count);
  for (size_t i = 0; i < result.size(); ++i) {
    for (uint32_t rank = 0; rank < it.rank_count; ++rank)
      operands[rank] = element_at(sends[rank].data() + offset, i, rondo_type_size(it.type));
    result[i] = reduction_test::mean_of_integers(it.type, operands);
  }
  return result;
}

/// Returns the result of every element of the logical vector.
std::vector<Bits> expected_vector(const Case &it, const rondo_plan_info_t &plan, const std::vector<Buffer> &sends,
                                  size_t offset) {
  if (is_integer_mean(it)) return expected_means(it, sends, offset);
  const size_t size = rondo_type_size(it.type);
  const std::vector<rondo::Range> blocks = blocks_of(it);
  std::vector<Bits> result(vector_count(it));
  for (uint32_t channel = 0; channel < plan.channels; ++channel) {
    const rondo::Partition partition = partition_of(it, plan, channel, blocks);
    for (uint64_t tile = 0; tile < partition.tile_count; ++tile)
      for (uint32_t chunk = 0; chunk < partition.chunk_count; ++chunk) {
        const rondo::Range range = partition.range(tile, chunk);
        const Reduction reduce =
            reduction_order(it.algorithm, it.collective, it.rank_count, it.root, channel, chunk, plan.kernel);
        for (uint64_t i = range.begin; i < range.begin + range.count; ++i)
          result[i] = rank_order_reference(it.type, it.op, it.rank_count, reduce,
                                     [&](uint32_t rank) { return element_at(sends[rank].data() + offset, i, size); });
      }
  }
  return result;
}

/// Fills the buffer with values of similar size, so that rounding matters, and with some special ones.
void fill(Buffer &buffer, size_t offset, size_t count, rondo_type_t type, std::mt19937_64 &random) {
  const size_t size = rondo_type_size(type);
  const reduction_test::NumberTable *const table = reduction_test::number_table(type);
  for (size_t i = 0; i < count; ++i) {
    Bits bits = random();
    const double value = (static_cast<double>(random() % 2'000'001) - 1e6) / 3e5;
    if (random() % 50 != 0) {
      if (table != nullptr) bits = table->encode(value);
      if (type == RONDO_FLOAT32) bits = reduction_test::bits(static_cast<float>(value));
      if (type == RONDO_FLOAT64) bits = reduction_test::bits(value);
    }
    std::memcpy(buffer.data() + offset + i * size, &bits, size);
  }
}

rondo_status_t call(const Case &it, int rank, rondo_comm_t comm, Buffer &send, Buffer &recv, size_t offset,
                    bool in_place) {
  const rondo::Range mine = received(it, static_cast<uint32_t>(rank));
  const size_t own = mine.begin * rondo_type_size(it.type);
  unsigned char *const from = send.data() + offset;
  unsigned char *to = recv.data() + offset;
  if (in_place) to = it.collective == RONDO_REDUCE_SCATTER ? from + own : from;
  rondo_status_t status = RONDO_OK;
  if (it.collective == RONDO_ALL_REDUCE) status = rondo_all_reduce(from, to, it.count, it.type, it.op, comm, nullptr);
  std::vector<size_t> counts;
  for (const rondo::Range &block : blocks_of(it)) counts.push_back(block.count);
  if (it.collective == RONDO_REDUCE_SCATTER && it.uneven)
    status = rondo_reduce_scatter_v(from, to, counts.data(), it.type, it.op, comm, nullptr);
  if (it.collective == RONDO_REDUCE_SCATTER && !it.uneven)
    status = rondo_reduce_scatter(from, to, it.count, it.type, it.op, comm, nullptr);
  if (it.collective == RONDO_REDUCE)
    status = rondo_reduce(from, to, it.count, it.type, it.op, static_cast<int>(it.root), comm, nullptr);
  if (in_place) std::memcpy(recv.data() + offset, to, mine.count * rondo_type_size(it.type));
  return status;
}

/// A call, the buffers of all ranks, and what the call must write.
struct Work {
  Case it;
  size_t offset;
  bool in_place;
  std::vector<Buffer> sends, recvs;
  std::vector<Bits> want;
};

/// Draws the operands of a call, and computes the results that the pages promise.
Work prepare(Ranks &ranks, const Case &it, std::mt19937_64 &random) {
  const size_t size = rondo_type_size(it.type);
  const size_t all = vector_count(it);
  const size_t offset = random() % 2 == 0 ? 0 : 1 + random() % 63;  // no alignment is promised
  Work work{it, offset, random() % 2 == 0, {it.rank_count, Buffer(all * size + 64)}, {}, {}};
  rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
  // The plan of an uneven call depends only on the vector's size, so an even call with as many elements has it, too.
  const size_t planned = it.uneven ? (all + it.rank_count - 1) / it.rank_count : it.count;
  REQUIRE(rondo_comm_query_plan(ranks[0], it.collective, planned, it.type, &plan) == RONDO_OK);
  for (uint32_t rank = 0; rank < it.rank_count; ++rank)
    work.recvs.emplace_back(received(it, rank).count * size + 64, static_cast<unsigned char>(0xAB));
  for (Buffer &send : work.sends) fill(send, offset, all, it.type, random);
  work.want = expected_vector(it, plan, work.sends, offset);
  return work;
}

/// Lets each rank make all calls, one after another. Starting threads for each call would take longer than the calls.
bool call_all(Ranks &ranks, std::vector<Work> &works) {
  return rondo_test::all_ok(ranks.run([&](int rank, rondo_comm_t comm) {
    const auto own = static_cast<size_t>(rank);
    for (Work &work : works) {
      const bool is_receiver = work.it.collective != RONDO_REDUCE || own == work.it.root;
      const rondo_status_t status = call(work.it, rank, comm, work.sends[own], work.recvs[own], work.offset,
                                         work.in_place && is_receiver);
      if (status != RONDO_OK) return status;
    }
    return RONDO_OK;
  }));
}

/// Returns how many elements, on all ranks, differ from what the call must write.
uint64_t wrong_elements(const Work &work) {
  const Case &it = work.it;
  const size_t size = rondo_type_size(it.type);
  uint64_t wrong = 0;
  for (uint32_t rank = 0; rank < it.rank_count; ++rank) {
    if (it.collective == RONDO_REDUCE && rank != it.root) {
      wrong += work.recvs[rank] != Buffer(it.count * size + 64, 0xAB) ? 1 : 0;
      continue;
    }
    const rondo::Range mine = received(it, rank);
    for (size_t i = 0; i < mine.count; ++i)
      if (!reduction_test::same_element(it.type, element_at(work.recvs[rank].data() + work.offset, i, size),
                                        work.want[mine.begin + i]))
        ++wrong;
  }
  return wrong;
}

void check_algorithm(rondo_algorithm_t algorithm, rondo_protocol_t protocol, rondo_kernel_t kernel,
                     std::mt19937_64 &random) {
  constexpr size_t counts[] = {0, 1, 7, 61, 262};
  static auto share = rondo_test::GateShare::in_every_build("types, operations and counts");
  constexpr size_t large_count = 2'003;  // a prime; only for sums, which depend most on the order of rounding
  for (uint32_t rank_count = 1; rank_count <= (rondo_test::sanitized() ? 3 : 5); ++rank_count) {
    rondo_config_t config = RONDO_CONFIG_INIT;
    config.algorithm = algorithm;
    config.protocol = protocol;
    config.kernel = kernel;
    config.channels = kernel == RONDO_KERNEL_LOAD_STORE ? 1 : 1 + static_cast<uint32_t>(random() % 2);
    config.chunk_bytes = 128;
    Ranks ranks(static_cast<int>(rank_count), config);
    REQUIRE(ranks.status() == RONDO_OK);
    for (const auto collective : {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_REDUCE}) {
      rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
      if (rondo_comm_query_plan(ranks[0], collective, 1, RONDO_INT8, &plan) != RONDO_OK) continue;
      std::vector<Work> works;
      for (int type = 0; rondo_type_string(static_cast<rondo_type_t>(type)) != nullptr; ++type)
        for (int op = 0; rondo_op_string(static_cast<rondo_op_t>(op)) != nullptr; ++op)
          for (const size_t count : {counts[0], counts[1], counts[2], counts[3], op == 0 ? large_count : counts[4]}) {
            if (!share.has_next()) continue;
            const Case it{collective,
                          algorithm,
                          static_cast<rondo_type_t>(type),
                          static_cast<rondo_op_t>(op),
                          rank_count,
                          static_cast<uint32_t>(random() % rank_count),
                          count,
                          collective == RONDO_REDUCE_SCATTER && random() % 2 == 0};
            works.push_back(prepare(ranks, it, random));
          }
      share.skip();  // so that the next collective has other cases in the same quarter
      CAPTURE(rondo_collective_string(collective), rondo_algorithm_string(algorithm), rank_count, config.channels,
              protocol);
      REQUIRE(call_all(ranks, works));
      for (const Work &work : works) {
        const Case &it = work.it;
        CAPTURE(rondo_type_string(it.type), rondo_op_string(it.op), it.root, it.count, it.uneven);
        CHECK(wrong_elements(work) == 0);
      }
    }
  }
}

}  // namespace

TEST_CASE("all types, operations and collectives: bit-equal to the documented order of rounding") {
  const uint64_t seed = reduction_test::seed_from_environment();
  CAPTURE(seed);  // RONDO_SEED selects it again
  if (rondo_test::sanitized()) std::puts("skipped: 4 and 5 ranks: take a minute under a sanitizer; done without one");
  std::mt19937_64 random(seed);
  for (int algorithm = 1; rondo_algorithm_string(static_cast<rondo_algorithm_t>(algorithm)) != nullptr; ++algorithm)
    check_algorithm(static_cast<rondo_algorithm_t>(algorithm),
                    random() % 2 == 0 ? RONDO_PROTOCOL_SIMPLE : RONDO_PROTOCOL_LL,
                    RONDO_KERNEL_INTERPRETER, random);
}

TEST_CASE("load_store, all types and operations: bit-equal to the documented order of rounding") {
  const uint64_t seed = reduction_test::seed_from_environment();
  CAPTURE(seed);  // RONDO_SEED selects it again
  std::mt19937_64 random(seed);
  for (const auto algorithm : {RONDO_ALGORITHM_ONE_SHOT, RONDO_ALGORITHM_TWO_SHOT, RONDO_ALGORITHM_RING})
    check_algorithm(algorithm, RONDO_PROTOCOL_AUTO, RONDO_KERNEL_LOAD_STORE, random);
}

TEST_CASE("load_store: one_shot and two_shot round sums and means of small floats once, at the end") {
  struct Example {
    rondo_type_t type;
    rondo_op_t op;
    double first, others, result;
  };
  // If each partial sum were rounded, 256 + 1 would stay 256 in bfloat16, and the sums of means would overflow.
  const Example examples[] = {{RONDO_BFLOAT16, RONDO_SUM, 256, 1, 260},
                              {RONDO_FLOAT16, RONDO_SUM, 2048, 1, 2052},
                              {RONDO_FLOAT8_E4M3, RONDO_SUM, 16, 0.5, 18},
                              {RONDO_FLOAT16, RONDO_AVG, 40'000, 40'000, 40'000},
                              {RONDO_FLOAT8_E4M3, RONDO_AVG, 256, 256, 256},
                              {RONDO_FLOAT8_E5M2, RONDO_AVG, 49'152, 49'152, 49'152}};
  for (const auto algorithm : {RONDO_ALGORITHM_ONE_SHOT, RONDO_ALGORITHM_TWO_SHOT}) {
    rondo_config_t config = RONDO_CONFIG_INIT;
    config.algorithm = algorithm;
    config.kernel = RONDO_KERNEL_LOAD_STORE;
    Ranks ranks(5, config);
    REQUIRE(ranks.status() == RONDO_OK);
    for (const Example &it : examples)
      for (const size_t count : {size_t{3}, size_t{200}}) {
        CAPTURE(rondo_algorithm_string(algorithm), rondo_type_string(it.type), rondo_op_string(it.op), count);
        const size_t size = rondo_type_size(it.type);
        const reduction_test::NumberTable &table = *reduction_test::number_table(it.type);
        std::vector<Buffer> recvs(5, Buffer(count * size));
        const auto statuses = ranks.run([&](int rank, rondo_comm_t comm) {
          Buffer send(count * size);
          const Bits bits = table.encode(rank == 0 ? it.first : it.others);
          for (size_t i = 0; i < count; ++i) std::memcpy(send.data() + i * size, &bits, size);
          return rondo_all_reduce(send.data(), recvs[static_cast<size_t>(rank)].data(), count, it.type, it.op, comm,
                                  nullptr);
        });
        REQUIRE(rondo_test::all_ok(statuses));
        size_t wrong = 0;
        for (const Buffer &recv : recvs)
          for (size_t i = 0; i < count; ++i)
            if (element_at(recv.data(), i, size) != table.encode(it.result)) ++wrong;
        CHECK(wrong == 0);
      }
  }
}
