// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<uint64_t> allocations = 0;  // relaxed: the number publishes no data
std::atomic<bool> others_fail = false;  // relaxed: a thread that starts later sees it
thread_local bool is_spared = false;
}  // namespace

namespace rondo_test {
uint64_t allocation_count() { return allocations.load(std::memory_order_relaxed); }

OthersOutOfMemory::OthersOutOfMemory() {
  is_spared = true;
  others_fail.store(true, std::memory_order_relaxed);
}

OthersOutOfMemory::~OthersOutOfMemory() {
  others_fail.store(false, std::memory_order_relaxed);
  is_spared = false;
}
}  // namespace rondo_test

namespace {
void *count_and_allocate(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (others_fail.load(std::memory_order_relaxed) && !is_spared) return nullptr;
  return std::malloc(bytes);
}

void *or_throw(void *memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

// All forms except the aligned ones are replaced. A form of AddressSanitizer would not match malloc() and free() here.
void *operator new(size_t bytes) { return or_throw(count_and_allocate(bytes)); }
void *operator new[](size_t bytes) { return or_throw(count_and_allocate(bytes)); }
void *operator new(size_t bytes, const std::nothrow_t &) noexcept { return count_and_allocate(bytes); }
void *operator new[](size_t bytes, const std::nothrow_t &) noexcept { return count_and_allocate(bytes); }
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t) noexcept { std::free(memory); }
void operator delete(void *memory, const std::nothrow_t &) noexcept { std::free(memory); }
void operator delete[](void *memory, const std::nothrow_t &) noexcept { std::free(memory); }
