// SPDX-License-Identifier: Apache-2.0
// This file has the collectives and messages. Each call checks its arguments itself, so that a group knows of a wrong
// call before it runs any call.
#include <string>

#include "src/compat/call_config.h"
#include "src/compat/exports.h"
#include "src/compat/failure.h"
#include "src/compat/group.h"

using namespace rondo::compat;

namespace {

constexpr rondo_type_t types[ncclNumTypes] = {RONDO_INT8,    RONDO_UINT8,    RONDO_INT32,       RONDO_UINT32,
                                              RONDO_INT64,   RONDO_UINT64,   RONDO_FLOAT16,     RONDO_FLOAT32,
                                              RONDO_FLOAT64, RONDO_BFLOAT16, RONDO_FLOAT8_E4M3, RONDO_FLOAT8_E5M2};
constexpr rondo_op_t ops[ncclNumOps] = {RONDO_SUM, RONDO_PROD, RONDO_MAX, RONDO_MIN, RONDO_AVG};

struct Arguments {
  const char *function;
  rondo_collective_t kind;
  const void *send;
  void *recv;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int root = 0;  ///< root, or the peer of a message

  [[nodiscard]] bool is_message() const { return kind == RONDO_SEND || kind == RONDO_RECV; }
};

// The text of a refusal is made apart from the checks, which every call runs.
[[gnu::cold, gnu::noinline]] ncclResult_t refuse_call(const Arguments &call, const char *what) {
  return fail(ncclInvalidArgument, std::string(call.function) + ": " + what);
}

[[gnu::cold, gnu::noinline]] ncclResult_t refuse_call(const Arguments &call, const char *before, int number,
                                                      const char *after) {
  return refuse_call(call, (before + std::to_string(number) + after).c_str());
}

[[gnu::cold, gnu::noinline]] ncclResult_t refuse_root(const Arguments &call, int rank_count) {
  const std::string ranks = "; it must be a rank, 0 to " + std::to_string(rank_count - 1);
  return refuse_call(call, call.is_message() ? "the peer is " : "the root is ", call.root, ranks.c_str());
}

/// Checks the arguments that do not depend on the communicator's device. Rondo checks the others.
ncclResult_t check(const Arguments &call, ncclComm *comm) {
  if (const ncclResult_t ready = check_ready(comm, call.function); ready != ncclSuccess) return ready;
  if (comm->finalized) return refuse_call(call, "the communicator was finalized; only ncclCommDestroy is left");
  if (call.type < 0 || call.type >= ncclNumTypes) return refuse_call(call, "the data type ", call.type, " is unknown");
  const bool created = static_cast<rondo_op_t>(call.op) >= RONDO_OP_DYNAMIC;
  if (call.op < 0 || (call.op >= ncclNumOps && !created))
    return refuse_call(call, "the operation ", call.op, " is unknown");
  if (created && ends_with_group(call.op))
    return refuse_call(call, "the operation ", call.op, " was destroyed in this group");
  if (call.root < 0 || call.root >= comm->rank_count) return refuse_root(call, comm->rank_count);
  const bool is_root = comm->rank == call.root;
  const bool from_root = call.kind == RONDO_BROADCAST || call.kind == RONDO_SCATTER;
  const bool to_root = call.kind == RONDO_REDUCE || call.kind == RONDO_GATHER;
  const bool sends = call.kind != RONDO_RECV && (!from_root || is_root);
  const bool receives = call.kind != RONDO_SEND && (!to_root || is_root);
  if (call.count > 0 && sends && call.send == nullptr) return refuse_call(call, "sendbuff is NULL");
  if (call.count > 0 && receives && call.recv == nullptr) return refuse_call(call, "recvbuff is NULL");
  return ncclSuccess;
}

/// Runs or keeps a checked call. A collective without elements does nothing, on all ranks. A message without elements
/// is sent.
ncclResult_t pass(const Arguments &call, ncclComm *comm, cudaStream_t stream) {
  if (call.count == 0 && !call.is_message()) return ncclSuccess;
  const rondo_op_t op = call.op < ncclNumOps ? ops[call.op] : static_cast<rondo_op_t>(call.op);
  return run_or_keep(Collective{call.kind, call.send, call.recv, call.count, type_of(call.type), op, call.root, comm,
                                stream});
}

/// Checks the call, and runs or keeps it.
ncclResult_t submit(const Arguments &call, ncclComm *comm, cudaStream_t stream) {
  if (const ncclResult_t checked = check(call, comm); checked != ncclSuccess) return note(checked);
  return pass(call, comm, stream);
}

/// Checks the call and `config`, which may be null, and runs or keeps the call. As in NCCL, the configuration is
/// checked before the communicator. A malformed one does not make the group fail, but a refused algorithm does.
ncclResult_t submit(const Arguments &call, ncclComm *comm, cudaStream_t stream, const ncclCollConfig_t *config) {
  if (config == nullptr) return submit(call, comm, stream);
  CallConfig taken;
  if (const ncclResult_t read = read_call_config(config, call.function, &taken); read != ncclSuccess) return read;
  if (const ncclResult_t checked = check(call, comm); checked != ncclSuccess) return note(checked);
  if (const auto checked = check_algorithm(taken, call.function, comm, call.kind, call.count, type_of(call.type),
                                         call.op == ncclAvg);
      checked != ncclSuccess)
    return note(checked);
  if (taken.event != nullptr)
    if (const ncclResult_t kept = record_or_keep(comm->device, taken.event, stream); kept != ncclSuccess)
      return note(kept);
  return pass(call, comm, stream);
}

}  // namespace

rondo_type_t rondo::compat::type_of(ncclDataType_t type) { return types[type]; }

NCCL_EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                       ncclComm_t comm, cudaStream_t stream) {
  return submit({"ncclAllReduce", RONDO_ALL_REDUCE, send, recv, count, type, op}, comm, stream);
}
NCCL_ALIAS(AllReduce)

NCCL_EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t recv_count, ncclDataType_t type,
                                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return submit({"ncclReduceScatter", RONDO_REDUCE_SCATTER, send, recv, recv_count, type, op}, comm, stream);
}
NCCL_ALIAS(ReduceScatter)

NCCL_EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t send_count, ncclDataType_t type,
                                       ncclComm_t comm, cudaStream_t stream) {
  return submit({"ncclAllGather", RONDO_ALL_GATHER, send, recv, send_count, type}, comm, stream);
}
NCCL_ALIAS(AllGather)

NCCL_EXPORT ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                       ncclComm_t comm, cudaStream_t stream) {
  return submit({"ncclBroadcast", RONDO_BROADCAST, send, recv, count, type, ncclSum, root}, comm, stream);
}
NCCL_ALIAS(Broadcast)

NCCL_EXPORT ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                   cudaStream_t stream) {
  return submit({"ncclBcast", RONDO_BROADCAST, buffer, buffer, count, type, ncclSum, root}, comm, stream);
}
NCCL_ALIAS(Bcast)

NCCL_EXPORT ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                    int root, ncclComm_t comm, cudaStream_t stream) {
  return submit({"ncclReduce", RONDO_REDUCE, send, recv, count, type, op, root}, comm, stream);
}
NCCL_ALIAS(Reduce)

NCCL_EXPORT ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                      cudaStream_t stream) {
  return submit({"ncclAlltoAll", RONDO_ALL_TO_ALL, send, recv, count, type}, comm, stream);
}
NCCL_ALIAS(AlltoAll)

NCCL_EXPORT ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                    ncclComm_t comm, cudaStream_t stream) {
  return submit({"ncclGather", RONDO_GATHER, send, recv, count, type, ncclSum, root}, comm, stream);
}
NCCL_ALIAS(Gather)

NCCL_EXPORT ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                     ncclComm_t comm, cudaStream_t stream) {
  return submit({"ncclScatter", RONDO_SCATTER, send, recv, count, type, ncclSum, root}, comm, stream);
}
NCCL_ALIAS(Scatter)

NCCL_EXPORT ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                  cudaStream_t stream) {
  return submit({"ncclSend", RONDO_SEND, send, nullptr, count, type, ncclSum, peer}, comm, stream);
}
NCCL_ALIAS(Send)

NCCL_EXPORT ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                  cudaStream_t stream) {
  return submit({"ncclRecv", RONDO_RECV, nullptr, recv, count, type, ncclSum, peer}, comm, stream);
}
NCCL_ALIAS(Recv)

NCCL_EXPORT ncclResult_t ncclAllReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t type,
                                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                                             const ncclCollConfig_t *config) {
  return submit({"ncclAllReduceConfig", RONDO_ALL_REDUCE, send, recv, count, type, op}, comm, stream, config);
}
NCCL_ALIAS(AllReduceConfig)

NCCL_EXPORT ncclResult_t ncclReduceScatterConfig(const void *send, void *recv, size_t recv_count, ncclDataType_t type,
                                                 ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                                                 const ncclCollConfig_t *config) {
  return submit({"ncclReduceScatterConfig", RONDO_REDUCE_SCATTER, send, recv, recv_count, type, op}, comm, stream,
                config);
}
NCCL_ALIAS(ReduceScatterConfig)

NCCL_EXPORT ncclResult_t ncclAllGatherConfig(const void *send, void *recv, size_t send_count, ncclDataType_t type,
                                             ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config) {
  return submit({"ncclAllGatherConfig", RONDO_ALL_GATHER, send, recv, send_count, type}, comm, stream, config);
}
NCCL_ALIAS(AllGatherConfig)

NCCL_EXPORT ncclResult_t ncclBroadcastConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                             ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config) {
  return submit({"ncclBroadcastConfig", RONDO_BROADCAST, send, recv, count, type, ncclSum, root}, comm, stream, config);
}
NCCL_ALIAS(BroadcastConfig)

NCCL_EXPORT ncclResult_t ncclReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t type,
                                          ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                                          const ncclCollConfig_t *config) {
  return submit({"ncclReduceConfig", RONDO_REDUCE, send, recv, count, type, op, root}, comm, stream, config);
}
NCCL_ALIAS(ReduceConfig)

NCCL_EXPORT ncclResult_t ncclAlltoAllConfig(const void *send, void *recv, size_t count, ncclDataType_t type,
                                            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config) {
  return submit({"ncclAlltoAllConfig", RONDO_ALL_TO_ALL, send, recv, count, type}, comm, stream, config);
}
NCCL_ALIAS(AlltoAllConfig)

NCCL_EXPORT ncclResult_t ncclGatherConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                          ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config) {
  return submit({"ncclGatherConfig", RONDO_GATHER, send, recv, count, type, ncclSum, root}, comm, stream, config);
}
NCCL_ALIAS(GatherConfig)

NCCL_EXPORT ncclResult_t ncclScatterConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                           ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config) {
  return submit({"ncclScatterConfig", RONDO_SCATTER, send, recv, count, type, ncclSum, root}, comm, stream, config);
}
NCCL_ALIAS(ScatterConfig)
