// SPDX-License-Identifier: Apache-2.0
// A timeline records what a rank did at which time. A step has parts on two lanes, computation and communication.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace rondo::train {

/// Returns CLOCK_MONOTONIC, the clock of rondo_event_timestamp_ns().
inline uint64_t now_ns() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

enum class Part : uint32_t {
  data_wait, forward, backward, stage_wait, gradient_wait, optimizer, parameter_wait,
  bucket, shares, mean  // communication
};

inline const char *part_name(Part part) {
  constexpr const char *names[] = {"data wait", "forward", "backward", "wait for stages", "wait for gradients",
                                   "optimizer", "wait for parameters", "bucket", "shares of bucket",
                                   "mean of ranks"};
  return names[static_cast<uint32_t>(part)];
}

/// Says whether the part is communication. Other parts are computation, or waits of computation.
inline bool is_communication(Part part) { return part >= Part::bucket; }

/// A part of a step and its time. It is plain data, which ranks exchange.
struct Span {
  Part part = Part::forward;
  uint32_t index = 0;  ///< number of the bucket
  uint64_t step = 0;
  uint64_t begin_ns = 0, end_ns = 0;
  uint64_t ready_ns = 0;  ///< of a bucket: the time at which its all-reduce was enqueued
};

/// The library's counts of a step's collectives (rondo_comm_statistics()).
struct LibraryCounts {
  uint64_t operations = 0, bytes = 0, in_flight_ns = 0, exposed_ns = 0;
};

/// The times of the parts of one step.
struct StepTimes {
  uint64_t data_wait_ns = 0, forward_ns = 0, backward_ns = 0, optimizer_ns = 0;
  uint64_t last_backward_ns = 0;  ///< part of backward_ns: the last pass, during which buckets can be in flight
  uint64_t waiting_ns = 0;        ///< time in which computation waited for collectives, and perhaps for a late rank
  uint64_t joint_ns = 0;          ///< part of forward and backward: sums over the ranks that share a model
  uint64_t passes_ns = 0;         ///< a pipeline's stage: all turns of a step
  uint64_t stage_wait_ns = 0;     ///< a pipeline's stage: messages to and from other stages
  uint64_t step_ns = 0;
  // settle() of traffic.h computes these:
  uint64_t in_flight_ns = 0;      ///< sum over all collectives, each from its turn on the stream to its end
  uint64_t communication_ns = 0;  ///< part of in_flight_ns, without waiting for late ranks
  uint64_t gradients_ns = 0;      ///< part of communication_ns: collectives of gradients, which a pass can hide
  uint64_t exposed_ns = 0;        ///< part of communication_ns, while computation waited
  LibraryCounts library;

  /// Returns how long collectives waited for the slowest rank.
  [[nodiscard]] uint64_t skew_ns() const { return in_flight_ns - communication_ns; }
};

}  // namespace rondo::train
