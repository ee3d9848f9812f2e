// SPDX-License-Identifier: Apache-2.0
// These tests compare results on device memory with the host executor's, bit for bit, for every type, operation,
// collective, algorithm and protocol. The same calls run on two communicators, one on a device and one on the host.
// RONDO_TEST_MATRIX: small (default), large (for a real device), tiny (for tools that slow kernels down).
// RONDO_TEST_MATRIX_RANKS: only this number of ranks runs. RONDO_TEST_DEVICES: ranks are on this many devices in turn.
// The test prints its progress, since a large matrix takes minutes.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "cuda/kernels/load_store_kernels.h"
#include "src/base/clock.h"
#include "src/plan/schedule.h"
#include "src/plan/tuner.h"
#include "tests/gpu/collective_buffers.h"
#include "tests/gpu/device_case.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/load_store_reference.h"
#include "tests/gpu/random_elements.h"
#include "tests/gpu/settings.h"
#include "tests/sanitized.h"

using namespace rondo::cuda;
using namespace rondo_test;
using rondo::test::Random;

namespace {

struct Matrix {
  std::vector<int> rank_counts;
  std::vector<size_t> counts;  ///< 0, 1, odd, not a multiple of 16 bytes, several slots
  size_t count_max = 0;
  size_t draws = 1;  ///< number of counts drawn for each combination
  bool all_types = true;
};

Matrix matrix_by_name(const std::string &name) {
  if (name == "large") return {{1, 2, 3, 4, 5, 8}, {0, 1, 7, 1021, 4096, 65'537, 300'007}, 300'007, 2, true};
  if (name == "tiny") return {{2}, {0, 1, 1021}, 1021, 1, false};
  REQUIRE(name == "small");
  return {{1, 2, 3}, {0, 1, 7, 1021, 5003}, 5003, 1, true};
}

Matrix matrix_of_environment() {
  const char *const name = std::getenv("RONDO_TEST_MATRIX"), *const ranks = std::getenv("RONDO_TEST_MATRIX_RANKS");
  Matrix matrix = matrix_by_name(name == nullptr ? "small" : name);
  if (ranks != nullptr) matrix.rank_counts = {std::atoi(ranks)};
  REQUIRE((matrix.rank_counts.front() >= 1 && matrix.rank_counts.front() <= 8));
  return matrix;
}

/// Prints progress in lines like "ring by simple, 8 ranks: 130 calls in 4.2 s".
class Progress {
 public:
  Progress(const std::string &what, const size_t &call_count)
      : what_(what), call_count_(call_count), before_(call_count), begin_ns_(rondo::now_ns()) {}
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;
  ~Progress() {
    std::printf("%s: %zu calls in %.1f s\n", what_.c_str(), call_count_ - before_,
                static_cast<double>(rondo::now_ns() - begin_ns_) * 1e-9);
    std::fflush(stdout);
  }

 private:
  std::string what_;
  const size_t &call_count_;
  size_t before_;
  uint64_t begin_ns_;
};

/// Random elements of every type, made once. Buffers are composed of random pieces of them, because making each element
/// anew takes longer than the calls.
class Elements {
 public:
  explicit Elements(Random &random) {
    for (size_t type = 0; type < of_.size(); ++type) {
      const size_t element_bytes = rondo_type_size(static_cast<rondo_type_t>(type));
      of_[type].resize(count * element_bytes);
      for (size_t at = 0; at < of_[type].size(); at += element_bytes)
        rondo::test::put_random(static_cast<rondo_type_t>(type), &of_[type][at], random);
    }
  }
  /// Fills `bytes` bytes at `to`, which must be whole elements.
  void fill(rondo_type_t type, std::byte *to, size_t bytes, Random &random) const {
    const size_t element_bytes = rondo_type_size(type);
    for (size_t at = 0; at < bytes;) {
      const size_t piece = std::min(bytes - at, element_bytes * (1 + random() % piece_max));
      const size_t from = element_bytes * (random() % (count - piece_max));
      std::memcpy(to + at, &of_[static_cast<size_t>(type)][from], piece);
      at += piece;
    }
  }

 private:
  static constexpr size_t count = 1 << 16, piece_max = 1 << 11;
  std::array<std::vector<std::byte>, RONDO_FLOAT8_E5M2 + 1> of_;
};

// The largest all-reduce by load_store's one_shot, on one device and on several.
constexpr size_t one_shot_bytes_max = 64 << 10, pushed_bytes_max = 32 << 10;
bool is_load_store(rondo_algorithm_t algorithm) {
  return algorithm == RONDO_ALGORITHM_ONE_SHOT || algorithm == RONDO_ALGORITHM_TWO_SHOT;
}

constexpr size_t rubbish_bytes = 256;  // random bytes beside the data

/// A rank's two buffers, on the host and on the device.
struct RankBuffers {
  RankBuffers(const World &of_device, size_t bytes)
      : world(of_device), send(bytes), recv(bytes), memory(world.memory(2 * bytes)) {}
  [[nodiscard]] std::byte *device_send() const { return reinterpret_cast<std::byte *>(memory.get().object); }
  [[nodiscard]] std::byte *device_recv() const { return device_send() + send.size(); }

  const World &world;
  std::vector<std::byte> send, recv;
  DeviceMemory memory;
};

/// The way in which the plans of the device's ranks run.
struct Way {
  rondo_protocol_t protocol;
  rondo_kernel_t kernel = RONDO_KERNEL_INTERPRETER;

  [[nodiscard]] bool load_store() const { return kernel == RONDO_KERNEL_LOAD_STORE; }
  [[nodiscard]] const char *name() const {
    return load_store() ? rondo_kernel_string(kernel) : rondo_protocol_string(protocol);
  }
};

class Pair {
 public:
  Pair(const Worlds &worlds, int rank_count, size_t data_bytes, const rondo_config_t &host_config,
       const Way &device_way)
      : cu_(worlds.of(0).cu), host_(rank_count, host_config), algorithm_(host_config.algorithm),
        chunk_bytes_(host_config.chunk_bytes), device_way_(device_way) {
    rondo_config_t config = host_config;
    config.protocol = device_way.protocol;
    config.kernel = device_way.kernel;
    const std::vector configs = on_devices_in_turn(rank_count, config);
    for (const rondo_config_t &each : configs) {
      const World &world = worlds.of(each.device);
      streams_.push_back(world.another_stream());
      buffers_.emplace_back(world, data_bytes + 2 * rubbish_bytes);
    }
    device_.emplace(configs);
    if (host_.status() != RONDO_OK || device_->status() != RONDO_OK) FAIL(error_message());
  }

  void check(const DeviceCase &it, const Elements &elements, Random &random) {
    check_plan(it);
    const size_t element_bytes = rondo_type_size(it.type);
    const size_t filled_bytes = (used_bytes(it) - it.offset_bytes) / element_bytes * element_bytes;
    for (RankBuffers &buffers : buffers_) {
      for (auto *side : {&buffers.send, &buffers.recv})
        elements.fill(it.type, side->data() + it.offset_bytes, filled_bytes, random);
      copy(buffers, buffers.device_send(), buffers.send, looked_at_bytes(it));
      copy(buffers, buffers.device_recv(), buffers.recv, looked_at_bytes(it));
    }
    const auto enqueued = call_each(*device_, [&](int rank, rondo_comm_t comm) {
      const RankBuffers &buffers = buffers_[static_cast<size_t>(rank)];
      return call(it, rank, comm, stream(rank), buffers.device_send(), buffers.device_recv());
    });
    REQUIRE(all_ok(enqueued));
    if (device_way_.load_store() && !rondo::only_moves(it.collective) && rondo::test::is_small_float(it.type)) {
      reduce_rounding_once(it);
    } else {
      const auto statuses = host_.run([&](int rank, rondo_comm_t comm) {
        RankBuffers &buffers = buffers_[static_cast<size_t>(rank)];
        return call(it, rank, comm, nullptr, buffers.send.data(), buffers.recv.data());
      });
      REQUIRE(all_ok(statuses));
    }
    for (const Stream &each : streams_) CU_OK(cu_.stream_synchronize(each.get().object));
    for (const RankBuffers &buffers : buffers_) {
      CHECK(count_different(it, buffers.send, read(buffers, buffers.device_send(), looked_at_bytes(it))) == 0);
      CHECK(count_different(it, buffers.recv, read(buffers, buffers.device_recv(), looked_at_bytes(it))) == 0);
    }
    ++call_count;
  }

  /// Returns whether load_store runs the call by one_shot. Such a call posts its data, which limits its size.
  [[nodiscard]] bool posts(rondo_collective_t collective) const {
    return device_way_.load_store() && collective == RONDO_ALL_REDUCE && algorithm_ == RONDO_ALGORITHM_ONE_SHOT;
  }

  /// Returns false if the vector is large and chunks are small. Such a call would only repeat the same steps.
  [[nodiscard]] bool fits(size_t bytes) const { return bytes <= chunks_max * chunk_bytes_; }

  size_t call_count = 0;

 private:
  static constexpr size_t chunks_max = 2048;
  [[nodiscard]] CuStream stream(int rank) const { return streams_[static_cast<size_t>(rank)].get().object; }
  /// Returns the size of a buffer's part that random bytes fill: the offset, the data, and `rubbish_bytes` more.
  [[nodiscard]] size_t used_bytes(const DeviceCase &it) const {
    // If the collective has blocks, the data are one block for each rank.
    const size_t blocks = in_blocks(it.collective) ? static_cast<size_t>(host_.size()) : 1;
    return std::min(buffers_[0].send.size(),
                    rubbish_bytes + blocks * it.count * rondo_type_size(it.type) + it.offset_bytes);
  }
  /// Returns how many bytes of a buffer are copied and compared. No call writes the bytes after them.
  [[nodiscard]] size_t looked_at_bytes(const DeviceCase &it) const {
    return std::min(buffers_[0].send.size(), used_bytes(it) + rubbish_bytes);
  }
  /// Computes the host's results as load_store does, which rounds once. The host's schedules round after each rank.
  void reduce_rounding_once(const DeviceCase &it) {
    if (it.count == 0) return;  // a call of no elements has no memory
    const size_t element_bytes = rondo_type_size(it.type);
    const size_t blocks = in_blocks(it.collective) ? buffers_.size() : 1;
    std::vector<const std::byte *> operands;
    for (const RankBuffers &buffers : buffers_) operands.push_back(buffers.send.data() + it.offset_bytes);
    const auto all = rondo::test::reduce_rounding_once(it.type, it.op, operands, blocks * it.count);
    for (size_t rank = 0; rank < buffers_.size(); ++rank) {
      if (it.collective == RONDO_REDUCE && rank != static_cast<size_t>(it.root)) continue;
      const size_t block = blocks == 1 ? 0 : rank * it.count * element_bytes;
      std::byte *const send = buffers_[rank].send.data() + it.offset_bytes;
      std::byte *const to = it.in_place ? send + block : buffers_[rank].recv.data() + it.offset_bytes;
      std::memcpy(to, all.data() + block, it.count * element_bytes);
    }
  }
  /// Checks that the host and the device reduce in the same order.
  void check_plan(const DeviceCase &it) {
    rondo_plan_info_t host = RONDO_PLAN_INFO_INIT, device = RONDO_PLAN_INFO_INIT;
    REQUIRE(rondo_comm_query_plan(host_[0], it.collective, it.count, it.type, &host) == RONDO_OK);
    REQUIRE(rondo_comm_query_plan((*device_)[0], it.collective, it.count, it.type, &device) == RONDO_OK);
    REQUIRE((host.algorithm == device.algorithm && device.protocol == device_way_.protocol));
    if (device.kernel == RONDO_KERNEL_LOAD_STORE) return;  // it always reduces in rank order
    REQUIRE((host.channels == device.channels && host.chunk_bytes == device.chunk_bytes));
  }
  /// Copies `from` to the device, on the stream of the device's world, as read() copies back.
  void copy(const RankBuffers &of, std::byte *to, const std::vector<std::byte> &from, size_t bytes) const {
    CU_OK(cu_.memcpy_htod_async(reinterpret_cast<DevicePointer>(to), from.data(), bytes, of.world.stream()));
    CU_OK(cu_.stream_synchronize(of.world.stream()));
  }
  [[nodiscard]] std::vector<std::byte> read(const RankBuffers &of, const std::byte *from, size_t bytes) const {
    std::vector<std::byte> to(bytes);
    CU_OK(cu_.memcpy_dtoh_async(to.data(), reinterpret_cast<DevicePointer>(from), bytes, of.world.stream()));
    CU_OK(cu_.stream_synchronize(of.world.stream()));
    return to;
  }
  /// Returns how many of the compared elements differ. All NaNs are equal.
  [[nodiscard]] static size_t count_different(const DeviceCase &it, const std::vector<std::byte> &host,
                                              const std::vector<std::byte> &device) {
    if (std::memcmp(host.data(), device.data(), device.size()) == 0) return 0;
    const size_t element_bytes = rondo_type_size(it.type);
    size_t different = 0, at = it.offset_bytes;
    different +=
        static_cast<size_t>(!std::equal(host.begin(), host.begin() + static_cast<ptrdiff_t>(at), device.begin()));
    for (; at + element_bytes <= device.size(); at += element_bytes)
      different +=
          static_cast<size_t>(!std::equal(&host[at], &host[at] + element_bytes, &device[at]) &&
                              !(rondo::test::is_nan(it.type, &host[at]) && rondo::test::is_nan(it.type, &device[at])));
    return different;
  }

  const CudaDriver &cu_;
  std::vector<Stream> streams_;
  std::vector<RankBuffers> buffers_;
  Ranks host_;
  rondo_algorithm_t algorithm_;
  uint64_t chunk_bytes_;
  Way device_way_;
  std::optional<Ranks> device_;  ///< destroyed before the streams
};

/// Says whether the next case runs. The small matrix, for variants of devices, runs in full.
bool has_next_case(const Matrix &matrix) {
  static auto share = rondo_test::GateShare::in_every_build("types and operations of each algorithm");
  return !matrix.all_types || share.has_next();
}

void check(Pair &pair, DeviceCase it, const Matrix &matrix, int rank_count, const Elements &elements, Random &random) {
  const bool blocks = in_blocks(it.collective);
  std::vector<size_t> counts = matrix.counts;
  std::erase_if(counts, [&](size_t count) { return !pair.fits(count * rondo_type_size(it.type)); });
  const size_t element_bytes_max = it.op == RONDO_AVG ? 2 * sizeof(int64_t) : sizeof(double);  // a mean has two words
  const size_t bytes_max = devices_of_environment() > 1 ? pushed_bytes_max : one_shot_bytes_max;
  if (pair.posts(it.collective))
    std::erase_if(counts, [&](size_t count) { return count * element_bytes_max > bytes_max; });
  for (size_t draw = 0; draw < matrix.draws; ++draw) {
    it.count = counts[random() % counts.size()] / (blocks ? static_cast<size_t>(rank_count) : 1);
    it.root = static_cast<int>(random() % static_cast<uint64_t>(rank_count));
    it.in_place = random() % 2 == 0;
    it.offset_bytes = random() % 2 == 0 ? 0 : rondo_type_size(it.type) * (random() % 16);
    CAPTURE(rondo_collective_string(it.collective), rondo_type_string(it.type), rondo_op_string(it.op), it.count,
            it.root, it.in_place, it.offset_bytes);
    pair.check(it, elements, random);
  }
}

/// Checks every type and operation of all-reduce, and every other collective that the algorithm supports.
void check_all(Pair &pair, const rondo::Algorithm &algorithm, const Way &way, const Matrix &matrix,
               int rank_count, const Elements &elements, Random &random) {
  if (algorithm.supports(RONDO_ALL_REDUCE))
    for (int type = RONDO_INT8; type <= RONDO_FLOAT8_E5M2; ++type)
      for (int op = RONDO_SUM; op <= RONDO_AVG; ++op) {
        const bool few = type == RONDO_FLOAT32 || (type == RONDO_BFLOAT16 && op == RONDO_SUM);
        if (!matrix.all_types && !few) continue;
        if (has_next_case(matrix))
          check(pair, {RONDO_ALL_REDUCE, static_cast<rondo_type_t>(type), static_cast<rondo_op_t>(op)}, matrix,
                rank_count, elements, random);
      }
  for (const auto collective : {RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER, RONDO_BROADCAST, RONDO_REDUCE}) {
    for (const auto type : {RONDO_INT8, RONDO_BFLOAT16, RONDO_FLOAT32, RONDO_FLOAT64})
      for (const auto op : {RONDO_SUM, RONDO_AVG}) {
        if (op == RONDO_AVG && !way.load_store()) continue;
        if (way.load_store() && algorithm.id != rondo::load_store_algorithm(collective)) continue;
        if (algorithm.supports(collective) && has_next_case(matrix))
          check(pair, {collective, type, op}, matrix, rank_count, elements, random);
      }
    static_cast<void>(has_next_case(matrix));  // the next collective has other types in this quarter
  }
  static_cast<void>(has_next_case(matrix));  // the next algorithm has other types and operations in this quarter
}

void check_way(const Worlds &worlds, const rondo::Algorithm &algorithm, const Way &way,
               const Matrix &matrix, int rank_count, const Elements &elements, Random &random) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.algorithm = algorithm.id;
  config.protocol = way.protocol == RONDO_PROTOCOL_LL ? way.protocol : RONDO_PROTOCOL_SIMPLE;  // the host's protocol
  config.channels = 1 + static_cast<uint32_t>(random() % 3);
  config.chunk_bytes = uint64_t{64} << random() % 6;  // slots of the host and the device hold this size
  if (way.load_store()) config.chunk_bytes *= 16;  // fewer chunks, because all ranks meet at each
  config.timeout_ms = 60'000;
  CAPTURE(rank_count, rondo_algorithm_string(algorithm.id), way.name(), config.channels,
          config.chunk_bytes);
  Pair pair(worlds, rank_count, matrix.count_max * sizeof(double), config, way);
  const Progress progress(std::string(rondo_algorithm_string(algorithm.id)) + " by " + way.name() +
                              ", " + std::to_string(rank_count) + " ranks",
                          pair.call_count);
  check_all(pair, algorithm, way, matrix, rank_count, elements, random);
}

}  // namespace

TEST_CASE("device matrix: every combination is bit-equal to the host executor") {
  const Matrix matrix = matrix_of_environment();
  const uint64_t seed = rondo::test::seed_from_environment();
  CAPTURE(seed);
  Random random(seed);
  const Elements elements(random);
  // The worlds keep the contexts, because making a context takes longer than all calls of a combination.
  const Worlds worlds(on_devices_in_turn(devices_of_environment(), on_device()));
  // load_store takes at most this number of ranks. If ranks share launches, one kernel runs all of them.
  const auto load_store_ranks_max = static_cast<int>(calls_wait() ? rondo::device::ranks_per_kernel_max
                                                                  : rondo::device::load_store_rank_count_max);
  const bool share_memory = devices_of_environment() == 1 || has_peers(devices_of_environment());
  for (const int rank_count : matrix.rank_counts) {
    for (const rondo::Algorithm &algorithm : rondo::algorithms())
      for (const Way &way : {Way{RONDO_PROTOCOL_SIMPLE}, Way{RONDO_PROTOCOL_LL},
                             Way{RONDO_PROTOCOL_AUTO, RONDO_KERNEL_LOAD_STORE}}) {
        if (way.load_store() && (!share_memory || rank_count == 1 || rank_count > load_store_ranks_max ||
                                 !is_load_store(algorithm.id)))
          continue;
        check_way(worlds, algorithm, way, matrix, rank_count, elements, random);
      }
    static_cast<void>(has_next_case(matrix));  // the next number of ranks has other types and operations, too
  }
}
