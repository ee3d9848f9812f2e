// SPDX-License-Identifier: Apache-2.0
// Users hold handles instead of addresses. A handle names a slot of a table and a generation of that slot. By comparing
// generations, the table detects a destroyed, foreign or invented handle without dereferencing it.
//
//   63      60 59      56 55                           16 15           0
//   | marker 5 |  kind    |  generation (1 .. 2^40 - 1)  |  slot        |
//
// The marker distinguishes handles from plain addresses (which begin with 0000 or 1111), from NULL, and from CUDA's
// special stream values 1 and 2. The kind distinguishes an event from a stream. A slot's generation repeats after 2^40
// removals, which takes two weeks at a million removals a second. So only a handle older than that can be taken for the
// handle of another object.
//
// Every call reads the table. The slots are spread over shards, each with its own lock and cache line. So ranks that
// are threads seldom wait for each other. A caller shares ownership of the object that it finds, so the object survives
// a concurrent removal.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/cpu.h"
#include "src/base/result.h"

namespace rondo {

enum class HandleKind : uint8_t { communicator = 1, stream = 2, event = 3, registration = 4, window = 5 };

struct HandleFields {
  HandleKind kind;
  uint64_t generation;
  uint32_t slot;
};

inline constexpr uint64_t handle_marker = 5;
inline constexpr uint64_t handle_generation_max = (uint64_t{1} << 40) - 1;
inline constexpr uint32_t handle_slot_count = 65'536;

/// Returns the fields of a handle, or nothing if Rondo cannot have made it.
[[nodiscard]] std::optional<HandleFields> decode_handle(const void *handle);
[[nodiscard]] void *encode_handle(const HandleFields &fields);

/// Returns RONDO_ERROR_INVALID_HANDLE with the reason: null, another kind, destroyed, or never made.
[[nodiscard]] Error invalid_handle(HandleKind expected, const void *handle);
/// Returns RONDO_ERROR_OUT_OF_RESOURCES, the error of an insert() that returned null.
[[nodiscard]] Error no_more_handles(HandleKind kind);

/// A table of at most 65,536 live handles of one kind. Any thread may use it.
template <class T>
class HandleTable {
 public:
  /// Makes an empty table. Tests pass `first_generation`, so that generations wrap soon.
  explicit HandleTable(HandleKind kind, uint64_t first_generation = 1)
      : kind_(kind), first_generation_(first_generation) {}
  HandleTable(const HandleTable &) = delete;
  HandleTable &operator=(const HandleTable &) = delete;

  /// Makes a new handle for `object`. Returns null if the table is full or memory ran out.
  [[nodiscard]] void *insert(std::shared_ptr<T> object) {
    // Relaxed: the number only spreads the load, and no other data depends on it.
    const uint32_t start = next_shard_.fetch_add(1, std::memory_order_relaxed);
    for (uint32_t i = 0; i < shard_count; ++i) {
      const uint32_t shard = (start + i) % shard_count;
      if (void *handle = insert_into(shard, object)) return handle;
    }
    return nullptr;
  }

  /// Makes a handle that has no object yet. find() and remove() refuse it until fill() adds the object. The caller must
  /// call fill(), or release() to free the handle. Returns null in the same cases as insert().
  [[nodiscard]] void *reserve() { return insert(nullptr); }
  void fill(const void *reserved, std::shared_ptr<T> object) {
    const HandleFields fields = *decode_handle(reserved);
    Shard &shard = shards_[fields.slot % shard_count];
    const std::lock_guard lock(shard.mutex);
    shard.slots[fields.slot / shard_count].object = std::move(object);
  }
  void release(const void *reserved) {
    const HandleFields fields = *decode_handle(reserved);
    Shard &shard = shards_[fields.slot % shard_count];
    const std::lock_guard lock(shard.mutex);
    static_cast<void>(free_slot(shard, fields.slot / shard_count));
  }

  /// Returns the object, or null if the handle is not in this table, or has been removed.
  [[nodiscard]] std::shared_ptr<T> find(const void *handle) const {
    const auto fields = decode_handle(handle);
    if (!fields || fields->kind != kind_) return nullptr;
    const Shard &shard = shards_[fields->slot % shard_count];
    const std::lock_guard lock(shard.mutex);
    const uint32_t index = fields->slot / shard_count;
    if (index >= shard.slots.size() || shard.slots[index].generation != fields->generation) return nullptr;
    return shard.slots[index].object;
  }

  /// Finds the object, and makes its handle invalid. The caller destroys the object outside of the lock.
  [[nodiscard]] std::shared_ptr<T> remove(const void *handle) {
    const auto fields = decode_handle(handle);
    if (!fields || fields->kind != kind_) return nullptr;
    Shard &shard = shards_[fields->slot % shard_count];
    const std::lock_guard lock(shard.mutex);
    const uint32_t index = fields->slot / shard_count;
    if (index >= shard.slots.size()) return nullptr;
    const Slot &slot = shard.slots[index];
    if (slot.generation != fields->generation || slot.object == nullptr) return nullptr;
    return free_slot(shard, index);
  }

  /// Returns the objects of all handles.
  [[nodiscard]] std::vector<std::shared_ptr<T>> all() const {
    std::vector<std::shared_ptr<T>> objects;
    for (const Shard &shard : shards_) {
      const std::lock_guard lock(shard.mutex);
      for (const Slot &slot : shard.slots)
        if (slot.object != nullptr) objects.push_back(slot.object);
    }
    return objects;
  }

  [[nodiscard]] uint32_t live_count() const {
    uint32_t count = 0;
    for (const Shard &shard : shards_) {
      const std::lock_guard lock(shard.mutex);
      for (const Slot &slot : shard.slots) count += slot.object != nullptr ? 1 : 0;
    }
    return count;
  }

 private:
  static constexpr uint32_t shard_count = 16;
  static constexpr uint32_t slots_per_shard = handle_slot_count / shard_count;
  static constexpr uint32_t no_slot = UINT32_MAX;

  struct Slot {
    std::shared_ptr<T> object;  // null if the slot is free or reserved
    uint64_t generation = 1;    // generation of the live handle, or of the next handle
    uint32_t next_free = no_slot;
  };

  struct alignas(64) Shard {
    mutable ShortLock mutex;
    std::vector<Slot> slots;  // grows to slots_per_shard and never shrinks, so that generations are kept
    uint32_t first_free = no_slot;
  };

  /// Frees a slot. The caller holds the shard's lock. @return the object that the slot had.
  static std::shared_ptr<T> free_slot(Shard &shard, uint32_t index) {
    Slot &slot = shard.slots[index];
    slot.generation = slot.generation == handle_generation_max ? 1 : slot.generation + 1;
    slot.next_free = std::exchange(shard.first_free, index);
    return std::exchange(slot.object, nullptr);
  }

  void *insert_into(uint32_t shard_index, std::shared_ptr<T> &object) {
    Shard &shard = shards_[shard_index];
    const std::lock_guard lock(shard.mutex);
    if (shard.first_free == no_slot && !add_slot(shard)) return nullptr;
    const uint32_t index = shard.first_free;
    Slot &slot = shard.slots[index];
    shard.first_free = slot.next_free;
    slot.object = std::move(object);
    return encode_handle({kind_, slot.generation, index * shard_count + shard_index});
  }

  bool add_slot(Shard &shard) {
    if (shard.slots.size() >= slots_per_shard) return false;
    try {
      shard.slots.emplace_back().generation = first_generation_;
    } catch (const std::bad_alloc &) {
      return false;
    }
    shard.first_free = static_cast<uint32_t>(shard.slots.size() - 1);
    return true;
  }

  const HandleKind kind_;
  const uint64_t first_generation_;
  std::atomic<uint32_t> next_shard_ = 0;
  std::array<Shard, shard_count> shards_;
};

}  // namespace rondo
