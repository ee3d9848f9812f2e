// SPDX-License-Identifier: Apache-2.0
// This part of the test program makes the calls of a group on two streams of each communicator. The first call needs
// earlier work of the second stream, and later work of the second stream needs the result of the first call.
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

#include "src/compat/abi_newer.h"
#include "tests/compat/client.h"

using namespace compat_test;

namespace {

constexpr size_t sum_count = 1000;       // int32
constexpr int thread_local_capture = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

/// Makes streams wait until the test opens it, at most a minute.
class Gate {
 public:
  void close() { open_.store(false, std::memory_order_relaxed); }
  void open() { open_.store(true, std::memory_order_release); }  // pairs with pass()
  /// Makes later work of the stream wait while the gate is closed.
  void add_to(Stream stream) { CU(launch_host(stream, pass, this)); }

 private:
  static void pass(void *gate) {
    const auto late_at = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!static_cast<const Gate *>(gate)->open_.load(std::memory_order_acquire)) {  // pairs with open()
      if (std::chrono::steady_clock::now() > late_at) fail_test("a gate stayed closed", __FILE__, __LINE__, 0);
      ::usleep(1'000);
    }
  }

  std::atomic<bool> open_ = true;
};

/// Waits for a time in which a stream that does not wait would become ready, and checks that this one waits.
void check_waits(Stream stream) {
  constexpr int not_ready = 600;  // CUDA_ERROR_NOT_READY
  ::usleep(50'000);
  const int state = cuda().query(stream);
  CHECK(state == not_ready);
}

/// One rank's numbers. All pointers are host memory that the device reaches.
struct Numbers {
  int32_t *in = nullptr;                                    ///< filled by work of the second stream
  int32_t *out = nullptr;                                   ///< result of the first call
  std::vector<int32_t> seen = std::vector<int32_t>(sum_count);  ///< copy of the result by work of the second stream
  int32_t *result = nullptr;                                ///< numbers that `seen` copies
  int32_t value = 0;
};

void fill(void *of) {
  auto &numbers = *static_cast<Numbers *>(of);
  std::fill_n(numbers.in, sum_count, numbers.value);
}

void look(void *of) {
  auto &numbers = *static_cast<Numbers *>(of);
  std::copy_n(numbers.result, sum_count, numbers.seen.begin());
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
        CU(host_alloc(reinterpret_cast<void **>(each), sum_count * sizeof(int32_t), 0));
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
      std::fill_n(each.in, sum_count, 0);
      std::fill_n(each.out, sum_count, 0);
      std::fill_n(each.seen.begin(), sum_count, 0);
    }
  }
  /// Makes the calls of both ranks in one group, between the other work of their streams. Every stream has a gate.
  void enqueue(Calls calls) {
    for (int rank = 0; rank < 2; ++rank) {
      numbers_[rank].result = calls == Calls::signals ? numbers_[1 - rank].in : numbers_[rank].out;
      gates_[0].add_to(first(rank));
      gates_[1].add_to(second_[rank]);
      CU(launch_host(second_[rank], fill, &numbers_[rank]));
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
      CHECK(numbers_[rank].seen == std::vector<int32_t>(sum_count, wanted));
    }
  }
  /// Runs calls, by `run`, while the first or the second streams wait at a gate, and checks the results. Calls that do
  /// not wait for the gate get wrong results. If no graph runs the calls, the other streams must not become ready.
  template <class Run>
  void check_gated(Calls calls, bool by_graph, const Run &run) {
    for (const int gated : {0, 1}) {
      reset();
      gates_[gated].close();
      run();
      for (int rank = 0; rank < 2; ++rank) check_waits(gated == 1 || by_graph ? first(rank) : second_[rank]);
      gates_[gated].open();
      check(calls);
    }
  }
  /// Checks that no call of a group on two streams runs if one of them is refused.
  void check_refused_group() {
    reset();
    for (Numbers &each : numbers_) fill(&each);
    NCCL(ncclGroupStart());
    for (int rank = 0; rank < 2; ++rank)
      NCCL(ncclAllReduce(numbers_[rank].in, numbers_[rank].out, sum_count, ncclInt32, ncclSum, ranks_.comm(rank),
                         first(rank)));
    const DevicePart &part = ranks_.part(0);
    NCCL(ncclAllReduce(part.at(0), part.at(8), 4, ncclInt32, ncclSum, ranks_.comm(0), second_[0]));
    CHECK_REFUSED(ncclGroupEnd(), ncclInvalidArgument, "overlap");
    for (int rank = 0; rank < 2; ++rank) {
      CU(synchronize(first(rank)));
      CHECK(std::count(numbers_[rank].out, numbers_[rank].out + sum_count, 0) == sum_count);
    }
    enqueue(Calls::collectives);
    check(Calls::collectives);
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
        NCCL(ncclAllReduce(own.in, own.out, sum_count, ncclInt32, ncclSum, comm, first(rank)));
        NCCL(ncclAllReduce(part.at(0), part.at(half_bytes), 4, ncclInt8, ncclSum, comm, second_[rank]));
        break;
      case Calls::messages:
        NCCL(ncclSend(own.in, sum_count, ncclInt32, peer, comm, first(rank)));
        NCCL(ncclAllReduce(part.at(0), part.at(half_bytes), 4, ncclInt8, ncclSum, comm, second_[rank]));
        NCCL(ncclRecv(own.out, sum_count, ncclInt32, peer, comm, second_[rank]));
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
  Gate gates_[2];  ///< of the first streams, and of the second ones
};

/// Makes the later work of `behind` wait for the present work of `before`.
void follow(Stream before, Stream behind) {
  void *event = nullptr;
  CU(event_create(&event, 2));  // without timing
  CU(event_record(event, before));
  CU(wait_event(behind, event, 0));
  CU(event_destroy(event));
}

/// Captures the calls of both ranks, each by a graph, and runs the graphs.
void check_captured(Lanes &lanes, Calls calls) {
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
  lanes.check_gated(calls, true, [&] {
    for (int rank = 0; rank < 2; ++rank) CU(launch(execs[rank], lanes.first(rank)));
  });
  for (const GraphExec exec : execs) CU(exec_destroy(exec));
}

/// Checks that a group captures the thread's stream of the communicator's device while another device is current.
void check_stream_of_thread() {
  Ranks alone(1);
  const DevicePart &part = alone.part(0);
  const OnDevice current(0);
  Graph graph = nullptr;
  CU(begin_capture(stream_of_thread, thread_local_capture));
  follow(stream_of_thread, part.stream());
  {
    const OnDevice other(1);
    NCCL(ncclGroupStart());
    for (const Stream stream : {stream_of_thread, part.stream()})
      NCCL(ncclAllReduce(part.at(0), part.at(half_bytes), 4, ncclInt8, ncclSum, alone.comm(0), stream));
    NCCL(ncclGroupEnd());
  }
  follow(part.stream(), stream_of_thread);
  CU(end_capture(stream_of_thread, &graph));
  CU(graph_destroy(graph));
}

/// Checks that a group on two streams returns the reason for which a communicator has failed earlier.
void check_failed_communicator() {
  Ranks ranks(2);
  const DevicePart other(0, 64);
  const OnDevice current(0);
  const auto sum = [&](int rank, size_t size, Stream stream) {
    void *const at = ranks.part(rank).at(0);
    NCCL(ncclAllReduce(at, at, size, ncclInt8, ncclSum, ranks.comm(rank), stream));
  };
  NCCL(ncclGroupStart());
  for (const int rank : {0, 1}) sum(rank, rank == 0 ? 4 : 8, ranks.part(rank).stream());
  static_cast<void>(ncclGroupEnd());
  for (const int rank : {0, 1}) CHECK(wait_while(ranks.comm(rank), ncclSuccess) == ncclInvalidUsage);
  for (int round = 0; round < 2; ++round) {  // the first time, the refusal itself has the reason
    NCCL(ncclGroupStart());
    for (const Stream stream : {ranks.part(0).stream(), other.stream()}) sum(0, 4, stream);
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
  }
}

/// Returns how many references the context of device 0 has after this number of groups whose streams are joined. It
/// releases them all, so the next call starts with a new context.
int references_after(int groups) {
  {
    Lanes lanes;
    const OnDevice current(0);
    for (int group = 0; group < groups; ++group) lanes.enqueue(Calls::collectives);
    lanes.check(Calls::collectives);
  }
  int references = 0;
  while (cuda().release(0) == 0) ++references;
  return references;
}

}  // namespace

void compat_test::check_group_streams() {
  CHECK(references_after(1) == references_after(3));
  check_stream_of_thread();
  Lanes lanes;
  const OnDevice current(0);
  for (const Calls calls : {Calls::collectives, Calls::messages, Calls::signals}) {
    lanes.reset();
    lanes.enqueue(calls);  // the first one may allocate, which waits for the device
    lanes.check(calls);
    lanes.check_gated(calls, false, [&] { lanes.enqueue(calls); });
    if (calls != Calls::signals) check_captured(lanes, calls);  // graphs have no signals
  }
  lanes.check_refused_group();
  check_failed_communicator();
}
