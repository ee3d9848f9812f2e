// SPDX-License-Identifier: Apache-2.0
// This file makes and ends operations with a factor. Their numbers are Rondo's, which are above all numbers of NCCL.
#include <string>

#include "src/compat/exports.h"
#include "src/compat/failure.h"
#include "src/compat/group.h"

using namespace rondo::compat;

NCCL_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                                  ncclScalarResidence_t residence, ncclComm_t comm) {
  constexpr char function[] = "ncclRedOpCreatePreMulSum";
  if (const ncclResult_t ready = check_ready(comm, function); ready != ncclSuccess) return ready;
  const auto refuse = [&](const std::string &what) {
    return fail(ncclInvalidArgument, std::string(function) + ": " + what);
  };
  if (op == nullptr) return refuse("op is NULL");
  if (scalar == nullptr) return refuse("scalar is NULL");
  if (type < 0 || type >= ncclNumTypes) return refuse("the data type " + std::to_string(type) + " is unknown");
  if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
    return refuse("the residence " + std::to_string(residence) + " is unknown");
  const rondo_comm_t handle = comm->handle;
  const auto place = residence == ncclScalarDevice ? RONDO_RESIDENCE_DEVICE : RONDO_RESIDENCE_HOST;
  rondo_op_t made = RONDO_SUM;
  const rondo_status_t status = rondo_op_create_premul_sum(&made, scalar, type_of(type), place, handle);
  if (status != RONDO_OK) return pass_on(status, handle);
  *op = static_cast<ncclRedOp_t>(made);
  return ncclSuccess;
}
NCCL_ALIAS(RedOpCreatePreMulSum)

/// In a group, the operation ends at the group's end, since calls that the group has kept may use it.
NCCL_EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  constexpr char function[] = "ncclRedOpDestroy";
  if (const ncclResult_t ready = check_ready(comm, function); ready != ncclSuccess) return ready;
  if (op < ncclNumOps || ends_with_group(op))
    return fail(ncclInvalidArgument, std::string(function) + ": the operation " + std::to_string(op) +
                                         (op < ncclNumOps ? " is not a created one" : " was destroyed in this group"));
  return end_or_keep(static_cast<rondo_op_t>(op), comm);
}
NCCL_ALIAS(RedOpDestroy)
