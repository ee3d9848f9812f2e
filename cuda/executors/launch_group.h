// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process on one device can launch one kernel for all of them (RONDO_DEVICE_LAUNCH). The
// last rank to arrive launches the kernel on its stream. Events order the kernel after earlier work on the other ranks'
// streams, and their later work after the kernel. An event is recorded before a stream waits for it, so no stream waits
// for work that is enqueued later. If the group is the whole communicator, it does not matter how many hardware queues
// the ranks share, or whether kernels run side by side.
//
// A call waits on the host until all ranks of the group have arrived. Unless sharing was requested, one thread may
// drive several ranks, which then never arrive together. So the first call that has waited long gives up for all ranks.
// They launch separate kernels until each has again been called from a thread of its own.
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

/// The part of a kernel that a rank contributes.
struct LaunchPart {
  LoadedKernel kernel;
  device::DeviceOperation operation;
  const JointPlan *joint = nullptr;  ///< null, or the plan of the joint kernel `kernel`; outlives the call
  uint32_t blocks_max = 0;           ///< most blocks of a joint kernel
  uint64_t number = 0;               ///< of the collective, equal on all ranks
  // The next three members are for kernels that are not joint.
  uint32_t channel_count = 0;
  uint32_t threads = 0;       ///< of a block
  uint32_t shared_bytes = 0;  ///< of a block
  CuStream stream = nullptr;
  uint64_t capture = 0;  ///< capture of the stream, set by the group; 0 for none
};

/// Launches one kernel for all parts on `stream`. There are at most device::ranks_per_kernel_max parts, with the same
/// kernel and number of channels. In a joint kernel the parts are all ranks of a communicator, and have one signature.
[[nodiscard]] Result<void> launch_parts(const CudaDriver &driver, std::span<const LaunchPart> parts, CuStream stream);

class LaunchGroup {
 public:
  static constexpr uint64_t endless_ns = UINT64_MAX;

  /// Returns the group of `rank_count` ranks with the name `name` in this process. The first rank to call it makes the
  /// group. The group ends when the last rank releases it.
  [[nodiscard]] static Result<std::shared_ptr<LaunchGroup>> join(const PrimaryContext &context, DevicePointer name,
                                                                 uint32_t rank_count);

  /// Adds the part of the rank at index `place`, and waits until the parts of all ranks have arrived. The wait takes at
  /// most 2 s, and at most `patience_ns`. With endless_ns, it has no limit. The context must be current. If `abort`,
  /// this rank's abort word, becomes nonzero, the rank gives up with an error. part.number identifies the call.
  ///
  /// If `launched` is set, one kernel runs for all ranks. Unless an error is returned, too, part.stream continues after
  /// the kernel. With neither `launched` nor an error, nothing was launched: a rank has given up, or the parts do not
  /// fit into one kernel. Parts do not fit if the ranks disagree, or if their streams are not in the same capture.
  [[nodiscard]] Result<void> launch(uint32_t place, const LaunchPart &part, const uint64_t &abort,
                                    uint64_t patience_ns, bool &launched);
  /// Says whether the ranks have lately launched separate kernels, because their calls did not arrive together. Any
  /// thread may call this.
  [[nodiscard]] bool has_lost_patience() const;

 private:
  struct Outcome {
    bool launched = false;
    Result<void> done;
  };
  struct Place {
    Event ready;  ///< recorded on the rank's stream when the rank arrived
    bool waits = false;
    Outcome outcome;
    std::thread::id thread;  ///< thread of its latest call since sharing ended, if any
    uint64_t number = 0;     ///< number of its latest call
  };

  [[nodiscard]] bool takes_part(Place &own, uint64_t number);
  void lose_patience();
  [[nodiscard]] Result<void> launch_all(uint32_t place, bool &launched) const;
  void end_round(const Outcome &outcome);

  const CudaDriver *driver_ = nullptr;
  PrimaryContext context_;  ///< destroyed after the events
  Event ended_;             ///< recorded after each kernel; the next kernel waits for it
  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::vector<Place> places_;
  std::vector<LaunchPart> parts_;  ///< by place
  uint32_t arrived_ = 0;
  bool given_up_ = false;
  uint64_t own_until_ = 0;  ///< ranks launch separate kernels for operations before this one
  uint32_t impatient_count_ = 0;
  uint32_t round_count_ = 0;  ///< shared kernels since the latest impatience
  bool has_shared_ = false;   ///< the ranks have shared a launch
};

}  // namespace rondo::cuda
