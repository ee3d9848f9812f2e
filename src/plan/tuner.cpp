// SPDX-License-Identifier: Apache-2.0
#include "src/plan/tuner.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <limits>
#include <optional>
#include <string>

#include "src/base/arithmetic.h"
#include "src/plan/build.h"
#include "src/plan/schedule.h"
#include "src/plan/tuner_rows.h"

namespace rondo {
namespace {

using enum AlgorithmRow::Cores;

constexpr uint32_t straight_rank_count_max = 8;    // as in the rows of one_shot below
constexpr uint32_t all_pairs_rank_count_max = 64;  // as in the rows of one_shot and two_shot below
constexpr uint64_t one_shot_bytes_max = 1 * KiB;   // as in the rows of one_shot below

// The rows weigh bytes against hops. In one_shot, every byte crosses n - 1 links, but in one hop. A two_shot moves the
// fewest bytes in two hops, over links between all pairs of ranks. A ring moves the fewest bytes over two links for
// each rank, in 2n - 2 hops. A tree takes 2 log n hops. If there are too few cores, each hop waits for the scheduler,
// so few hops win up to larger sizes.
constexpr std::array algorithm_table{
    // collective            cores    ranks      bytes      algorithm
    AlgorithmRow{RONDO_ALL_REDUCE, any, 1, any_bytes, RONDO_ALGORITHM_ONE_SHOT},
    AlgorithmRow{RONDO_ALL_REDUCE, any, 64, 1 * KiB, RONDO_ALGORITHM_ONE_SHOT},
    AlgorithmRow{RONDO_ALL_REDUCE, any, 8, 32 * KiB, RONDO_ALGORITHM_ONE_SHOT},
    AlgorithmRow{RONDO_ALL_REDUCE, too_few, 64, any_bytes, RONDO_ALGORITHM_TWO_SHOT},
    AlgorithmRow{RONDO_ALL_REDUCE, any, any_ranks, 32 * KiB, RONDO_ALGORITHM_TREE},
    AlgorithmRow{RONDO_ALL_REDUCE, any, 64, 256 * KiB, RONDO_ALGORITHM_TWO_SHOT},
    AlgorithmRow{RONDO_ALL_REDUCE, any, 16, any_bytes, RONDO_ALGORITHM_TWO_SHOT},
    AlgorithmRow{RONDO_ALL_REDUCE, any, any_ranks, 256 * KiB, RONDO_ALGORITHM_HALVING_DOUBLING},
    AlgorithmRow{RONDO_ALL_REDUCE, any, any_ranks, any_bytes, RONDO_ALGORITHM_RING},

    AlgorithmRow{RONDO_REDUCE_SCATTER, any, 16, any_bytes, RONDO_ALGORITHM_ONE_SHOT},
    AlgorithmRow{RONDO_REDUCE_SCATTER, too_few, 64, any_bytes, RONDO_ALGORITHM_ONE_SHOT},
    AlgorithmRow{RONDO_REDUCE_SCATTER, any, any_ranks, any_bytes, RONDO_ALGORITHM_RING},

    AlgorithmRow{RONDO_ALL_GATHER, any, 16, any_bytes, RONDO_ALGORITHM_ONE_SHOT},
    AlgorithmRow{RONDO_ALL_GATHER, too_few, 64, any_bytes, RONDO_ALGORITHM_ONE_SHOT},
    AlgorithmRow{RONDO_ALL_GATHER, any, any_ranks, any_bytes, RONDO_ALGORITHM_RING},

    AlgorithmRow{RONDO_BROADCAST, any, 8, 32 * KiB, RONDO_ALGORITHM_ONE_SHOT},
    AlgorithmRow{RONDO_BROADCAST, any, any_ranks, 32 * KiB, RONDO_ALGORITHM_TREE},
    AlgorithmRow{RONDO_BROADCAST, too_few, 16, any_bytes, RONDO_ALGORITHM_TWO_SHOT},
    AlgorithmRow{RONDO_BROADCAST, any, any_ranks, any_bytes, RONDO_ALGORITHM_RING},

    AlgorithmRow{RONDO_REDUCE, any, 8, 32 * KiB, RONDO_ALGORITHM_ONE_SHOT},
    AlgorithmRow{RONDO_REDUCE, any, any_ranks, 32 * KiB, RONDO_ALGORITHM_TREE},
    AlgorithmRow{RONDO_REDUCE, too_few, 16, any_bytes, RONDO_ALGORITHM_TWO_SHOT},
    AlgorithmRow{RONDO_REDUCE, any, any_ranks, any_bytes, RONDO_ALGORITHM_RING},
};

/// The other choices, by algorithm and size. `ll` saves the second cache line of a hop but has half the bandwidth, so
/// it is for small sizes. Two channels use both trees of the double tree. Small chunks pipeline a chain. Large chunks
/// need fewer updates of slot counters.
struct DetailRow {
  rondo_algorithm_t algorithm;
  uint64_t bytes_max;
  rondo_protocol_t protocol;
  uint32_t channels;
  uint64_t chunk_bytes;
};

constexpr std::array detail_table{
    //        algorithm                         bytes      protocol               channels  chunk
    DetailRow{RONDO_ALGORITHM_ONE_SHOT, 1 * KiB, RONDO_PROTOCOL_LL, 1, 1 * KiB},
    DetailRow{RONDO_ALGORITHM_ONE_SHOT, any_bytes, RONDO_PROTOCOL_SIMPLE, 1, 128 * KiB},
    DetailRow{RONDO_ALGORITHM_TWO_SHOT, 4 * KiB, RONDO_PROTOCOL_LL, 1, 4 * KiB},
    DetailRow{RONDO_ALGORITHM_TWO_SHOT, any_bytes, RONDO_PROTOCOL_SIMPLE, 1, 128 * KiB},
    DetailRow{RONDO_ALGORITHM_TREE, 32 * KiB, RONDO_PROTOCOL_LL, 2, 4 * KiB},
    DetailRow{RONDO_ALGORITHM_TREE, any_bytes, RONDO_PROTOCOL_SIMPLE, 2, 64 * KiB},
    DetailRow{RONDO_ALGORITHM_HALVING_DOUBLING, 8 * KiB, RONDO_PROTOCOL_LL, 1, 4 * KiB},
    DetailRow{RONDO_ALGORITHM_HALVING_DOUBLING, any_bytes, RONDO_PROTOCOL_SIMPLE, 1, 128 * KiB},
    DetailRow{RONDO_ALGORITHM_RING, 8 * KiB, RONDO_PROTOCOL_LL, 1, 4 * KiB},
    DetailRow{RONDO_ALGORITHM_RING, any_bytes, RONDO_PROTOCOL_SIMPLE, 1, 1 * MiB},
    DetailRow{RONDO_ALGORITHM_HIERARCHICAL, any_bytes, RONDO_PROTOCOL_SIMPLE, 1, 128 * KiB},
    DetailRow{RONDO_ALGORITHM_HIERARCHICAL_TREE, 32 * KiB, RONDO_PROTOCOL_LL, 2, 4 * KiB},
    DetailRow{RONDO_ALGORITHM_HIERARCHICAL_TREE, any_bytes, RONDO_PROTOCOL_SIMPLE, 2, 64 * KiB},
};

/// These rows replace the rows above if a network connects some of the ranks. Each chunk costs network calls, so chunks
/// are large. With one chunk in flight, the network is idle from the end of a chunk until a rank notices that end. A
/// second channel fills the gap. With much more data in flight, the data leaves the caches (docs/lab/between-hosts.md).
constexpr std::array network_table{
    DetailRow{RONDO_ALGORITHM_ONE_SHOT, any_bytes, RONDO_PROTOCOL_SIMPLE, 1, 256 * KiB},
    DetailRow{RONDO_ALGORITHM_HIERARCHICAL, any_bytes, RONDO_PROTOCOL_SIMPLE, 2, 128 * KiB},
};
constexpr uint64_t whole_slot_bytes_max = 512 * KiB;  // between hosts, a one_shot chunk is one slot up to this size

/// Returns the row for an algorithm and size. A test checks all rows.
const DetailRow &detail_for(const TunerInput &input, rondo_algorithm_t algorithm) {
  const auto fits = [&](const DetailRow &row) {
    return row.algorithm == algorithm && input.bytes <= row.bytes_max;
  };
  const auto *const of_network = std::find_if(network_table.begin(), network_table.end(), fits);
  if (input.several_hosts() && of_network != network_table.end()) return *of_network;
  const auto *const found = std::find_if(detail_table.begin(), detail_table.end(), fits);
  assert(found != detail_table.end());
  return *found;
}

/// Up to these sizes, hops over the network cost more than bytes if hosts have several ranks. Up to them, a tree with
/// one rank of each host is faster than an exchange among all ranks. For h hosts, rounded down to a power of two, the
/// limit is the smaller of h * h * per_square and h * per_host. The values were measured on simulated hosts of 2 and of
/// 8 ranks (docs/lab/tuner.md).
constexpr uint64_t hops_bytes_max = 8 * KiB;
struct HopsRow {
  rondo_collective_t collective;
  uint32_t host_count_min;
  uint64_t per_square;
  uint64_t per_host;
};
constexpr std::array hops_table{
    HopsRow{RONDO_ALL_REDUCE, 16, 1 * KiB, 128 * KiB},
    HopsRow{RONDO_BROADCAST, 2, 8 * KiB, 1 * MiB},
    HopsRow{RONDO_REDUCE, 2, 32 * KiB, 1 * MiB},
};

uint64_t hops_bytes_max_of(rondo_collective_t collective, uint32_t host_count) {
  const auto *const row = std::ranges::find(hops_table, collective, &HopsRow::collective);
  if (row == hops_table.end() || host_count < row->host_count_min) return hops_bytes_max;
  const uint64_t hosts = std::bit_floor(host_count);
  return std::min(hosts * hosts * row->per_square, hosts * row->per_host);
}

constexpr uint32_t two_shot_host_count = 16;          // up to this, the table for one host has two_shot for all sizes
constexpr uint64_t chain_bytes_per_host = 256 * KiB;  // up to this, a ring's hops cost more than its bytes

/// Chooses an algorithm if each host has a single rank, where a hop costs more than within a host. Returns nothing if
/// the choice for ranks of one host applies.
std::optional<rondo_algorithm_t> choose_between_hosts(const TunerInput &input, rondo_collective_t collective) {
  // A chain of hosts has as many hops as hosts. A tree has fewer hops and moves as many bytes.
  if (has_root(collective) && input.rank_count > straight_rank_count_max) return RONDO_ALGORITHM_TREE;
  if (collective != RONDO_ALL_REDUCE || input.host_count <= two_shot_host_count ||
      input.bytes > std::bit_floor(input.host_count) * chain_bytes_per_host)
    return {};
  if (input.rank_count > all_pairs_rank_count_max) return RONDO_ALGORITHM_TREE;
  return input.bytes <= one_shot_bytes_max ? RONDO_ALGORITHM_ONE_SHOT : RONDO_ALGORITHM_TWO_SHOT;
}

/// The limits for the interpreter on a device. Up to these bytes, the time depends on the number of consecutive steps.
/// A step takes some microseconds at any size. With n ranks, one_shot has 1.5 n steps, two_shot 3.5 n, and tree 2 log n
/// + 1.
constexpr uint32_t device_straight_rank_count_max = 4;
constexpr uint64_t device_tree_bytes_max = 2 * MiB;

bool wants_tree_on_device(const TunerInput &input, rondo_collective_t collective) {
  return input.connection_channels != 0 && collective == RONDO_ALL_REDUCE &&
         input.rank_count > device_straight_rank_count_max && input.bytes <= device_tree_bytes_max;
}

bool can(const Algorithm &algorithm, rondo_collective_t collective, uint32_t rank_count) {
  return algorithm.supports(collective) && rank_count <= algorithm.rank_count_max;
}

const Algorithm *find(std::span<const Algorithm> registry, rondo_algorithm_t id) {
  const auto found = std::find_if(registry.begin(), registry.end(), [&](const Algorithm &it) { return it.id == id; });
  return found == registry.end() ? nullptr : &*found;
}

bool fits(const AlgorithmRow &row, const TunerInput &input, rondo_collective_t collective) {
  const bool cores = row.cores == any || (row.cores == too_few) == input.oversubscribed;
  return cores && row.collective == collective && input.rank_count <= row.rank_count_max &&
         input.bytes <= row.bytes_max;
}

Error none_can(const TunerInput &input, rondo_collective_t collective, std::span<const Algorithm> registry) {
  std::string names;
  for (const Algorithm &algorithm : registry)
    if (can(algorithm, collective, input.rank_count))
      names += (names.empty() ? "" : ", ") + std::string(rondo_algorithm_string(algorithm.id));
  const rondo_algorithm_t wanted = input.overrides.algorithm;
  std::string which = "no algorithm here";
  if (wanted != RONDO_ALGORITHM_AUTO)
    which = "the algorithm '" + std::string(rondo_algorithm_string(wanted)) + "' that was asked for";
  return {RONDO_ERROR_UNSUPPORTED, which + " cannot do " + rondo_collective_string(collective) + " among " +
                                       std::to_string(input.rank_count) +
                                       " ranks; these can: " + (names.empty() ? "none" : names)};
}

Result<rondo_algorithm_t> choose_algorithm(const TunerInput &input, rondo_collective_t collective,
                                           std::span<const Algorithm> registry) {
  const auto usable = [&](rondo_algorithm_t id) {
    const Algorithm *algorithm = find(registry, id);
    return algorithm != nullptr && can(*algorithm, collective, input.rank_count);
  };
  if (input.overrides.algorithm != RONDO_ALGORITHM_AUTO) {
    if (usable(input.overrides.algorithm)) return input.overrides.algorithm;
    return none_can(input, collective, registry);
  }
  // With two ranks, one_shot moves as many bytes as two_shot, but in one hop instead of two.
  if (input.several_hosts() && input.rank_count == 2 && collective == RONDO_ALL_REDUCE &&
      usable(RONDO_ALGORITHM_ONE_SHOT))
    return RONDO_ALGORITHM_ONE_SHOT;
  if (input.shares_hosts()) {
    // Small calls among few ranks use direct messages. Among more ranks, one message for each host costs less than one
    // message for each rank.
    const bool by_leaders =
        input.rank_count > straight_rank_count_max && usable(RONDO_ALGORITHM_HIERARCHICAL_TREE);
    const uint64_t small_bytes_max = by_leaders ? hops_bytes_max_of(collective, input.host_count) : hops_bytes_max;
    // A hop over the network costs more than a hop inside of a host, so bytes cross the network as seldom as possible.
    if (input.bytes > small_bytes_max && usable(RONDO_ALGORITHM_HIERARCHICAL)) return RONDO_ALGORITHM_HIERARCHICAL;
    if (by_leaders) return RONDO_ALGORITHM_HIERARCHICAL_TREE;
  } else if (input.several_hosts()) {
    const auto chosen = choose_between_hosts(input, collective);
    if (chosen && usable(*chosen)) return *chosen;
  } else if (wants_tree_on_device(input, collective) && usable(RONDO_ALGORITHM_TREE)) {
    return RONDO_ALGORITHM_TREE;
  }
  for (const AlgorithmRow &row : algorithm_table)
    if (fits(row, input, collective) && usable(row.algorithm)) return row.algorithm;
  for (const Algorithm &algorithm : registry)
    if (can(algorithm, collective, input.rank_count)) return algorithm.id;
  return none_can(input, collective, registry);
}

/// Returns the choice of the measured table. Returns nothing if no row fits, or if the user requested another plan.
std::optional<PlanChoice> choose_measured(const TunerInput &input, rondo_collective_t collective,
                                          std::span<const Algorithm> registry) {
  if (input.table == nullptr) return {};
  TunerInput asked = input;
  asked.table = nullptr;
  // `rondo tune` measures processes with unregistered buffers, so those rows also serve registered buffers.
  const BufferPlace place = input.buffers == BufferPlace::registered ? BufferPlace::device : input.buffers;
  for (const TuningRow &row :
       input.table->rows_for(collective, input.rank_count, input.oversubscribed, input.several_hosts(), place)) {
    if (input.bytes > row.bytes_max) continue;
    const PlanChoice &wanted = input.overrides;
    asked.overrides = row.choice;
    if (wanted.channels != 0) asked.overrides.channels = wanted.channels;
    if (wanted.chunk_bytes != 0) asked.overrides.chunk_bytes = wanted.chunk_bytes;
    if ((wanted.algorithm != RONDO_ALGORITHM_AUTO && wanted.algorithm != row.choice.algorithm) ||
        (wanted.protocol != RONDO_PROTOCOL_AUTO && wanted.protocol != row.choice.protocol) ||
        (wanted.kernel != RONDO_KERNEL_AUTO && wanted.kernel != row.choice.kernel) ||
        (wanted.channels > 1 && row.choice.kernel == RONDO_KERNEL_LOAD_STORE && input.buffers == BufferPlace::host))
      return {};  // rows for larger messages do not apply to this message
    const auto chosen = choose_plan(asked, registry);
    if (chosen.ok()) return chosen.value();  // otherwise this plan is impossible here, and the next row is tried
  }
  return {};
}

uint64_t slot_bytes_of(const TunerInput &input, rondo_protocol_t protocol) {
  return protocol == RONDO_PROTOCOL_LL ? input.ll_slot_bytes : input.slot_bytes;
}

/// On a device, the interpreter gets one more channel, a thread block, for each such number of bytes. At 97 GB/s, a
/// block moves them in less than the time of a step: 7 us by simple, 4 us by ll (docs/lab/tuner.md). A block's steps
/// run one after another. With ll, a block gets the bytes of one slot, because each slot is a step.
constexpr uint64_t simple_block_bytes = 16 * KiB;

uint32_t channels_for(const TunerInput &input, uint32_t least, rondo_protocol_t protocol) {
  if (input.connection_channels == 0 || input.several_hosts()) return least;
  const uint64_t block_bytes =
      protocol == RONDO_PROTOCOL_SIMPLE ? simple_block_bytes : slot_bytes_of(input, protocol);
  const uint64_t wanted = ceil_div(input.bytes, block_bytes);
  return static_cast<uint32_t>(std::max<uint64_t>(least, std::min<uint64_t>(wanted, input.connection_channels)));
}

/// Returns the chunk size: `wanted_bytes`, but at most the limit that the slots set.
uint64_t limit_chunk(uint64_t wanted_bytes, uint64_t slot_bytes, uint32_t slot_count) {
  const uint64_t most = std::min(wanted_bytes, slot_bytes * slots_per_chunk_max(slot_count));
  return std::max(most / chunk_align_bytes * chunk_align_bytes, chunk_align_bytes);
}

}  // namespace

std::span<const AlgorithmRow> algorithm_rows() { return algorithm_table; }

Result<PlanChoice> choose_plan(const TunerInput &input, std::span<const Algorithm> registry) {
  assert(input.rank_count >= 1 && input.slot_count >= 2 && input.slot_bytes >= chunk_align_bytes);
  assert(input.ll_slot_bytes == 0 || input.ll_slot_bytes >= chunk_align_bytes);
  assert(input.element_bytes > 0 && chunk_align_bytes % input.element_bytes == 0);
  const PlanChoice &wanted = input.overrides;
  if (wanted.protocol == RONDO_PROTOCOL_LL && input.ll_slot_bytes == 0)
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "the protocol 'll' that was asked for is not available here; these can be: 'auto', 'simple'"};

  const auto collective = traits_of(input.collective).has_data ? input.collective : RONDO_ALL_REDUCE;
  if (const auto measured = choose_measured(input, collective, registry)) return *measured;
  if (const auto load_store = choose_load_store(input, collective)) return *load_store;
  if (wanted.kernel == RONDO_KERNEL_LOAD_STORE && input.rank_count > 1) return no_load_store(input);
  RONDO_TRY_ASSIGN(const rondo_algorithm_t algorithm, choose_algorithm(input, collective, registry));
  const DetailRow &detail = detail_for(input, algorithm);
  PlanChoice choice{algorithm, detail.protocol, detail.channels, detail.chunk_bytes, RONDO_KERNEL_INTERPRETER};
  if (input.several_hosts() && algorithm == RONDO_ALGORITHM_ONE_SHOT && detail.protocol == RONDO_PROTOCOL_SIMPLE)
    choice.chunk_bytes = std::clamp<uint64_t>(input.slot_bytes, detail.chunk_bytes, whole_slot_bytes_max);
  if (wanted.protocol != RONDO_PROTOCOL_AUTO) choice.protocol = wanted.protocol;
  if (choice.protocol == RONDO_PROTOCOL_LL && input.ll_slot_bytes == 0) choice.protocol = RONDO_PROTOCOL_SIMPLE;
  choice.channels = wanted.channels != 0 ? wanted.channels : channels_for(input, choice.channels, choice.protocol);
  if (input.default_chunk_bytes != 0) choice.chunk_bytes = input.default_chunk_bytes;
  if (wanted.chunk_bytes != 0) choice.chunk_bytes = wanted.chunk_bytes;
  choice.chunk_bytes = limit_chunk(choice.chunk_bytes, slot_bytes_of(input, choice.protocol), input.slot_count);
  return choice;
}

}  // namespace rondo
