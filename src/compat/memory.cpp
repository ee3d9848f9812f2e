// SPDX-License-Identifier: Apache-2.0
// This file allocates memory of devices, and has the calls that prepare memory for collectives. Registrations are only
// hints. If Rondo cannot use a registration, the call returns success and a null handle, as in NCCL.
#include <string>

#include "src/compat/communicator.h"
#include "src/compat/driver.h"
#include "src/compat/exports.h"
#include "src/compat/failure.h"

using namespace rondo::compat;

namespace {

/// Writes a null handle. Fails if the arguments do not describe a buffer.
template <class Handle>
ncclResult_t take_hint(const char *function, ncclComm *comm, const void *buffer, size_t bytes, Handle *handle) {
  if (const ncclResult_t ready = check_ready(comm, function); ready != ncclSuccess) return ready;
  if (handle == nullptr) return refuse(function, "the pointer for the result is NULL");
  if (buffer == nullptr || bytes == 0) return refuse(function, "the buffer is NULL, or its size is 0");
  *handle = nullptr;
  return ncclSuccess;
}

ncclResult_t end_hint(const char *function, ncclComm *comm, const void *handle) {
  if (const ncclResult_t alive = check_alive(comm, function); alive != ncclSuccess) return alive;
  return handle == nullptr ? ncclSuccess : refuse(function, "the handle is none that Rondo gave");
}

}  // namespace

NCCL_EXPORT ncclResult_t ncclMemAlloc(void **pointer, size_t bytes) {
  if (pointer == nullptr) return refuse("ncclMemAlloc", "the pointer for the result is NULL");
  *pointer = nullptr;
  if (bytes == 0) return ncclSuccess;
  int device = 0;
  if (const ncclResult_t known = current_device(&device); known != ncclSuccess) return known;
  return pass_on(rondo_device_mem_alloc(pointer, bytes, device), nullptr);
}
NCCL_ALIAS(MemAlloc)

NCCL_EXPORT ncclResult_t ncclMemFree(void *pointer) { return pass_on(rondo_device_mem_free(pointer), nullptr); }
NCCL_ALIAS(MemFree)

NCCL_EXPORT ncclResult_t ncclCommRegister(ncclComm_t comm, void *buffer, size_t bytes, void **handle) {
  return take_hint("ncclCommRegister", comm, buffer, bytes, handle);
}
NCCL_ALIAS(CommRegister)

NCCL_EXPORT ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle) {
  return end_hint("ncclCommDeregister", comm, handle);
}
NCCL_ALIAS(CommDeregister)
