// SPDX-License-Identifier: Apache-2.0
// This part of the test program makes the calls of a group on two streams of each communicator. The first call needs
// earlier work of the second stream, and later work of the second stream needs the result of the first call.
#include <nccl.h>
#include <unistd.h>

#include "src/compat/abi_newer.h"
#include "tests/compat/client.h"

using namespace compat_test;

namespace {

constexpr size_t count = 1000;  // int32

/// One rank's numbers. All pointers are host memory that the device reaches.
struct Numbers {
  int32_t *in = nullptr;                                    ///< filled by work of the second stream
  int32_t *out = nullptr;                                   ///< result of the first call
  std::vector<int32_t> seen = std::vector<int32_t>(count);  ///< copy of the result by work of the second stream
  int32_t *result = nullptr;                                ///< numbers that `seen` copies
  int32_t value = 0;
};

void delay(void *) { ::usleep(20'000); }  // time for work that does not wait

void fill_late(void *of) {
  auto &numbers = *static_cast<Numbers *>(of);
  delay(nullptr);
  std::fill_n(numbers.in, count, numbers.value);
}

void look(void *of) {
  auto &numbers = *static_cast<Numbers *>(of);
  std::copy_n(numbers.result, count, numbers.seen.begin());
}

enum class Calls { collectives, messages, signals };

/// Two ranks of one thread, each with two streams.
class Lanes {
 public:
  Lanes() {
    const OnDevice current(0);
    for (int rank = 0; rank < 2; ++rank) {
      Numbers &own = numbers_[rank];
      for (int32_t **const each : {&own.in, &own.out})
        CU(host_alloc(reinterpret_cast<void **>(each), count * sizeof(int32_t), 0));
      own.value = rank + 1;
      CU(stream_create(&second_[rank], 1, 0));
    }
  }
  Lanes(const Lanes &) = delete;
  Lanes &operator=(const Lanes &) = delete;
  ~Lanes() {
    const OnDevice current(0);
    for (int rank = 0; rank < 2; ++rank) {
      for (int32_t *const each : {numbers_[rank].in, numbers_[rank].out}) CU(host_free(each));
      CU(stream_destroy(second_[rank]));
    }
  }
  void reset() {
    for (Numbers &each : numbers_) {
      std::fill_n(each.in, count, 0);
      std::fill_n(each.out, count, 0);
      std::fill_n(each.seen.begin(), count, 0);
    }
  }
  /// Makes the calls of both ranks in one group, between the other work of their streams.
  void enqueue(Calls calls) {
    for (int rank = 0; rank < 2; ++rank) {
      numbers_[rank].result = calls == Calls::signals ? numbers_[1 - rank].in : numbers_[rank].out;
      CU(launch_host(first(rank), delay, nullptr));
      CU(launch_host(second_[rank], fill_late, &numbers_[rank]));
    }
    NCCL(ncclGroupStart());
    for (int rank = 0; rank < 2; ++rank) call(calls, rank);
    NCCL(ncclGroupEnd());
    for (int rank = 0; rank < 2; ++rank) CU(launch_host(second_[rank], look, &numbers_[rank]));
  }
  void check(Calls calls) {
    for (int rank = 0; rank < 2; ++rank) {
      for (const Stream stream : {first(rank), second_[rank]}) CU(synchronize(stream));
      const int32_t wanted = calls == Calls::collectives ? 3 : numbers_[1 - rank].value;
      CHECK(numbers_[rank].seen == std::vector<int32_t>(count, wanted));
    }
  }
  [[nodiscard]] Stream first(int rank) const { return ranks_.part(rank).stream(); }
  [[nodiscard]] Stream second(int rank) const { return second_[rank]; }

 private:
  void call(Calls calls, int rank) {
    const Numbers &own = numbers_[rank];
    const DevicePart &part = ranks_.part(rank);
    const ncclComm_t comm = ranks_.comm(rank);
    const int peer = 1 - rank;
    switch (calls) {
      case Calls::collectives:
        NCCL(ncclAllReduce(own.in, own.out, count, ncclInt32, ncclSum, comm, first(rank)));
        NCCL(ncclAllReduce(part.at(0), part.at(half_bytes), 4, ncclInt8, ncclSum, comm, second_[rank]));
        break;
      case Calls::messages:
        NCCL(ncclSend(own.in, count, ncclInt32, peer, comm, first(rank)));
        NCCL(ncclAllReduce(part.at(0), part.at(half_bytes), 4, ncclInt8, ncclSum, comm, second_[rank]));
        NCCL(ncclRecv(own.out, count, ncclInt32, peer, comm, second_[rank]));
        break;
      case Calls::signals:
        ncclWaitSignalDesc_t wait{1, peer, 0, 0};
        NCCL(ncclSignal(peer, 0, 0, 0, comm, first(rank)));
        NCCL(ncclWaitSignal(1, &wait, comm, second_[rank]));
        break;
    }
  }

  Ranks ranks_{2};
  Stream second_[2] = {};
  Numbers numbers_[2];
};

/// Makes the later work of `behind` wait for the present work of `before`.
void follow(Stream before, Stream behind) {
  void *event = nullptr;
  CU(event_create(&event, 2));  // without timing
  CU(event_record(event, before));
  CU(wait_event(behind, event, 0));
  CU(event_destroy(event));
}

/// Captures the calls of both ranks, each by a graph, and runs the graphs twice.
void check_captured(Lanes &lanes, Calls calls) {
  constexpr int thread_local_capture = 1;
  GraphExec execs[2] = {};
  for (int rank = 0; rank < 2; ++rank) {
    CU(begin_capture(lanes.first(rank), thread_local_capture));
    follow(lanes.first(rank), lanes.second(rank));
  }
  lanes.enqueue(calls);
  for (int rank = 0; rank < 2; ++rank) {
    follow(lanes.second(rank), lanes.first(rank));
    Graph graph = nullptr;
    CU(end_capture(lanes.first(rank), &graph));
    CU(instantiate(&execs[rank], graph, 0));
    CU(graph_destroy(graph));
    CU(upload(execs[rank], lanes.first(rank)));  // because a launch could wait for the device
    CU(synchronize(lanes.first(rank)));
  }
  for (int replay = 0; replay < 2; ++replay) {
    lanes.reset();
    for (int rank = 0; rank < 2; ++rank) CU(launch(execs[rank], lanes.first(rank)));
    lanes.check(calls);
  }
  for (const GraphExec exec : execs) CU(exec_destroy(exec));
}

}  // namespace

void compat_test::check_group_streams() {
  Lanes lanes;
  const OnDevice current(0);
  for (const Calls calls : {Calls::collectives, Calls::messages, Calls::signals}) {
    lanes.reset();
    lanes.enqueue(calls);
    lanes.check(calls);
    if (calls != Calls::signals) check_captured(lanes, calls);  // graphs have no signals
  }
}
