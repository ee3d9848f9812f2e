// SPDX-License-Identifier: Apache-2.0
#include "src/core/registration_cache.h"

#include <algorithm>
#include <utility>

#include "src/base/log.h"
#include "src/base/parse.h"

namespace rondo {
namespace {

/// Returns whether the ranges overlap. `first` is null for a rank without data.
bool overlaps(const Registration &registration, const std::byte *first, size_t bytes) {
  if (first == nullptr) return false;
  return registration.first < first + bytes && first < registration.first + registration.bytes;
}

}  // namespace

Result<std::shared_ptr<Registration>> RegistrationCache::add(void *pointer, size_t bytes, bool move) {
  const auto *const first = static_cast<const std::byte *>(pointer);
  const std::lock_guard lock(mutex_);
  for (const auto &known : registrations_)
    if (overlaps(*known, first, bytes))
      return invalid_argument("the buffer overlaps one that is registered already; deregister that first");
  auto registration = std::make_shared<Registration>();
  registration->first = first;
  registration->bytes = bytes;
  const bool in_region = regions_.find(pointer, bytes).has_value();
  if (move && !in_region) {
    RONDO_TRY_ASSIGN(auto moved, move_pages(regions_, pointer, bytes));
    registration->moved.emplace(std::move(moved));
  }
  registrations_.push_back(registration);
  if (log::enabled(log::Level::debug, log::Subsystem::memory))
    log::debug(log::Subsystem::memory,
               "registered a buffer of " + show_bytes(bytes) + " bytes; " +
                   (!exported_            ? "its executor shares it"
                    : in_region           ? "peers read it mapped, as memory of rondo_mem_alloc()"
                    : registration->moved ? "peers read it mapped, its pages moved into shared memory"
                                          : "peers read it by process_vm_readv"));
  return registration;
}

/// Returns the index of `registration`. The caller holds mutex_.
Result<size_t> RegistrationCache::index_of(const Registration *registration) const {
  const auto found = std::find_if(registrations_.begin(), registrations_.end(),
                                  [&](const auto &known) { return known.get() == registration; });
  if (found == registrations_.end())
    return invalid_argument("the registration belongs to another communicator, or has ended");
  return static_cast<size_t>(found - registrations_.begin());
}

Result<void> RegistrationCache::check(const Registration *registration) const {
  const std::lock_guard lock(mutex_);
  const auto index = index_of(registration);
  return index.ok() ? Result<void>() : index.error();
}

Result<void> RegistrationCache::remove(const Registration *registration) {
  const std::lock_guard lock(mutex_);
  RONDO_TRY_ASSIGN(const size_t index, index_of(registration));
  const auto found = registrations_.begin() + static_cast<std::ptrdiff_t>(index);
  if ((*found)->moved) RONDO_TRY((*found)->moved->move_back());
  registrations_.erase(found);
  return {};
}

std::vector<std::shared_ptr<Registration>> RegistrationCache::clear() {
  const std::lock_guard lock(mutex_);
  return std::exchange(registrations_, {});
}

MemoryHandle RegistrationCache::find(const std::byte *first, size_t bytes) const {
  MemoryHandle handle{};
  handle.exported = true;
  const auto set_region = [&](const RegionRef &region, const std::byte *begin, size_t size) {
    handle.kind = PayloadKind::mapped;
    handle.first = begin;
    handle.bytes = size;
    handle.region = static_cast<uint32_t>(region.id);
    handle.inode = region.inode;
    handle.replaced = region.replaced;
    handle.region_offset = region.offset;
    handle.region_bytes = region.region_bytes;
    handle.descriptor = region.descriptor;
  };
  if (const auto region = regions_.find(first, bytes)) {
    set_region(*region, first, bytes);
    return handle;
  }
  const std::lock_guard lock(mutex_);
  for (const auto &registration : registrations_) {
    if (!overlaps(*registration, first, bytes)) continue;
    if (registration->moved) {
      if (registration->moved->region() == 0) break;  // the pages are being moved back
      const MovedPages &moved = *registration->moved;
      if (const auto region = regions_.find(moved.address(), moved.bytes()))
        set_region(*region, moved.address(), moved.bytes());
    } else {
      handle.kind = PayloadKind::process;
      handle.first = registration->first;
      handle.bytes = registration->bytes;
    }
    break;
  }
  return handle;
}

}  // namespace rondo
