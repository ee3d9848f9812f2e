// SPDX-License-Identifier: Apache-2.0
#include "src/plan/tuner.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "src/plan/schedule.h"
#include "src/plan/tuner_rows.h"

namespace rondo {
namespace {

// The largest sizes for one_shot on devices if no algorithm is requested. The second is for up to 8 ranks on one
// device: 64 KiB among 8 took 6.6 us by one_shot, but 9.0 us by two_shot. With more ranks, one_shot moves more bytes.
constexpr uint64_t device_one_shot_bytes_max = 32 * KiB, one_device_one_shot_bytes_max = 64 * KiB;
constexpr uint32_t one_device_one_shot_ranks_max = 8;

/// With load_store, the ranks of a host read data that each rank has written once. In one_shot, each rank reads all
/// data. In two_shot, each rank reads its part of all data, and then the results of the other ranks. In a ring, the
/// ranks add to sums that all ranks map, so cache lines move between cores less often. If a user requests an algorithm,
/// the chunk size is from the last row of that algorithm.
constexpr std::array load_store_table{
    //      too few cores  ranks  bytes     algorithm                 chunk
    LoadStoreRow{false, 2, 4 * KiB, RONDO_ALGORITHM_ONE_SHOT, 64 * KiB},
    LoadStoreRow{false, 2, any_bytes, RONDO_ALGORITHM_RING, 64 * KiB},
    LoadStoreRow{false, any_ranks, 4 * KiB, RONDO_ALGORITHM_ONE_SHOT, 64 * KiB},
    LoadStoreRow{false, any_ranks, any_bytes, RONDO_ALGORITHM_TWO_SHOT, 128 * KiB},
    LoadStoreRow{true, 8, 16 * KiB, RONDO_ALGORITHM_ONE_SHOT, 64 * KiB},
    LoadStoreRow{true, any_ranks, 4 * KiB, RONDO_ALGORITHM_ONE_SHOT, 64 * KiB},
    LoadStoreRow{true, any_ranks, 128 * KiB, RONDO_ALGORITHM_TWO_SHOT, 128 * KiB},
    LoadStoreRow{true, 4, any_bytes, RONDO_ALGORITHM_RING, 32 * KiB},
    LoadStoreRow{true, any_ranks, any_bytes, RONDO_ALGORITHM_RING, 64 * KiB},
};

/// Returns the row for a requested algorithm, or null if load_store does not have it.
const LoadStoreRow *row_of(rondo_algorithm_t algorithm, bool oversubscribed) {
  const LoadStoreRow *found = nullptr;
  for (const LoadStoreRow &row : load_store_table)
    if (row.algorithm == algorithm && row.oversubscribed == oversubscribed) found = &row;
  return found;
}

/// Returns the first row that fits. There always is one, because the table has rows for all sizes and numbers of ranks.
const LoadStoreRow *row_for(const TunerInput &input) {
  for (const LoadStoreRow &row : load_store_table)
    if (row.oversubscribed == input.oversubscribed && input.rank_count <= row.rank_count_max &&
        input.bytes <= row.bytes_max && (row.algorithm != RONDO_ALGORITHM_ONE_SHOT || input.bytes <= input.post_bytes))
      return &row;
  return nullptr;
}

uint64_t limit_exchange_chunk(const TunerInput &input, uint64_t wanted_bytes) {
  const uint64_t most = std::min(wanted_bytes, input.exchange_chunk_bytes) / chunk_align_bytes * chunk_align_bytes;
  return std::max(most, chunk_align_bytes);
}

/// The bytes that one thread block reads in shared buffers, on one device and on several. Calls above
/// shared_all_blocks_bytes use all blocks. The value for one device was measured on an H200. There, 128 KiB among 8
/// ranks took 10.6 us with 8 blocks, 11.6 us with 2, and 12.7 us with 1.
constexpr uint64_t one_device_block_bytes = 16 * KiB, shared_block_bytes = 64 * KiB;
constexpr uint64_t shared_all_blocks_bytes = 4 * MiB;
/// The bytes of one thread block in a one_shot: each thread has a word.
constexpr uint64_t post_block_bytes = 2 * KiB;

/// Returns whether kernels can read and write the ranks' own buffers.
bool shares_buffers(const TunerInput &input) {
  return input.buffers == BufferPlace::shared_device || shares_partly(input.buffers);
}

uint32_t exchange_channels_for(const TunerInput &input, bool one_shot) {
  if (!shares_buffers(input)) return one_shot ? 1 : input.exchange_channels;
  if (!one_shot && input.bytes > shared_all_blocks_bytes) return input.exchange_channels;
  const bool on_one_device = input.buffers == BufferPlace::shared_device;
  const uint64_t block_bytes =
      one_shot ? post_block_bytes : on_one_device ? one_device_block_bytes : shared_block_bytes;
  const uint64_t wanted = (input.bytes + block_bytes - 1) / block_bytes;
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted, 1, input.exchange_channels));
}

/// Fills in channels and chunk size if they are not requested. Chunks are as large as the areas of the exchange.
PlanChoice filled_up(const TunerInput &input, PlanChoice choice, bool one_shot) {
  choice.kernel = RONDO_KERNEL_LOAD_STORE;
  if (choice.channels == 0) choice.channels = exchange_channels_for(input, one_shot);
  choice.channels = std::min(choice.channels, input.exchange_channels);
  if (choice.chunk_bytes == 0) choice.chunk_bytes = input.exchange_chunk_bytes;
  choice.chunk_bytes = limit_exchange_chunk(input, choice.chunk_bytes);
  return choice;
}

/// Chooses for collectives other than all-reduce. Ranks on one device use load_store at any size. On an H200, calls of
/// 64 B to 32 KiB among 8 ranks took 21 to 26 us by load_store, and 28 to 101 us by the interpreter. On several
/// devices, load_store is used only above device_one_shot_bytes_max. That limit was not measured.
std::optional<PlanChoice> choose_for_other(const TunerInput &input, rondo_collective_t collective) {
  PlanChoice choice = input.overrides;
  const rondo_algorithm_t algorithm = load_store_algorithm(collective);
  const bool fits = choice.algorithm == RONDO_ALGORITHM_AUTO || choice.algorithm == algorithm;
  if (input.uneven_blocks || !fits || algorithm == RONDO_ALGORITHM_AUTO) return {};
  const bool is_short = input.buffers != BufferPlace::shared_device && input.bytes <= device_one_shot_bytes_max;
  if (choice.kernel == RONDO_KERNEL_AUTO && is_short) return {};
  choice.algorithm = algorithm;
  return filled_up(input, choice, false);
}

/// Returns whether an all-reduce of this size uses one_shot.
bool goes_by_one_shot(const TunerInput &input) {
  const bool longer =
      input.buffers == BufferPlace::shared_device && input.rank_count <= one_device_one_shot_ranks_max;
  return input.bytes <= std::min(input.post_bytes, longer ? one_device_one_shot_bytes_max : device_one_shot_bytes_max);
}

/// Chooses load_store by kernels of a device. If all ranks share their buffers, the choice follows from counted
/// accesses (docs/lab/gpu-budgets.md). If they do not, nothing was measured, so load_store is used only if it is
/// requested.
std::optional<PlanChoice> choose_load_store_on_device(const TunerInput &input, rondo_collective_t collective) {
  const PlanChoice &wanted = input.overrides;
  const bool can = input.post_bytes != 0 && input.rank_count >= 2;
  const bool by_itself = shares_buffers(input) && wanted.kernel == RONDO_KERNEL_AUTO;
  if ((wanted.kernel != RONDO_KERNEL_LOAD_STORE && !by_itself) || wanted.protocol != RONDO_PROTOCOL_AUTO || !can)
    return {};
  if (collective != RONDO_ALL_REDUCE) return choose_for_other(input, collective);
  PlanChoice choice = wanted;
  if (choice.algorithm == RONDO_ALGORITHM_AUTO)
    choice.algorithm = goes_by_one_shot(input) ? RONDO_ALGORITHM_ONE_SHOT : RONDO_ALGORITHM_TWO_SHOT;
  const bool one_shot = choice.algorithm == RONDO_ALGORITHM_ONE_SHOT;
  if (!one_shot && choice.algorithm != RONDO_ALGORITHM_TWO_SHOT) return {};
  if (one_shot && input.bytes > input.post_bytes) return {};
  return filled_up(input, choice, one_shot);
}

}  // namespace

std::span<const LoadStoreRow> load_store_rows() { return load_store_table; }

std::optional<PlanChoice> choose_load_store(const TunerInput &input, rondo_collective_t collective) {
  if (input.exchange_channels != 0) return choose_load_store_on_device(input, collective);
  const PlanChoice &wanted = input.overrides;
  const bool asked_otherwise =
      wanted.protocol != RONDO_PROTOCOL_AUTO || wanted.kernel == RONDO_KERNEL_INTERPRETER || wanted.channels > 1;
  if (asked_otherwise || input.post_bytes == 0 || input.rank_count < 2 || collective != RONDO_ALL_REDUCE) return {};
  const bool free = wanted.algorithm == RONDO_ALGORITHM_AUTO;
  const LoadStoreRow *const row = free ? row_for(input) : row_of(wanted.algorithm, input.oversubscribed);
  if (row == nullptr) return {};
  if (row->algorithm == RONDO_ALGORITHM_ONE_SHOT && input.bytes > input.post_bytes) return {};
  PlanChoice choice{row->algorithm, RONDO_PROTOCOL_AUTO, 1, row->chunk_bytes, RONDO_KERNEL_LOAD_STORE};
  if (wanted.chunk_bytes != 0) choice.chunk_bytes = wanted.chunk_bytes;
  choice.chunk_bytes = limit_exchange_chunk(input, choice.chunk_bytes);
  return choice;
}

rondo_algorithm_t load_store_algorithm(rondo_collective_t collective) { return traits_of(collective).load_store; }

Error no_load_store(const TunerInput &input) {
  if (input.overrides.protocol != RONDO_PROTOCOL_AUTO)
    return {RONDO_ERROR_UNSUPPORTED, std::string("the kernel 'load_store' that was asked for has no protocol, but '") +
                                         rondo_protocol_string(input.overrides.protocol) +
                                         "' was asked for, too; ask for one of the two"};
  const std::string begin = "the kernel 'load_store' that was asked for is ";
  if (input.post_bytes == 0)
    return {RONDO_ERROR_UNSUPPORTED,
            begin +
                "for at most 64 ranks of one host, and on devices for the executor 'kernel' alone; these can be: "
                "'auto', 'interpreter'"};
  const std::string all_reduce =
      "for all_reduce of at most " + std::to_string(input.post_bytes) + " bytes by one_shot, or of any size by ";
  const bool on_device = input.exchange_channels != 0;
  return {RONDO_ERROR_UNSUPPORTED,
          begin + all_reduce +
              (on_device ? "two_shot, for reduce_scatter and all_gather by one_shot, and for broadcast and reduce by "
                           "two_shot; of even blocks only, so not for calls whose name ends with _v; use 'auto'"
                         : "two_shot or ring, on one channel among at most 64 ranks of one host; use 'auto'")};
}

}  // namespace rondo
