// SPDX-License-Identifier: Apache-2.0
#include "src/core/created_ops.h"

#include <mutex>
#include <string>
#include <utility>

namespace rondo {

Result<rondo_op_t> CreatedOps::add(const CreatedOp &made) {
  const std::lock_guard lock(lock_);
  if (first_free_ == no_slot) {
    if (slots_.size() == slot_count_max)
      return Error{RONDO_ERROR_OUT_OF_RESOURCES,
                   std::to_string(slot_count_max) +
                       " operations of rondo_op_create_premul_sum exist; end some by rondo_op_destroy"};
    slots_.emplace_back();
    first_free_ = static_cast<uint32_t>(slots_.size() - 1);
  }
  const uint32_t index = first_free_;
  Slot &slot = slots_[index];
  first_free_ = std::exchange(slot.next_free, no_slot);
  slot.made = made;
  ++live_count_;
  return static_cast<rondo_op_t>(slot.generation << 16 | index);
}

Result<uint32_t> CreatedOps::slot_of(rondo_op_t op, const Communicator &comm) const {
  const auto number = static_cast<uint32_t>(op);
  const uint32_t index = number & (slot_count_max - 1);
  const bool is_live = index < slots_.size() && slots_[index].generation == number >> 16 &&
                       slots_[index].made.comm != nullptr;
  if (!is_live)
    return invalid_argument("op " + std::to_string(number) +
                            " was destroyed, or never made by rondo_op_create_premul_sum in this process");
  if (slots_[index].made.comm != &comm)
    return invalid_argument("op " + std::to_string(number) +
                            " belongs to another communicator; make one for this communicator by "
                            "rondo_op_create_premul_sum");
  return index;
}

Result<CreatedOp> CreatedOps::find(rondo_op_t op, const Communicator &comm) const {
  const std::lock_guard lock(lock_);
  RONDO_TRY_ASSIGN(const uint32_t index, slot_of(op, comm));
  return slots_[index].made;
}

Result<void> CreatedOps::remove(rondo_op_t op, const Communicator &comm) {
  std::shared_ptr<const CallDetails> factor;  // destroyed after the unlock, because other threads spin until then
  const std::lock_guard lock(lock_);
  RONDO_TRY_ASSIGN(const uint32_t index, slot_of(op, comm));
  factor = free_slot(index);
  return {};
}

void CreatedOps::remove_all(const Communicator &comm) {
  for (uint32_t index = 0;; ++index) {  // ends at the last slot
    std::shared_ptr<const CallDetails> factor;  // destroyed after the unlock
    const std::lock_guard lock(lock_);
    if (live_count_ == 0) return;
    while (index < slots_.size() && slots_[index].made.comm != &comm) ++index;
    if (index >= slots_.size()) return;
    factor = free_slot(index);
  }
}

std::shared_ptr<const CallDetails> CreatedOps::free_slot(uint32_t index) {
  Slot &slot = slots_[index];
  std::shared_ptr<const CallDetails> factor = std::move(slot.made.factor);
  slot.made = {};
  slot.generation = slot.generation == generation_max ? 1 : slot.generation + 1;
  slot.next_free = std::exchange(first_free_, index);
  --live_count_;
  return factor;
}

}  // namespace rondo
