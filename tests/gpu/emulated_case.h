// SPDX-License-Identifier: Apache-2.0
// This file runs a collective call of all ranks, by the host executor and by kernels on emulated blocks, with the same
// input.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/plan/schedule.h"
#include "tests/gpu/device_world.h"
#include "tests/gpu/load_store_reference.h"
#include "tests/gpu/random_elements.h"
#include "tests/unit/executor_world.h"

namespace rondo::test {

constexpr rondo_protocol_t device_protocols[] = {RONDO_PROTOCOL_SIMPLE, RONDO_PROTOCOL_LL};

/// Returns the most bytes that a slot carries.
[[nodiscard]] inline uint32_t slot_payload_bytes(rondo_protocol_t protocol, const ConnectionGeometry &slots) {
  return protocol == RONDO_PROTOCOL_LL ? slots.ll_slot_bytes : slots.slot_bytes;
}

struct EmulatedCase {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  rondo_algorithm_t algorithm = RONDO_ALGORITHM_RING;
  rondo_protocol_t protocol = RONDO_PROTOCOL_SIMPLE;
  rondo_kernel_t kernel = RONDO_KERNEL_INTERPRETER;
  rondo_type_t type = RONDO_FLOAT32;
  rondo_op_t op = RONDO_SUM;
  uint32_t rank_count = 2;
  uint32_t root = 0;
  uint64_t count = 0;  ///< elements of a block, if the collective has blocks
  uint32_t channels = 1;
  uint64_t chunk_bytes = 256;
  bool in_place = false;
  bool exports = false;
  bool shares_buffers = false;  ///< for load_store: peers read and write the callers' buffers
  uint32_t joint_blocks = 0;    ///< for load_store: one kernel of at most this many blocks for all ranks, or 0
  bool pushes = false;          ///< for load_store: ranks push, as on several devices
  uint32_t hidden_ranks = 0;    ///< with shared buffers: a bit for each rank whose buffers peers cannot read
  uint32_t offset_bytes = 0;  ///< offset from a multiple of 64; send and recv differ by `skew_bytes`
  uint32_t skew_bytes = 0;

  [[nodiscard]] std::string text() const {
    return std::string(rondo_collective_string(collective)) + " " + rondo_algorithm_string(algorithm) + " " +
           rondo_kernel_string(kernel) + " " + rondo_protocol_string(protocol) + " " + rondo_type_string(type) + " " +
           rondo_op_string(op) + " ranks " + std::to_string(rank_count) + " root " + std::to_string(root) + " count " +
           std::to_string(count) + " channels " + std::to_string(channels) + " chunk " + std::to_string(chunk_bytes) +
           " in place " + std::to_string(in_place) + " exports " + std::to_string(exports) + " shares " +
           std::to_string(shares_buffers) + " pushes " + std::to_string(pushes) + " joint " +
           std::to_string(joint_blocks) + " hidden " + std::to_string(hidden_ranks) + " offset " +
           std::to_string(offset_bytes) + " skew " + std::to_string(skew_bytes);
  }
};

/// The plan and memory of a rank. Rubbish around the buffers must stay unchanged.
struct CaseRank {
  std::unique_ptr<Plan> plan;
  std::vector<std::byte> send, recv;
  size_t send_at = 0, recv_at = 0;
  bool one_buffer = false;  ///< in place: `recv` has both

  [[nodiscard]] Buffers buffers(uint64_t number, bool exports) {
    Buffers buffers;
    buffers.signature = fingerprint(extend_history(number, plan->identity));
    // A rank that sends nothing has no send buffer, and one that receives nothing has no recv buffer.
    if (plan->send.count != 0) buffers.send = {(one_buffer ? recv : send).data() + send_at, plan->send.begin, {}};
    if (plan->recv.count != 0) buffers.recv = {recv.data() + recv_at, plan->recv.begin, {}};
    buffers.send.handle.exported = buffers.recv.handle.exported = exports;
    return buffers;
  }
};

[[nodiscard]] inline CaseRank make_case_rank(const EmulatedCase &it, const ConnectionGeometry &geometry, uint32_t rank,
                                             Random &random) {
  const size_t size = rondo_type_size(it.type);
  const bool counts = it.collective != RONDO_REDUCE && it.collective != RONDO_BROADCAST;
  OperationKey key;
  key.signature = {static_cast<uint32_t>(it.collective),
                   static_cast<uint32_t>(it.type),
                   static_cast<uint32_t>(it.op),
                   it.root,
                   it.count,
                   0};
  key.in_place = it.in_place && (counts || rank == it.root);
  if (uses_blocks(it.collective))
    for (uint32_t peer = 0; peer < it.rank_count; ++peer) key.blocks.push_back({peer * it.count, it.count});
  CaseRank made;
  const PlanChoice choice{it.algorithm, it.protocol, it.channels, it.chunk_bytes, it.kernel};
  made.plan = std::move(build_plan(key, choice, geometry, rank, it.rank_count)).value();
  made.one_buffer = key.in_place;
  const size_t send_bytes = made.plan->send.count * size, recv_bytes = made.plan->recv.count * size;
  made.send_at = 64 + it.offset_bytes;
  made.recv_at = made.one_buffer ? made.send_at : made.send_at + it.skew_bytes;
  const size_t own = rank * it.count * size;
  if (made.one_buffer && it.collective == RONDO_REDUCE_SCATTER) made.recv_at += own;
  if (made.one_buffer && it.collective == RONDO_ALL_GATHER) made.send_at += own;
  made.send.resize(192 + send_bytes);
  made.recv.resize(256 + std::max(send_bytes, recv_bytes));
  for (std::vector<std::byte> *memory : {&made.send, &made.recv})
    for (size_t at = 0; at < memory->size(); at += sizeof(uint64_t)) {  // the last word may be cut
      const uint64_t word = random();
      std::memcpy(memory->data() + at, &word, std::min(sizeof word, memory->size() - at));
    }
  std::byte *const send = made.buffers(0, false).send.data;
  for (uint64_t i = 0; i < made.plan->send.count; ++i) put_random(it.type, send + i * size, random);
  return made;
}

[[nodiscard]] inline std::vector<CaseRank> make_ranks(const EmulatedCase &it, const ConnectionGeometry &geometry,
                                                      uint64_t seed = 0) {
  std::vector<CaseRank> ranks;
  for (uint32_t rank = 0; rank < it.rank_count; ++rank) {
    Random random(seed + rank);
    ranks.push_back(make_case_rank(it, geometry, rank, random));
  }
  return ranks;
}

/// Returns an element of RONDO_INT32, from send or from the result.
[[nodiscard]] inline int32_t element_of(const CaseRank &of, bool recv, uint64_t index) {
  int32_t element = 0;
  const std::byte *const at = recv || of.one_buffer ? of.recv.data() : of.send.data();
  std::memcpy(&element, at + (recv ? of.recv_at : of.send_at) + index * sizeof element, sizeof element);
  return element;
}

/// Says whether a rank's result is the sum of all sends. Do not use it for calls in place, which overwrite their
/// sends.
[[nodiscard]] inline bool is_sum(const std::vector<CaseRank> &ranks, uint32_t rank, uint64_t count) {
  for (uint64_t index = 0; index < count; ++index) {
    uint32_t sum = 0;
    for (const CaseRank &of : ranks) sum += static_cast<uint32_t>(element_of(of, false, index));
    if (element_of(ranks[rank], true, index) != static_cast<int32_t>(sum)) return false;
  }
  return true;
}

/// Stores the first word of a post, for one of its readers, as if rank `by` made a call with this signature.
inline void plant_first_word(DeviceWorld &world, uint64_t number, uint32_t by, uint32_t reader, uint32_t signature) {
  const device::PostFlags flags = device::post_flags(number, signature);
  uint64_t *const units = world.post(number, by, reader);
  memory::store_release(units[1], ll::pack(0, flags.second));
  memory::store_release(units[0], ll::pack(0, flags.first));  // pairs with W2
}

/// Returns a rank's counters in all places, and everything that it has posted.
[[nodiscard]] inline std::vector<uint64_t> published_in_places(DeviceWorld &world, uint32_t rank) {
  const device::LoadStorePlace place = world.place(rank);
  std::vector<uint64_t> words;
  for (uint32_t channel = 0; channel < place.geometry.channel_count; ++channel)
    for (uint32_t reader = 0; reader < place.geometry.rank_count; ++reader) {
      const device::LoadStorePlace of_reader = world.place(place.geometry.pushes != 0 ? reader : rank);
      for (const size_t at : {place.geometry.contributed_at(channel), place.geometry.reduced_at(channel)})
        words.push_back(memory::load_acquire(of_reader.counter(at, rank)));
    }
  for (uint64_t number = 0; number < 2; ++number)
    for (uint32_t reader = 0; reader < place.geometry.rank_count; ++reader)
      for (size_t unit = 0; unit < place.geometry.column_bytes() / sizeof(uint64_t); ++unit)
        words.push_back(memory::load_acquire(world.post(number, rank, reader)[unit]));
  return words;
}

/// Returns the difference of both results, or "". All NaNs count as equal.
[[nodiscard]] inline std::string difference(const EmulatedCase &it, const CaseRank &host, const CaseRank &device) {
  if (host.send != device.send) return "the send buffer was written";
  const size_t size = rondo_type_size(it.type);
  const size_t end = host.recv_at + host.plan->recv.count * size;
  for (size_t at = 0; at < host.recv.size();) {
    const bool element = at >= host.recv_at && at < end;
    const size_t step = element ? size : 1;
    if (std::memcmp(&host.recv[at], &device.recv[at], step) != 0 &&
        !(element && is_nan(it.type, &host.recv[at]) && is_nan(it.type, &device.recv[at])))
      return "byte " + std::to_string(at) + " of recv, whose result begins at " + std::to_string(host.recv_at);
    at += step;
  }
  return {};
}

/// Returns the geometry of places for the call. The world sets the counts of ranks and channels.
[[nodiscard]] inline device::LoadStoreGeometry load_store_geometry_for(const EmulatedCase &it) {
  if (it.kernel != RONDO_KERNEL_LOAD_STORE) return {};
  const auto bytes = static_cast<uint32_t>(it.count * rondo_type_size(it.type));
  const uint32_t blocks_bytes = it.rank_count * 64;  // each rank has at least 64 bytes of a chunk
  const uint32_t chunk_bytes = std::max(static_cast<uint32_t>(it.chunk_bytes), blocks_bytes);
  return {0, 0, (bytes + 64) / 64 * 64, chunk_bytes, it.pushes ? 1u : 0u};
}

/// Runs one thread for each rank.
template <class Run>
void run_ranks(uint32_t rank_count, const Run &run) {
  thread_local Crew crew;
  crew.run(rank_count, [&](uint32_t rank) { run(rank); });
}

/// Runs all ranks by one kernel.
inline void run_joint(DeviceWorld &world, std::vector<CaseRank> &ranks, uint64_t number, uint32_t threads,
                      uint32_t blocks_max) {
  std::vector<const Plan *> plans;
  std::vector<Buffers> buffers;
  for (CaseRank &rank : ranks) {
    plans.push_back(rank.plan.get());
    buffers.push_back(rank.buffers(number, false));
  }
  world.run_joint(plans, buffers, number, threads, blocks_max);
}

/// Returns each rank's results for small floats as load_store rounds them. Returns nothing if the host's schedules
/// round in the same way.
[[nodiscard]] inline std::vector<std::vector<std::byte>> results_rounded_once(const EmulatedCase &it,
                                                                              std::vector<CaseRank> &ranks) {
  if (it.kernel != RONDO_KERNEL_LOAD_STORE || only_moves(it.collective) || !is_small_float(it.type)) return {};
  if (ranks.size() == 1) return {};
  std::vector<const std::byte *> operands;
  for (CaseRank &rank : ranks) operands.push_back(rank.buffers(0, false).send.data);
  const std::vector<std::byte> all = reduce_rounding_once(it.type, it.op, operands, ranks[0].plan->send.count);
  std::vector<std::vector<std::byte>> results;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const Range range = ranks[rank].plan->recv;
    const std::byte *const begin = all.data() + range.begin * rondo_type_size(it.type);
    const bool receives = it.collective != RONDO_REDUCE || rank == it.root;
    results.emplace_back(begin, begin + (receives ? range.count : 0) * rondo_type_size(it.type));
  }
  return results;
}

/// The content of a rank's memory.
struct RankMemory {
  std::vector<std::byte> send, recv;
};

/// Runs the case by the host executor, and by emulated blocks with each of `lane_threads`. Returns "" if results have
/// the same bits.
[[nodiscard]] inline std::string run_case(const EmulatedCase &it, const ConnectionGeometry &geometry,
                                          const std::vector<uint32_t> &lane_threads, uint64_t seed,
                                          uint64_t first_counter = 0) {
  const auto make = [&](const EmulatedCase &of, uint32_t rank) {
    Random random(seed * 64 + rank);
    return make_case_rank(of, geometry, rank, random);
  };
  EmulatedCase on_host = it;  // the protocol does not change the result
  if (it.kernel == RONDO_KERNEL_LOAD_STORE) on_host.protocol = RONDO_PROTOCOL_SIMPLE;
  std::vector<CaseRank> host;
  for (uint32_t rank = 0; rank < it.rank_count; ++rank) host.push_back(make(on_host, rank));
  const auto rounded_once = results_rounded_once(it, host);
  std::vector<CaseRank> device;
  std::vector<RankMemory> initial;
  for (uint32_t rank = 0; rank < it.rank_count; ++rank) {
    device.push_back(make(it, rank));
    initial.push_back({device.back().send, device.back().recv});
  }
  HostWorld host_world(it.rank_count, it.channels, geometry, first_counter);
  run_ranks(it.rank_count,
            [&](uint32_t rank) { host_world.run(rank, *host[rank].plan, host[rank].buffers(1, it.exports)); });
  if (host_world.failures() != 0) return "the host executor failed";
  for (size_t rank = 0; rank < rounded_once.size(); ++rank)
    std::copy(rounded_once[rank].begin(), rounded_once[rank].end(), host[rank].recv.data() + host[rank].recv_at);
  DeviceWorld device_world(it.rank_count, it.channels, geometry, first_counter, load_store_geometry_for(it));
  if (it.shares_buffers) device_world.share_buffers();
  for (uint32_t rank = 0; rank < it.rank_count; ++rank)
    device_world.hide_buffers(rank, it.hidden_ranks);
  if (it.kernel == RONDO_KERNEL_LOAD_STORE) device_world.begin_at(first_counter, static_cast<uint32_t>(first_counter));
  for (uint64_t number = 1; number <= lane_threads.size(); ++number) {
    for (uint32_t rank = 0; rank < it.rank_count; ++rank) {
      device[rank].send = initial[rank].send;
      device[rank].recv = initial[rank].recv;
    }
    if (it.joint_blocks != 0)
      run_joint(device_world, device, number, lane_threads[number - 1], it.joint_blocks);
    else
      run_ranks(it.rank_count, [&](uint32_t rank) {
        device_world.run(rank, *device[rank].plan, device[rank].buffers(number, it.exports), number,
                         lane_threads[number - 1]);
      });
    for (uint32_t rank = 0; rank < it.rank_count; ++rank) {
      const DeviceWorld::Ended result = device_world.result(rank);
      const std::string who =
          std::to_string(lane_threads[number - 1]) + " threads, rank " + std::to_string(rank) + ": ";
      if (result.number != number || result.kernels != number || result.verdict != 0) return who + "did not end well";
      const std::string wrong = difference(it, host[rank], device[rank]);
      if (!wrong.empty()) return who + wrong;
    }
  }
  return {};
}

}  // namespace rondo::test
