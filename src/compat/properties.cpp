// SPDX-License-Identifier: Apache-2.0
// This file returns the properties of a communicator. All properties for device code are false or 0, because Rondo
// gives device code no access to other ranks.
#include <algorithm>
#include <cstring>
#include <string>

#include "src/compat/communicator.h"
#include "src/compat/exports.h"
#include "src/compat/failure.h"

using namespace rondo::compat;

namespace {

constexpr unsigned oldest_version = 22900, next_major_version = 30000;

}  // namespace

/// Writes the fields that the caller's release has. An uninitialised struct gives ncclInvalidUsage.
NCCL_EXPORT ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *properties) {
  constexpr const char *function = "ncclCommQueryProperties";
  if (const ncclResult_t ready = check_ready(comm, function); ready != ncclSuccess) return ready;
  if (properties == nullptr)
    return fail(ncclInvalidArgument, std::string(function) + ": the pointer for the result is NULL");
  if (properties->size < offsetof(ncclCommProperties_t, rank) || properties->magic != config_magic)
    return fail(ncclInvalidUsage, std::string(function) + ": the ncclCommProperties_t was not initialised with "
                                                          "NCCL_COMM_PROPERTIES_INITIALIZER");
  if (properties->version < oldest_version || properties->version >= next_major_version)
    return fail(ncclInvalidUsage, std::string(function) + ": the ncclCommProperties_t is of version " +
                                      std::to_string(properties->version) + "; known are 22900 to 2.x");
  const rondo_comm_t handle = comm->handle;
  rondo_comm_properties_t ours = RONDO_COMM_PROPERTIES_INIT;
  if (const rondo_status_t asked = rondo_comm_get_properties(handle, &ours); asked != RONDO_OK)
    return pass_on(asked, handle);
  ncclCommProperties_t own{};
  own.size = properties->size;
  own.magic = properties->magic;
  own.version = properties->version;
  own.rank = comm->rank;
  own.nRanks = comm->rank_count;
  own.cudaDev = comm->device;
  own.nvmlDev = -1;                 // Rondo does not ask NVML
  own.nLsaTeams = comm->rank_count;  // each team has one rank, see teams.cpp
  own.hostRmaSupport = ours.local_rank_count == ours.rank_count;  // windows of devices need ranks of one host
  own.commHash = ours.group_hash;
  std::memcpy(properties, &own, std::min(own.size, sizeof own));
  return ncclSuccess;
}
NCCL_ALIAS(CommQueryProperties)
