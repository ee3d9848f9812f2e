// SPDX-License-Identifier: Apache-2.0
// This program prints the sizes and values in nccl.h on which programs and the library must agree. It is compiled with
// our declarations, and again with NVIDIA's header.
#include <nccl.h>

#include <cstddef>
#include <cstdio>

#define PRINT(name) std::printf("%s %lld\n", #name, static_cast<long long>(name))
#define PRINT_FIELD(name) \
  std::printf("%s at %zu, %zu bytes\n", #name, offsetof(ncclConfig_t, name), sizeof(ncclConfig_t::name))

int main() {
  PRINT(sizeof(ncclUniqueId));
  PRINT(sizeof(ncclResult_t));
  PRINT(sizeof(ncclDataType_t));
  PRINT(sizeof(ncclRedOp_t));
  PRINT(ncclSuccess);
  PRINT(ncclUnhandledCudaError);
  PRINT(ncclSystemError);
  PRINT(ncclInternalError);
  PRINT(ncclInvalidArgument);
  PRINT(ncclInvalidUsage);
  PRINT(ncclRemoteError);
  PRINT(ncclInProgress);
  PRINT(ncclInt8);
  PRINT(ncclUint8);
  PRINT(ncclInt32);
  PRINT(ncclUint32);
  PRINT(ncclInt64);
  PRINT(ncclUint64);
  PRINT(ncclFloat16);
  PRINT(ncclFloat32);
  PRINT(ncclFloat64);
  PRINT(ncclBfloat16);
  PRINT(ncclFloat8e4m3);
  PRINT(ncclFloat8e5m2);
  PRINT(ncclNumTypes);
  PRINT(ncclSum);
  PRINT(ncclProd);
  PRINT(ncclMax);
  PRINT(ncclMin);
  PRINT(ncclAvg);
  PRINT(ncclNumOps);
  PRINT(ncclMaxRedOp);
  PRINT_FIELD(size);
  PRINT_FIELD(magic);
  PRINT_FIELD(version);
  PRINT_FIELD(blocking);
  PRINT_FIELD(cgaClusterSize);
  PRINT_FIELD(minCTAs);
  PRINT_FIELD(maxCTAs);
  PRINT_FIELD(netName);
  PRINT_FIELD(splitShare);
  PRINT_FIELD(trafficClass);
  PRINT_FIELD(commName);
  PRINT_FIELD(collnetEnable);
  PRINT_FIELD(CTAPolicy);
  PRINT_FIELD(shrinkShare);
  PRINT_FIELD(nvlsCTAs);
  PRINT_FIELD(nChannelsPerNetPeer);
  PRINT_FIELD(nvlinkCentricSched);
}
