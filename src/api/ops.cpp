// SPDX-License-Identifier: Apache-2.0
// This file has the operations that a program makes: sums of elements that each rank multiplies by its own factor.
#include <cstring>
#include <string>

#include "src/api/boundary.h"
#include "src/api/lookup.h"
#include "src/api/run_collective.h"
#include "src/api/validate.h"

using namespace rondo;

namespace {

Result<Factor> factor_of(const Communicator &comm, const void *scalar, size_t bytes,
                         const rondo_residence_t &residence) {
  int value = 0;  // a C caller may pass any number, so the value is loaded as a number
  static_assert(sizeof value == sizeof residence);
  std::memcpy(&value, &residence, sizeof value);
  Factor factor;
  switch (value) {
    case RONDO_RESIDENCE_HOST:
      RONDO_TRY(rondo::check_buffer("scalar", scalar, bytes));
      std::memcpy(&factor.value, scalar, bytes);
      return factor;
    case RONDO_RESIDENCE_DEVICE:
      RONDO_TRY(check_buffer(comm, "scalar", scalar, bytes));
      factor.address = static_cast<const std::byte *>(scalar);
      return factor;
  }
  return invalid_argument("unknown residence " + std::to_string(value) +
                          "; known are RONDO_RESIDENCE_HOST (0) and RONDO_RESIDENCE_DEVICE (1)");
}

}  // namespace

extern "C" {

rondo_status_t rondo_op_create_premul_sum(rondo_op_t *op, const void *scalar, rondo_type_t type,
                                          rondo_residence_t residence, rondo_comm_t handle) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    if (op == nullptr) return invalid_argument("op is NULL; it receives the operation");
    RONDO_TRY_ASSIGN(const size_t bytes, bytes_of(1, type));
    RONDO_TRY_ASSIGN(const Factor factor, factor_of(*comm, scalar, bytes, residence));
    RONDO_TRY_ASSIGN(
        *op, process().created_ops.add({comm.get(), type, std::make_shared<const CallDetails>(factor)}));
    return {};
  });
}

rondo_status_t rondo_op_destroy(rondo_op_t op, rondo_comm_t handle) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    if (op < RONDO_OP_DYNAMIC)
      return invalid_argument("op " + std::to_string(static_cast<int>(op)) +
                              " was not made by rondo_op_create_premul_sum, so it cannot be destroyed");
    return process().created_ops.remove(op, *comm);
  });
}

}  // extern "C"
