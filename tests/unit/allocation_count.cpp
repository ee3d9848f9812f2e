// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<uint64_t> count = 0;  // relaxed: a number, no data rides on it
}

namespace rondo_test {
uint64_t allocation_count() { return count.load(std::memory_order_relaxed); }
}  // namespace rondo_test

void *operator new(size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  if (void *memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
