// SPDX-License-Identifier: Apache-2.0
// This part of the test program uses groups, makes communicators without waiting, and ends them.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/compat/client.h"

using namespace compat_test;

namespace {

void check_first_error() {
  Ranks ranks(2);
  const Case it = ranks.sum(100);
  ranks.write(it);
  NCCL(ncclGroupStart());
  NCCL(ncclGroupStart());
  NCCL(call(it, 0, ranks.part(0), ranks.comm(0)));
  CHECK_REFUSED(ncclReduce(ranks.part(1).at(0), nullptr, 4, ncclInt8, ncclSum, 9, ranks.comm(1), nullptr),
                ncclInvalidArgument, "root is 9");
  CHECK_REFUSED(ncclAllReduce(nullptr, nullptr, 4, ncclInt8, ncclSum, ranks.comm(1), nullptr), ncclInvalidArgument,
                "sendbuff");
  NCCL(ncclGroupEnd());  // an inner end
  NCCL(call(it, 1, ranks.part(1), ranks.comm(1)));
  CHECK_REFUSED(ncclGroupEnd(), ncclInvalidArgument, "root is 9");
  for (int rank = 0; rank < 2; ++rank) CHECK(ranks.part(rank).read() == before(it, rank));
  // The group launched nothing, so the next calls match.
  ranks.check_usable();
}

/// Checks several calls of each rank in one group, on two communicators.
void check_many_calls() {
  Ranks one(2), other(2);
  const Case sum = one.sum(1000);
  Case gather = sum;
  gather.kind = Kind::all_gather;
  one.write(sum);
  other.write(gather);
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    NCCL(call(sum, rank, one.part(rank), one.comm(rank)));
    NCCL(call(sum, rank, one.part(rank), one.comm(rank)));
    NCCL(call(gather, rank, other.part(rank), other.comm(rank)));
  }
  NCCL(ncclGroupEnd());
  one.check(sum);
  other.check(gather);
}

/// Checks that calls of one communicator on two streams run in the order of the calls.
void check_two_streams() {
  Ranks ranks(2);
  const DevicePart others[2] = {{0, 64}, {0, 64}};
  Case first = ranks.sum(1000), second = first;
  second.in_place = true;  // so it uses other memory than the first call
  for (int rank = 0; rank < 2; ++rank) {
    auto bytes = before(first, rank);
    const auto more = before(second, rank);
    std::copy(more.begin() + half_bytes, more.end(), bytes.begin() + half_bytes);
    ranks.part(rank).write(bytes);
  }
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    void *const at = ranks.part(rank).at(0), *const to = ranks.part(rank).at(half_bytes);
    const ncclComm_t comm = ranks.comm(rank);
    NCCL(ncclAllReduce(to, to, second.count, second.type, second.op, comm, others[rank].stream()));
    NCCL(ncclAllReduce(at, at, first.count, first.type, first.op, comm, ranks.part(rank).stream()));
  }
  NCCL(ncclGroupEnd());
  for (int rank = 0; rank < 2; ++rank) {
    others[rank].wait();
    const auto found = ranks.part(rank).read(), wanted = after(second, rank);
    CHECK(std::equal(found.begin() + half_bytes, found.end(), wanted.begin() + half_bytes));
    CHECK(std::equal(found.begin(), found.begin() + 4000, wanted.begin() + half_bytes));
  }
}

/// Checks that one thread can make all ranks of a communicator. Each rank is on the device that is current at its call.
void check_inits_in_a_group() {
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  ncclComm_t comms[3] = {};
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank) {
    const OnDevice current(rank % 2);
    NCCL(ncclCommInitRank(&comms[rank], 3, id, rank));
    CHECK(comms[rank] != nullptr);
    int count = 0;
    CHECK_REFUSED(ncclCommCount(comms[rank], &count), ncclInvalidArgument, "still being made");
  }
  NCCL(ncclGroupEnd());
  for (int rank = 0; rank < 3; ++rank) {
    int device = -1;
    NCCL(ncclCommCuDevice(comms[rank], &device));
    CHECK(device == rank % 2);
  }
  NCCL(ncclGroupStart());
  for (const ncclComm_t comm : comms) NCCL(ncclCommAbort(comm));
  NCCL(ncclGroupEnd());
}

/// Checks that a refused rank ends the initialisation of the other ranks in its group, which would wait for that rank.
void check_refused_init_in_a_group() {
  const OnDevice current(0);
  ncclUniqueId id, zeros;
  std::memset(&zeros, 0, sizeof zeros);
  NCCL(ncclGetUniqueId(&id));
  ncclComm_t comms[2] = {};
  NCCL(ncclGroupStart());
  NCCL(ncclCommInitRank(&comms[0], 2, id, 0));
  NCCL(ncclCommInitRank(&comms[1], 2, zeros, 1));
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  for (const ncclComm_t comm : comms) {
    ncclResult_t state = ncclSuccess;
    NCCL(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclInvalidArgument);
    NCCL(ncclCommAbort(comm));
  }
}

void check_mixed_group() {
  Ranks ranks(1);
  const OnDevice current(0);
  ncclUniqueId id;
  std::memset(&id, 7, sizeof id);
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = nullptr;
  NCCL(ncclGroupStart());
  NCCL(call(ranks.sum(4), 0, ranks.part(0), ranks.comm(0)));
  NCCL(ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  CHECK_REFUSED(ncclGroupEnd(), ncclInvalidArgument, "blocking and nonblocking");
  NCCL(ncclCommAbort(comm));
}

void check_nonblocking() {
  const OnDevice current(0);
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = nonblocking();
  ncclComm_t comms[2] = {};
  CHECK(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config) == ncclInProgress);
  ncclResult_t state = ncclSuccess;
  NCCL(ncclCommGetAsyncError(comms[0], &state));
  CHECK(state == ncclInProgress);
  int count = 0;
  CHECK_REFUSED(ncclCommCount(comms[0], &count), ncclInvalidArgument, "still being made");
  const DevicePart part(0, 2 * half_bytes);
  CHECK_REFUSED(ncclAllReduce(part.at(0), part.at(0), 1, ncclInt8, ncclSum, comms[0], part.stream()),
                ncclInvalidArgument, "still being made");
  CHECK(ncclCommInitRankConfig(&comms[1], 2, id, 1, &config) == ncclInProgress);
  for (const ncclComm_t comm : comms) CHECK(wait_while(comm, ncclInProgress) == ncclSuccess);
  NCCL(ncclCommCount(comms[0], &count));
  CHECK(count == 2);
  for (const ncclComm_t comm : comms) NCCL(ncclCommDestroy(comm));
}

/// Checks that another thread can abort the initialisation of a blocking communicator whose second rank never calls.
void check_abort_of_an_init() {
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;  // the library writes the handle before it waits
  std::thread other([&comm] {
    ncclComm_t seen = nullptr;
    for (int look = 0; look < 60'000 && seen == nullptr; ++look) {  // a minute
      ::usleep(1000);
      seen = __atomic_load_n(&comm, __ATOMIC_ACQUIRE);
    }
    CHECK(seen != nullptr);
    ::usleep(20'000);
    NCCL(ncclCommAbort(seen));
  });
  const OnDevice current(0);
  const ncclResult_t made = ncclCommInitRank(&comm, 2, id, 0);
  other.join();
  CHECK(made != ncclSuccess && made != ncclInProgress && comm == nullptr);
  // A nonblocking communicator can also be destroyed before its initialisation has ended.
  NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = nonblocking();
  ncclComm_t pending = nullptr;
  CHECK(ncclCommInitRankConfig(&pending, 2, id, 0, &config) == ncclInProgress);
  NCCL(ncclCommDestroy(pending));
}

/// Checks that a collective that only one rank calls can be aborted, and that the other rank gets an error.
void check_abort_of_a_collective() {
  Ranks ranks(2);
  const Case it = ranks.sum(100);
  ranks.write(it);
  NCCL(call(it, 0, ranks.part(0), ranks.comm(0)));
  NCCL(ncclCommAbort(ranks.comm(0)));
  ranks.comm(0) = nullptr;
  ncclResult_t state = ncclSuccess;
  NCCL(ncclCommGetAsyncError(ranks.comm(1), &state));
  CHECK(state == ncclRemoteError);
  CHECK(std::string(ncclGetLastError(ranks.comm(1))).find("rank 0") != std::string::npos);
  CHECK(call(it, 1, ranks.part(1), ranks.comm(1)) == ncclRemoteError);
}

/// Checks that a communicator of one rank accepts any id, and that several such communicators can have the same id.
void check_one_rank() {
  const OnDevice current(0);
  ncclUniqueId id;
  std::memset(&id, 0xEE, sizeof id);
  ncclComm_t comms[2] = {};
  for (ncclComm_t &comm : comms) NCCL(ncclCommInitRank(&comm, 1, id, 0));
  const DevicePart part(0, 2 * half_bytes);
  for (const ncclComm_t comm : comms)
    for (const Kind kind : all_kinds) {
      Case it{kind, ncclFloat16, ncclProd, 100};
      part.write(before(it, 0));
      for (int step = 0; step < it.steps(); ++step) NCCL(call(it, 0, part, comm, step));
      check_after(it, 0, part);
    }
  for (const ncclComm_t comm : comms) NCCL(ncclCommDestroy(comm));
}

/// Checks that the ids of a communicator of one rank are discarded. Each has descriptors, as long as it is not used.
void check_ids_of_one_rank() {
  const OnDevice current(0);
  ncclUniqueId ids[2];
  const auto descriptors_after = [&] {
    for (ncclUniqueId &id : ids) NCCL(ncclGetUniqueId(&id));
    ncclComm_t comm = nullptr;
    NCCL(ncclCommInitRankScalable(&comm, 1, 0, 2, ids, nullptr));
    NCCL(ncclCommDestroy(comm));
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto first = descriptors_after();
  CHECK(descriptors_after() == first);
}

/// Checks a call with several ids of this process, of which the first one is used, also if it is there twice. A refused
/// call discards no id.
void check_scalable() {
  const OnDevice current(0);
  ncclUniqueId ids[3];
  for (ncclUniqueId &id : ids) NCCL(ncclGetUniqueId(&id));
  ncclComm_t comms[2] = {};
  CHECK_REFUSED(ncclCommInitRankScalable(&comms[0], 2, 0, 0, ids, nullptr), ncclInvalidArgument, "no id");
  CHECK_REFUSED(ncclCommInitRankScalable(&comms[0], 2, 2, 3, ids, nullptr), ncclInvalidArgument, "rank is 2");
  std::swap(ids[0], ids[1]);
  ids[2] = ids[0];
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) NCCL(ncclCommInitRankScalable(&comms[rank], 2, rank, 3, ids, nullptr));
  NCCL(ncclGroupEnd());
  for (const ncclComm_t comm : comms) NCCL(ncclCommDestroy(comm));
}

/// Checks that one thread can call ncclCommSplit() for all ranks in a group, and that the new communicators compute.
void check_split() {
  constexpr int no_color = -1;
  Ranks ranks(4);
  ncclComm_t parts[4] = {};
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < 4; ++rank) {
    parts[rank] = ranks.comm(rank);  // to be overwritten
    NCCL(ncclCommSplit(ranks.comm(rank), rank == 2 ? no_color : 7, -rank, &parts[rank], nullptr));
    CHECK((parts[rank] == nullptr) == (rank == 2));
  }
  NCCL(ncclGroupEnd());
  const int members[] = {3, 1, 0};  // by key
  Case it = ranks.sum(100);
  it.rank_count = 3;
  for (int place = 0; place < 3; ++place) {
    int count = 0, rank = -1, device = -1;
    const ncclComm_t part = parts[members[place]];
    NCCL(ncclCommCount(part, &count));
    NCCL(ncclCommUserRank(part, &rank));
    NCCL(ncclCommCuDevice(part, &device));
    CHECK(count == 3 && rank == place && device == 0);
    ranks.part(place).write(before(it, place));
  }
  NCCL(ncclGroupStart());
  for (int place = 0; place < 3; ++place) NCCL(call(it, place, ranks.part(place), parts[members[place]]));
  NCCL(ncclGroupEnd());
  for (int place = 0; place < 3; ++place) check_after(it, place, ranks.part(place));
  ranks.check_usable();
  for (const int member : members) NCCL(ncclCommDestroy(parts[member]));
  // A configuration in the call can make the new communicator nonblocking.
  ncclConfig_t config = nonblocking();
  for (int rank = 0; rank < 4; ++rank)
    CHECK(ncclCommSplit(ranks.comm(rank), rank % 2, 0, &parts[rank], &config) == ncclInProgress);
  for (const ncclComm_t part : parts) CHECK(wait_while(part, ncclInProgress) == ncclSuccess);
  for (const ncclComm_t part : parts) NCCL(ncclCommDestroy(part));
  CHECK_REFUSED(ncclCommSplit(ranks.comm(0), -2, 0, &parts[0], nullptr), ncclInvalidArgument, "the color is -2");
  CHECK_REFUSED(ncclCommSplit(ranks.comm(0), 0, 0, nullptr, nullptr), ncclInvalidArgument, "newcomm is NULL");
  CHECK_REFUSED(ncclCommSplit(nullptr, 0, 0, &parts[0], nullptr), ncclInvalidArgument, "the communicator is NULL");
  ranks.check_usable();
}

}  // namespace

ncclResult_t compat_test::wait_while(ncclComm_t comm, ncclResult_t lasting) {
  ncclResult_t state = lasting;
  for (int look = 0; look < 60'000 && state == lasting; ++look) {
    NCCL(ncclCommGetAsyncError(comm, &state));
    ::usleep(1000);
  }
  return state;
}

void compat_test::check_groups() {
  CHECK_REFUSED(ncclGroupEnd(), ncclInvalidUsage, "started no group");
  NCCL(ncclGroupStart());
  NCCL(ncclGroupEnd());
  check_first_error();
  check_many_calls();
  check_two_streams();
  check_inits_in_a_group();
  check_refused_init_in_a_group();
  check_mixed_group();
}

void compat_test::check_life() {
  check_nonblocking();
  check_abort_of_an_init();
  check_abort_of_a_collective();
  check_one_rank();
  check_ids_of_one_rank();
  check_scalable();
  check_split();
}

void compat_test::check_memory() {
  void *pointer = nullptr;
  CHECK_REFUSED(ncclMemAlloc(nullptr, 1), ncclInvalidArgument, "NULL");
  NCCL(ncclMemFree(nullptr));
  NCCL(ncclMemAlloc(&pointer, 4096));  // without a current context, and before any communicator
  CHECK(pointer != nullptr);
  Ranks ranks(1);
  const std::vector<unsigned char> sent(4096, 3);
  const OnDevice current(0);
  CU(to_device(reinterpret_cast<Address>(pointer), sent.data(), sent.size(), ranks.part(0).stream()));
  NCCL(ncclAllGather(pointer, ranks.part(0).at(0), 4096, ncclUint8, ranks.comm(0), ranks.part(0).stream()));
  CHECK(ranks.part(0).read()[4095] == 3);
  void *handle = &pointer;
  NCCL(ncclGroupStart());
  NCCL(ncclCommRegister(ranks.comm(0), pointer, 4096, &handle));
  NCCL(ncclGroupEnd());
  CHECK(handle == nullptr);
  NCCL(ncclCommDeregister(ranks.comm(0), handle));
  ncclWindow_t window = reinterpret_cast<ncclWindow_t>(&pointer);
  NCCL(ncclGroupStart());
  NCCL(ncclCommWindowRegister(ranks.comm(0), pointer, 4096, &window, 0));
  NCCL(ncclGroupEnd());
  CHECK(window == nullptr);  // a group makes no windows
  NCCL(ncclCommWindowDeregister(ranks.comm(0), window));
  CHECK_REFUSED(ncclCommRegister(ranks.comm(0), pointer, 0, &handle), ncclInvalidArgument, "size is 0");
  CHECK_REFUSED(ncclCommDeregister(ranks.comm(0), &handle), ncclInvalidArgument, "none that Rondo gave");
  NCCL(ncclMemFree(pointer));
  CHECK_REFUSED(ncclMemAlloc(&pointer, size_t{1} << 50), ncclUnhandledCudaError, "CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(pointer == nullptr);
}

/// Checks graphs. Each rank captures its call, and one group has both calls. Meanwhile the test polls for errors.
void compat_test::check_graphs() {
  Ranks ranks(2);
  const Case it = ranks.sum(1000);
  constexpr int thread_local_capture = 1;
  GraphExec execs[2] = {};
  {
    const OnDevice current(0);
    for (int rank = 0; rank < 2; ++rank) CU(begin_capture(ranks.part(rank).stream(), thread_local_capture));
    NCCL(ncclGroupStart());
    for (int rank = 0; rank < 2; ++rank) NCCL(call(it, rank, ranks.part(rank), ranks.comm(rank)));
    NCCL(ncclGroupEnd());
    for (int rank = 0; rank < 2; ++rank) {
      ncclResult_t state = ncclInternalError;
      NCCL(ncclCommGetAsyncError(ranks.comm(rank), &state));
      CHECK(state == ncclSuccess);
      Graph graph = nullptr;
      CU(end_capture(ranks.part(rank).stream(), &graph));
      CU(instantiate(&execs[rank], graph, 0));
      CU(graph_destroy(graph));
      // Without an upload, the first launch may wait for the device. The device runs the kernel of the other rank,
      // which waits for this rank.
      CU(upload(execs[rank], ranks.part(rank).stream()));
      CU(synchronize(ranks.part(rank).stream()));
    }
  }
  for (int replay = 0; replay < 3; ++replay) {
    ranks.write(it);
    const OnDevice current(0);
    for (int rank = 0; rank < 2; ++rank) CU(launch(execs[rank], ranks.part(rank).stream()));
    ranks.check(it);
  }
  // The communicators are destroyed before the graphs.
  for (int rank = 0; rank < 2; ++rank) {
    NCCL(ncclCommDestroy(ranks.comm(rank)));
    ranks.comm(rank) = nullptr;
  }
  const OnDevice current(0);
  for (const GraphExec exec : execs) CU(exec_destroy(exec));
}
