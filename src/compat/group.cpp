// SPDX-License-Identifier: Apache-2.0
#include "src/compat/group.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "src/compat/driver.h"
#include "src/compat/exports.h"
#include "src/compat/failure.h"

namespace rondo::compat {
namespace {

struct End {
  ncclComm *comm;
  bool abort;
};

/// A kept call that ends a created operation.
struct OpEnd {
  rondo_op_t op;
  ncclComm *comm;
};

/// An event that a collective's configuration has named.
struct Mark {
  int device;
  cudaEvent_t event;
  cudaStream_t stream;
};

struct Group {
  ncclResult_t refusal = ncclSuccess;
  std::string sentence;  ///< text of the refusal
  std::vector<Initialisation> initialisations;
  std::vector<Mark> marks;
  std::vector<Collective> collectives;
  std::vector<Suspension> suspensions;
  std::vector<OneSided> one_sided;
  std::vector<OpEnd> op_ends;
  std::vector<End> ends;

  /// Drops the calls that would work on streams or wait for other ranks' calls.
  void drop_calls() {
    marks.clear();
    collectives.clear();
    suspensions.clear();
    one_sided.clear();
  }
  void clear() {
    refusal = ncclSuccess;
    initialisations.clear();
    drop_calls();
    op_ends.clear();
    ends.clear();
  }
};

/// The number of groups that the calling thread is in. Every call reads it, so it takes no initialisation.
constinit thread_local int depth = 0;

Group &group() {
  thread_local Group instance;
  return instance;
}

bool is_failure(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

rondo_status_t call(const Collective &it, rondo_comm_t comm) {
  switch (it.kind) {
    case RONDO_ALL_REDUCE:
      return rondo_all_reduce(it.send, it.recv, it.count, it.type, it.op, comm, it.stream);
    case RONDO_REDUCE_SCATTER:
      return rondo_reduce_scatter(it.send, it.recv, it.count, it.type, it.op, comm, it.stream);
    case RONDO_ALL_GATHER:
      return rondo_all_gather(it.send, it.recv, it.count, it.type, comm, it.stream);
    case RONDO_BROADCAST:
      return rondo_broadcast(it.send, it.recv, it.count, it.type, it.root, comm, it.stream);
    case RONDO_ALL_TO_ALL:
      return rondo_all_to_all(it.send, it.recv, it.count, it.type, comm, it.stream);
    case RONDO_GATHER:
      return rondo_gather(it.send, it.recv, it.count, it.type, it.root, comm, it.stream);
    case RONDO_SCATTER:
      return rondo_scatter(it.send, it.recv, it.count, it.type, it.root, comm, it.stream);
    case RONDO_SEND:
      return rondo_send(it.send, it.count, it.type, it.root, comm, it.stream);
    case RONDO_RECV:
      return rondo_recv(it.recv, it.count, it.type, it.root, comm, it.stream);
    default:
      return rondo_reduce(it.send, it.recv, it.count, it.type, it.op, it.root, comm, it.stream);
  }
}

ncclResult_t run(const Collective &collective) {
  const rondo_comm_t handle = collective.comm->handle;
  const rondo_status_t status = call(collective, handle);
  return status == RONDO_OK ? ncclSuccess : pass_on(status, handle);
}

ncclResult_t run(const OneSided &operation) {
  const rondo_comm_t handle = operation.comm->handle;
  const rondo_status_t status = operation.call(handle, operation.stream);
  return status == RONDO_OK ? ncclSuccess : pass_on(status, handle);
}

ncclResult_t end(const OpEnd &it) {
  const rondo_comm_t handle = it.comm->handle;
  const rondo_status_t status = rondo_op_destroy(it.op, handle);
  return status == RONDO_OK ? ncclSuccess : pass_on(status, handle);
}

/// Ends operations, then communicators. Returns `result` if it is a failure. Otherwise it returns the first failure of
/// an end, or `result` if all ends succeed.
ncclResult_t end_kept(const Group &of, ncclResult_t result) {
  const auto add = [&](ncclResult_t ended) {
    if (!is_failure(result)) result = ended != ncclSuccess ? ended : result;
  };
  for (const OpEnd &each : of.op_ends) add(end(each));
  for (const End &each : of.ends) add(end_communicator(each.comm, each.abort));
  return result;
}

/// Begins the initialisation of a communicator that comes from `parent`.
rondo_status_t begin_from(const Initialisation &of, rondo_comm_t parent, const rondo_config_t *config,
                          rondo_comm_t *handle) {
  switch (of.from) {
    case Initialisation::From::split:
      return rondo_comm_split(parent, of.color, of.key, config, handle);
    case Initialisation::From::shrink:
      return rondo_comm_shrink(parent, of.excluded.data(), static_cast<int>(of.excluded.size()), of.shrink_flags,
                               config, handle);
    case Initialisation::From::grow:
      return rondo_comm_grow(parent, of.grow_id.empty() ? nullptr : of.grow_id.data(), -1, of.comm->rank_count, config,
                             handle);
  }
  return RONDO_ERROR_INTERNAL;
}

/// Begins an initialisation. A lone rank gets an id of its own, because the caller's id may be invalid. Once it has
/// begun, the caller's ids are discarded.
ncclResult_t begin(const Initialisation &of, rondo_comm_t *handle) {
  const rondo_config_t config = of.settings.config(of.comm->device);
  if (of.parent != nullptr) {
    const rondo_comm_t parent = of.parent->handle;
    const rondo_config_t *const own = of.inherits ? nullptr : &config;
    const rondo_status_t begun = begin_from(of, parent, own, handle);
    if (of.shrink_flags != 0 && begun == RONDO_OK) of.parent->shrunk = true;
    return pass_on(begun, parent);
  }
  const bool alone = of.comm->rank_count == 1;
  rondo_unique_id_t own;
  std::span<const rondo_unique_id_t> ids = of.ids, unused;
  if (alone) {
    if (const auto got = rondo_get_unique_id(&own, &config); got != RONDO_OK) return pass_on(got, nullptr);
    ids = {&own, 1};
    unused = of.ids;
  }
  const rondo_status_t begun = rondo_comm_init_ids(handle, ids.data(), static_cast<int>(ids.size()), of.comm->rank,
                                                   of.comm->rank_count, &config);
  const ncclResult_t result = pass_on(begun, nullptr);
  if (alone && begun != RONDO_OK) unused = ids;
  for (const rondo_unique_id_t &each : unused) static_cast<void>(rondo_unique_id_free(&each));
  return result;
}

ncclResult_t start(const Initialisation &initialisation) {
  rondo_comm_t handle = nullptr;
  if (const ncclResult_t begun = begin(initialisation, &handle); begun != ncclSuccess) return begun;
  initialisation.comm->handle = handle;
  return ncclSuccess;
}

/// Ends the communicators that were started, so that no rank waits for a missing one. From then on, their handles
/// return the reason.
void give_up(const std::vector<Initialisation> &initialisations, ncclResult_t refusal) {
  for (const Initialisation &each : initialisations) {
    const rondo_comm_t handle = each.comm->handle;
    if (!keep_refused(each.comm, handle, refusal) || handle == nullptr) continue;
    static_cast<void>(rondo_comm_abort(handle));
    static_cast<void>(rondo_comm_destroy(handle));
  }
}

/// Runs all initialisations. All initialisations begin before the function waits for the first one, as they may be
/// ranks of one communicator. The program has the handles of those that fail, and ends them itself, as in NCCL.
ncclResult_t run_all(const std::vector<Initialisation> &initialisations) {
  for (const Initialisation &each : initialisations)
    if (const ncclResult_t started = start(each); started != ncclSuccess) {
      give_up(initialisations, started);
      return started;
    }
  ncclResult_t result = ncclSuccess;
  std::string sentence;
  for (const Initialisation &each : initialisations) {
    const ncclResult_t made = each.comm->blocking ? wait_until_made(each.comm, true) : ncclInProgress;
    if (is_failure(result) || made == ncclSuccess) continue;
    result = made;
    if (is_failure(made)) sentence = last_failure();
  }
  return is_failure(result) ? fail(result, sentence) : result;
}

template <class Call>
ncclResult_t run_each(const std::vector<Call> &calls) {
  for (const Call &each : calls)
    if (const ncclResult_t result = run(each); result != ncclSuccess) return result;
  return ncclSuccess;
}

/// Returns whether the operations form a group of Rondo. Then, if Rondo refuses one, none of them runs. A single
/// collective needs no group, but the error of a single message must be about a group.
bool needs_group(const Group &of) {
  if (of.collectives.size() != 1 || !of.one_sided.empty()) return !of.collectives.empty() || !of.one_sided.empty();
  const rondo_collective_t kind = of.collectives.front().kind;
  return kind == RONDO_SEND || kind == RONDO_RECV;
}

/// Returns the first communicator of the group that has failed, or null.
rondo_comm_t failed_of(const Group &of) {
  rondo_comm_t failed = nullptr;
  const auto has_failed = [&](const auto &each) {
    failed = each.comm->handle;
    rondo_status_t status = RONDO_OK;
    return rondo_comm_get_async_error(failed, &status) == RONDO_OK && status != RONDO_OK && status != RONDO_NOT_READY;
  };
  const bool any = std::any_of(of.collectives.begin(), of.collectives.end(), has_failed) ||
                   std::any_of(of.one_sided.begin(), of.one_sided.end(), has_failed);
  return any ? failed : nullptr;
}

/// Runs all operations.
ncclResult_t run_all(const Group &of) {
  if (!needs_group(of)) return run_each(of.collectives);
  if (const rondo_status_t begun = rondo_group_begin(); begun != RONDO_OK) return pass_on(begun, nullptr);
  ncclResult_t result = run_each(of.collectives);
  if (result == ncclSuccess) result = run_each(of.one_sided);
  if (result != ncclSuccess) {
    static_cast<void>(rondo_group_cancel(nullptr));
    return result;
  }
  const rondo_status_t ended = rondo_group_end();
  return pass_on(ended, ended == RONDO_ERROR_COMM_FAILED ? failed_of(of) : nullptr);
}

/// Checks that a group has only blocking or only nonblocking communicators, because its end waits for all or for none.
ncclResult_t check_blocking(const Group &of) {
  bool blocking = false, nonblocking = false;
  const auto count = [&](const ncclComm *comm) { (comm->blocking ? blocking : nonblocking) = true; };
  for (const Initialisation &each : of.initialisations) count(each.comm);
  for (const Collective &each : of.collectives) count(each.comm);
  for (const Suspension &each : of.suspensions) count(each.comm);
  for (const OneSided &each : of.one_sided) count(each.comm);
  if (!blocking || !nonblocking) return ncclSuccess;
  return fail(ncclInvalidArgument,
              "ncclGroupEnd: the group has blocking and nonblocking communicators; give each kind a group of its own");
}

ncclResult_t run_kept(const Group &of) {
  ncclResult_t result = of.refusal;
  if (result != ncclSuccess) static_cast<void>(fail(result, of.sentence));
  if (result == ncclSuccess) result = check_blocking(of);
  if (is_failure(result)) {
    give_up(of.initialisations, result);
    return result;
  }
  result = run_all(of.initialisations);
  if (is_failure(result)) return result;
  for (const Mark &each : of.marks)
    if (const ncclResult_t recorded = record(each.device, each.event, each.stream); recorded != ncclSuccess)
      return recorded;
  ncclResult_t launched = run_all(of);
  if (launched == ncclSuccess) launched = run_suspensions(of.suspensions);
  return launched != ncclSuccess ? launched : result;
}

}  // namespace

bool in_group() { return depth > 0; }

void start_group() { ++depth; }

ncclResult_t end_group() {
  if (depth == 0) return fail(ncclInvalidUsage, "ncclGroupEnd: this thread has started no group");
  if (--depth > 0) return ncclSuccess;
  Group &own = group();
  const ncclResult_t result = end_kept(own, run_kept(own));
  own.clear();
  return result;
}

ncclResult_t note(ncclResult_t result) {
  if (depth == 0 || !is_failure(result)) return result;
  Group &own = group();
  if (own.refusal != ncclSuccess) return result;
  own.refusal = result;
  own.sentence = last_failure();
  return result;
}

ncclResult_t run_or_keep(const Collective &collective) {
  if (depth == 0) return run(collective);
  group().collectives.push_back(collective);
  return ncclSuccess;
}

ncclResult_t run_or_keep(OneSided operation) {
  if (depth == 0) return run(operation);
  group().one_sided.push_back(std::move(operation));
  return ncclSuccess;
}

ncclResult_t record_or_keep(int device, cudaEvent_t event, cudaStream_t stream) {
  if (depth == 0) return record(device, event, stream);
  group().marks.push_back({device, event, stream});
  return ncclSuccess;
}

ncclResult_t run_or_keep(Initialisation initialisation) {
  if (depth > 0) {
    group().initialisations.push_back(std::move(initialisation));
    return ncclSuccess;
  }
  ncclComm *const comm = initialisation.comm;
  if (const ncclResult_t started = start(initialisation); started != ncclSuccess) {
    static_cast<void>(retire(comm, nullptr));
    return started;
  }
  return comm->blocking ? wait_until_made(comm, false) : ncclInProgress;
}

ncclResult_t run_or_keep(const Suspension &suspension) {
  if (depth == 0) return run_suspensions({suspension});
  group().suspensions.push_back(suspension);
  return ncclSuccess;
}

ncclResult_t end_or_keep(ncclComm *comm, bool abort) {
  if (depth == 0) return end_communicator(comm, abort);
  group().ends.push_back({comm, abort});
  return ncclSuccess;
}

ncclResult_t end_or_keep(rondo_op_t op, ncclComm *comm) {
  if (depth == 0) return end(OpEnd{op, comm});
  group().op_ends.push_back({op, comm});
  return ncclSuccess;
}

bool ends_with_group(ncclRedOp_t op) {
  const std::vector<OpEnd> &ends = group().op_ends;
  return std::any_of(ends.begin(), ends.end(),
                     [&](const OpEnd &each) { return each.op == static_cast<rondo_op_t>(op); });
}

}  // namespace rondo::compat

using namespace rondo::compat;

NCCL_EXPORT ncclResult_t ncclGroupStart() {
  start_group();
  return ncclSuccess;
}
NCCL_ALIAS(GroupStart)

NCCL_EXPORT ncclResult_t ncclGroupEnd() { return end_group(); }
NCCL_ALIAS(GroupEnd)

/// Ends the group as ncclGroupEnd() does, but runs no collective. Rondo has no estimate, so the time becomes negative,
/// as in NCCL without one. With a null argument, NCCL does not simulate. The end of an inner group reads no argument.
NCCL_EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info) {
  constexpr unsigned sim_info_magic = 0x74685283;
  if (info == nullptr || depth != 1) return end_group();
  if (info->size < offsetof(ncclSimInfo_t, version) || info->magic != sim_info_magic)
    static_cast<void>(note(fail(ncclInvalidArgument, "ncclGroupSimulateEnd: the ncclSimInfo_t was not initialised with "
                                                     "NCCL_SIM_INFO_INITIALIZER")));
  group().drop_calls();
  const ncclResult_t result = end_group();
  if (!is_failure(result) && info->size >= offsetof(ncclSimInfo_t, estimatedTime) + sizeof info->estimatedTime)
    info->estimatedTime = -1;
  return result;
}
NCCL_ALIAS(GroupSimulateEnd)
