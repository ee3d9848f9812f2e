// SPDX-License-Identifier: Apache-2.0
// This file continues src/compat/abi.h with what releases after 2.28 have added. Test programs also include this file
// after NVIDIA's header, because an old NVIDIA header lacks these parts. Later releases append fields to the structs,
// and `size` says which fields the caller has.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
#pragma GCC visibility push(default)

typedef struct CUevent_st *cudaEvent_t;

#if !defined(NCCL_VERSION_CODE) || NCCL_VERSION_CODE < 22907
/// The figures of ncclCommMemStats().
enum ncclCommMemStat_t : int {
  ncclStatGpuMemSuspend = 0,    ///< bytes of device memory that ncclCommSuspend() gives back
  ncclStatGpuMemSuspended = 1,  ///< 1 while the communicator is suspended, otherwise 0
  ncclStatGpuMemPersist = 2,    ///< bytes of device memory that a suspend keeps
  ncclStatGpuMemTotal = 3,      ///< the sum of ncclStatGpuMemSuspend and ncclStatGpuMemPersist
};

/// A wait of ncclWaitSignal() for `opCnt` signals of a rank.
struct ncclWaitSignalDesc_t {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
};

ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id);
ncclResult_t ncclCommGrow(ncclComm_t comm, int rank_count, const ncclUniqueId *id, int rank, ncclComm_t *grown,
                          ncclConfig_t *config);
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t ncclCommResume(ncclComm_t comm);
ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value);
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **pointer);
ncclResult_t ncclPutSignal(const void *send, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                           size_t offset, int index, int context, unsigned flags, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclSignal(int peer, int index, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclWaitSignal(int count, ncclWaitSignalDesc_t *waits, ncclComm_t comm, cudaStream_t stream);
#endif

#if !defined(NCCL_VERSION_CODE) || NCCL_VERSION_CODE < 23200
/// The argument of ncclSetEncryption().
struct ncclEncryptionConfig_t {
  size_t size;
  unsigned magic;
  unsigned version;
  int mode;
  const char *psk;  ///< key that all processes share
};
static_assert(sizeof(ncclEncryptionConfig_t) == 32);

ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config);

/// The configuration of one collective. A number that was not set is INT32_MIN.
struct ncclCollConfig_t {
  size_t size;
  unsigned magic;
  unsigned version;
  void *ext;  ///< list of options for other libraries, which Rondo does not read
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char *algSelection;  ///< names of algorithms, separated by commas
  int forceAlgSelection;
  int CTAPolicy;
  uint64_t userProfilerTag;
  cudaEvent_t launchCompletionEvent;  ///< exists since release 2.32
};

ncclResult_t ncclAllReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t ncclBroadcastConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t ncclReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                              ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t ncclAllGatherConfig(const void *send, void *recv, size_t send_count, ncclDataType_t type, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t ncclReduceScatterConfig(const void *send, void *recv, size_t recv_count, ncclDataType_t type,
                                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                                     const ncclCollConfig_t *config);
ncclResult_t ncclAlltoAllConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t ncclGatherConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                              ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t ncclScatterConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                               ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);
#endif
static_assert(sizeof(ncclCollConfig_t) == 72 && offsetof(ncclCollConfig_t, launchCompletionEvent) == 64);

#if !defined(NCCL_VERSION_CODE) || NCCL_VERSION_CODE < 23000
typedef struct ncclParamHandle *ncclParamHandle_t;

ncclResult_t ncclParamBind(ncclParamHandle_t *handle, const char *key);
ncclResult_t ncclParamGetI8(ncclParamHandle_t handle, int8_t *value);
ncclResult_t ncclParamGetI16(ncclParamHandle_t handle, int16_t *value);
ncclResult_t ncclParamGetI32(ncclParamHandle_t handle, int32_t *value);
ncclResult_t ncclParamGetI64(ncclParamHandle_t handle, int64_t *value);
ncclResult_t ncclParamGetU8(ncclParamHandle_t handle, uint8_t *value);
ncclResult_t ncclParamGetU16(ncclParamHandle_t handle, uint16_t *value);
ncclResult_t ncclParamGetU32(ncclParamHandle_t handle, uint32_t *value);
ncclResult_t ncclParamGetU64(ncclParamHandle_t handle, uint64_t *value);
ncclResult_t ncclParamGetStr(ncclParamHandle_t handle, const char **value);
ncclResult_t ncclParamGet(ncclParamHandle_t handle, void *value, int bytes, int *length);
ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *length);
ncclResult_t ncclParamGetAllParameterKeys(const char ***keys, int *count);
void ncclParamDumpAll();
#endif

/// The properties of a communicator, which NVIDIA declares in a header for device code.
struct ncclCommProperties_t {
  size_t size;
  unsigned magic;
  unsigned version;
  int rank;
  int nRanks;
  int cudaDev;
  int nvmlDev;
  bool deviceApiSupport;
  bool multimemSupport;
  int ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  int railedGinType;
  uint64_t commHash;  ///< exists since release 2.31, like the following fields
  int ginMinStride;
  int ginConnectionType;
  bool ginSupport[64];
  size_t devCommRuntimeVersionSize;
  bool cftSupport;  ///< exists since release 2.32, like the following fields
  bool cftMulticastSupport;
  bool cftCountedSupport;
};
static_assert(sizeof(ncclCommProperties_t) == 152 && offsetof(ncclCommProperties_t, commHash) == 56 &&
              offsetof(ncclCommProperties_t, cftSupport) == 144);

ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *properties);

#pragma GCC visibility pop
}  // extern "C"
