// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process on one device, and launch one kernel for all of them (RONDO_DEVICE_LAUNCH):
// whoever comes last launches, on its own stream. Events tie it to the streams of the others: the kernel comes behind
// what is on them, and what their callers enqueue next comes behind the kernel. Each event is recorded before anybody
// waits for it, so no stream ever waits for something that is enqueued later. Where the group is the whole communicator
// it does not matter how many hardware queues they share, nor whether kernels run beside each other at all.
//
// That is why a call waits, on the host, until all ranks of the group have come.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/transport/handles.h"
#include "cuda/driver/kernel_set.h"
#include "cuda/kernels/operation.h"

namespace rondo::cuda {

/// What a rank brings to a kernel.
struct LaunchPart {
  LoadedKernel kernel;
  device::DeviceOperation operation;
  uint32_t channel_count = 0;
  uint32_t threads = 0;       ///< of a block
  uint32_t shared_bytes = 0;  ///< of a block
  CuStream stream = nullptr;
};

/// One kernel for all parts, at most device::ranks_per_kernel_max, on `stream`. They have the same kernel and the same
/// number of channels.
[[nodiscard]] Result<void> launch_parts(const CudaDriver &driver, std::span<const LaunchPart> parts, CuStream stream);

class LaunchGroup {
 public:
  /// The group of `rank_count` ranks that is called `name` in this process, made by whoever comes first. It ends with
  /// the last one that holds it.
  [[nodiscard]] static Result<std::shared_ptr<LaunchGroup>> join(const PrimaryContext &context, DevicePointer name,
                                                                 uint32_t rank_count);

  /// The call of the rank at `place`: waits until all have come. `abort`: the rank gives up, with an error, when it is
  /// not 0; so do the others, each by its own word. The context is current.
  /// `launched`: there is one kernel for all, and part.stream goes on behind it unless an error is returned, too. Else,
  /// without an error, nothing was launched: what the ranks brought does not fit into one kernel, or one has given up.
  [[nodiscard]] Result<void> launch(uint32_t place, const LaunchPart &part, const uint64_t &abort, bool &launched);

 private:
  struct Outcome {
    bool launched = false;
    Result<void> done;
  };
  struct Place {
    Event ready;  ///< recorded on its stream when it came
    bool waits = false;
    Outcome outcome;
  };

  [[nodiscard]] Result<void> launch_all(uint32_t place, bool &launched) const;
  void end_round(const Outcome &outcome);

  const CudaDriver *driver_ = nullptr;
  PrimaryContext context_;  ///< gone after the events
  Event ended_;             ///< recorded behind the kernel; the next one comes when all wait for this one
  std::mutex mutex_;        ///< guards what follows
  std::condition_variable changed_;
  std::vector<Place> places_;
  std::vector<LaunchPart> parts_;  ///< by place
  uint32_t arrived_ = 0;
  bool given_up_ = false;
};

}  // namespace rondo::cuda
