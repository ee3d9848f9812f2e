// SPDX-License-Identifier: Apache-2.0
// This file implements rondo_comm_* and the queries: it validates arguments and translates results.
#include <algorithm>
#include <cstring>

#include "src/api/boundary.h"
#include "src/api/lookup.h"
#include "src/api/validate.h"
#include "src/base/names.h"
#include "src/core/init.h"
#include "src/core/part.h"
#include "src/plan/schedule.h"

using namespace rondo;

namespace {

/// Copies `ours` into the caller's struct, up to the size that the caller's version has. Both begin with `size`.
template <class T>
Result<void> write_sized(T *theirs, T ours, size_t first_version_bytes, const char *name) {
  if (theirs == nullptr) return invalid_argument(std::string(name) + " is NULL");
  const size_t size = theirs->size;
  if (size < first_version_bytes)
    return invalid_argument(std::string(name) + "->size is " + std::to_string(size) + "; set it to sizeof(*" + name +
                            ") or use the INIT macro");
  ours.size = size;
  std::memcpy(theirs, &ours, std::min(size, sizeof ours));
  return {};
}

/// Returns the error that the communicator of `handle` has: its failure, the failure of its initialisation, or
/// RONDO_NOT_READY while it is being made, suspended or resumed.
Result<std::optional<Error>> trouble_of(rondo_comm_t handle) {
  auto comm = communicator_of(handle);
  if (comm.ok()) return comm.value()->failure();
  if (comm.error().status == RONDO_ERROR_INVALID_HANDLE) return std::move(comm).error();
  return std::optional<Error>(std::move(comm).error());
}

bool is_failure(const std::optional<Error> &trouble) { return trouble && trouble->status != RONDO_NOT_READY; }

rondo_error_t to_public(const Error &error) {
  rondo_error_t out = RONDO_ERROR_INIT;
  out.status = error.status;
  out.rank = error.rank;
  out.peer = error.peer;
  out.operation = error.operation;
  const size_t length = std::min(error.message.size(), sizeof out.message - 1);
  std::memcpy(out.message, error.message.data(), length);
  return out;
}

static_assert(counted_collective_count == RONDO_STATISTICS_COLLECTIVES);

rondo_operation_statistics_t to_public(const RecordedCounts &counts) {
  return {counts.operations, counts.bytes, counts.in_flight_ns, counts.exposed_ns};
}

/// Converts the argument `count` of a collective to the number of elements of the whole logical vector.
Result<uint64_t> vector_elements(const Communicator &comm, rondo_collective_t collective, size_t count,
                                 rondo_type_t type) {
  RONDO_TRY_ASSIGN(const size_t bytes, bytes_of(count, type));
  if (!is_collective(collective))
    return invalid_argument("collective " + std::to_string(static_cast<int>(collective)) +
                            " has no plan; known are: " +
                            collective_names([](const Collective &each) { return is_collective(each.id); }));
  if (in_blocks(collective)) RONDO_TRY(times_ranks(bytes, comm.rank_count()));
  return vector_count(collective, count, comm.rank_count());
}

}  // namespace

extern "C" {

void rondo_version(int *major, int *minor, int *patch) noexcept {
  if (major != nullptr) *major = RONDO_VERSION_MAJOR;
  if (minor != nullptr) *minor = RONDO_VERSION_MINOR;
  if (patch != nullptr) *patch = RONDO_VERSION_PATCH;
}

rondo_status_t rondo_get_unique_id(rondo_unique_id_t *id, const rondo_config_t *config) noexcept {
  return at_light_boundary([&]() -> Result<void> {
    if (id == nullptr) return invalid_argument("id is NULL");
    RONDO_TRY_ASSIGN(*id, make_unique_id(config));
    return {};
  });
}

rondo_status_t rondo_unique_id_free(const rondo_unique_id_t *id) noexcept {
  return at_light_boundary([&]() -> Result<void> {
    if (id == nullptr) return invalid_argument("id is NULL");
    return free_unique_id(*id);
  });
}

rondo_status_t rondo_comm_init(rondo_comm_t *comm, const rondo_unique_id_t *id, int rank, int size,
                               const rondo_config_t *config) noexcept {
  return at_boundary([&]() -> Result<void> {
    if (comm == nullptr) return invalid_argument("comm is NULL");
    if (id == nullptr) return invalid_argument("id is NULL");
    RONDO_TRY(check_rank(rank, size));
    RONDO_TRY_ASSIGN(*comm, make(init_unique_id(*id, rank, size, config)));
    return {};
  });
}

rondo_status_t rondo_comm_init_ids(rondo_comm_t *comm, const rondo_unique_id_t *ids, int id_count, int rank, int size,
                                   const rondo_config_t *config) noexcept {
  return at_boundary([&]() -> Result<void> {
    if (comm == nullptr) return invalid_argument("comm is NULL");
    if (ids == nullptr) return invalid_argument("ids is NULL");
    if (id_count < 1) return invalid_argument("id_count is " + std::to_string(id_count) + "; it must be 1 or more");
    RONDO_TRY(check_rank(rank, size));
    RONDO_TRY_ASSIGN(*comm, make(init_unique_ids({ids, static_cast<size_t>(id_count)}, rank, size, config)));
    return {};
  });
}

rondo_status_t rondo_comm_init_env(rondo_comm_t *comm, const rondo_config_t *config) noexcept {
  return at_boundary([&]() -> Result<void> {
    if (comm == nullptr) return invalid_argument("comm is NULL");
    RONDO_TRY_ASSIGN(*comm, make(init_environment(config)));
    return {};
  });
}

rondo_status_t rondo_comm_init_all(rondo_comm_t *comms, int size, const rondo_config_t *configs) noexcept {
  return at_boundary([&]() -> Result<void> {
    if (comms == nullptr) return invalid_argument("comms is NULL");
    RONDO_TRY(check_rank(0, size));
    RONDO_TRY_ASSIGN(auto made, init_all(size, configs));
    std::vector<rondo_comm_t> handles;
    for (auto &comm : made) {
      auto handle = publish(std::move(comm));
      if (!handle.ok()) {
        for (const rondo_comm_t done : handles) static_cast<void>(process().communicators.remove(done));
        return std::move(handle).error();
      }
      handles.push_back(handle.value());
    }
    std::copy(handles.begin(), handles.end(), comms);
    return {};
  });
}

rondo_status_t rondo_comm_rank(rondo_comm_t handle, int *rank) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    if (rank == nullptr) return invalid_argument("rank is NULL");
    *rank = static_cast<int>(comm->rank());
    return {};
  });
}

rondo_status_t rondo_comm_size(rondo_comm_t handle, int *size) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    if (size == nullptr) return invalid_argument("size is NULL");
    *size = static_cast<int>(comm->rank_count());
    return {};
  });
}

rondo_status_t rondo_comm_get_properties(rondo_comm_t handle, rondo_comm_properties_t *properties) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    const Links &links = comm->links();
    const GroupInfo &group = comm->group();
    rondo_comm_properties_t ours = RONDO_COMM_PROPERTIES_INIT;
    ours.rank = static_cast<int32_t>(comm->rank());
    ours.rank_count = static_cast<int32_t>(comm->rank_count());
    ours.device = comm->settings().device;
    ours.local_rank_count = static_cast<int32_t>(group.ranks_of(group.node_of(comm->rank())).size());
    ours.core_count = static_cast<int32_t>(group.core_count);
    ours.oversubscribed = group.oversubscribed ? 1 : 0;
    uint32_t every = ~0u;
    const uint32_t direct = kind_bit(PayloadKind::address);
    for (uint32_t peer = 0; peer < comm->rank_count(); ++peer) {
      const uint32_t kinds = peer == comm->rank() ? direct : links.readable_kinds(peer);
      every &= (kinds & direct) != 0 ? ~0u : kinds;  // a thread of this process can read every buffer
    }
    ours.mapped_buffers = (every & kind_bit(PayloadKind::mapped)) != 0 ? 1 : 0;
    ours.cross_memory = (every & kind_bit(PayloadKind::process)) != 0 ? 1 : 0;
    ours.shared_bytes = links.shared_bytes();
    ours.device_executor = comm->capabilities().kind;
    ours.group_hash = group_hash(*comm);
    return write_sized(properties, ours, offsetof(rondo_comm_properties_t, group_hash), "properties");
  });
}

rondo_status_t rondo_comm_memory(rondo_comm_t handle, uint64_t *reserved_bytes, uint64_t *used_bytes) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    RONDO_TRY_ASSIGN(const uint64_t used, comm->links().used_bytes());
    if (reserved_bytes != nullptr) *reserved_bytes = comm->links().shared_bytes();
    if (used_bytes != nullptr) *used_bytes = used;
    return {};
  });
}

rondo_status_t rondo_comm_statistics(rondo_comm_t handle, rondo_statistics_t *statistics) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    const RecordedStatistics seen = comm->statistics();
    rondo_statistics_t ours = RONDO_STATISTICS_INIT;
    ours.waits_seen = comm->capabilities().kind == RONDO_DEVICE_EXECUTOR_AUTO ? 1 : 0;
    ours.total = to_public(seen.total());
    for (size_t each = 0; each < seen.collectives.size(); ++each)
      ours.collectives[each] = to_public(seen.collectives[each]);
    return write_sized(statistics, ours, sizeof(rondo_statistics_t), "statistics");
  });
}

rondo_status_t rondo_comm_query_plan(rondo_comm_t handle, rondo_collective_t collective, size_t count,
                                     rondo_type_t type, rondo_plan_info_t *info) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    RONDO_TRY_ASSIGN(const uint64_t elements, vector_elements(*comm, collective, count, type));
    if (exchanges_blocks(collective)) RONDO_TRY(comm->check_block_exchange(collective));
    RONDO_TRY_ASSIGN(const auto choice, comm->planner().choose(collective, elements, type));
    rondo_plan_info_t ours = RONDO_PLAN_INFO_INIT;
    ours.algorithm = choice.algorithm;
    ours.protocol = choice.protocol;
    ours.kernel = choice.kernel;
    ours.channels = choice.channels;
    ours.chunk_bytes = choice.chunk_bytes;
    return write_sized(info, ours, sizeof(rondo_plan_info_t), "info");
  });
}

rondo_status_t rondo_comm_last_error(rondo_comm_t handle, rondo_error_t *error) noexcept {
  const rondo_error_t last = to_public(last_error());  // read first, because at_boundary() below may replace it
  const bool refused = last_refusal(handle) != nullptr;
  return at_boundary([&]() -> Result<void> {
    rondo_error_t ours = last;
    if (handle != nullptr && !refused) {
      RONDO_TRY_ASSIGN(const auto trouble, trouble_of(handle));
      if (is_failure(trouble)) ours = to_public(*trouble);
    }
    return write_sized(error, ours, sizeof(rondo_error_t), "error");
  });
}

const char *rondo_last_error_message(rondo_comm_t handle) noexcept {
  if (const Error *refusal = last_refusal(handle)) return hold_message(refusal->message);
  const char *message = nullptr;
  if (handle != nullptr)
    static_cast<void>(at_boundary([&]() -> Result<void> {  // an invalid handle becomes this thread's last error
      RONDO_TRY_ASSIGN(const auto trouble, trouble_of(handle));
      if (is_failure(trouble)) message = hold_message(trouble->message);
      return {};
    }));
  return message != nullptr ? message : hold_message(last_error().message);
}

rondo_status_t rondo_comm_get_async_error(rondo_comm_t handle, rondo_status_t *status) noexcept {
  return at_boundary([&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto trouble, trouble_of(handle));
    if (status == nullptr) return invalid_argument("status is NULL");
    *status = trouble ? trouble->status : RONDO_OK;
    if (*status != RONDO_OK) set_failed_communicator(nullptr);  // the last error is now this failure, not a refusal
    return {};
  });
}

rondo_status_t rondo_comm_finalize(rondo_comm_t handle) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    return comm->finalize();
  });
}

rondo_status_t rondo_comm_destroy(rondo_comm_t handle) noexcept {
  return at_boundary([&]() -> Result<void> {
    if (process().pending_inits.finish(handle)) return {};
    const auto comm = process().communicators.remove(handle);
    if (comm == nullptr) return invalid_handle(HandleKind::communicator, handle);
    comm->close();
    comm->wait_for_writers();
    for (const auto &window : comm->windows().clear()) static_cast<void>(process().windows.remove(window->handle));
    process().created_ops.remove_all(*comm);
    for (const auto &registration : comm->registration_cache().clear())
      static_cast<void>(process().registrations.remove(registration->handle));
    return {};
  });
}

rondo_status_t rondo_comm_abort(rondo_comm_t handle) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    if (process().pending_inits.cancel(handle)) return {};
    RONDO_TRY_ASSIGN(const auto comm, made_communicator_of(handle));
    comm->abort();
    return {};
  });
}

rondo_status_t rondo_comm_register(rondo_comm_t handle, void *pointer, size_t bytes, unsigned flags,
                                   rondo_registration_t *registration) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    RONDO_TRY(comm->check_not_suspended());
    if (registration == nullptr) return invalid_argument("handle is NULL");
    if (bytes == 0) return invalid_argument("bytes is 0; there is nothing to register");
    RONDO_TRY(check_buffer("pointer", pointer, bytes));
    if ((flags & ~unsigned{RONDO_REGISTER_MOVE_PAGES}) != 0)
      return invalid_argument("unknown flags " + std::to_string(flags) + "; known is RONDO_REGISTER_MOVE_PAGES (1)");
    RONDO_TRY(comm->check_buffer("pointer", pointer, bytes));
    const bool move = (flags & RONDO_REGISTER_MOVE_PAGES) != 0;
    if (move && comm->capabilities().buffers != BufferPlace::host)
      return Error{RONDO_ERROR_UNSUPPORTED, "RONDO_REGISTER_MOVE_PAGES is for host memory; register memory of a device "
                                            "without it"};
    RONDO_TRY_ASSIGN(const auto made, comm->registration_cache().add(pointer, bytes, move));
    void *const made_handle = process().registrations.insert(made);
    if (made_handle != nullptr) {
      made->handle = made_handle;
      *registration = static_cast<rondo_registration_t>(made_handle);
      comm->share(*made);
      return {};
    }
    RONDO_TRY(comm->registration_cache().remove(made.get()));
    return no_more_handles(HandleKind::registration);
  });
}

rondo_status_t rondo_comm_deregister(rondo_comm_t handle, rondo_registration_t registration) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    RONDO_TRY(comm->check_not_suspended());
    const auto found = process().registrations.find(registration);
    if (found == nullptr) return invalid_handle(HandleKind::registration, registration);
    RONDO_TRY(comm->remove_registration(found.get()));
    static_cast<void>(process().registrations.remove(registration));
    return {};
  });
}

}  // extern "C"
