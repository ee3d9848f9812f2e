// SPDX-License-Identifier: Apache-2.0
// A premul sum gives the same bits as a plain sum of buffers that hold the rounded products. This holds for every type,
// collective, algorithm, protocol and kernel. The test computes the products by other means.
#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/ranks.h"
#include "tests/unit/reduction_reference.h"

using reduction_test::Bits;
using rondo_test::Ranks;

namespace {

using Buffer = std::vector<unsigned char>;

struct Case {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  bool uneven = false, in_place = false;
  rondo_residence_t residence = RONDO_RESIDENCE_HOST;
  rondo_type_t type = RONDO_FLOAT32;
  size_t block = 1;  ///< elements, of each rank
};

Bits element_at(const Buffer &buffer, size_t index, size_t size) {
  Bits bits = 0;
  std::memcpy(&bits, buffer.data() + index * size, size);
  return bits;
}

/// Returns a random element. Integers have any size. Floats have a moderate size, and their products need rounding.
Bits drawn(rondo_type_t type, std::mt19937_64 &random) {
  const double value = (static_cast<double>(random() % 2001) - 1000) / 300;
  if (type == RONDO_FLOAT32) return reduction_test::bits(static_cast<float>(value));
  if (type == RONDO_FLOAT64) return reduction_test::bits(value);
  const reduction_test::NumberTable *const table = reduction_test::number_table(type);
  return table != nullptr ? table->encode(value) : random();
}

Buffer drawn_buffer(rondo_type_t type, size_t count, std::mt19937_64 &random) {
  const size_t size = rondo_type_size(type);
  Buffer buffer(count * size);
  for (size_t i = 0; i < count; ++i) {
    const Bits bits = drawn(type, random);
    std::memcpy(buffer.data() + i * size, &bits, size);
  }
  return buffer;
}

Buffer products(rondo_type_t type, const Buffer &operands, const Buffer &factor) {
  const size_t size = rondo_type_size(type);
  Buffer result = operands;
  for (size_t i = 0; i < operands.size() / size; ++i) {
    const Bits pair[] = {element_at(operands, i, size), element_at(factor, 0, size)};
    const Bits product = reduction_test::reduction_reference(type, RONDO_PROD, pair, 0);
    std::memcpy(result.data() + i * size, &product, size);
  }
  return result;
}

/// Runs the case on buffers of `size` blocks. Returns the received data, or nothing after a failure.
std::optional<Buffer> run(const Case &it, Buffer send, rondo_op_t op, int rank, int size,
                          rondo_comm_t comm) {
  const size_t bytes = rondo_type_size(it.type), ranks = static_cast<size_t>(size), own = static_cast<size_t>(rank);
  const size_t all = it.block * ranks;
  std::vector<size_t> counts(ranks, it.block);
  if (it.uneven) counts[0] += counts[ranks - 1], counts[ranks - 1] = ranks == 1 ? it.block : 0;
  size_t begin = 0;
  for (size_t before = 0; before < own; ++before) begin += counts[before];
  const bool scatters = it.collective == RONDO_REDUCE_SCATTER;
  const bool receives = it.collective != RONDO_REDUCE || rank == size - 1;
  const Buffer given = send;
  Buffer recv((scatters ? counts[own] : all) * bytes);
  unsigned char *const to = !it.in_place || !receives ? recv.data() : send.data() + (scatters ? begin * bytes : 0);
  rondo_status_t status = RONDO_OK;
  if (it.collective == RONDO_ALL_REDUCE) status = rondo_all_reduce(send.data(), to, all, it.type, op, comm, nullptr);
  else if (!scatters) status = rondo_reduce(send.data(), to, all, it.type, op, size - 1, comm, nullptr);
  else if (it.uneven)
    status = rondo_reduce_scatter_v(send.data(), to, counts.data(), it.type, op, comm, nullptr);
  else status = rondo_reduce_scatter(send.data(), to, it.block, it.type, op, comm, nullptr);
  if (status != RONDO_OK) return std::nullopt;
  const bool keeps_send = to < send.data() || to >= send.data() + send.size();
  if (keeps_send && send != given) return std::nullopt;
  if (!receives) return Buffer();
  return Buffer(to, to + recv.size());
}

/// Returns how many ranks failed, or did not receive the sum of the products.
int wrong_ranks(Ranks &ranks, const Case &it, std::mt19937_64 &random) {
  const auto size = static_cast<size_t>(ranks.size());
  std::vector<Buffer> sends, factors;
  for (size_t rank = 0; rank < size; ++rank) {
    sends.push_back(drawn_buffer(it.type, it.block * size, random));
    factors.push_back(drawn_buffer(it.type, 1, random));
  }
  const auto results = ranks.each<int>([&](int rank, rondo_comm_t comm) {
    const auto own = static_cast<size_t>(rank);
    Buffer scalar = factors[own];
    rondo_op_t op = RONDO_SUM;
    if (rondo_op_create_premul_sum(&op, scalar.data(), it.type, it.residence, comm) != RONDO_OK) return 0;
    if (it.residence == RONDO_RESIDENCE_HOST) std::fill(scalar.begin(), scalar.end(), 0x5A);  // the library has read it
    const auto got = run(it, sends[own], op, rank, ranks.size(), comm);
    const auto wanted = run(it, products(it.type, sends[own], factors[own]), RONDO_SUM, rank, ranks.size(), comm);
    return static_cast<int>(rondo_op_destroy(op, comm) == RONDO_OK && wanted.has_value() && got == wanted);
  });
  return static_cast<int>(std::count(results.begin(), results.end(), 0));
}

struct Way {
  rondo_algorithm_t algorithm;
  rondo_kernel_t kernel;
  rondo_protocol_t protocol;
};

constexpr Way ways[] = {
    {RONDO_ALGORITHM_AUTO, RONDO_KERNEL_AUTO, RONDO_PROTOCOL_AUTO},
    {RONDO_ALGORITHM_RING, RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_SIMPLE},
    {RONDO_ALGORITHM_TREE, RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_LL},
    {RONDO_ALGORITHM_ONE_SHOT, RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_SIMPLE},
    {RONDO_ALGORITHM_ONE_SHOT, RONDO_KERNEL_LOAD_STORE, RONDO_PROTOCOL_AUTO},
    {RONDO_ALGORITHM_TWO_SHOT, RONDO_KERNEL_LOAD_STORE, RONDO_PROTOCOL_AUTO},
    {RONDO_ALGORITHM_RING, RONDO_KERNEL_LOAD_STORE, RONDO_PROTOCOL_AUTO},
};

}  // namespace

TEST_CASE("premul sum: the bits of a sum of the products, for every type, collective and way") {
  const uint64_t seed = reduction_test::seed_from_environment();
  CAPTURE(seed);  // RONDO_SEED selects it again
  std::mt19937_64 random(seed);
  rondo_test::GateShare share("types and collectives of premul sums");
  for (const Way &way : ways)
    for (const int rank_count : {1, 2, 3}) {
      rondo_config_t config = RONDO_CONFIG_INIT;
      config.algorithm = way.algorithm;
      config.kernel = way.kernel;
      config.protocol = way.protocol;
      Ranks ranks(rank_count, config);
      REQUIRE(ranks.status() == RONDO_OK);
      for (const auto collective : {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_REDUCE}) {
        share.skip();  // so that the next collective has other types in the same quarter
        for (int type = RONDO_INT8; type <= RONDO_FLOAT8_E5M2; ++type) {
          if (!share.has_next()) continue;
          rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
          if (rondo_comm_query_plan(ranks[0], collective, 1, RONDO_INT8, &plan) != RONDO_OK) continue;
          const bool uneven = collective == RONDO_REDUCE_SCATTER && random() % 2 == 0;
          const auto residence = random() % 2 == 0 ? RONDO_RESIDENCE_HOST : RONDO_RESIDENCE_DEVICE;
          const size_t blocks[] = {0, 1, 37, 2003};
          const Case it{collective, uneven, random() % 2 == 0, residence, static_cast<rondo_type_t>(type),
                        blocks[random() % 4]};
          CAPTURE(rank_count, rondo_algorithm_string(way.algorithm), rondo_kernel_string(way.kernel),
                  rondo_collective_string(collective), rondo_type_string(it.type), it.block, it.uneven, it.in_place,
                  it.residence);
          CHECK(wrong_ranks(ranks, it, random) == 0);
        }
      }
    }
}

TEST_CASE("premul sum: peers that read buffers in place read scaled elements") {
  Ranks ranks(2);
  REQUIRE(ranks.status() == RONDO_OK);
  constexpr size_t count = 1 << 20;
  const auto results = ranks.each<int>([&](int rank, rondo_comm_t comm) {
    void *memory = nullptr;
    if (rondo_mem_alloc(&memory, 2 * count * sizeof(float)) != RONDO_OK) return 0;
    auto *const send = static_cast<float *>(memory), *const recv = send + count;
    for (size_t i = 0; i < count; ++i) send[i] = static_cast<float>(i % 1000);
    const float factor = rank == 0 ? 2.0f : -0.5f;
    rondo_op_t op = RONDO_SUM;
    bool right = rondo_op_create_premul_sum(&op, &factor, RONDO_FLOAT32, RONDO_RESIDENCE_HOST, comm) == RONDO_OK;
    for (float *const to : {recv, send}) {  // then in place
      right = right && rondo_all_reduce(send, to, count, RONDO_FLOAT32, op, comm, nullptr) == RONDO_OK;
      for (size_t i = 0; i < count; ++i) right = right && to[i] == 1.5f * static_cast<float>(i % 1000);
    }
    return static_cast<int>(rondo_mem_free(memory) == RONDO_OK && right);
  });
  CHECK(results == std::vector<int>{1, 1});
}

TEST_CASE("premul sum: a factor by its address is read whenever an operation runs, and a group keeps an ended one") {
  Ranks ranks(2);
  REQUIRE(ranks.status() == RONDO_OK);
  const auto results = ranks.each<int>([&](int, rondo_comm_t comm) {
    double factor = 1, value = 3, sum = 0;
    rondo_op_t op = RONDO_SUM, later = RONDO_SUM;
    bool right =
        rondo_op_create_premul_sum(&op, &factor, RONDO_FLOAT64, RONDO_RESIDENCE_DEVICE, comm) == RONDO_OK;
    for (factor = 1; factor < 4; ++factor) {
      right = right && rondo_all_reduce(&value, &sum, 1, RONDO_FLOAT64, op, comm, nullptr) == RONDO_OK;
      right = right && sum == 6 * factor;
    }
    rondo_group_begin();
    right = right && rondo_all_reduce(&value, &sum, 1, RONDO_FLOAT64, op, comm, nullptr) == RONDO_OK;
    right = right && rondo_op_destroy(op, comm) == RONDO_OK;
    // The next operation uses the slot of the operation that has ended, with another factor.
    const double other = 100;
    right = right &&
            rondo_op_create_premul_sum(&later, &other, RONDO_FLOAT64, RONDO_RESIDENCE_HOST, comm) == RONDO_OK;
    right = rondo_group_end() == RONDO_OK && right && sum == 6 * factor && op != later;
    return static_cast<int>(right);
  });
  CHECK(results == std::vector<int>{1, 1});
}

TEST_CASE("premul sum: ranks that reduce by another operation are named") {
  Ranks ranks(2);
  REQUIRE(ranks.status() == RONDO_OK);
  std::vector<std::string> messages(2);
  const auto statuses = ranks.run([&](int rank, rondo_comm_t comm) {
    const float factor = 2, value = 1;
    float sum = 0;
    rondo_op_t op = RONDO_SUM;
    if (rank == 1)
      if (const auto made = rondo_op_create_premul_sum(&op, &factor, RONDO_FLOAT32, RONDO_RESIDENCE_HOST, comm);
          made != RONDO_OK)
        return made;
    const auto status = rondo_all_reduce(&value, &sum, 1, RONDO_FLOAT32, op, comm, nullptr);
    messages[static_cast<size_t>(rank)] = rondo_test::error_message(comm);
    return status;
  });
  for (size_t rank = 0; rank < 2; ++rank) {
    CAPTURE(messages[rank]);
    CHECK(statuses[rank] == RONDO_ERROR_MISMATCH);
    CHECK(messages[rank].find("(sum)") != std::string::npos);
    CHECK(messages[rank].find("(premul_sum)") != std::string::npos);
  }
}

TEST_CASE("premul sum: wrong arguments are refused, and say why") {
  Ranks ranks(1), others(1);
  const rondo_comm_t comm = ranks[0];
  const float factor = 2, value = 1;
  float sum = 0;
  rondo_op_t op = RONDO_SUM;
  const auto refused = [](rondo_status_t status, const char *words) {
    CAPTURE(rondo_test::error_message(), words);
    CHECK(status == RONDO_ERROR_INVALID_ARGUMENT);
    CHECK(rondo_test::error_message().find(words) != std::string::npos);
  };
  const auto create = [&](rondo_op_t *to, const void *scalar, int type, int residence) {
    return rondo_op_create_premul_sum(to, scalar, static_cast<rondo_type_t>(type),
                                      static_cast<rondo_residence_t>(residence), comm);
  };
  const auto reduce = [&](rondo_op_t by, rondo_type_t type) {
    return rondo_all_reduce(&value, &sum, 1, type, by, comm, nullptr);
  };
  refused(create(nullptr, &factor, RONDO_FLOAT32, RONDO_RESIDENCE_HOST), "op is NULL");
  refused(create(&op, nullptr, RONDO_FLOAT32, RONDO_RESIDENCE_HOST), "scalar is NULL");
  refused(create(&op, nullptr, RONDO_FLOAT32, RONDO_RESIDENCE_DEVICE), "scalar is NULL");
  refused(create(&op, &factor, 12, RONDO_RESIDENCE_HOST), "unknown type 12");
  refused(create(&op, &factor, RONDO_FLOAT32, 1 + RONDO_RESIDENCE_DEVICE), "unknown residence 2");
  CHECK(rondo_op_create_premul_sum(&op, &factor, RONDO_FLOAT32, RONDO_RESIDENCE_HOST, nullptr) ==
        RONDO_ERROR_INVALID_HANDLE);
  CHECK(op == RONDO_SUM);

  REQUIRE(create(&op, &factor, RONDO_FLOAT32, RONDO_RESIDENCE_HOST) == RONDO_OK);
  CHECK(op >= RONDO_OP_DYNAMIC);
  CHECK(std::string(rondo_op_string(op)) == "premul_sum");
  refused(reduce(op, RONDO_INT32), "was made for float32, but the call has int32");
  refused(rondo_all_reduce(&value, &sum, 1, RONDO_FLOAT32, op, others[0], nullptr), "belongs to another communicator");
  refused(rondo_op_destroy(op, others[0]), "belongs to another communicator");
  refused(rondo_op_destroy(RONDO_SUM, comm), "cannot be destroyed");
  CHECK(reduce(op, RONDO_FLOAT32) == RONDO_OK);
  CHECK(sum == 2);
  REQUIRE(rondo_op_destroy(op, comm) == RONDO_OK);
  refused(reduce(op, RONDO_FLOAT32), "was destroyed, or never made");
  refused(rondo_op_destroy(op, comm), "was destroyed, or never made");
  refused(reduce(RONDO_OP_DYNAMIC, RONDO_FLOAT32), "was destroyed, or never made");
}

TEST_CASE("premul sum: places of ended operations are used again, and a communicator's end ends its operations") {
  Ranks ranks(1);
  const float factor = 2;
  rondo_op_t first = RONDO_SUM, op = RONDO_SUM;
  const auto create = [&](rondo_op_t *to) {
    return rondo_op_create_premul_sum(to, &factor, RONDO_FLOAT32, RONDO_RESIDENCE_HOST, ranks[0]);
  };
  REQUIRE(create(&first) == RONDO_OK);
  REQUIRE(rondo_op_destroy(first, ranks[0]) == RONDO_OK);
  constexpr int generations = (1 << 15) - 1;
  for (int round = 1; round < generations; ++round) {
    if (create(&op) != RONDO_OK) FAIL("operation " << round << " cannot be created");
    if (op == first) FAIL("a value came back after " << round << " operations");
    if (rondo_op_destroy(op, ranks[0]) != RONDO_OK) FAIL("operation " << round << " cannot be destroyed");
  }
  REQUIRE(create(&op) == RONDO_OK);
  CHECK(op == first);
  {
    Ranks ended(1);
    int made = 1;
    while (made < 1 << 16 &&
           rondo_op_create_premul_sum(&op, &factor, RONDO_FLOAT32, RONDO_RESIDENCE_HOST, ended[0]) == RONDO_OK)
      ++made;
    CHECK(made == 1 << 16);
    CHECK(rondo_op_create_premul_sum(&op, &factor, RONDO_FLOAT32, RONDO_RESIDENCE_HOST, ended[0]) ==
          RONDO_ERROR_OUT_OF_RESOURCES);
  }
  CHECK(create(&op) == RONDO_OK);
}
