// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/result_reader.h"

#include <algorithm>

#include "src/proto/memory.h"

namespace rondo::cuda {
namespace {

/// Returns the count whose low half is `low`, and raises `seen` to it. Two threads may call it at once.
uint64_t follow(std::atomic<uint64_t> &seen, uint32_t low) {
  uint64_t known = seen.load(std::memory_order_relaxed);
  const uint64_t now = device::extended(known, low);
  while (known < now && !seen.compare_exchange_weak(known, now, std::memory_order_relaxed)) {
  }
  return std::max(known, now);
}

}  // namespace

DeviceReport ResultReader::read(const device::DeviceResult &result, bool waits_to_launch) const {
  DeviceReport report;
  const uint64_t ended = memory::load_acquire(result.ended);  // pairs with E3 in cuda/kernels/run.h
  report.ended_number = follow(ended_number_, device::number_in(ended));
  report.ended_calls = follow(ended_calls_, device::kernels_in(ended));
  // A kernel reports its start only when it has to wait. Without a wait it ends by itself and needs no deadline.
  report.begun_calls = std::max(memory::load_relaxed(result.running), report.ended_calls);
  if (report.begun_calls == report.ended_calls && waits_to_launch) ++report.begun_calls;
  const uint64_t verdict = memory::load_relaxed(result.verdict);  // ordered by E3
  if (verdict == 0) return report;
  report.failed = true;
  report.failed_number = memory::load_relaxed(result.failed_number);
  if (device::outcome_in(verdict) == device::Outcome::fault) report.fault = device::fault_in(verdict);
  report.peer = device::peer_in(verdict);
  return report;
}

}  // namespace rondo::cuda
