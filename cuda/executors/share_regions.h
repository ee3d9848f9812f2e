// SPDX-License-Identifier: Apache-2.0
// When a rank announces, opens, withdraws and closes memory that processes share (cuda/transport/regions.h), and for
// how long it waits for the others.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/transport/regions.h"
#include "src/base/result.h"

namespace rondo {
class EnqueueWait;
}

namespace rondo::cuda {

/// What is asked about the other ranks.
struct RankQueries {
  std::function<std::vector<uint32_t>()> find_dead;
  std::function<std::string(uint32_t)> describe;
};

/// Announces it, and waits a moment for all ranks to open it. What cannot be shared is used as before.
void share_region(Regions &regions, uint32_t rank, const void *first, size_t bytes);
/// As Executor::unshare().
[[nodiscard]] Result<void> withdraw_region(Regions &regions, const RankQueries &ranks, const void *first);
/// Follows what peers share on a thread of its own: a driver's calls wait for the device, which no deadline ends. It
/// may be busy with work of the application, or with a replay that was launched and has not begun, which the monitor
/// must be able to end when its time is up.
class RegionFollower {
 public:
  [[nodiscard]] static Result<std::unique_ptr<RegionFollower>> start(std::function<void()> follow);
  explicit RegionFollower(std::function<void()> follow) : follow_(std::move(follow)) {}
  RegionFollower(const RegionFollower &) = delete;
  RegionFollower &operator=(const RegionFollower &) = delete;
  /// Waits for what it does just now, as long as the driver does.
  ~RegionFollower();

  /// Any thread; does not wait. What is asked for meanwhile is done once more.
  void wake();
  /// The same, and waits until that is done. False: `wait` is over before; the thread goes on.
  [[nodiscard]] bool follow(EnqueueWait &wait);
  /// Its thread begins no round any more. False: at `deadline_ns` a round still goes on. May be called again.
  [[nodiscard]] bool end(uint64_t deadline_ns);

 private:
  void run();

  const std::function<void()> follow_;
  std::mutex mutex_;                      ///< guards what follows
  std::condition_variable asked_, done_;  ///< of a round: for the thread, and for calls
  uint64_t asked_count_ = 0, done_count_ = 0;
  bool ending_ = false, in_round_ = false;
  std::thread thread_;
};

/// All of this rank's, and of the others', when nothing of the rank is in flight any more. `close_if_quiet`: calls
/// leave() if nothing of the process is; false: something is. Some seconds later the others' are closed all the same.
/// False: `follower` still opens or closes memory then, so that of the others is left to ~Regions(), after it.
[[nodiscard]] bool leave_regions(Regions &regions, RegionFollower &follower, const RankQueries &ranks, uint32_t rank,
                                 const std::function<bool()> &close_if_quiet);

}  // namespace rondo::cuda
