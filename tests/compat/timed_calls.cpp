// SPDX-License-Identifier: Apache-2.0
// timed_calls PAIRS compares the time of calls through nccl.h with that of the same calls through rondo.h, on the same
// communicator of two ranks that one thread drives. Its last line has two numbers. One is the extra time of a small
// call on the calling thread, in microseconds. The other one is the time of a large call until its end, as a multiple.
#include <nccl.h>
#include <time.h>

#include <array>
#include <atomic>

#include "rondo/rondo.h"
#include "src/compat/communicator.h"
#include "tests/compat/client.h"

using namespace compat_test;

namespace {

constexpr size_t small_count = 2, large_count = 1 << 18;  // float32: 8 B and 1 MiB
constexpr int small_calls = 200, large_calls = 1;         // of each rank, between two waits for the streams
constexpr size_t large_bytes = large_count * sizeof(float);

double us_of(clockid_t clock) {
  timespec now{};
  CHECK(::clock_gettime(clock, &now) == 0);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void wait_until_open(void *gate) {
  static_cast<std::atomic<bool> *>(gate)->wait(false, std::memory_order_acquire);  // pairs with Calls::open()
}

/// The two ranks, and their calls through both interfaces.
class Calls {
 public:
  Calls() {
    const std::array<int, 2> devices{};
    NCCL(ncclCommInitAll(comms_.data(), 2, devices.data()));
  }
  Calls(const Calls &) = delete;
  Calls &operator=(const Calls &) = delete;
  ~Calls() {
    for (const ncclComm_t comm : comms_) NCCL(ncclCommDestroy(comm));
  }
  void through_nccl(size_t count) const {
    for (size_t rank = 0; rank < 2; ++rank)
      NCCL(ncclAllReduce(parts_[rank].at(0), parts_[rank].at(large_bytes), count, ncclFloat32, ncclSum, comms_[rank],
                         parts_[rank].stream()));
  }
  void through_rondo(size_t count) const {
    for (size_t rank = 0; rank < 2; ++rank)
      CHECK(rondo_all_reduce(parts_[rank].at(0), parts_[rank].at(large_bytes), count, RONDO_FLOAT32, RONDO_SUM,
                             comms_[rank]->handle, parts_[rank].stream()) == RONDO_OK);
  }
  /// Makes the streams wait for open(), so that their work does not disturb the thread that enqueues it.
  void shut() {
    open_.store(false, std::memory_order_relaxed);
    for (const DevicePart &part : parts_) CU(launch_host(part.stream(), wait_until_open, &open_));
  }
  void open() {
    open_.store(true, std::memory_order_release);  // pairs with wait_until_open()
    open_.notify_all();
  }
  void wait() const {
    for (const DevicePart &part : parts_) part.wait();
  }

 private:
  std::array<DevicePart, 2> parts_{DevicePart(0, 2 * large_bytes), DevicePart(0, 2 * large_bytes)};
  std::array<ncclComm_t, 2> comms_{};
  std::atomic<bool> open_ = true;
};

/// Returns the thread's time for a rank's call. The streams work only afterwards.
template <class Call>
double small_us(Calls &calls, const Call &call) {
  calls.shut();
  const double begun = us_of(CLOCK_THREAD_CPUTIME_ID);
  for (int each = 0; each < small_calls; ++each) call(small_count);
  const double ended = us_of(CLOCK_THREAD_CPUTIME_ID);
  calls.open();
  calls.wait();
  return (ended - begun) / (2 * small_calls);
}

template <class Call>
double large_us(Calls &calls, const Call &call) {
  const double begun = us_of(CLOCK_MONOTONIC);
  for (int each = 0; each < large_calls; ++each) call(large_count);
  calls.wait();
  return (us_of(CLOCK_MONOTONIC) - begun) / large_calls;
}

/// The median times of both interfaces, and of the comparison of two measurements one after the other.
struct Medians {
  double nccl, rondo, comparison;
};

/// Measures both interfaces in pairs, each in turn as the first. The first pair is not counted.
template <class Measure, class Compare>
Medians measure_pairs(size_t pairs, const Measure &measure, const Compare &compare) {
  Calls calls;
  const auto nccl = [&](size_t count) { calls.through_nccl(count); };
  const auto rondo = [&](size_t count) { calls.through_rondo(count); };
  std::vector<double> of_nccl(pairs), of_rondo(pairs), compared(pairs);
  for (size_t pair = 0; pair <= pairs; ++pair) {
    const size_t at = pair == 0 ? 0 : pair - 1;
    if (pair % 2 == 0) of_nccl[at] = measure(calls, nccl);
    of_rondo[at] = measure(calls, rondo);
    if (pair % 2 != 0) of_nccl[at] = measure(calls, nccl);
    compared[at] = compare(of_nccl[at], of_rondo[at]);
  }
  return {median(of_nccl), median(of_rondo), median(compared)};
}

}  // namespace

int main(int argument_count, char **arguments) {
  const size_t pairs = argument_count > 1 ? std::strtoul(arguments[1], nullptr, 10) : 0;
  CHECK(pairs > 0);
  const OnDevice current(0);
  const auto small = measure_pairs(
      pairs, [](Calls &calls, const auto &call) { return small_us(calls, call); },
      [](double nccl, double rondo) { return nccl - rondo; });
  const auto large = measure_pairs(
      pairs, [](Calls &calls, const auto &call) { return large_us(calls, call); },
      [](double nccl, double rondo) { return nccl / rondo; });
  std::printf("8 B: %.3f us through nccl.h, %.3f us through rondo.h\n", small.nccl, small.rondo);
  std::printf("1 MiB: %.1f us through nccl.h, %.1f us through rondo.h\n", large.nccl, large.rondo);
  std::printf("%.3f %.4f\n", small.comparison, large.comparison);
  return 0;
}
