// SPDX-License-Identifier: Apache-2.0
// This file has the ranks of a communicator whose kernels run as emulated blocks. Plain memory is used instead of the
// memory that the CUDA executor would allocate. The threads of a launch are fibers of the calling thread, or host
// threads.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cuda/executors/joint_call.h"
#include "cuda/kernels/plan_image.h"
#include "cuda/kernels/load_store_kernels.h"
#include "src/proto/memory.h"
#include "tests/gpu/crew.h"
#include "tests/soft_cuda/fibers.h"
#include "tests/soft_cuda/soft_kernel.h"

namespace rondo::test {

/// Zeroed memory, aligned to 64.
class AlignedMemory {
 public:
  explicit AlignedMemory(size_t bytes = 0) : memory_(bytes / sizeof(Line) + 1) {}
  [[nodiscard]] std::byte *data() { return reinterpret_cast<std::byte *>(memory_.data()); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> memory_;
};

/// Returns the kernel with that name, or null.
[[nodiscard]] inline const soft_cuda::KernelEntry *find_kernel(const std::string &name) {
  for (const soft_cuda::KernelEntry *entry = soft_cuda_kernels(); entry->name != nullptr; ++entry)
    if (entry->name == name) return entry;
  return nullptr;
}

class DeviceWorld {
 public:
  /// Makes the world. If load_store is used, `load_store` is the geometry of the places, whose rank and channel counts
  /// the constructor sets.
  DeviceWorld(uint32_t rank_count, uint32_t channel_count, const ConnectionGeometry &geometry,
              uint64_t first_counter = 0, const device::LoadStoreGeometry &load_store = {})
      : rank_count_(rank_count),
        hidden_ranks_(rank_count, 0),
        geometry_(geometry),
        load_store_{rank_count, channel_count, load_store.post_bytes, load_store.chunk_bytes, load_store.pushes},
        places_stride_((load_store_.bytes() + 63) / 64 * 64),
        places_(load_store.post_bytes == 0 ? 0 : places_stride_ * rank_count),
        stride_((geometry.bytes() + 63) / 64 * 64),
        connections_(stride_ * rank_count * rank_count * channel_count),
        ends_(size_t{rank_count} * rank_count * channel_count),
        progress_(rank_count),
        results_(rank_count),
        aborts_(rank_count) {
    for (uint32_t rank = 0; rank < rank_count; ++rank)
      for (uint32_t channel = 0; channel < channel_count; ++channel)
        for (uint32_t peer = 0; peer < rank_count; ++peer) {
          device::DeviceLinkEnds &ends = this->ends(rank, channel, peer);
          const ConnectionView out = connection(channel, rank, peer), in = connection(channel, peer, rank);
          out.simple_head() = out.ll_head() = first_counter;
          ends = {peer,
                  peer == rank ? 0 : kind_bit(PayloadKind::address),
                  (rank ^ peer) % 2,  // some links order the callers' accesses, others do not
                  SimpleSender(out, first_counter),
                  SimpleReceiver(in, first_counter),
                  LlSender(out, first_counter),
                  LlReceiver(in, first_counter)};
        }
  }

  /// Runs the plan's kernel on `rank`, with `lane_threads` threads per lane. With 0, one thread runs all lanes of a
  /// channel.
  void run(uint32_t rank, const Plan &plan, const Buffers &buffers, uint64_t number, uint32_t lane_threads) {
    if (plan.choice.kernel == RONDO_KERNEL_LOAD_STORE) return run_load_store(rank, plan, buffers, number, lane_threads);
    AlignedMemory memory(device::plan_image_bytes(plan));
    const auto address = reinterpret_cast<uint64_t>(memory.data());
    const auto image = device::make_plan_image(plan, address, [&](uint32_t channel, uint32_t peer) {
      return reinterpret_cast<uint64_t>(&ends(rank, channel, peer));
    });
    std::memcpy(memory.data(), image.value().bytes.data(), image.value().bytes.size());
    device::DeviceOperations operations;
    operations.channel_count = image.value().channel_count;
    device::DeviceOperation &operation = operations.operations[0];
    operation = operation_of(rank, plan, buffers, number);
    operation.channels = reinterpret_cast<const device::DeviceChannel *>(memory.data());
    operation.lane_count = image.value().lane_count;
    operation.scratch_bytes = device::scratch_bytes_for(plan.choice.protocol, geometry_);
    launch(*find_kernel(device::kernel_name(plan)), &operations, image.value().channel_count,
           std::max(1u, lane_threads * image.value().lanes_per_channel),
           device::shared_bytes_for(image.value().lanes_per_channel, operation.scratch_bytes));
  }

  /// Runs the call of all ranks by one joint kernel of at most `blocks_max` blocks. The plans must be for load_store.
  void run_joint(const std::vector<const Plan *> &plans, const std::vector<Buffers> &buffers, uint64_t number,
                 uint32_t threads, uint32_t blocks_max) {
    std::vector<device::JointRank> ranks;
    for (uint32_t rank = 0; rank < rank_count_; ++rank)
      ranks.push_back(
          {buffers[rank].send.data, buffers[rank].recv.data, &progress_[rank], &results_[rank], number});
    const Plan &plan = *plans[0];
    device::LoadStoreOperation described;
    described.geometry = load_store_;
    device::describe_load_store(plan, BufferPlace::shared_device, plan.choice.chunk_bytes, described);
    const uint32_t divisor = plan.key.signature.op == RONDO_AVG ? rank_count_ : 0;
    cuda::JointLaunch made = cuda::make_joint(cuda::make_joint_plan(plan, described, {}),
                                              {divisor, captured_ ? 1u : 0u, blocks_max}, ranks);
    launch(*find_kernel(device::joint_kernel_name(plan)), &made.operation, made.operation.block_count,
           std::max(1u, threads), made.size.shared_bytes);
  }

  /// Returns the place of a rank, for load_store.
  [[nodiscard]] device::LoadStorePlace place(uint32_t rank) {
    return {places_.data() + rank * places_stride_, load_store_};
  }
  /// Returns where rank `reader` finds the units of post `number` of rank `by`.
  [[nodiscard]] uint64_t *post(uint64_t number, uint32_t by, uint32_t reader) {
    return place(load_store_.pushes != 0 ? reader : by).units(number, by);
  }
  /// Sets the state as if `posts` posts and `chunks` chunks had preceded.
  void begin_at(uint64_t posts, uint32_t chunks) {
    for (uint32_t rank = 0; rank < rank_count_; ++rank) {
      progress_[rank].posts = posts;
      for (uint32_t channel = 0; channel < load_store_.channel_count; ++channel) {
        for (uint32_t by = 0; by < rank_count_; ++by)
          for (const size_t at : {load_store_.contributed_at(channel), load_store_.reduced_at(channel)})
            place(rank).counter(at, by) = device::load_store_counter(chunks, 0);
      }
    }
  }

  [[nodiscard]] ConnectionView connection(uint32_t channel, uint32_t from, uint32_t to) {
    const auto memory_of = [&](uint32_t sender, uint32_t receiver) {
      return connections_.data() + stride_ * ((size_t{channel} * rank_count_ + sender) * rank_count_ + receiver);
    };
    return {memory_of(from, to), geometry_, memory_of(to, from)};  // credit is at the sender, as on devices
  }
  [[nodiscard]] device::DeviceLinkEnds &ends(uint32_t rank, uint32_t channel, uint32_t peer) {
    return ends_[(size_t{channel} * rank_count_ + rank) * rank_count_ + peer];
  }
  /// The state of a rank's last operation, as the host sees it. All fields belong to operation `number`.
  struct Ended {
    uint64_t number = 0;
    uint64_t kernels = 0;
    uint64_t verdict = 0;
    uint64_t failed_number = 0;
    uint64_t running = 0;
  };
  [[nodiscard]] Ended result(uint32_t rank) const {
    Ended seen;
    const uint64_t ended = memory::load_acquire(results_[rank].ended);  // pairs with E3 in device::report
    seen.number = device::number_in(ended);
    seen.kernels = device::kernels_in(ended);
    seen.verdict = memory::load_relaxed(results_[rank].verdict);
    seen.failed_number = memory::load_relaxed(results_[rank].failed_number);
    seen.running = memory::load_relaxed(results_[rank].running);
    return seen;
  }
  /// Makes load_store read and write the callers' buffers, as among ranks of one process.
  void share_buffers() { shares_buffers_ = true; }
  /// Hides buffers from peers, beginning with the next operation of `rank`. `hidden_ranks` has a bit for each rank
  /// whose buffers are hidden. All ranks of an operation must set the same bits. Call it on the rank's thread.
  void hide_buffers(uint32_t rank, uint32_t hidden_ranks) { hidden_ranks_[rank] = hidden_ranks; }
  /// Makes windows name regions instead of addresses. All of these regions are withdrawn.
  void withdraw_regions() { withdrawn_.assign(size_t{rank_count_} * device::region_count_max, 0); }
  /// Makes all later kernels belong to captured calls.
  void capture() { captured_ = true; }
  /// Stops a rank. Pairs with A1 in device::must_stop().
  void abort(uint32_t rank, uint64_t what = device::abort_operation) {
    memory::store_release(aborts_[rank].value, what);
  }

 private:
  void run_load_store(uint32_t rank, const Plan &plan, const Buffers &buffers, uint64_t number, uint32_t threads) {
    device::LoadStoreOperation operation;
    operation.base = operation_of(rank, plan, buffers, number);
    operation.base.lane_count = plan.choice.channels;
    operation.geometry = load_store_;
    for (uint32_t peer = 0; peer < rank_count_; ++peer) operation.places[peer] = place(peer).base;
    const BufferPlace place_of_buffers = !shares_buffers_            ? BufferPlace::device
                                         : hidden_ranks_[rank] == 0 ? BufferPlace::shared_device
                                                                    : BufferPlace::peer_devices;
    operation.rank = rank;
    device::describe_load_store(plan, place_of_buffers, plan.choice.chunk_bytes, operation);
    device::fit_to_buffers(operation);
    operation.posted_send = reinterpret_cast<uint64_t>(buffers.send.data);
    operation.posted_recv = reinterpret_cast<uint64_t>(buffers.recv.data);
    if (!withdrawn_.empty()) {
      operation.regions = withdrawn_.data();
      operation.posted_send = operation.posted_recv = 0;  // the beginning of the first region
    }
    operation.can_be_read = (hidden_ranks_[rank] >> rank & 1) != 0 ? 0 : 1;
    launch(*find_kernel(device::kernel_name(plan)), &operation, plan.choice.channels, std::max(1u, threads),
           device::load_store_shared_bytes(rank_count_));
  }

  [[nodiscard]] device::DeviceOperation operation_of(uint32_t rank, const Plan &plan, const Buffers &buffers,
                                                     uint64_t number) {
    device::DeviceOperation operation;
    operation.abort = &aborts_[rank].value;
    operation.progress = &progress_[rank];
    operation.result = &results_[rank];
    operation.buffers = buffers;
    operation.number = number;
    operation.captured = captured_ ? 1 : 0;
    operation.on_one_device = number % 2;  // here it only decides when a one_shot polls first words
    operation.poll_count = number % 3 == 0 ? 3 : 1;
    operation.divisor = plan.key.signature.op == RONDO_AVG ? rank_count_ : 0;
    operation.op = device::reduce_op(plan);
    return operation;
  }

  static void launch(const soft_cuda::KernelEntry &kernel, void *operation, uint32_t block_count, uint32_t thread_count,
                     uint32_t shared_bytes) {
    std::vector<AlignedMemory> shared;
    std::vector<soft_cuda::Block> blocks;
    for (uint32_t index = 0; index < block_count; ++index) {
      shared.emplace_back(shared_bytes);
      blocks.push_back(
          {block_count, index, thread_count, shared.back().data(), shared_bytes, soft_cuda::give_way});
    }
    void *parameters[] = {operation};
    const auto run = [&](uint32_t index) {
      kernel.function(blocks[index / thread_count], index % thread_count, parameters);
    };
    const uint32_t count = block_count * thread_count;
    if (soft_cuda::have_fibers) return soft_cuda::run_fibers(count, run);
    thread_local Crew crew;
    crew.run(count, [&](uint32_t index) {
      soft_cuda::begin_host_thread();
      run(index);
    });
  }

  uint32_t rank_count_;
  std::vector<uint32_t> hidden_ranks_;  ///< by rank: the hidden ranks that it knows of
  bool shares_buffers_ = false;
  bool captured_ = false;
  ConnectionGeometry geometry_;
  device::LoadStoreGeometry load_store_;
  size_t places_stride_;
  AlignedMemory places_;
  size_t stride_;
  AlignedMemory connections_;
  std::vector<device::DeviceLinkEnds> ends_;
  std::vector<device::DeviceProgress> progress_;
  std::vector<device::DeviceResult> results_;
  std::vector<uint64_t> withdrawn_;  ///< empty if windows have addresses
  std::vector<PaddedCounter> aborts_;
};

}  // namespace rondo::test
