// SPDX-License-Identifier: Apache-2.0
// This file makes, ends and queries communicators.
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "src/compat/driver.h"
#include "src/compat/exports.h"
#include "src/compat/failure.h"
#include "src/compat/group.h"

using namespace rondo::compat;

static_assert(sizeof(ncclUniqueId) == sizeof(rondo_unique_id_t));

namespace {

ncclResult_t check_ranks(const char *function, int rank, int rank_count) {
  if (rank_count < 1) return refuse(function, "the number of ranks is " + std::to_string(rank_count));
  if (rank < 0 || rank >= rank_count)
    return refuse(function, "the rank is " + std::to_string(rank) + "; it must be 0 to " +
                                std::to_string(rank_count - 1));
  return ncclSuccess;
}

struct Place {
  int rank, rank_count, device;
};

/// Makes a communicator. Writes the handle before it waits, so that another thread can abort the initialisation.
ncclResult_t make(ncclComm_t *comm, const Place &place, std::span<const ncclUniqueId> ids, Settings settings) {
  Initialisation initialisation;
  initialisation.comm = make_communicator(place.rank, place.rank_count, place.device, settings.blocking);
  initialisation.settings = std::move(settings);
  for (const ncclUniqueId &id : ids)
    std::memcpy(initialisation.ids.emplace_back().internal, id.internal, sizeof id.internal);
  *comm = initialisation.comm;
  const ncclResult_t result = run_or_keep(std::move(initialisation));
  if (result != ncclSuccess && result != ncclInProgress) *comm = nullptr;
  return result;
}

ncclResult_t init_rank(const char *function, ncclComm_t *comm, int rank, int rank_count,
                       std::span<const ncclUniqueId> ids, const ncclConfig_t *config) {
  if (comm == nullptr) return refuse(function, "comm is NULL");
  *comm = nullptr;
  if (const ncclResult_t ranks = check_ranks(function, rank, rank_count); ranks != ncclSuccess) return ranks;
  Settings settings;
  if (const ncclResult_t read = read_settings(config, function, &settings); read != ncclSuccess) return read;
  Place place{rank, rank_count, 0};
  if (const ncclResult_t found = current_device(&place.device); found != ncclSuccess) return found;
  return make(comm, place, ids, std::move(settings));
}

ncclResult_t get_unique_id(ncclUniqueId *id) {
  if (id == nullptr) return refuse("ncclGetUniqueId", "the id is NULL");
  Settings settings;
  if (const ncclResult_t read = read_settings(nullptr, "ncclGetUniqueId", &settings); read != ncclSuccess) return read;
  const rondo_config_t config = settings.config(RONDO_DEVICE_HOST);
  rondo_unique_id_t made;
  const rondo_status_t status = rondo_get_unique_id(&made, &config);
  if (status != RONDO_OK) return pass_on(status, nullptr);
  std::memcpy(id->internal, made.internal, sizeof id->internal);
  return ncclSuccess;
}

ncclResult_t init_all(ncclComm_t *comms, int device_count, const int *devices) {
  constexpr const char *function = "ncclCommInitAll";
  if (comms == nullptr) return refuse(function, "comms is NULL");
  if (const ncclResult_t ranks = check_ranks(function, 0, device_count); ranks != ncclSuccess) return ranks;
  ncclUniqueId id{};
  if (device_count > 1)
    if (const ncclResult_t got = get_unique_id(&id); got != ncclSuccess) return got;
  const bool alone = !in_group();
  Settings settings;
  if (const ncclResult_t read = read_settings(nullptr, function, &settings); read != ncclSuccess) return read;
  settings.blocking = true;
  start_group();
  for (int rank = 0; rank < device_count; ++rank)
    static_cast<void>(
        make(&comms[rank], {rank, device_count, devices != nullptr ? devices[rank] : rank}, {&id, 1}, settings));
  const ncclResult_t result = end_group();
  if (!alone || result == ncclSuccess) return result;
  for (int rank = 0; rank < device_count; ++rank) {
    static_cast<void>(end_communicator(comms[rank], true));
    comms[rank] = nullptr;
  }
  return result;
}

/// Begins the initialisation of a communicator that comes from `parent`, or keeps it for the end of a group.
/// `inherits`: the caller gave no configuration. `rank_count` is 0 if it is not known. On a failure, *made is null.
ncclResult_t begin_from(ncclComm *parent, Initialisation initialisation, bool inherits, ncclComm_t *made,
                        int rank_count = 0) {
  initialisation.parent = parent;
  initialisation.inherits = inherits;
  const bool blocking = inherits ? parent->blocking : initialisation.settings.blocking;
  initialisation.comm = *made = make_communicator(0, rank_count, parent->device, blocking);
  const ncclResult_t result = run_or_keep(std::move(initialisation));
  if (result != ncclSuccess && result != ncclInProgress) *made = nullptr;
  return result;
}

/// Splits a communicator. A rank without a color does not wait. For Rondo, every communicator of this library is
/// nonblocking, and a part inherits that setting.
ncclResult_t split(ncclComm *parent, int color, int key, ncclComm_t *part, const ncclConfig_t *config) {
  constexpr const char *function = "ncclCommSplit";
  if (part == nullptr) return refuse(function, "newcomm is NULL");
  *part = nullptr;
  if (const ncclResult_t ready = check_ready(parent, function); ready != ncclSuccess) return ready;
  Initialisation initialisation;
  if (const ncclResult_t read = read_settings(config, function, &initialisation.settings); read != ncclSuccess)
    return read;
  if (color < ncclSplitNoColor)
    return refuse(function, "the color is " + std::to_string(color) + "; it must be 0 or more, or NCCL_SPLIT_NOCOLOR");
  if (color == ncclSplitNoColor) {
    const rondo_comm_t handle = parent->handle;
    rondo_comm_t none = nullptr;
    return pass_on(rondo_comm_split(handle, RONDO_NO_COLOR, key, nullptr, &none), handle);
  }
  initialisation.color = color;
  initialisation.key = key;
  return begin_from(parent, std::move(initialisation), config == nullptr, part);
}

ncclResult_t shrink(ncclComm *parent, const int *excluded, int excluded_count, ncclComm_t *rest,
                    const ncclConfig_t *config, int flags) {
  constexpr const char *function = "ncclCommShrink";
  if (rest == nullptr) return refuse(function, "newcomm is NULL");
  *rest = nullptr;
  if (const ncclResult_t ready = check_ready(parent, function); ready != ncclSuccess) return ready;
  if (excluded_count < 0 || (excluded_count != 0 && excluded == nullptr))
    return refuse(function, "there is no list of " + std::to_string(excluded_count) + " ranks");
  if (flags != 0 && flags != ncclShrinkAbort)
    return refuse(function, "the flags are " + std::to_string(flags) +
                                "; known are NCCL_SHRINK_DEFAULT (0) and NCCL_SHRINK_ABORT (1)");
  Initialisation initialisation;
  if (const ncclResult_t read = read_settings(config, function, &initialisation.settings); read != ncclSuccess)
    return read;
  initialisation.from = Initialisation::From::shrink;
  initialisation.excluded.assign(excluded, excluded + excluded_count);
  initialisation.shrink_flags = flags == ncclShrinkAbort ? unsigned{RONDO_SHRINK_ABORT} : 0u;
  return begin_from(parent, std::move(initialisation), config == nullptr, rest);
}

ncclResult_t get_grow_id(ncclComm *comm, ncclUniqueId *id) {
  constexpr const char *function = "ncclCommGetUniqueId";
  if (const ncclResult_t ready = check_ready(comm, function); ready != ncclSuccess) return ready;
  if (id == nullptr) return refuse(function, "the id is NULL");
  const rondo_comm_t handle = comm->handle;
  rondo_unique_id_t made;
  if (const rondo_status_t status = rondo_comm_grow_id(handle, &made); status != RONDO_OK)
    return pass_on(status, handle);
  std::memcpy(id->internal, made.internal, sizeof id->internal);
  return ncclSuccess;
}

/// Grows a communicator. A new rank has no parent, and joins with the id as rondo_comm_init() does.
ncclResult_t grow(ncclComm *parent, int rank_count, const ncclUniqueId *id, int rank, ncclComm_t *grown,
                  const ncclConfig_t *config) {
  constexpr const char *function = "ncclCommGrow";
  if (grown == nullptr) return refuse(function, "newcomm is NULL");
  *grown = nullptr;
  if (parent == nullptr && id == nullptr) return refuse(function, "the id is NULL, and a new rank needs it");
  if (parent == nullptr) return init_rank(function, grown, rank, rank_count, {id, 1}, config);
  if (const ncclResult_t ready = check_ready(parent, function); ready != ncclSuccess) return ready;
  if (rank != -1)
    return refuse(function, "the rank is " + std::to_string(rank) + "; ranks of the communicator pass -1");
  if (rank_count <= parent->rank_count)
    return refuse(function, "the number of ranks is " + std::to_string(rank_count) + "; the communicator has " +
                                std::to_string(parent->rank_count.load()));
  Initialisation initialisation;
  if (const ncclResult_t read = read_settings(config, function, &initialisation.settings); read != ncclSuccess)
    return read;
  initialisation.from = Initialisation::From::grow;
  if (id != nullptr) std::memcpy(initialisation.grow_id.emplace_back().internal, id->internal, sizeof id->internal);
  return begin_from(parent, std::move(initialisation), config == nullptr, grown, rank_count);
}

ncclResult_t revoke(ncclComm *comm, int flags) {
  constexpr const char *function = "ncclCommRevoke";
  if (comm == nullptr) return ncclSuccess;
  if (const ncclResult_t ready = check_ready(comm, function); ready != ncclSuccess) return ready;
  if (flags != 0) return refuse(function, "the flags are " + std::to_string(flags) + "; 0 alone is known");
  if (comm->finalized) return refuse(function, "the communicator was finalized before");
  if (comm->revoked.exchange(true)) return refuse(function, "the communicator was revoked before");
  const rondo_comm_t handle = comm->handle;
  return pass_on(rondo_comm_revoke(handle), handle);
}

/// Waits for this rank's operations only. If the communicator is nonblocking, ncclCommDestroy() waits for them instead.
ncclResult_t finalize(ncclComm *comm) {
  if (comm == nullptr) return ncclSuccess;
  if (const ncclResult_t ready = check_ready(comm, "ncclCommFinalize"); ready != ncclSuccess) return ready;
  if (comm->revoked) return refuse("ncclCommFinalize", "the communicator was revoked");
  if (comm->finalized.exchange(true)) return refuse("ncclCommFinalize", "the communicator was finalized before");
  const rondo_comm_t handle = comm->handle;
  return comm->blocking ? pass_on(rondo_comm_flush(handle), handle) : ncclSuccess;
}

ncclResult_t end(const char *function, ncclComm *comm, bool abort) {
  if (comm == nullptr) return ncclSuccess;
  if (const ncclResult_t alive = check_alive(comm, function); alive != ncclSuccess) return alive;
  return end_or_keep(comm, abort);
}

/// Writes a number of a communicator that does not change after it was made.
template <class T>
ncclResult_t tell(const char *function, ncclComm *comm, T ncclComm::*member, int *value) {
  if (const ncclResult_t ready = check_ready(comm, function); ready != ncclSuccess) return ready;
  if (value == nullptr) return refuse(function, "the pointer for the result is NULL");
  *value = comm->*member;
  return ncclSuccess;
}

}  // namespace

NCCL_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id) { return note(get_unique_id(id)); }
NCCL_ALIAS(GetUniqueId)

NCCL_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int rank_count, ncclUniqueId id, int rank) {
  return note(init_rank("ncclCommInitRank", comm, rank, rank_count, {&id, 1}, nullptr));
}
NCCL_ALIAS(CommInitRank)

NCCL_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int rank_count, ncclUniqueId id, int rank,
                                                ncclConfig_t *config) {
  return note(init_rank("ncclCommInitRankConfig", comm, rank, rank_count, {&id, 1}, config));
}
NCCL_ALIAS(CommInitRankConfig)

/// Uses the first id. The other ids that this process has made are discarded, and their listeners end, unless an
/// argument is refused.
NCCL_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int rank_count, int rank, int id_count,
                                                  ncclUniqueId *ids, ncclConfig_t *config) {
  constexpr const char *function = "ncclCommInitRankScalable";
  if (id_count < 1 || ids == nullptr) return note(refuse(function, "there is no id"));
  return note(init_rank(function, comm, rank, rank_count, {ids, static_cast<size_t>(id_count)}, config));
}
NCCL_ALIAS(CommInitRankScalable)

NCCL_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t *comms, int device_count, const int *devices) {
  return note(init_all(comms, device_count, devices));
}
NCCL_ALIAS(CommInitAll)

NCCL_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *part, ncclConfig_t *config) {
  return note(split(comm, color, key, part, config));
}
NCCL_ALIAS(CommSplit)

NCCL_EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int excluded_count, ncclComm_t *rest,
                                        ncclConfig_t *config, int flags) {
  return note(shrink(comm, excluded, excluded_count, rest, config, flags));
}
NCCL_ALIAS(CommShrink)

NCCL_EXPORT ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id) { return note(get_grow_id(comm, id)); }
NCCL_ALIAS(CommGetUniqueId)

NCCL_EXPORT ncclResult_t ncclCommGrow(ncclComm_t comm, int rank_count, const ncclUniqueId *id, int rank,
                                      ncclComm_t *grown, ncclConfig_t *config) {
  return note(grow(comm, rank_count, id, rank, grown, config));
}
NCCL_ALIAS(CommGrow)

NCCL_EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) { return revoke(comm, flags); }
NCCL_ALIAS(CommRevoke)

NCCL_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) { return note(finalize(comm)); }
NCCL_ALIAS(CommFinalize)

NCCL_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) { return note(end("ncclCommDestroy", comm, false)); }
NCCL_ALIAS(CommDestroy)

NCCL_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) { return note(end("ncclCommAbort", comm, true)); }
NCCL_ALIAS(CommAbort)

NCCL_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
  if (const ncclResult_t alive = check_alive(comm, "ncclCommGetAsyncError"); alive != ncclSuccess) return alive;
  if (state == nullptr) return refuse("ncclCommGetAsyncError", "the pointer for the result is NULL");
  *state = state_of(comm);
  return ncclSuccess;
}
NCCL_ALIAS(CommGetAsyncError)

NCCL_EXPORT const char *ncclGetLastError(ncclComm_t comm) {
  if (comm == nullptr || !comm->alive || comm->handle == nullptr) return last_failure();
  const ncclResult_t state = state_of(comm);
  const bool failed = state != ncclSuccess && state != ncclInProgress;
  return failed ? hold_text(rondo_last_error_message(comm->handle)) : last_failure();
}
NCCL_ALIAS(GetLastError)

NCCL_EXPORT ncclResult_t ncclCommCount(ncclComm_t comm, int *count) {
  return tell("ncclCommCount", comm, &ncclComm::rank_count, count);
}
NCCL_ALIAS(CommCount)

NCCL_EXPORT ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device) {
  return tell("ncclCommCuDevice", comm, &ncclComm::device, device);
}
NCCL_ALIAS(CommCuDevice)

NCCL_EXPORT ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank) {
  return tell("ncclCommUserRank", comm, &ncclComm::rank, rank);
}
NCCL_ALIAS(CommUserRank)
