// SPDX-License-Identifier: Apache-2.0
// This class holds the operations made by rondo_op_create_premul_sum() until rondo_op_destroy() ends them. A value of
// rondo_op_t names a slot and a generation. So find() refuses an operation that has ended or is another communicator's.
//
//   31 30           16 15           0
//   | 0 | generation  | slot         |     generation: from 1, so every value is above RONDO_OP_DYNAMIC
//
// Once a slot has had 2^15 - 1 operations, its generations repeat.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/cpu.h"
#include "src/base/result.h"
#include "src/engine/executor.h"

namespace rondo {

class Communicator;

struct CreatedOp {
  const Communicator *comm = nullptr;  ///< communicator of the operation; the pointer is only compared
  rondo_type_t type = RONDO_INT8;
  std::shared_ptr<const CallDetails> factor;  ///< a Factor, which calls share, so that they allocate nothing
};

/// The created operations of this process. Any thread may use this object.
class CreatedOps {
 public:
  static constexpr uint32_t slot_count_max = 1 << 16;

  /// Adds an operation. RONDO_ERROR_OUT_OF_RESOURCES: all slots are in use. Throws std::bad_alloc.
  [[nodiscard]] Result<rondo_op_t> add(const CreatedOp &made);
  /// Finds an operation. RONDO_ERROR_INVALID_ARGUMENT: `op` is not an operation of `comm`.
  [[nodiscard]] Result<CreatedOp> find(rondo_op_t op, const Communicator &comm) const;
  /// Ends an operation. Fails as find() does.
  [[nodiscard]] Result<void> remove(rondo_op_t op, const Communicator &comm);
  /// Ends all operations of `comm`.
  void remove_all(const Communicator &comm);

 private:
  static constexpr uint32_t generation_max = (1 << 15) - 1;
  static constexpr uint32_t no_slot = UINT32_MAX;

  struct Slot {
    CreatedOp made;  ///< if `comm` is null, the slot is free
    uint32_t generation = 1;
    uint32_t next_free = no_slot;
  };

  [[nodiscard]] Result<uint32_t> slot_of(rondo_op_t op, const Communicator &comm) const;
  /// Returns the slot's factor. The caller destroys the factor after it has released the lock.
  [[nodiscard]] std::shared_ptr<const CallDetails> free_slot(uint32_t index);

  mutable ShortLock lock_;
  std::vector<Slot> slots_;  ///< never shrinks, so that no generation is forgotten
  uint32_t first_free_ = no_slot;
  uint32_t live_count_ = 0;
};

}  // namespace rondo
