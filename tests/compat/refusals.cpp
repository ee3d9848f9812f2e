// SPDX-License-Identifier: Apache-2.0
// This part of the test program makes mistakes, and checks the errors that it gets.
#include <dlfcn.h>
#include <nccl.h>

#include <climits>
#include <cstring>
#include <utility>

#include "src/compat/abi_newer.h"
#include "tests/compat/client.h"

using namespace compat_test;

namespace {

constexpr ncclDataType_t bad_type = static_cast<ncclDataType_t>(12);
/// The functions of nccl.h that Rondo only refuses, except those that return no result.
constexpr const char *unsupported[] = {
    "ncclDevCommCreate", "ncclGetCftDeviceLeInfo", "ncclGetLsaDevicePointer",
    "ncclGetLsaMultimemDevicePointer", "ncclGetMultimemDeviceLeInfo", "ncclGetMultimemDevicePointer",
    "ncclGetPeerDeviceLeInfo", "ncclGetPeerDevicePointer", "ncclGinBarrierCreateRequirement",
    "ncclGinInboxA2ACreateRequirement", "ncclGinOutboxCreateRequirement", "ncclLLA2ACreateRequirement",
    "ncclLsaBarrierCreateRequirement"};

constexpr ncclRedOp_t created_op = static_cast<ncclRedOp_t>(5);

void check_collectives(Ranks &ranks) {
  ncclComm_t comm = ranks.comm(0);
  void *const at = ranks.part(0).at(0), *const to = ranks.part(0).at(half_bytes);
  const Stream stream = ranks.part(0).stream();
  const auto reduce = [&](const void *send, void *recv, ncclDataType_t type, ncclRedOp_t op, ncclComm_t of) {
    return ncclAllReduce(send, recv, 4, type, op, of, stream);
  };
  CHECK_REFUSED(reduce(at, to, ncclFloat32, ncclSum, nullptr), ncclInvalidArgument, "the communicator is NULL");
  CHECK_REFUSED(reduce(nullptr, to, ncclFloat32, ncclSum, comm), ncclInvalidArgument, "sendbuff is NULL");
  CHECK_REFUSED(reduce(at, nullptr, ncclFloat32, ncclSum, comm), ncclInvalidArgument, "recvbuff is NULL");
  CHECK_REFUSED(reduce(at, to, bad_type, ncclSum, comm), ncclInvalidArgument, "data type 12");
  CHECK_REFUSED(reduce(at, to, ncclFloat32, created_op, comm), ncclInvalidArgument, "operation 5");
  CHECK_REFUSED(ncclReduce(at, to, 4, ncclInt8, ncclSum, 2, comm, stream), ncclInvalidArgument, "root is 2");
  CHECK_REFUSED(ncclBroadcast(at, to, 4, ncclInt8, -1, comm, stream), ncclInvalidArgument, "root is -1");
  CHECK_REFUSED(ncclAllReduce(at, ranks.part(0).at(8), 4, ncclInt32, ncclSum, comm, stream), ncclInvalidArgument,
                "overlap");
  int on_the_stack = 0;
  CHECK_REFUSED(ncclAllReduce(&on_the_stack, to, 1, ncclInt32, ncclSum, comm, stream), ncclInvalidArgument, "send");
  // If only one rank makes a call of no elements, the call is dropped, whatever its buffers are.
  NCCL(ncclAllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, comm, stream));
  ranks.check_usable();
}

/// Checks that a group runs no call if Rondo refuses a later one, whose arguments this library does not check.
void check_later_refusal() {
  Ranks ranks(2);
  const Case it = ranks.sum(100);
  ranks.write(it);
  std::vector<float> ordinary(4);
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) NCCL(call(it, rank, ranks.part(rank), ranks.comm(rank)));
  NCCL(ncclAllReduce(ordinary.data(), ranks.part(0).at(0), 4, ncclFloat32, ncclSum, ranks.comm(0),
                     ranks.part(0).stream()));
  CHECK_REFUSED(ncclGroupEnd(), ncclInvalidArgument, "send is host memory that is not pinned");
  for (int rank = 0; rank < 2; ++rank) CHECK(ranks.part(rank).read() == before(it, rank));
  ranks.check_usable();
}

/// Checks that the numbers of a configuration have NCCL's limits. The last ones are of releases after the header's.
void check_ranges() {
  constexpr int unset = INT_MIN;
  constexpr size_t last = offsetof(ncclConfig_t, nvlinkCentricSched);
  struct Number {
    size_t offset;
    int wrong, right;
    const char *words;
  };
  constexpr Number numbers[] = {
      {offsetof(ncclConfig_t, cgaClusterSize), -1, 0, "cgaClusterSize is -1; it must be at least 0"},
      {offsetof(ncclConfig_t, minCTAs), 0, 1, "minCTAs is 0; it must be at least 1"},
      {offsetof(ncclConfig_t, splitShare), 2, 1, "splitShare is 2; it must be at least 0 and at most 1"},
      {offsetof(ncclConfig_t, trafficClass), unset, -7, ""},
      {offsetof(ncclConfig_t, collnetEnable), -1, 0, "collnetEnable is -1"},
      {offsetof(ncclConfig_t, CTAPolicy), 4, 3, "CTAPolicy is 4"},
      {offsetof(ncclConfig_t, shrinkShare), 2, 0, "shrinkShare is 2"},
      {offsetof(ncclConfig_t, nvlsCTAs), 0, 1, "nvlsCTAs is 0"},
      {offsetof(ncclConfig_t, nChannelsPerNetPeer), 65, 64, "nChannelsPerNetPeer is 65"},
      {last, 2, 1, "nvlinkCentricSched is 2"},
      {last + 4, 3, 2, "graphUsageMode is 3"},
      {last + 8, -1, 0, "numRmaCtx is -1"},
      {last + 12, 0, 1, "maxP2pPeers is 0"},
      {last + 16, 2, 1, "graphStreamOrdering is 2"}};
  alignas(ncclConfig_t) unsigned char memory[last + 24] = {};
  auto *const config = reinterpret_cast<ncclConfig_t *>(memory);
  const auto set = [&](size_t offset, int value) { std::memcpy(memory + offset, &value, sizeof value); };
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  config->size = sizeof memory;
  config->magic = 0xcafebeef;
  config->blocking = config->maxCTAs = unset;
  for (const Number &each : numbers) set(each.offset, unset);
  for (const Number &each : numbers) {
    set(each.offset, each.wrong);
    if (each.wrong != unset) {
      CHECK_REFUSED(ncclCommInitRankConfig(&comm, 1, id, 0, config), ncclInvalidArgument, each.words);
    }
    set(each.offset, each.right);
  }
  NCCL(ncclCommInitRankConfig(&comm, 1, id, 0, config));
  NCCL(ncclCommDestroy(comm));
}

void check_configs() {
  const OnDevice current(0);
  ncclUniqueId id;
  std::memset(&id, 0, sizeof id);
  ncclComm_t comm = nullptr;
  CHECK_REFUSED(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument, "comm is NULL");
  CHECK_REFUSED(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument, "number of ranks is 0");
  CHECK_REFUSED(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument, "rank is 2");
  CHECK_REFUSED(ncclCommInitRank(&comm, 2, id, 0), ncclInvalidArgument, "");  // an id of zeros
  CHECK(comm == nullptr);
  CHECK_REFUSED(ncclGetUniqueId(nullptr), ncclInvalidArgument, "the id is NULL");
  CHECK_REFUSED(ncclCommInitAll(nullptr, 1, nullptr), ncclInvalidArgument, "comms is NULL");
  const int no_device = 1000;
  CHECK(ncclCommInitAll(&comm, 1, &no_device) != ncclSuccess && comm == nullptr);
  ncclConfig_t config;
  std::memset(&config, 0, sizeof config);
  CHECK_REFUSED(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument, "NCCL_CONFIG_INITIALIZER");
  config.size = offsetof(ncclConfig_t, netName);
  config.magic = 0xcafebeef;
  config.blocking = 2;
  config.minCTAs = 8;
  config.maxCTAs = 4;
  CHECK_REFUSED(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument, "blocking is 2");
  config.blocking = 1;
  CHECK_REFUSED(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument, "more than its maxCTAs");
  config.maxCTAs = 0;
  CHECK_REFUSED(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument, "maxCTAs is 0");
  // In the layout of an older release, the struct ends before the fields with wrong values.
  config.size = offsetof(ncclConfig_t, minCTAs);
  NCCL(ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  NCCL(ncclCommDestroy(comm));
}

void check_handles(Ranks &ranks) {
  ncclComm_t comm = ranks.comm(0);
  CHECK_REFUSED(ncclCommCount(comm, nullptr), ncclInvalidArgument, "NULL");
  CHECK_REFUSED(ncclCommGetAsyncError(comm, nullptr), ncclInvalidArgument, "NULL");
  CHECK_REFUSED(ncclCommUserRank(nullptr, nullptr), ncclInvalidArgument, "communicator is NULL");
  NCCL(ncclCommDestroy(nullptr));
  NCCL(ncclCommAbort(nullptr));
  NCCL(ncclCommFinalize(nullptr));
  NCCL(ncclCommFinalize(comm));
  CHECK_REFUSED(ncclCommFinalize(comm), ncclInvalidArgument, "finalized before");
  CHECK_REFUSED(ncclAllReduce(ranks.part(0).at(0), ranks.part(0).at(0), 4, ncclInt8, ncclSum, comm,
                              ranks.part(0).stream()),
                ncclInvalidArgument, "finalized");
  NCCL(ncclCommDestroy(comm));
  CHECK_REFUSED(ncclCommDestroy(comm), ncclInvalidArgument, "that was destroyed or aborted");
  CHECK_REFUSED(ncclCommAbort(comm), ncclInvalidArgument, "that was destroyed or aborted");
  ranks.comm(0) = nullptr;
}

/// Checks that the end of a simulated group makes its communicators and drops its other calls. The outermost end alone
/// reads its argument, and writes that there is no estimate.
void check_simulation(Ranks &ranks) {
  constexpr unsigned magic = 0x74685283;
  ncclSimInfo_t info{sizeof info, magic, 22907, 5}, older = info, unset{};
  older.size = offsetof(ncclSimInfo_t, estimatedTime);
  const DevicePart &part = ranks.part(0);
  CHECK_REFUSED(ncclGroupSimulateEnd(&info), ncclInvalidUsage, "this thread has started no group");
  const Case it = ranks.sum(100);
  for (ncclSimInfo_t *const each : {&info, &older, &unset}) {
    ncclComm_t made = nullptr;
    ncclUniqueId id{};
    ranks.write(it);
    const auto unchanged = part.read();
    NCCL(ncclGroupStart());
    NCCL(ncclGroupStart());
    NCCL(call(it, 0, part, ranks.comm(0)));
    NCCL(ncclCommInitRank(&made, 1, id, 0));
    NCCL(ncclGroupSimulateEnd(&unset));
    ncclResult_t state = ncclInternalError;
    if (each == &unset) {
      CHECK_REFUSED(ncclGroupSimulateEnd(each), ncclInvalidArgument, "NCCL_SIM_INFO_INITIALIZER");
    } else {
      NCCL(ncclGroupSimulateEnd(each));
    }
    CHECK_REFUSED(ncclGroupEnd(), ncclInvalidUsage, "started no group");
    CHECK(part.read() == unchanged);
    NCCL(ncclCommGetAsyncError(made, &state));
    CHECK(state == (each == &unset ? ncclInvalidArgument : ncclSuccess));
    NCCL(ncclCommAbort(made));
  }
  CHECK(info.estimatedTime == -1 && older.estimatedTime == 5 && unset.estimatedTime == 0);
  NCCL(ncclGroupStart());
  CHECK(ncclAllReduce(nullptr, nullptr, 4, ncclInt8, ncclSum, ranks.comm(0), part.stream()) == ncclInvalidArgument);
  CHECK_REFUSED(ncclGroupSimulateEnd(&info), ncclInvalidArgument, "sendbuff is NULL");
}

/// Checks that without an argument, the end of a simulated group runs the group's calls.
void check_end_without_simulation(Ranks &ranks) {
  CHECK_REFUSED(ncclGroupSimulateEnd(nullptr), ncclInvalidUsage, "started no group");
  const Case it = ranks.sum(100);
  ranks.write(it);
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < ranks.size(); ++rank) NCCL(call(it, rank, ranks.part(rank), ranks.comm(rank)));
  NCCL(ncclGroupSimulateEnd(nullptr));
  ranks.check(it);
}

/// Checks that a configuration without encryption is accepted, and that others are refused as in NCCL.
void check_encryption() {
  NCCL(ncclSetEncryption(nullptr));
  ncclEncryptionConfig_t config{sizeof config, 0xcafebeef, 23203, 0, nullptr};  // mode NONE
  NCCL(ncclSetEncryption(&config));
  config.psk = reinterpret_cast<const char *>(1);  // not read in this mode
  NCCL(ncclSetEncryption(&config));
  config.mode = 1;
  config.size = offsetof(ncclEncryptionConfig_t, mode);  // as in a release without the later fields
  NCCL(ncclSetEncryption(&config));
  config.size = offsetof(ncclEncryptionConfig_t, psk);
  CHECK_REFUSED(ncclSetEncryption(&config), ncclInvalidArgument, "at least 32 bytes");
  config.size = sizeof config + 8;  // as in a later release
  config.psk = nullptr;
  CHECK_REFUSED(ncclSetEncryption(&config), ncclInvalidArgument, "at least 32 bytes");
  config.psk = "0123456789abcdef0123456789abcde";
  CHECK_REFUSED(ncclSetEncryption(&config), ncclInvalidArgument, "at least 32 bytes");
  config.psk = "0123456789abcdef0123456789abcdef";
  CHECK_REFUSED(ncclSetEncryption(&config), ncclInvalidUsage, "Rondo does not encrypt");
  config.mode = 2;
  CHECK_REFUSED(ncclSetEncryption(&config), ncclInvalidArgument, "the mode is 2");
  config.magic = 0;
  CHECK_REFUSED(ncclSetEncryption(&config), ncclInvalidArgument, "NCCL_ENCRYPTION_CONFIG_INITIALIZER");
}

/// Checks the texts of results. Programs that read logs search for their beginnings.
void check_texts() {
  constexpr std::pair<int, const char *> texts[] = {{0, "no error"},
                                                    {1, "unhandled cuda error ("},
                                                    {2, "unhandled system error ("},
                                                    {3, "internal error "},
                                                    {4, "invalid argument ("},
                                                    {5, "invalid usage ("},
                                                    {6, "remote process exited or there was a network error"},
                                                    {7, "NCCL operation in progress"},
                                                    {8, "timeout"},
                                                    {15, "unknown result code"}};
  for (const auto &[result, beginning] : texts)
    CHECK(std::string(ncclGetErrorString(static_cast<ncclResult_t>(result))).find(beginning) == 0);
}

/// Calls the functions that return no result, and have no effect.
void check_without_effect(Ranks &ranks) {
  CHECK_REFUSED(ncclCommCount(nullptr, nullptr), ncclInvalidArgument, "ncclCommCount");
  for (const char *const name : {"ncclResetDebugInit", "ncclResetDebugInitInternal"}) {
    auto *const reset = reinterpret_cast<void (*)()>(::dlsym(RTLD_DEFAULT, name));
    if (reset == nullptr) fail_test(name, __FILE__, __LINE__, 0);
    reset();
    check_last_error("ncclCommCount", __FILE__, __LINE__);
  }
  auto *const slots = reinterpret_cast<int (*)(int, int)>(::dlsym(RTLD_DEFAULT, "ncclLLA2ACalcSlots"));
  CHECK(slots != nullptr && slots(64, 16) == 0);
  check_last_error("ncclCommCount", __FILE__, __LINE__);
  ranks.check_usable();
}

}  // namespace

void compat_test::check_arguments() {
  check_texts();
  check_configs();
  check_ranges();
  Ranks ranks(2);
  check_collectives(ranks);
  check_later_refusal();
  check_handles(ranks);
}

/// Calls the refused functions without arguments, because they read none.
void compat_test::check_unsupported() {
  Ranks ranks(1);
  for (const char *const name : unsupported) {
    auto *const function = reinterpret_cast<ncclResult_t (*)()>(::dlsym(RTLD_DEFAULT, name));
    if (function == nullptr) fail_test(name, __FILE__, __LINE__, 0);
    const std::string words = std::string(name) + ": Rondo ";
    CHECK_REFUSED(function(), ncclInvalidUsage, words.c_str());
  }
  auto *const end_device_side =
      reinterpret_cast<ncclResult_t (*)(ncclComm_t, const void *)>(::dlsym(RTLD_DEFAULT, "ncclDevCommDestroy"));
  NCCL(end_device_side(ranks.comm(0), nullptr));
  CHECK_REFUSED(end_device_side(ranks.comm(0), &ranks), ncclInvalidUsage, "ncclDevCommDestroy: Rondo ");
  check_simulation(ranks);
  check_end_without_simulation(ranks);
  check_encryption();
  check_without_effect(ranks);
  ranks.check_usable();
}

void compat_test::check_version() {
  int version = 0;
  CHECK_REFUSED(ncclGetVersion(nullptr), ncclInvalidArgument, "version is NULL");
  const std::string wanted = std::getenv("CLIENT_VERSION") != nullptr ? std::getenv("CLIENT_VERSION") : "23007";
  if (wanted == "refused") {
    CHECK_REFUSED(ncclGetVersion(&version), ncclInvalidUsage, "RONDO_NCCL_VERSION");
    return;
  }
  NCCL(ncclGetVersion(&version));
  CHECK(std::to_string(version) == wanted);
}

/// Runs a sum. The library's messages show the effect of the settings.
void compat_test::check_sum() { Ranks(2).check_usable(case_count_max); }

/// Checks the error of rank 0 if rank 1 does not call. CLIENT_RESULT is the expected error.
void compat_test::check_timeout() {
  Ranks ranks(2);
  const Case it = ranks.sum(100);
  ranks.write(it);
  NCCL(call(it, 0, ranks.part(0), ranks.comm(0)));
  const ncclResult_t state = wait_while(ranks.comm(0), ncclSuccess);
  CHECK(std::to_string(state) == std::getenv("CLIENT_RESULT"));
  CHECK(std::string(ncclGetLastError(ranks.comm(0))).find("rank 1") != std::string::npos);
  CHECK(call(it, 0, ranks.part(0), ranks.comm(0)) == state);
  for (int rank = 0; rank < 2; ++rank) {
    NCCL(ncclCommAbort(ranks.comm(rank)));
    ranks.comm(rank) = nullptr;
  }
}

/// Checks the variable of the environment that makes communicators nonblocking.
void compat_test::check_blocking_variable() {
  const OnDevice current(0);
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, 2, id, 0) == ncclInProgress);
  NCCL(ncclCommAbort(comm));
}

/// Checks that the handles of communicators that a group could not make stay valid until the program ends them. The
/// third rank never calls, and RONDO_INIT_TIMEOUT is short.
void compat_test::check_failed_inits() {
  const OnDevice current(0);
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  ncclComm_t comms[2] = {};
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) NCCL(ncclCommInitRank(&comms[rank], 3, id, rank));
  const ncclResult_t failed = ncclGroupEnd();
  CHECK(static_cast<int>(failed) == 8);  // ncclTimeout, which older headers lack
  ncclComm_t later = nullptr;
  NCCL(ncclCommInitRank(&later, 1, id, 0));
  for (const ncclComm_t comm : comms) {
    ncclResult_t state = ncclSuccess;
    NCCL(ncclCommGetAsyncError(comm, &state));
    CHECK(comm != later && state == failed);
    int count = 0;
    CHECK(ncclCommCount(comm, &count) == failed);
    NCCL(ncclCommAbort(comm));
    CHECK_REFUSED(ncclCommAbort(comm), ncclInvalidArgument, "that was destroyed or aborted");
  }
  NCCL(ncclCommDestroy(later));
}
