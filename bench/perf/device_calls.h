// SPDX-License-Identifier: Apache-2.0
// Calls of a collective on a device's stream: enqueued one after the other, or captured once and replayed.
#pragma once

#include "bench/perf/timing.h"

namespace rondo::perf {

/// `call_count` calls of one size and placement.
class DeviceCalls {
 public:
  DeviceCalls(Session &session, const Case &what, const Shape &shape, Pointers at, uint32_t call_count)
      : session_(session), what_(what), shape_(shape), at_(at), call_count_(call_count) {}

  /// Prepares the calls. With --graph, captures them, which spoils the buffers. Every rank calls it.
  [[nodiscard]] Outcome prepare();
  /// Enqueues them and waits. @param call_ns  receives the time on the stream for one call.
  [[nodiscard]] Outcome run(double &call_ns);

  /// Enqueues them, or the graph of them. After prepare().
  [[nodiscard]] Outcome enqueue_all();
  /// Waits until all that was enqueued has ended, well or not.
  [[nodiscard]] Outcome wait();

 private:
  [[nodiscard]] Outcome enqueue(uint32_t call_count);
  [[nodiscard]] Outcome capture();
  [[nodiscard]] Outcome capture_with_all();
  [[nodiscard]] Outcome enqueue_run();
  [[nodiscard]] Outcome start_together(Outcome enqueued);
  [[nodiscard]] Outcome wait_for_other();

  Session &session_;
  const Case &what_;
  const Shape &shape_;
  Pointers at_;
  uint32_t call_count_;
};

}  // namespace rondo::perf
