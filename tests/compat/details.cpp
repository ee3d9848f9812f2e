// SPDX-License-Identifier: Apache-2.0
// This part of the test program depends on details of groups, streams and configurations, as frameworks do.
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "src/compat/abi_newer.h"
#include "tests/compat/client.h"

using namespace compat_test;

namespace {

/// Checks that the streams of a communicator in one group are captured by one graph, or that none is captured.
void check_captured_streams() {
  Ranks ranks(1);
  const DevicePart other(0, 64);
  const Case it = ranks.sum(100);
  void *const at = ranks.part(0).at(0);
  const Stream streams[] = {ranks.part(0).stream(), other.stream()};
  const auto group = [&] {
    NCCL(ncclGroupStart());
    for (const Stream stream : streams) NCCL(ncclAllReduce(at, at, 4, ncclInt8, ncclSum, ranks.comm(0), stream));
    return ncclGroupEnd();
  };
  const OnDevice current(0);
  constexpr int global = 0;
  Graph graph = nullptr;
  CU(begin_capture(streams[0], global));
  CHECK_REFUSED(group(), ncclInvalidUsage, "not captured by the same graph");
  NCCL(ncclGroupStart());
  NCCL(ncclAllReduce(at, at, 4, ncclInt8, ncclSum, ranks.comm(0), streams[0]));
  NCCL(ncclSignal(0, 0, 0, 0, ranks.comm(0), streams[1]));
  CHECK_REFUSED(ncclGroupEnd(), ncclInvalidUsage, "cannot be captured into a graph");
  CU(begin_capture(streams[1], global));
  CHECK_REFUSED(group(), ncclInvalidUsage, "not captured by the same graph");
  for (const Stream stream : streams) {
    CU(end_capture(stream, &graph));
    CU(graph_destroy(graph));
  }
  NCCL(group());
  for (const Stream stream : streams) CU(synchronize(stream));
  ranks.write(it);
  NCCL(call(it, 0, ranks.part(0), ranks.comm(0)));
  ranks.check(it);
}

/// Checks that a program can poll for errors while a stream is captured in the strictest mode.
void check_queries_in_a_capture() {
  Ranks ranks(1);
  const OnDevice current(0);
  Graph graph = nullptr;
  CU(begin_capture(ranks.part(0).stream(), 0));
  NCCL(call(ranks.sum(100), 0, ranks.part(0), ranks.comm(0)));
  ncclResult_t state = ncclInternalError;
  NCCL(ncclCommGetAsyncError(ranks.comm(0), &state));
  CHECK(state == ncclSuccess);
  CU(end_capture(ranks.part(0).stream(), &graph));
  CU(graph_destroy(graph));
}

/// Checks that ncclCommSplit() and ncclCommShrink() of a nonblocking communicator make nonblocking ones.
void check_inherited_configuration() {
  const OnDevice current(0);
  ncclUniqueId id;
  std::memset(&id, 0, sizeof id);
  ncclConfig_t config = nonblocking();
  ncclComm_t parent = nullptr, part = nullptr, rest = nullptr;
  CHECK(ncclCommInitRankConfig(&parent, 1, id, 0, &config) == ncclInProgress);
  CHECK(wait_while(parent, ncclInProgress) == ncclSuccess);
  CHECK(ncclCommSplit(parent, 0, 0, &part, nullptr) == ncclInProgress);
  CHECK(wait_while(part, ncclInProgress) == ncclSuccess);
  CHECK(ncclCommShrink(parent, nullptr, 0, &rest, nullptr, 0) == ncclInProgress);
  CHECK(wait_while(rest, ncclInProgress) == ncclSuccess);
  for (const ncclComm_t comm : {rest, part, parent}) NCCL(ncclCommDestroy(comm));
}

/// Checks that a group has no effect on allocations, which happen at once. Also checks that a program can end all open
/// groups, make a communicator, and begin as many groups again.
void check_reopened_groups() {
  Ranks ranks(1);
  const OnDevice current(0);
  void *memory = nullptr;
  NCCL(ncclGroupStart());
  NCCL(ncclMemAlloc(&memory, 4096));
  CHECK(memory != nullptr);
  NCCL(ncclMemFree(memory));
  NCCL(ncclGroupStart());
  const Case it = ranks.sum(100);
  ranks.write(it);
  for (int level = 0; level < 2; ++level) NCCL(ncclGroupEnd());
  ncclUniqueId id;
  std::memset(&id, 0x77, sizeof id);
  ncclComm_t comm = nullptr;
  NCCL(ncclCommInitRank(&comm, 1, id, 0));
  for (int level = 0; level < 2; ++level) NCCL(ncclGroupStart());
  NCCL(call(it, 0, ranks.part(0), comm));
  for (int level = 0; level < 2; ++level) NCCL(ncclGroupEnd());
  ranks.check(it);
  NCCL(ncclCommDestroy(comm));
}

const auto of_thread = reinterpret_cast<Stream>(uintptr_t{2});  // CU_STREAM_PER_THREAD

/// Checks that the numbers 0 to 2 are also streams: 0 and 1 are the default stream, and 2 is the thread's own stream.
void check_streams_without_a_handle() {
  Ranks ranks(1);
  const OnDevice current(0);
  for (const uintptr_t number : {0, 1, 2}) {
    const Case it = ranks.sum(100);
    ranks.write(it);
    const auto stream = reinterpret_cast<Stream>(number);
    const DevicePart &part = ranks.part(0);
    NCCL(ncclAllReduce(part.at(0), part.at(half_bytes), it.count, it.type, it.op, ranks.comm(0), stream));
    CU(synchronize(stream));
    ranks.check(it);
  }
}

void wait_until_set(void *flag) {
  const auto *const set = static_cast<const std::atomic<bool> *>(flag);
  while (!set->load(std::memory_order_acquire)) ::usleep(1000);  // pairs with the stores of the test
}

/// Checks that a call on a thread's own stream follows the latest call on another thread's own stream, though both
/// streams have the same number.
void check_a_stream_of_each_thread() {
  Ranks ranks(1);
  const DevicePart other(0, 2 * half_bytes);
  const OnDevice current(0);
  const Case it = ranks.sum(100);
  ranks.write(it);
  other.write(std::vector<unsigned char>(2 * half_bytes, untouched));
  const auto copy = [&](const unsigned char *from, unsigned char *to) {
    NCCL(ncclAllReduce(from, to, it.count, it.type, it.op, ranks.comm(0), of_thread));
  };
  std::atomic<bool> called = false, open = false;
  std::thread first([&] {
    const OnDevice here(0);
    CU(launch_host(of_thread, wait_until_set, &open));
    copy(ranks.part(0).at(0), ranks.part(0).at(half_bytes));
    called.store(true, std::memory_order_release);  // pairs with wait_until_set()
    CU(synchronize(of_thread));
  });
  wait_until_set(&called);
  copy(ranks.part(0).at(half_bytes), other.at(0));
  ::usleep(20'000);  // a call that wrongly does not wait has run by now
  open.store(true, std::memory_order_release);  // pairs with wait_until_set()
  CU(synchronize(of_thread));
  first.join();
  const auto found = other.read(), wanted = after(it, 0);
  CHECK(std::equal(found.begin(), found.begin() + 400, wanted.begin() + half_bytes));
}

}  // namespace

void compat_test::check_details() {
  check_captured_streams();
  check_queries_in_a_capture();
  check_inherited_configuration();
  check_reopened_groups();
  check_streams_without_a_handle();
  check_a_stream_of_each_thread();
}
