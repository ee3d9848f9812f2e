// SPDX-License-Identifier: Apache-2.0
// This part of the test program uses windows. It puts data, signals and waits, as in the documentation of NCCL.
#include <nccl.h>

#include <thread>

#include "src/compat/abi_newer.h"
#include "tests/compat/client.h"

using namespace compat_test;

namespace {

constexpr size_t half_count = 1500;  // int32 values in each half of the window
constexpr int symmetric = 1;    // NCCL_WIN_COLL_SYMMETRIC

/// Runs one of two ranks. The rank puts its values into the other's window, and waits for the other's values.
void run_rank(Ranks &ranks, int rank) {
  const int peer = 1 - rank;
  const OnDevice current(0);
  ncclComm_t comm = ranks.comm(rank);
  const DevicePart &part = ranks.part(rank);
  const DevicePart other(0, 64);  // allocated before any rank waits
  other.write(std::vector<unsigned char>(64, static_cast<unsigned char>(rank + 1)));
  void *memory = nullptr, *found = nullptr;
  NCCL(ncclMemAlloc(&memory, 2 * half_count * 4));
  ncclWindow_t window = nullptr;
  // If rank 1 passes no buffer, a size of 0, or no place for the result, rank 0 fails at once. Later calls work.
  for (int kind = 0; kind < 3; ++kind) {
    const bool wrong = rank == 1;
    const ncclResult_t result =
        ncclCommWindowRegister(comm, wrong && kind == 0 ? nullptr : memory, wrong && kind == 1 ? 0 : 8,
                               wrong && kind == 2 ? nullptr : &window, 0);
    CHECK(wrong ? result == ncclInvalidArgument : result != ncclSuccess);
    CHECK(window == nullptr);
  }
  NCCL(ncclCommWindowRegister(comm, memory, 2 * half_count * 4, &window, symmetric));
  CHECK(window != nullptr);
  NCCL(ncclWinGetUserPtr(comm, window, &found));
  CHECK(found == memory);
  std::vector<unsigned char> bytes(half_count * 4), got(2 * half_count * 4);
  for (size_t i = 0; i < half_count; ++i) put(ncclInt32, rank * 1000 + static_cast<int>(i % 7), &bytes[4 * i]);
  CU(to_device(reinterpret_cast<Address>(part.at(0)), bytes.data(), bytes.size(), part.stream()));
  ncclWaitSignalDesc_t waits[] = {{1, peer, 0, 0}, {1, peer, 1, 3}};
  // The waits may come first in a group. Each half of the window has its own signal.
  NCCL(ncclGroupStart());
  NCCL(ncclWaitSignal(2, waits, comm, part.stream()));
  NCCL(ncclPutSignal(part.at(0), half_count, ncclInt32, peer, window, 0, 0, 0, 0, comm, part.stream()));
  NCCL(ncclSignal(peer, 1, 3, 0, comm, part.stream()));
  NCCL(ncclGroupEnd());
  NCCL(
      ncclPutSignal(part.at(0), half_count * 4, ncclUint8, peer, window, half_count * 4, 1, 3, 0, comm, part.stream()));
  NCCL(ncclSignal(peer, 0, 1, 0, comm, part.stream()));
  waits[0].ctx = 1;
  NCCL(ncclWaitSignal(2, waits, comm, part.stream()));
  CU(to_host(got.data(), reinterpret_cast<Address>(memory), got.size(), part.stream()));
  CU(synchronize(part.stream()));
  for (size_t i = 0; i < 2 * half_count; ++i) {
    unsigned char wanted[4];
    put(ncclInt32, peer * 1000 + static_cast<int>(i % half_count % 7), wanted);
    CHECK(std::equal(wanted, wanted + 4, &got[4 * i]));
  }
  // Collectives of the same group may be on two streams.
  waits[0] = {1, peer, 2, 2};
  NCCL(ncclGroupStart());
  NCCL(ncclWaitSignal(1, waits, comm, part.stream()));
  NCCL(ncclSignal(peer, 2, 2, 0, comm, part.stream()));
  NCCL(ncclAllReduce(part.at(0), part.at(half_bytes), half_count, ncclInt32, ncclSum, comm, part.stream()));
  NCCL(ncclAllReduce(other.at(0), other.at(0), 64, ncclInt8, ncclSum, comm, other.stream()));
  NCCL(ncclGroupEnd());
  CU(synchronize(part.stream()));
  CHECK(other.read() == std::vector<unsigned char>(64, 3));
  CHECK_REFUSED(
      ncclPutSignal(part.at(0), 8, ncclInt32, peer, window, 2 * half_count * 4 - 8, 0, 0, 0, comm, part.stream()),
      ncclInvalidArgument, "exceed the window");
  CHECK_REFUSED(ncclPutSignal(part.at(0), 8, ncclInt32, peer, nullptr, 0, 0, 0, 0, comm, part.stream()),
                ncclInvalidArgument, "the window is NULL");
  CHECK_REFUSED(ncclSignal(peer, 4, 0, 0, comm, part.stream()), ncclInvalidArgument, "the signal is 4 of context 0");
  CHECK_REFUSED(ncclSignal(peer, 0, 0, 1, comm, part.stream()), ncclInvalidArgument, "flags are 1");
  CHECK_REFUSED(ncclSignal(2, 0, 0, 0, comm, part.stream()), ncclInvalidArgument, "the peer is 2");
  NCCL(ncclCommWindowDeregister(comm, window));
  NCCL(ncclMemFree(memory));
}

/// Runs one of two ranks on devices that cannot reach each other, so that there are no windows.
void run_apart(int rank, const ncclUniqueId &id) {
  const OnDevice current(rank);
  const DevicePart part(rank, 64);
  part.write(std::vector<unsigned char>(64, static_cast<unsigned char>(rank + 1)));
  void *memory = nullptr;
  NCCL(ncclMemAlloc(&memory, 4096));
  ncclComm_t comm = nullptr;
  NCCL(ncclCommInitRank(&comm, 2, id, rank));
  auto window = reinterpret_cast<ncclWindow_t>(&memory);
  NCCL(ncclCommWindowRegister(comm, memory, 4096, &window, 0));
  CHECK(window == nullptr);
  NCCL(ncclCommWindowDeregister(comm, window));
  NCCL(ncclAllReduce(part.at(0), part.at(0), 64, ncclInt8, ncclSum, comm, part.stream()));
  CHECK(part.read() == std::vector<unsigned char>(64, 3));
  NCCL(ncclCommDestroy(comm));
  NCCL(ncclMemFree(memory));
}

}  // namespace

void compat_test::check_null_windows() {
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  std::thread other([&] { run_apart(1, id); });
  run_apart(0, id);
  other.join();
}

void compat_test::check_windows() {
  Ranks ranks(2);
  std::thread other([&] { run_rank(ranks, 1); });
  run_rank(ranks, 0);
  other.join();
  ranks.check_usable();
}
