// SPDX-License-Identifier: Apache-2.0
// This part of the test program sends, receives, and exchanges blocks.
#include <unistd.h>

#include "tests/compat/client.h"

using namespace compat_test;

namespace {

/// Returns int32 values that depend on the two ranks.
std::vector<unsigned char> values(int from, int to, size_t count) {
  std::vector<unsigned char> bytes(count * 4);
  for (size_t i = 0; i < count; ++i) put(ncclInt32, from * 100 + to * 10 + static_cast<int>(i % 7), &bytes[4 * i]);
  return bytes;
}

using Memory = std::vector<unsigned char>;

void place(Memory &memory, size_t at, const Memory &bytes) {
  std::copy(bytes.begin(), bytes.end(), memory.begin() + static_cast<std::ptrdiff_t>(at));
}

/// Fills each rank's memory by `fill`, makes `call` for each rank in a group, and compares the memory with `wanted`.
template <class Fill, class Call, class Wanted>
void check_call(Ranks &ranks, const char *what, const Fill &fill, const Call &call, const Wanted &wanted) {
  std::vector<Memory> memories;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    memories.emplace_back(2 * half_bytes, untouched);
    fill(memories.back(), rank);
    ranks.part(rank).write(memories.back());
  }
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < ranks.size(); ++rank) call(rank, ranks.part(rank));
  NCCL(ncclGroupEnd());
  for (int rank = 0; rank < ranks.size(); ++rank) {
    Memory &memory = memories[static_cast<size_t>(rank)];
    wanted(memory, rank);
    if (ranks.part(rank).read() != memory) fail_test(what, __FILE__, __LINE__, rank);
  }
}

constexpr size_t value_count = 1500;  // int32 values of a message or block

size_t block(int rank) { return static_cast<size_t>(rank) * value_count * 4; }

/// Lets every rank exchange messages with all ranks, also itself. Both ends of a message have the same number of bytes,
/// in different types. Some messages are empty.
void check_messages(Ranks &ranks) {
  check_call(
      ranks, "messages",
      [&](Memory &memory, int rank) {
        for (int peer = 0; peer < ranks.size(); ++peer) place(memory, block(peer), values(rank, peer, value_count));
      },
      [&](int rank, const DevicePart &part) {
        for (int peer = 0; peer < ranks.size(); ++peer) {
          NCCL(ncclSend(part.at(block(peer)), value_count, ncclInt32, peer, ranks.comm(rank), part.stream()));
          NCCL(ncclSend(nullptr, 0, ncclInt8, peer, ranks.comm(rank), part.stream()));
          void *const recv = part.at(half_bytes + block(peer));
          NCCL(ncclRecv(recv, 4 * value_count, ncclUint8, peer, ranks.comm(rank), part.stream()));
          NCCL(ncclRecv(nullptr, 0, ncclInt8, peer, ranks.comm(rank), part.stream()));
        }
      },
      [&](Memory &memory, int rank) {
        for (int peer = 0; peer < ranks.size(); ++peer)
          place(memory, half_bytes + block(peer), values(peer, rank, value_count));
      });
}

/// Makes the calls of a case, each step in a group of all ranks.
void call_all(const Case &it, Ranks &ranks) {
  for (int step = 0; step < it.steps(); ++step) {
    NCCL(ncclGroupStart());
    for (int rank = 0; rank < ranks.size(); ++rank) NCCL(call(it, rank, ranks.part(rank), ranks.comm(rank), step));
    NCCL(ncclGroupEnd());
  }
}

/// Captures the calls of a case, each rank's by a graph, and runs the graphs twice.
void check_replays(const Case &it, Ranks &ranks) {
  const OnDevice current(0);
  constexpr int thread_local_capture = 1;
  std::vector<GraphExec> execs(static_cast<size_t>(ranks.size()));
  for (int rank = 0; rank < ranks.size(); ++rank) CU(begin_capture(ranks.part(rank).stream(), thread_local_capture));
  call_all(it, ranks);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const Stream stream = ranks.part(rank).stream();
    GraphExec &exec = execs[static_cast<size_t>(rank)];
    Graph graph = nullptr;
    CU(end_capture(stream, &graph));
    CU(instantiate(&exec, graph, 0));
    CU(graph_destroy(graph));
    CU(upload(exec, stream));  // because a launch could wait for the device
    CU(synchronize(stream));
  }
  for (int replay = 0; replay < 2; ++replay) {
    ranks.write(it);
    for (int rank = 0; rank < ranks.size(); ++rank)
      CU(launch(execs[static_cast<size_t>(rank)], ranks.part(rank).stream()));
    ranks.check(it);
  }
  for (const GraphExec exec : execs) CU(exec_destroy(exec));
}

/// Checks all exchanges of blocks. Blocks of one size are also exchanged in graphs.
void check_exchanges(Ranks &ranks) {
  for (const Case &it : all_cases(ranks.size())) {
    if (!it.exchanges()) continue;
    ranks.write(it);
    call_all(it, ranks);
    ranks.check(it);
    if (it.count > 1 && it.count < case_count_max) check_replays(it, ranks);
  }
}

/// Checks that a receive of no bytes ends only once its send, also of no bytes, was called.
void check_empty_messages(Ranks &ranks) {
  constexpr int not_ready = 600;  // CUDA_ERROR_NOT_READY
  const OnDevice current(0);
  const Stream sender = ranks.part(0).stream(), receiver = ranks.part(1).stream();
  for (int round = 0; round < 2; ++round) {
    NCCL(ncclRecv(nullptr, 0, ncclInt8, 0, ranks.comm(1), receiver));
    ::usleep(20'000);  // time for a receive that does not wait
    const int state = cuda().query(receiver);
    CHECK(state == not_ready);
    NCCL(ncclSend(nullptr, 0, ncclInt8, 1, ranks.comm(0), sender));
    for (const Stream stream : {sender, receiver}) CU(synchronize(stream));
  }
}

void check_refused_messages(Ranks &ranks) {
  const DevicePart &part = ranks.part(0);
  const ncclComm_t comm = ranks.comm(0);
  CHECK_REFUSED(ncclSend(part.at(0), 1, ncclInt8, 9, comm, part.stream()), ncclInvalidArgument, "the peer is 9");
  CHECK_REFUSED(ncclRecv(nullptr, 1, ncclInt8, 1, comm, part.stream()), ncclInvalidArgument, "recvbuff is NULL");
  CHECK_REFUSED(ncclGather(part.at(0), nullptr, 1, ncclInt8, 0, comm, part.stream()), ncclInvalidArgument, "recvbuff");
  NCCL(ncclAlltoAll(nullptr, nullptr, 0, ncclInt8, comm, part.stream()));  // called by one rank only, so it is dropped
  // If a rank sends a message to itself, the group must have both ends of the message.
  NCCL(ncclGroupStart());
  NCCL(ncclSend(part.at(0), 1, ncclInt8, 0, comm, part.stream()));
  CHECK_REFUSED(ncclGroupEnd(), ncclInvalidUsage, "sends itself 1 messages");
  ranks.check_usable();
}

}  // namespace

void compat_test::check_messages() {
  Ranks ranks(3);
  ::check_messages(ranks);
  check_exchanges(ranks);
  check_empty_messages(ranks);
  check_refused_messages(ranks);
  Ranks four(4);
  check_exchanges(four);
}
