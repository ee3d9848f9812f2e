// SPDX-License-Identifier: Apache-2.0
// A batch of messages as a device runs it. Large messages are cut into parts, which go by channels of their own. Parts
// with the same peer, direction and channel form a queue, in the order of their messages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/engine/transfers.h"

namespace rondo {

/// The most ranks of a communicator on a device that exchanges messages.
inline constexpr uint32_t batch_ranks_max = 64;

class DeviceBatch {
 public:
  static constexpr uint32_t none = UINT32_MAX;
  struct Part {
    uint32_t transfer = 0;  ///< index of its message
    uint32_t queue = 0;
    uint32_t position = 0;  ///< in its queue
    uint32_t channel = 0;
    uint64_t offset = 0;    ///< bytes
    uint64_t bytes = 0;
    uint32_t next = none;   ///< of the queue
  };
  /// Parts are not smaller than this.
  static constexpr uint64_t part_bytes_min = 64 << 10;

  /// Takes the transfers of a batch. `channel_count` is the most parts of a message, equal at both ends.
  DeviceBatch(std::span<const Transfer> transfers, uint32_t channel_count);

  [[nodiscard]] std::span<const Transfer> transfers() const { return transfers_; }
  /// Returns all parts. The first queue_count() are the heads of the queues, in the order of queues.
  [[nodiscard]] std::span<const Part> parts() const { return parts_; }
  [[nodiscard]] uint32_t queue_count() const { return queue_count_; }

 private:
  std::vector<Transfer> transfers_;
  std::vector<Part> parts_;
  uint32_t queue_count_ = 0;
};

/// The report of the kernel that runs a batch, or ran the latest one. Any thread.
class BatchProgress {
 public:
  virtual ~BatchProgress() = default;

  /// Returns the blocks of a kernel for that many queues.
  [[nodiscard]] virtual uint32_t block_count(uint32_t queue_count) const = 0;
  /// Returns how many parts of a queue are done, of the batch with that turn.
  [[nodiscard]] virtual uint32_t parts_done(uint64_t turn, uint32_t queue) const = 0;
  /// Returns how often in a row a block has found nothing to do, UINT32_MAX if it has ended.
  [[nodiscard]] virtual uint32_t quiet_checks(uint64_t turn, uint32_t block) const = 0;
  /// Returns the size, at its sender, of a message or block whose sizes differ.
  [[nodiscard]] virtual uint64_t sent_bytes() const = 0;
};

}  // namespace rondo
