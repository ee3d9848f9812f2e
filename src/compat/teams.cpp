// SPDX-License-Identifier: Apache-2.0
// Teams of ranks belong to the device-side interface. Rondo gives device code no access to other ranks' memory. So a
// team of ranks with such access has only this rank. The rail team, with one rank of each such team, has all ranks.
#include "src/compat/communicator.h"
#include "src/compat/exports.h"

using namespace rondo::compat;

namespace {

/// Returns a team. If `comm` is not usable, the team has no ranks, because these functions return no error.
ncclTeam_t team_of(ncclComm *comm, const char *function, bool alone) {
  if (check_ready(comm, function) != ncclSuccess) return {0, 0, 0};
  return alone ? ncclTeam_t{1, 0, 1} : ncclTeam_t{comm->rank_count, comm->rank, 1};
}

}  // namespace

NCCL_EXPORT ncclTeam_t ncclTeamWorld(ncclComm_t comm) { return team_of(comm, "ncclTeamWorld", false); }
NCCL_ALIAS(TeamWorld)

NCCL_EXPORT ncclTeam_t ncclTeamRail(ncclComm_t comm) { return team_of(comm, "ncclTeamRail", false); }
NCCL_ALIAS(TeamRail)

NCCL_EXPORT ncclTeam_t ncclTeamLsa(ncclComm_t comm) { return team_of(comm, "ncclTeamLsa", true); }
NCCL_ALIAS(TeamLsa)

NCCL_EXPORT ncclTeam_t ncclTeamCft(ncclComm_t comm) { return team_of(comm, "ncclTeamCft", true); }
NCCL_ALIAS(TeamCft)

NCCL_EXPORT ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm) { return team_of(comm, "ncclTeamCftMultimem", true); }
NCCL_ALIAS(TeamCftMultimem)

/// Converts a rank's number in `team` to its rank in the communicator. Returns -1 if `comm` is not usable.
NCCL_EXPORT int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  if (check_ready(comm, "ncclTeamRankToWorld") != ncclSuccess) return -1;
  return comm->rank + (rank - team.rank) * team.stride;
}
NCCL_ALIAS(TeamRankToWorld)

/// Converts a rank's number in `team` to its number in the LSA team. Returns -1 if `comm` is not usable.
NCCL_EXPORT int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank) {
  if (check_ready(comm, "ncclTeamRankToLsa") != ncclSuccess) return -1;
  return (rank - team.rank) * team.stride;
}
NCCL_ALIAS(TeamRankToLsa)
