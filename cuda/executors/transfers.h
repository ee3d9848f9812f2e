// SPDX-License-Identifier: Apache-2.0
// The batches of messages of one rank on a device: a kernel each (cuda/kernels/transfer.h). A short list of transfers
// is in the kernel's parameter. A longer one lies in memory of the host, which the kernel reads.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

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
  [[nodiscard]] uint32_t block_count(uint32_t queue_count) const override;
  [[nodiscard]] uint32_t parts_done(uint64_t turn, uint32_t queue) const override;
  [[nodiscard]] uint32_t quiet_checks(uint64_t turn, uint32_t block) const override;
  [[nodiscard]] uint64_t sent_bytes() const override;

 protected:
  [[nodiscard]] static size_t word_count(uint32_t queue_count_max, uint32_t block_count_max) {
    return size_t{queue_count_max} + block_count_max + 1;
  }
  /// Takes word_count() words, which are cleared here and outlive this.
  void use(uint64_t *words, uint32_t queue_count_max, uint32_t block_count_max);
  [[nodiscard]] device::TransferReport report() const {
    return {words_, words_ + queue_count_max_, words_ + queue_count_max_ + block_count_max_};
  }

 private:
  uint64_t *words_ = nullptr;  ///< by queue, then by block, then sent_bytes
  uint32_t queue_count_max_ = 0, block_count_max_ = 1;
};

class Transfers final : public TransferWords {
 public:
  /// Loads nothing: `kernels` has the kernel. `block_count` is the most blocks of a batch, which are claimed. Null: the
  /// ranks exchange no messages.
  [[nodiscard]] static Result<std::unique_ptr<Transfers>> make(const PrimaryContext &context, const KernelSet &kernels,
                                                               const Segment &segment, uint32_t block_count);
  Transfers(const Transfers &) = delete;
  Transfers &operator=(const Transfers &) = delete;

  /// Launches a batch. `base` has what every kernel of the rank gets. ended_turn() returns the turn up to which
  /// operations have ended. If the memory for lists is in use, this waits some seconds for operations to end.
  [[nodiscard]] Result<void> launch(const DeviceMessages &messages, const device::DeviceOperation &base,
                                    const std::function<uint64_t()> &ended_turn, CuStream stream);

 private:
  struct List {
    uint64_t turn = 0;
    uint64_t offset = 0, bytes = 0;
  };
  explicit Transfers(const Segment &segment);
  [[nodiscard]] Result<device::DeviceTransfer *> make_list(const DeviceMessages &messages,
                                                           const std::function<uint64_t()> &ended_turn);
  [[nodiscard]] std::optional<uint64_t> take_list(uint64_t bytes, uint64_t ended_turn);

  const Segment &segment_;
  const CudaDriver *driver_ = nullptr;
  LoadedKernel kernel_;
  HostMemory words_;  ///< of TransferReport
  HostMemory memory_;  ///< for lists
  Arena lists_;
  std::deque<List> held_;  ///< of batches that may run, in the order of turns; a list of a graph stays
};

}  // namespace rondo::cuda
