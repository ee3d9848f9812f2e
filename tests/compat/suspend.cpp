// SPDX-License-Identifier: Apache-2.0
// This program suspends communicators, which then return their device memory. Devices share memory by descriptors.
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>

#include "src/compat/abi_newer.h"
#include "tests/compat/client.h"

using namespace compat_test;

namespace {

constexpr int memory_flag = 1;     // NCCL_SUSPEND_MEM
constexpr int looks_max = 60'000;  // a limit against hangs

uint64_t figure(ncclComm_t comm, ncclCommMemStat_t stat) {
  uint64_t value = UINT64_MAX;
  NCCL(ncclCommMemStats(comm, stat, &value));
  return value;
}

/// Checks that a group refuses to suspend a blocking communicator and a nonblocking one together.
void check_mixed_group(ncclComm_t blocking) {
  ncclUniqueId id;
  std::memset(&id, 7, sizeof id);
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = nullptr;
  NCCL(ncclGroupStart());
  NCCL(ncclCommSuspend(blocking, memory_flag));
  NCCL(ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  CHECK_REFUSED(ncclGroupEnd(), ncclInvalidArgument, "blocking and nonblocking");
  CHECK(figure(blocking, ncclStatGpuMemSuspended) == 0);
  NCCL(ncclCommAbort(comm));
}

/// Checks what other calls return while a thread suspends their communicator.
void check_beside(const ncclComm_t (&comms)[2], const Case &it, const DevicePart &part) {
  std::thread other([&] { NCCL(ncclCommSuspend(comms[0], memory_flag)); });
  uint64_t value = 0;
  for (int look = 0; look < looks_max && ncclCommMemStats(comms[0], ncclStatGpuMemTotal, &value) == ncclSuccess; ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK_REFUSED(call(it, 0, part, comms[0]), ncclInvalidUsage, "still being suspended");
  ncclResult_t state = ncclSystemError;
  NCCL(ncclCommGetAsyncError(comms[0], &state));
  CHECK(state == ncclSuccess);
  NCCL(ncclCommSuspend(comms[1], memory_flag));
  other.join();
}

/// Checks that communicators of a group do not wait for each other, and that the group returns the first failure. Both
/// ranks of `comms` are suspended, and are resumed.
void check_order(const ncclComm_t (&comms)[2]) {
  const int devices[] = {0, 1};
  ncclComm_t early[2] = {};
  NCCL(ncclCommInitAll(early, 2, devices));
  NCCL(ncclGroupStart());
  NCCL(ncclCommResume(early[0]));
  NCCL(ncclCommSuspend(comms[0], memory_flag));
  CHECK_REFUSED(ncclGroupEnd(), ncclInvalidUsage, "not suspended");
  std::thread other([&] {
    NCCL(ncclCommSuspend(early[1], memory_flag));
    NCCL(ncclCommResume(early[1]));
    NCCL(ncclCommResume(comms[1]));
  });
  NCCL(ncclGroupStart());
  NCCL(ncclCommSuspend(early[0], memory_flag));
  NCCL(ncclCommResume(early[0]));
  NCCL(ncclCommResume(comms[0]));
  NCCL(ncclGroupEnd());
  other.join();
  for (const ncclComm_t comm : early) NCCL(ncclCommDestroy(comm));
}

/// Checks that a thread can suspend and resume nonblocking ranks in a group, which waits for them.
void check_nonblocking_pair() {
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = nonblocking();
  ncclComm_t comms[2] = {};
  for (int rank = 0; rank < 2; ++rank) {
    const OnDevice current(rank);
    CHECK(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config) == ncclInProgress);
  }
  for (const ncclComm_t comm : comms) CHECK(wait_while(comm, ncclInProgress) == ncclSuccess);
  for (int round = 0; round < 2; ++round) {
    NCCL(ncclGroupStart());
    for (const ncclComm_t comm : comms) NCCL(ncclCommSuspend(comm, memory_flag));
    NCCL(ncclGroupEnd());
    for (const ncclComm_t comm : comms) CHECK(figure(comm, ncclStatGpuMemSuspended) == 1);
    NCCL(ncclGroupStart());
    for (const ncclComm_t comm : comms) NCCL(ncclCommResume(comm));
    NCCL(ncclGroupEnd());
    for (const ncclComm_t comm : comms) CHECK(figure(comm, ncclStatGpuMemSuspended) == 0);
  }
  // The last call is refused after the others have ended.
  NCCL(ncclGroupStart());
  NCCL(ncclCommSuspend(comms[0], memory_flag));
  NCCL(ncclCommSuspend(comms[1], memory_flag));
  NCCL(ncclCommSuspend(comms[1], memory_flag));
  CHECK_REFUSED(ncclGroupEnd(), ncclInvalidUsage, "is suspended");
  for (const ncclComm_t comm : comms) CHECK(figure(comm, ncclStatGpuMemSuspended) == 1);
  for (const ncclComm_t comm : comms) NCCL(ncclCommAbort(comm));
}

}  // namespace

/// Suspends and resumes all ranks in groups by one thread, and sums in between.
void compat_test::check_suspend() {
  const int devices[] = {0, 1};
  ncclComm_t comms[2] = {};
  NCCL(ncclCommInitAll(comms, 2, devices));
  const DevicePart parts[] = {{0, 2 * half_bytes}, {1, 2 * half_bytes}};
  Case it;
  it.count = 1000;
  it.rank_count = 2;
  for (int round = 0; round < 2; ++round) {
    for (int rank = 0; rank < 2; ++rank) parts[rank].write(before(it, rank));
    NCCL(ncclGroupStart());
    for (int rank = 0; rank < 2; ++rank) NCCL(call(it, rank, parts[rank], comms[rank]));
    NCCL(ncclGroupEnd());
    for (int rank = 0; rank < 2; ++rank) check_after(it, rank, parts[rank]);
    const uint64_t bytes = figure(comms[0], ncclStatGpuMemSuspend);
    CHECK(bytes > 0 && figure(comms[0], ncclStatGpuMemSuspended) == 0);
    CHECK(figure(comms[0], ncclStatGpuMemTotal) == bytes + figure(comms[0], ncclStatGpuMemPersist));
    NCCL(ncclGroupStart());
    for (const ncclComm_t comm : comms) NCCL(ncclCommSuspend(comm, memory_flag));
    NCCL(ncclGroupEnd());
    CHECK(figure(comms[1], ncclStatGpuMemSuspended) == 1);
    CHECK_REFUSED(call(it, 0, parts[0], comms[0]), ncclInvalidUsage, "the communicator is suspended");
    CHECK_REFUSED(ncclCommSuspend(comms[0], memory_flag), ncclInvalidUsage, "is suspended");
    NCCL(ncclGroupStart());
    for (const ncclComm_t comm : comms) NCCL(ncclCommResume(comm));
    NCCL(ncclGroupEnd());
    CHECK_REFUSED(ncclCommResume(comms[0]), ncclInvalidUsage, "not suspended");
    CHECK(figure(comms[0], ncclStatGpuMemSuspend) == bytes);
  }
  for (int round = 0; round < 10; ++round) {  // a suspend and a resume of each communicator
    NCCL(ncclGroupStart());
    for (const ncclComm_t comm : comms) NCCL(ncclCommSuspend(comm, memory_flag));
    for (const ncclComm_t comm : comms) NCCL(ncclCommResume(comm));
    NCCL(ncclGroupEnd());
    CHECK(figure(comms[0], ncclStatGpuMemSuspended) == 0);
  }
  check_beside(comms, it, parts[0]);
  check_order(comms);
  check_mixed_group(comms[0]);
  check_nonblocking_pair();
  CHECK_REFUSED(ncclCommSuspend(comms[0], 2), ncclInvalidArgument, "flags are 2");
  CHECK_REFUSED(ncclCommMemStats(comms[0], ncclStatGpuMemTotal, nullptr), ncclInvalidArgument, "NULL");
  uint64_t value = 0;
  CHECK_REFUSED(ncclCommMemStats(comms[0], static_cast<ncclCommMemStat_t>(4), &value), ncclInvalidArgument, "figure 4");
  for (const ncclComm_t comm : comms) NCCL(ncclCommDestroy(comm));
}
