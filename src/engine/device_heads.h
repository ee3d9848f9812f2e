// SPDX-License-Identifier: Apache-2.0
// This class finds the heads of a batch on a device: the first incomplete message of each peer and direction.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/engine/device_batch.h"
#include "src/engine/transfers.h"
#include "src/links/message_boards.h"

namespace rondo {

class DeviceHeads final : public TransferHeads {
 public:
  /// Takes the batch and its turn. All references must outlive this object.
  DeviceHeads(const BatchProgress &progress, std::shared_ptr<const DeviceBatch> batch, uint64_t turn,
              MessageBoards &boards, uint32_t rank);

  /// Reads the kernel's report. If all messages are complete, the heads do not change.
  void refresh();
  /// Returns the head that receives from `peer`, or null.
  [[nodiscard]] const Transfer *receiving_from(uint32_t peer) const;

  [[nodiscard]] size_t head_count() const override { return heads_.size(); }
  [[nodiscard]] const Transfer &head(size_t index) const override { return batch_->transfers()[heads_[index]]; }
  /// Returns whether the head, whose peer has ended, is blocked. The first call only notes the kernel's progress and
  /// returns false. A later call returns true if the kernel has checked all heads since then and found nothing to do.
  [[nodiscard]] bool is_blocked(size_t index) override;
  [[nodiscard]] size_t late_head() override;
  [[nodiscard]] bool reads_slots() const override { return false; }

 private:
  [[nodiscard]] bool is_done(uint32_t transfer) const;

  const BatchProgress &progress_;
  const std::shared_ptr<const DeviceBatch> batch_;
  const uint64_t turn_;
  MessageBoards &boards_;
  const uint32_t rank_;
  std::vector<uint32_t> heads_;  ///< indices of transfers
  std::vector<uint32_t> noted_;  ///< quiet_checks() of each thread block at the note; empty before the first note
};

}  // namespace rondo
