// SPDX-License-Identifier: Apache-2.0
// This file implements rondo_mem_alloc(), rondo_device_mem_alloc() and the functions that free this memory. It
// validates arguments and translates results.
#include "src/api/boundary.h"
#include "src/base/log.h"
#include "src/base/parse.h"
#include "src/core/process.h"
#include "src/core/registry.h"

using namespace rondo;

extern "C" {

rondo_status_t rondo_mem_alloc(void **pointer, size_t bytes) noexcept {
  return at_boundary([&]() -> Result<void> {
    if (pointer == nullptr) return invalid_argument("rondo_mem_alloc: pointer is NULL");
    RONDO_TRY_ASSIGN(*pointer, process().regions.allocate(bytes));
    if (log::enabled(log::Level::debug, log::Subsystem::memory))
      log::debug(log::Subsystem::memory, "allocated " + show_bytes(bytes) + " bytes that peers can map");
    return {};
  });
}

rondo_status_t rondo_mem_free(void *pointer) noexcept {
  return at_boundary([&]() -> Result<void> {
    if (pointer == nullptr) return {};
    return process().regions.free(pointer);
  });
}

rondo_status_t rondo_device_mem_alloc(void **pointer, size_t bytes, int device) noexcept {
  return at_boundary([&]() -> Result<void> {
    if (pointer == nullptr) return invalid_argument("rondo_device_mem_alloc: pointer is NULL");
    if (bytes == 0) return invalid_argument("rondo_device_mem_alloc: bytes is 0; there is nothing to allocate");
    RONDO_TRY_ASSIGN(const Config config, process().config);
    RONDO_TRY_ASSIGN(*pointer, allocate_device_memory(config, device, bytes));
    return {};
  });
}

rondo_status_t rondo_device_mem_free(void *pointer) noexcept {
  return at_boundary([&]() -> Result<void> {
    if (pointer == nullptr) return {};
    return free_device_memory(pointer);
  });
}

}  // extern "C"
