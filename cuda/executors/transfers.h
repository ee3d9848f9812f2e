// SPDX-License-Identifier: Apache-2.0
// This file runs a rank's batches of messages on a device, with one kernel for each batch (cuda/kernels/transfer.h).
// The kernel's parameter holds a short list of transfers. A longer list is in host memory, which the kernel reads.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/driver/kernel_set.h"
#include "cuda/kernels/transfer.h"
#include "cuda/transport/segment.h"
#include "src/engine/device_executor.h"

namespace rondo::cuda {

/// Writes the parts of a batch as the kernel takes them.
void list_transfers(const DeviceBatch &batch, uint32_t rank_count, device::DeviceTransfer *to);

/// The words of TransferReport, as the host reads them.
class TransferWords : public BatchProgress {
 public:
  [[nodiscard]] SlotShape slots() const override { return slots_; }
  [[nodiscard]] uint32_t block_count(uint32_t queue_count) const override;
  [[nodiscard]] uint32_t parts_done(uint64_t turn, uint32_t queue) const override;
  [[nodiscard]] uint32_t quiet_checks(uint64_t turn, uint32_t block) const override;
  [[nodiscard]] uint64_t sent_bytes() const override;

 protected:
  [[nodiscard]] static size_t word_count(uint32_t queue_count_max, uint32_t block_count_max) {
    return size_t{queue_count_max} + block_count_max + 1;
  }
  /// Clears word_count() `words`, and uses them from then on. They must outlive this object.
  void use(uint64_t *words, uint32_t queue_count_max, uint32_t block_count_max, const ConnectionGeometry &messages);
  [[nodiscard]] device::TransferReport report() const {
    return {words_, words_ + queue_count_max_, words_ + queue_count_max_ + block_count_max_};
  }

 private:
  uint64_t *words_ = nullptr;  ///< by queue, then by block, then sent_bytes
  uint32_t queue_count_max_ = 0, block_count_max_ = 1;
  SlotShape slots_;
};

class Transfers final : public TransferWords {
 public:
  /// Makes the object, or returns null if the ranks exchange no messages. `kernels` has the kernel. `block_count` is
  /// the most blocks of a batch, which are claimed already.
  [[nodiscard]] static Result<std::unique_ptr<Transfers>> make(const PrimaryContext &context, const KernelSet &kernels,
                                                               const Segment &segment, uint32_t block_count);
  Transfers(const Transfers &) = delete;
  Transfers &operator=(const Transfers &) = delete;

  /// The bytes for lists of calls that have not ended.
  static constexpr uint64_t list_memory_bytes = 512 << 10;
  /// The most parts of a batch: one list may use all memory.
  static constexpr uint32_t batch_parts_max = list_memory_bytes / sizeof(device::DeviceTransfer);

  /// Launches a batch. `base` has the parameters that every kernel of the rank gets. ended_turn() returns the turn up
  /// to which operations have ended. If lists use all memory, launch() waits for operations to end, until `wait` is
  /// over.
  [[nodiscard]] Result<void> launch(const DeviceMessages &messages, const device::DeviceOperation &base,
                                    EnqueueWait &wait, const std::function<uint64_t()> &ended_turn, CuStream stream);

 private:
  struct List {
    uint64_t turn = 0;
    uint64_t offset = 0, bytes = 0;
  };
  Transfers(const PrimaryContext &context, const Segment &segment);
  [[nodiscard]] Result<std::byte *> make_list(const DeviceMessages &messages, EnqueueWait &wait,
                                              const std::function<uint64_t()> &ended_turn);
  [[nodiscard]] Result<std::byte *> make_captured_list(uint64_t bytes);
  [[nodiscard]] std::optional<uint64_t> take_list(uint64_t bytes, uint64_t ended_turn);

  const PrimaryContext &context_;
  const Segment &segment_;
  const CudaDriver *driver_ = nullptr;
  LoadedKernel kernel_;
  HostMemory words_;  ///< of TransferReport
  HostMemory memory_;  ///< for lists
  Arena lists_;
  std::deque<List> held_;  ///< lists of batches that may still run, by turn
  /// Blocks of list_memory_bytes for lists of captured batches. These are kept, because a graph may be launched again.
  std::vector<HostMemory> captured_;
  uint64_t captured_used_bytes_ = list_memory_bytes;  ///< of the latest block
};

}  // namespace rondo::cuda
