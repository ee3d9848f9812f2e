// SPDX-License-Identifier: Apache-2.0
// Rondo does not support these functions of NCCL's interface yet. A program that was linked with NCCL needs their names
// to start. If it calls one of them, it gets ncclInvalidUsage, and ncclGetLastError() returns the reason. Most of them
// read no argument, and declare none. C's calling conventions allow the callee to ignore arguments.
#include <algorithm>
#include <cstring>
#include <string>

#include "src/compat/exports.h"
#include "src/compat/failure.h"

using namespace rondo::compat;

namespace {

ncclResult_t not_supported(const char *function, const char *reason) {
  return fail(ncclInvalidUsage, std::string(function) + ": " + reason);
}

constexpr int no_encryption = 0, shared_key = 1;  // NCCL_ENCRYPTION_MODE_NONE and _PSK
constexpr size_t key_bytes_min = 32;
constexpr char device_code[] = "Rondo does not have the interface for communication from device code";

}  // namespace

/// Defines a function that fails.
#define NCCL_UNSUPPORTED(name, reason)                                                  \
  NCCL_EXPORT ncclResult_t nccl##name() { return not_supported("nccl" #name, reason); } \
  NCCL_ALIAS(name)

NCCL_UNSUPPORTED(DevCommCreate, device_code)
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

/// Accepts a configuration without encryption, which is also the meaning of null. A smaller configuration is that of an
/// older release, and its missing fields are 0. As in NCCL, the key is read only in the mode that needs it.
NCCL_EXPORT ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config) {
  constexpr const char *function = "ncclSetEncryption";
  const auto wrong = [](const std::string &what) {
    return fail(ncclInvalidArgument, std::string(function) + ": " + what);
  };
  if (config == nullptr) return ncclSuccess;
  if (config->magic != config_magic)
    return wrong("the ncclEncryptionConfig_t was not initialised with NCCL_ENCRYPTION_CONFIG_INITIALIZER");
  ncclEncryptionConfig_t given{};
  std::memcpy(&given, config, std::min(config->size, sizeof given));
  if (given.mode == no_encryption) return ncclSuccess;
  if (given.mode != shared_key) return wrong("the mode is " + std::to_string(given.mode) + "; it must be 0 or 1");
  if (given.psk == nullptr || ::strnlen(given.psk, key_bytes_min) < key_bytes_min)
    return wrong("the key (psk) must have at least " + std::to_string(key_bytes_min) + " bytes");
  return not_supported(function, "Rondo does not encrypt what collectives move");
}
NCCL_ALIAS(SetEncryption)

/// Ends the device side of a communicator. It accepts only null, because Rondo has no device side.
NCCL_EXPORT ncclResult_t ncclDevCommDestroy(ncclComm_t, const void *device_side) {
  return device_side == nullptr ? ncclSuccess : not_supported("ncclDevCommDestroy", device_code);
}
NCCL_ALIAS(DevCommDestroy)

/// Returns 0 slots, because nothing would use them.
NCCL_EXPORT int ncclLLA2ACalcSlots() { return 0; }
NCCL_ALIAS(LLA2ACalcSlots)

/// Does nothing, because Rondo reads its variables for debugging only once.
NCCL_EXPORT void ncclResetDebugInit() {}
NCCL_ALIAS(ResetDebugInit)

NCCL_EXPORT void ncclResetDebugInitInternal() {}
