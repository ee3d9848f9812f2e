// SPDX-License-Identifier: Apache-2.0
// This program is no test. It prints the time that every call spends on the detection of disagreements and on the
// flight recorder. The costs are the digest, the record of the call with its signature, and the record of the call's
// end.
#include <time.h>

#include <algorithm>
#include <cstdio>

#include "src/base/clock.h"
#include "src/plan/plan.h"
#include "transports/shm/recorder.h"
#include "transports/shm/segment.h"

namespace {

using namespace rondo;

constexpr uint64_t call_count = 2'000'000;
constexpr int round_count = 9;  // the best one counts, since noise only adds time

uint64_t cpu_time_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

template <class Call>
double best_ns(Call call) {
  uint64_t best = UINT64_MAX;
  for (int round = 0; round < round_count; ++round) {
    const uint64_t begin_ns = cpu_time_ns();
    for (uint64_t number = 1; number <= call_count; ++number) call(number);
    best = std::min(best, cpu_time_ns() - begin_ns);
  }
  return static_cast<double>(best) / call_count;
}

}  // namespace

int main() {
  shm::SegmentShape shape;
  shape.rank_count = 2;
  shape.geometry = {2, 64, 64};
  const auto segment = shm::Segment::create({1, 2}, shape);
  if (!segment.ok()) {
    std::fprintf(stderr, "%s\n", segment.error().message.c_str());
    return 1;
  }
  OperationInfo what;
  what.signature = {RONDO_ALL_REDUCE, RONDO_FLOAT32, RONDO_SUM, 0, 2, 0};
  what.choice = {RONDO_ALGORITHM_ONE_SHOT, RONDO_PROTOCOL_AUTO, 1, 65536, RONDO_KERNEL_LOAD_STORE};
  const uint64_t identity = identity_of(what.signature, what.choice);
  uint32_t sum = 0;
  const double fingerprint_ns = best_ns([&](uint64_t number) {
    sum += fingerprint(extend_history(number, identity));
    asm volatile("" : "+r"(sum));
  });
  const TickSource source = best_tick_source();
  const double ticks_ns = best_ns([&](uint64_t) {
    uint64_t ticks = read_ticks(source);
    asm volatile("" : "+r"(ticks));
  });
  auto &own = segment.value()->board(0);
  const double record_ns = best_ns([&](uint64_t number) {
    shm::enter(own, number, what, read_ticks(source));
    shm::complete(own, number, {}, read_ticks(source));
  });
  std::printf("fingerprint of a call            %6.1f ns\n", fingerprint_ns);
  std::printf("a reading of the tick counter    %6.1f ns\n", ticks_ns);
  std::printf("record of a call and of its end  %6.1f ns, two readings of the counter among it\n", record_ns);
}
