// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process on one device launch one kernel for all of them (RONDO_DEVICE_LAUNCH). The last
// rank to arrive launches it, on its own stream. Events tie it to the streams of the others: the kernel comes after
// what is on them, and what their callers enqueue next comes after the kernel. Each event is recorded before a stream
// waits for it, so no stream ever waits for something that is enqueued later. If the group is the whole communicator,
// it does not matter how many hardware queues the ranks share, nor whether kernels run beside each other at all.
//
// That is why a call waits, on the host, until all ranks of the group have arrived. If nobody asked for sharing, one
// thread may drive several ranks. Then a call that has waited for long gives up, for all of them. They launch kernels
// of their own until each has been called from a thread of its own again.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "cuda/driver/handles.h"
#include "cuda/driver/kernel_set.h"
#include "cuda/executors/joint_call.h"
#include "cuda/kernels/operation.h"

namespace rondo::cuda {

/// The part that a rank brings to a kernel.
struct LaunchPart {
  LoadedKernel kernel;
  device::DeviceOperation operation;
  const JointPlan *joint = nullptr;  ///< of load_store: in the joint kernel, which is `kernel` then. Outlives the call
  uint32_t blocks_max = 0;           ///< of a joint kernel
  uint64_t number = 0;               ///< of the collective, equal on all ranks
  // Only other kernels use these:
  uint32_t channel_count = 0;
  uint32_t threads = 0;       ///< of a block
  uint32_t shared_bytes = 0;  ///< of a block
  CuStream stream = nullptr;
  uint64_t capture = 0;  ///< of the stream, found by the group, or 0 for none
};

/// Launches one kernel for all parts, at most device::ranks_per_kernel_max, on `stream`. The parts have the same kernel
/// and the same number of channels. In a joint kernel they are all ranks of a communicator, with one signature.
[[nodiscard]] Result<void> launch_parts(const CudaDriver &driver, std::span<const LaunchPart> parts, CuStream stream);

class LaunchGroup {
 public:
  static constexpr uint64_t endless_ns = UINT64_MAX;

  /// Returns the group of `rank_count` ranks that is called `name` in this process. The first rank to call it makes the
  /// group, which ends with the last rank that holds it.
  [[nodiscard]] static Result<std::shared_ptr<LaunchGroup>> join(const PrimaryContext &context, DevicePointer name,
                                                                 uint32_t rank_count);

  /// Brings the part of the rank at `place`, and waits until the parts of all ranks have arrived. The context is
  /// current. If `abort` becomes nonzero, the rank gives up with an error; each other rank has a word of its own. The
  /// wait is short, and at most `patience_ns`; endless_ns does not bound it. part.number identifies the call.
  ///
  /// `launched`: one kernel runs for all, and part.stream continues after it, unless an error is returned as well.
  /// Otherwise, without an error, nothing was launched: a rank has given up, or the parts do not fit into one kernel.
  /// Parts do not fit if the ranks disagree, or if their streams are not in the same capture.
  [[nodiscard]] Result<void> launch(uint32_t place, const LaunchPart &part, const uint64_t &abort,
                                    uint64_t patience_ns, bool &launched);
  /// Returns whether ranks have launched kernels of their own, since calls did not arrive together. Any thread.
  [[nodiscard]] bool has_lost_patience() const;

 private:
  struct Outcome {
    bool launched = false;
    Result<void> done;
  };
  struct Place {
    Event ready;  ///< recorded on its stream when the rank arrived
    bool waits = false;
    Outcome outcome;
    std::thread::id thread;  ///< of its latest call since sharing ended, if any
    uint64_t number = 0;     ///< of its latest call
  };

  [[nodiscard]] bool takes_part(Place &own, uint64_t number);
  void lose_patience();
  [[nodiscard]] Result<void> launch_all(uint32_t place, bool &launched) const;
  void end_round(const Outcome &outcome);

  const CudaDriver *driver_ = nullptr;
  PrimaryContext context_;  ///< gone after the events
  Event ended_;             ///< recorded after the kernel; the next kernel comes when all wait for this one
  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::vector<Place> places_;
  std::vector<LaunchPart> parts_;  ///< by place
  uint32_t arrived_ = 0;
  bool given_up_ = false;
  uint64_t own_until_ = 0;  ///< operations before that one have kernels of each rank
  uint32_t impatient_count_ = 0;
  uint32_t round_count_ = 0;  ///< since then, that were one kernel
  bool has_shared_ = false;   ///< a launch
};

}  // namespace rondo::cuda
