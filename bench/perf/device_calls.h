// SPDX-License-Identifier: Apache-2.0
// This file makes calls of a collective on a device's stream. They are enqueued one after another, or captured once and
// replayed.
#pragma once

#include "bench/perf/timing.h"

namespace rondo::perf {

/// `call_count` calls of one size and placement.
class DeviceCalls {
 public:
  DeviceCalls(Session &session, const Case &what, const Shape &shape, Pointers at, uint32_t call_count)
      : session_(session), what_(what), shape_(shape), at_(at), call_count_(call_count) {}

  /// Prepares the calls. With --graph it captures them, and spoils their buffers. Every rank calls it.
  [[nodiscard]] Outcome prepare();
  /// Enqueues the calls and waits.
  [[nodiscard]] Outcome run(CallTime &time);

  /// Enqueues the calls, or their graph. Call it after prepare().
  [[nodiscard]] Outcome enqueue_all();
  /// Waits until everything enqueued has ended, successfully or not.
  [[nodiscard]] Outcome wait();

 private:
  [[nodiscard]] Outcome enqueue(uint32_t call_count);
  [[nodiscard]] Outcome capture();
  [[nodiscard]] Outcome capture_with_all();
  [[nodiscard]] Outcome enqueue_run(double &host_ns);
  [[nodiscard]] Outcome start_together(Outcome enqueued);
  [[nodiscard]] Outcome wait_for_other();

  Session &session_;
  const Case &what_;
  const Shape &shape_;
  Pointers at_;
  uint32_t call_count_;
};

}  // namespace rondo::perf
