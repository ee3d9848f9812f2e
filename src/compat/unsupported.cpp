// SPDX-License-Identifier: Apache-2.0
// Rondo does not support these functions of NCCL's interface yet. A program that was linked with NCCL needs their names
// to start. If it calls one, it gets ncclInvalidUsage, and ncclGetLastError() returns the reason. The functions read no
// argument, so none is declared. C's calling conventions allow the callee to ignore arguments.
#include <string>

#include "src/compat/exports.h"
#include "src/compat/failure.h"
#include "src/compat/group.h"

using namespace rondo::compat;

namespace {

ncclResult_t refuse(const char *function, const char *reason) {
  return fail(ncclInvalidUsage, std::string(function) + ": " + reason);
}

constexpr char configured[] = "Rondo takes no configuration for a single call yet; use the function without Config";
constexpr char parameters[] =
    "Rondo has none of NCCL's parameters; share/doc/rondo/docs/nccl.md lists the variables that count";
constexpr char encryption[] = "Rondo does not encrypt what collectives move";
constexpr char device_code[] = "Rondo does not have the interface for communication from device code";
constexpr char properties[] = "Rondo does not report these properties yet; use ncclCommCount and its like";

}  // namespace

/// Defines a function that may be called in a group. The end of the group then returns its refusal.
#define NCCL_UNSUPPORTED_CALL(name, reason) \
  NCCL_EXPORT ncclResult_t nccl##name() { return note(refuse("nccl" #name, reason)); } \
  NCCL_ALIAS(name)

/// Defines a function that does not concern a group.
#define NCCL_UNSUPPORTED(name, reason) \
  NCCL_EXPORT ncclResult_t nccl##name() { return refuse("nccl" #name, reason); } \
  NCCL_ALIAS(name)

NCCL_UNSUPPORTED_CALL(AllGatherConfig, configured)
NCCL_UNSUPPORTED_CALL(AllReduceConfig, configured)
NCCL_UNSUPPORTED_CALL(AlltoAllConfig, configured)
NCCL_UNSUPPORTED_CALL(BroadcastConfig, configured)
NCCL_UNSUPPORTED_CALL(GatherConfig, configured)
NCCL_UNSUPPORTED_CALL(ReduceConfig, configured)
NCCL_UNSUPPORTED_CALL(ReduceScatterConfig, configured)
NCCL_UNSUPPORTED_CALL(ScatterConfig, configured)

NCCL_UNSUPPORTED(CommQueryProperties, properties)
NCCL_UNSUPPORTED(SetEncryption, encryption)

NCCL_UNSUPPORTED(ParamBind, parameters)
NCCL_UNSUPPORTED(ParamDumpAll, parameters)
NCCL_UNSUPPORTED(ParamGet, parameters)
NCCL_UNSUPPORTED(ParamGetAllParameterKeys, parameters)
NCCL_UNSUPPORTED(ParamGetI8, parameters)
NCCL_UNSUPPORTED(ParamGetI16, parameters)
NCCL_UNSUPPORTED(ParamGetI32, parameters)
NCCL_UNSUPPORTED(ParamGetI64, parameters)
NCCL_UNSUPPORTED(ParamGetU8, parameters)
NCCL_UNSUPPORTED(ParamGetU16, parameters)
NCCL_UNSUPPORTED(ParamGetU32, parameters)
NCCL_UNSUPPORTED(ParamGetU64, parameters)
NCCL_UNSUPPORTED(ParamGetStr, parameters)
NCCL_UNSUPPORTED(ParamGetParameter, parameters)

NCCL_UNSUPPORTED(DevCommCreate, device_code)
NCCL_UNSUPPORTED(DevCommDestroy, device_code)
NCCL_UNSUPPORTED(GetLsaDevicePointer, device_code)
NCCL_UNSUPPORTED(GetLsaMultimemDevicePointer, device_code)
NCCL_UNSUPPORTED(GetMultimemDevicePointer, device_code)
NCCL_UNSUPPORTED(GetPeerDevicePointer, device_code)
NCCL_UNSUPPORTED(GetCftDeviceLeInfo, device_code)
NCCL_UNSUPPORTED(GetMultimemDeviceLeInfo, device_code)
NCCL_UNSUPPORTED(GetPeerDeviceLeInfo, device_code)
NCCL_UNSUPPORTED(GinBarrierCreateRequirement, device_code)
NCCL_UNSUPPORTED(GinInboxA2ACreateRequirement, device_code)
NCCL_UNSUPPORTED(GinOutboxCreateRequirement, device_code)
NCCL_UNSUPPORTED(LLA2ACreateRequirement, device_code)
NCCL_UNSUPPORTED(LsaBarrierCreateRequirement, device_code)

/// Returns 0 slots, because nothing would use them.
NCCL_EXPORT int ncclLLA2ACalcSlots() { return 0; }
NCCL_ALIAS(LLA2ACalcSlots)

/// Does nothing, because this library reads the variables for debugging only once.
NCCL_EXPORT void ncclResetDebugInit() {}
NCCL_ALIAS(ResetDebugInit)

NCCL_EXPORT void ncclResetDebugInitInternal() {}
