// SPDX-License-Identifier: Apache-2.0
// A premul sum on a device must have the same bits as a sum of the products, for every type, by kernels and by copies.
// A factor in device memory is read when an operation runs, and again by each replay of a graph.
#include "tests/gpu/device_ranks.h"
#include "tests/sanitized.h"
#include "tests/unit/reduction_reference.h"

using namespace rondo_test;
using namespace rondo::cuda;

namespace {

constexpr int premul_rank_count = 3;

/// Returns elements whose products need rounding, or wrap.
std::vector<std::byte> drawn(rondo_type_t type, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  const size_t size = rondo_type_size(type);
  const reduction_test::NumberTable *const table = reduction_test::number_table(type);
  std::vector<std::byte> bytes(count * size);
  for (size_t i = 0; i < count; ++i) {
    const double value = (static_cast<double>(random() % 2001) - 1000) / 300;
    uint64_t bits = table != nullptr ? table->encode(value) : random();
    if (type == RONDO_FLOAT32) bits = reduction_test::bits(static_cast<float>(value));
    if (type == RONDO_FLOAT64) bits = reduction_test::bits(value);
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return bytes;
}

std::vector<std::byte> products(rondo_type_t type, std::vector<std::byte> operands,
                                const std::vector<std::byte> &factor) {
  const size_t size = rondo_type_size(type);
  for (size_t at = 0; at < operands.size(); at += size) {
    uint64_t pair[2] = {};
    std::memcpy(&pair[0], operands.data() + at, size);
    std::memcpy(&pair[1], factor.data(), size);
    const uint64_t product = reduction_test::reduction_reference(type, RONDO_PROD, pair, 0);
    std::memcpy(operands.data() + at, &product, size);
  }
  return operands;
}

template <class Vector>
auto &at(Vector &all, int rank) {
  return all[static_cast<size_t>(rank)];
}

/// The buffers of all ranks, and each rank's factor on the device and on the host.
class Calls {
 public:
  Calls(DeviceRanks &group, size_t count, rondo_type_t type) : group_(group), count_(count), type_(type) {
    for (int rank = 0; rank < premul_rank_count; ++rank) {
      const World &world = group.world_of(rank);
      operands_.push_back(drawn(type, count, 10 + static_cast<uint64_t>(rank)));
      factors_.push_back(drawn(type, 1, 20 + static_cast<uint64_t>(rank)));
      scalars_.emplace_back(world, factors_.back());
      send_.emplace_back(world, operands_.back());
      recv_.emplace_back(world, std::vector<std::byte>(operands_.back().size()));
    }
  }

  [[nodiscard]] rondo_op_t op(int rank, rondo_residence_t residence) const {
    const bool here = residence == RONDO_RESIDENCE_HOST;
    const void *const scalar = here ? at(factors_, rank).data() : at(scalars_, rank).pointer();
    rondo_op_t made = RONDO_SUM;
    REQUIRE(rondo_op_create_premul_sum(&made, scalar, type_, residence, group_.ranks[rank]) == RONDO_OK);
    return made;
  }

  /// Draws another factor for each rank, and writes it to the device.
  void change_factors(uint64_t seed) {
    for (int rank = 0; rank < premul_rank_count; ++rank) {
      at(factors_, rank) = drawn(type_, 1, seed + static_cast<uint64_t>(rank));
      at(scalars_, rank).write(at(factors_, rank));
    }
  }

  /// Makes an all-reduce skip bytes at the beginning of the buffers, and use two elements less.
  void skip(size_t of_send, size_t of_recv) { send_skip_ = of_send, recv_skip_ = of_recv, left_out_ = 2; }

  [[nodiscard]] rondo_status_t call(rondo_collective_t collective, int rank, rondo_op_t op) const {
    const auto *const send = static_cast<const std::byte *>(at(send_, rank).pointer()) + send_skip_;
    auto *const recv = static_cast<std::byte *>(at(recv_, rank).pointer()) + recv_skip_;
    const rondo_comm_t comm = group_.ranks[rank];
    const rondo_stream_t stream = group_.stream(rank);
    if (collective == RONDO_ALL_REDUCE)
      return rondo_all_reduce(send, recv, count_ - left_out_, type_, op, comm, stream);
    if (collective == RONDO_REDUCE) return rondo_reduce(send, recv, count_, type_, op, 1, comm, stream);
    return rondo_reduce_scatter(send, recv, count_ / premul_rank_count, type_, op, comm, stream);
  }

  [[nodiscard]] std::vector<std::byte> received(rondo_collective_t collective, int rank) const {
    auto bytes = at(recv_, rank).read();
    if (collective == RONDO_REDUCE && rank != 1) bytes.clear();
    if (collective == RONDO_REDUCE_SCATTER) bytes.resize(bytes.size() / premul_rank_count);
    return bytes;
  }

  /// Compares what the ranks have received with a sum of the products.
  void check(rondo_collective_t collective) {
    std::vector<std::vector<std::byte>> got;
    for (int rank = 0; rank < premul_rank_count; ++rank) {
      got.push_back(received(collective, rank));
      CHECK(at(send_, rank).read() == at(operands_, rank));
      auto scaled = at(operands_, rank);
      const auto first = scaled.begin() + static_cast<std::ptrdiff_t>(send_skip_);
      const auto bytes = static_cast<std::ptrdiff_t>((count_ - left_out_) * rondo_type_size(type_));
      const auto made = products(type_, {first, first + bytes}, at(factors_, rank));
      std::copy(made.begin(), made.end(), first);
      at(send_, rank).write(scaled);
    }
    for (int rank = 0; rank < premul_rank_count; ++rank) REQUIRE(call(collective, rank, RONDO_SUM) == RONDO_OK);
    group_.complete();
    for (int rank = 0; rank < premul_rank_count; ++rank) {
      CAPTURE(rank, count_, rondo_type_string(type_), rondo_collective_string(collective));
      CHECK(got[static_cast<size_t>(rank)] == received(collective, rank));
      at(send_, rank).write(at(operands_, rank));
    }
  }

 private:
  DeviceRanks &group_;
  size_t count_, send_skip_ = 0, recv_skip_ = 0, left_out_ = 0;
  rondo_type_t type_;
  std::vector<std::vector<std::byte>> operands_, factors_;
  std::vector<DeviceBuffer> scalars_, send_, recv_;
};

void check_type(DeviceRanks &group, rondo_type_t type, rondo_test::GateShare *share = nullptr) {
  for (const auto collective : {RONDO_ALL_REDUCE, RONDO_REDUCE, RONDO_REDUCE_SCATTER}) {
    if (share != nullptr && !share->has_next()) continue;
    const bool on_host = (static_cast<int>(type) / 2 + static_cast<int>(collective)) % 2 == 0;
    const auto residence = on_host ? RONDO_RESIDENCE_HOST : RONDO_RESIDENCE_DEVICE;
    Calls calls(group, 3003, type);
    for (int rank = 0; rank < premul_rank_count; ++rank) {
      const rondo_op_t op = calls.op(rank, residence);
      REQUIRE(calls.call(collective, rank, op) == RONDO_OK);
      CHECK(rondo_op_destroy(op, group.ranks[rank]) == RONDO_OK);  // allowed, because the call is enqueued
    }
    group.complete();
    calls.check(collective);
  }
}

/// Checks buffers that begin within a vector of 16 bytes, at equal and different offsets, and within an element.
void check_alignment(DeviceRanks &group, rondo_type_t type) {
  const size_t size = rondo_type_size(type);
  for (const auto &[send, recv] : {std::pair{size, size}, std::pair{size, 2 * size}, std::pair{size_t{1}, size_t{1}}}) {
    Calls calls(group, 3003, type);
    calls.skip(send, recv);
    CAPTURE(send, recv);
    for (int rank = 0; rank < premul_rank_count; ++rank)
      REQUIRE(calls.call(RONDO_ALL_REDUCE, rank, calls.op(rank, RONDO_RESIDENCE_HOST)) == RONDO_OK);
    group.complete();
    calls.check(RONDO_ALL_REDUCE);
  }
}

}  // namespace

TEST_CASE("device: a premul sum has the bits of a sum of the products, for every type") {
  rondo_config_t config = on_device();
  config.device_executor = GENERATE(RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_DEVICE_EXECUTOR_COPY);
  config.kernel = GENERATE(RONDO_KERNEL_AUTO, RONDO_KERNEL_INTERPRETER);
  CAPTURE(rondo_device_executor_string(config.device_executor), rondo_kernel_string(config.kernel));
  DeviceRanks group(premul_rank_count, config);
  // Even a quarter of the cases has all collectives, both places of a factor, and nine types with each executor.
  rondo_test::GateShare share("types and collectives of premul sums on devices");
  for (int type = RONDO_INT8; type <= RONDO_FLOAT8_E5M2; ++type)
    check_type(group, static_cast<rondo_type_t>(type), &share);
  for (const auto type : {RONDO_UINT8, RONDO_INT32, RONDO_UINT64}) check_alignment(group, type);
}

TEST_CASE("device: ranks on two devices take a premul sum") {
  if (!has_two_devices("premul sums of ranks on two devices")) return;
  rondo_config_t config = on_device();
  config.device_executor = GENERATE(RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_DEVICE_EXECUTOR_COPY);
  CAPTURE(rondo_device_executor_string(config.device_executor));
  DeviceRanks group(on_devices({0, 1, 0}, config));
  for (const auto type : {RONDO_INT8, RONDO_BFLOAT16, RONDO_FLOAT64}) check_type(group, type);
}

TEST_CASE("device: each replay of a premul sum reads the factor on the device anew") {
  rondo_config_t config = on_device();
  config.device_executor = GENERATE(RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_DEVICE_EXECUTOR_COPY);
  const auto collective = GENERATE(RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER);
  CAPTURE(rondo_device_executor_string(config.device_executor), rondo_collective_string(collective));
  DeviceRanks group(premul_rank_count, config);
  Calls calls(group, 300, RONDO_FLOAT32);
  std::vector<GraphExec> graphs;
  for (int rank = 0; rank < premul_rank_count; ++rank)
    graphs.push_back(captured(group.world, group.stream(rank), [&] {
      const rondo_op_t op = calls.op(rank, RONDO_RESIDENCE_DEVICE);
      REQUIRE(calls.call(collective, rank, op) == RONDO_OK);
      CHECK(rondo_op_destroy(op, group.ranks[rank]) == RONDO_OK);
    }));
  for (uint64_t replay = 0; replay < 3; ++replay) {
    calls.change_factors(100 + 10 * replay);
    for (int rank = 0; rank < premul_rank_count; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
    group.complete();
    calls.check(collective);
  }
}

TEST_CASE("device: a factor by its address must be memory of the device") {
  DeviceRanks group(1);
  const float factor = 2;
  rondo_op_t op = RONDO_SUM;
  if (!in_software()) return;  // some real devices can read the host's stack
  CHECK(rondo_op_create_premul_sum(&op, &factor, RONDO_FLOAT32, RONDO_RESIDENCE_DEVICE, group.ranks[0]) ==
        RONDO_ERROR_INVALID_ARGUMENT);
  check_message({"scalar is host memory"});
}
