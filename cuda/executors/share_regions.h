// SPDX-License-Identifier: Apache-2.0
// These functions decide when a rank announces, opens, withdraws and closes memory that processes share, and how long
// it waits for other ranks. cuda/transport/regions.h manages the memory itself.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cuda/transport/regions.h"
#include "src/base/result.h"
#include "src/base/shared_thread.h"

namespace rondo {
class EnqueueWait;
}

namespace rondo::cuda {

/// Queries about the other ranks.
struct RankQueries {
  std::function<std::vector<uint32_t>()> find_dead;
  std::function<std::string(uint32_t)> describe;
};

/// Offers the memory to all ranks, and waits a moment for them to open it. If it cannot be shared, calls use it as
/// unregistered memory.
void share_region(Regions &regions, uint32_t rank, const void *first, size_t bytes);
/// Ends the sharing of the memory, as Executor::unshare() says.
[[nodiscard]] Result<void> withdraw_region(Regions &regions, const RankQueries &ranks, const void *first);
/// The work of a follower in a round. `leave_if_quiet` leaves only if nothing of the process is in flight.
enum class RegionRound { follow, leave_if_quiet, leave };
/// Opens the memory that peers share, and closes it, on one thread for all followers of the process. The driver's calls
/// for this wait for the device, without a deadline. The device may be busy with the application, or with a replay that
/// has not begun. The monitor, on another thread, can still end such a replay when its time is up.
class RegionFollower final : private ThreadSharer {
 public:
  [[nodiscard]] static Result<std::unique_ptr<RegionFollower>> start(std::function<void(RegionRound)> run_round);
  explicit RegionFollower(std::function<void(RegionRound)> run_round) : run_round_(std::move(run_round)) {}
  RegionFollower(const RegionFollower &) = delete;
  RegionFollower &operator=(const RegionFollower &) = delete;
  /// Leaves as end() does, and waits as long as the driver does.
  ~RegionFollower() override;

  /// Requests a round without waiting; any thread may call it. A request during a round causes another round. After a
  /// round that leaves, no round opens memory any more.
  void wake(RegionRound round = RegionRound::follow);
  /// Requests a round and waits until it is done. Returns false if `wait` ends first; the round continues.
  [[nodiscard]] bool follow(EnqueueWait &wait);
  /// Lets the thread do the round `leave`, whatever is in flight. Returns false if the round has not ended at
  /// `deadline_ns`. It may be called again.
  [[nodiscard]] bool end(uint64_t deadline_ns);

 private:
  [[nodiscard]] bool work_once() override;

  const std::function<void(RegionRound)> run_round_;
  std::mutex mutex_;              ///< guards what follows
  std::condition_variable done_;  ///< signalled after each round
  uint64_t asked_count_ = 0, done_count_ = 0;
  RegionRound next_ = RegionRound::follow;
  bool ended_ = false;  ///< the round that leaves has ended
};

/// Ends the sharing of all memory: this rank's and the other ranks'. Call it when the rank has nothing in flight any
/// more. `follower` closes the others' memory once the process has nothing in flight, or after some seconds at the
/// latest. Returns false if closing takes some seconds more; it then continues in the background.
[[nodiscard]] bool leave_regions(Regions &regions, RegionFollower &follower, const RankQueries &ranks, uint32_t rank);

}  // namespace rondo::cuda
