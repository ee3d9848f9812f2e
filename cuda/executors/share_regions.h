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
/// What a thread is to do with memory of peers. `leave_if_quiet`: to leave, once nothing of the process is in flight.
enum class RegionRound { follow, leave_if_quiet, leave };
/// Follows what peers share, and leaves it, on a thread of its own: a driver's calls wait for the device, which no
/// deadline ends. It may be busy with work of the application, or with a replay that was launched and has not begun,
/// which the monitor must be able to end when its time is up.
class RegionFollower {
 public:
  [[nodiscard]] static Result<std::unique_ptr<RegionFollower>> start(std::function<void(RegionRound)> run_round);
  explicit RegionFollower(std::function<void(RegionRound)> run_round) : run_round_(std::move(run_round)) {}
  RegionFollower(const RegionFollower &) = delete;
  RegionFollower &operator=(const RegionFollower &) = delete;
  /// As end(), and waits as long as the driver does.
  ~RegionFollower();

  /// Any thread; does not wait. What is asked for meanwhile is done once more. Rounds never turn back: behind one that
  /// leaves, nothing is followed.
  void wake(RegionRound round = RegionRound::follow);
  /// The same, and waits until that is done. False: `wait` is over before; the thread goes on.
  [[nodiscard]] bool follow(EnqueueWait &wait);
  /// Its thread leaves whatever is in flight, and ends. False: it has not at `deadline_ns`. May be called again.
  [[nodiscard]] bool end(uint64_t deadline_ns);

 private:
  void run();

  const std::function<void(RegionRound)> run_round_;
  std::mutex mutex_;                      ///< guards what follows
  std::condition_variable asked_, done_;  ///< of a round: for the thread, and for calls
  uint64_t asked_count_ = 0, done_count_ = 0;
  RegionRound next_ = RegionRound::follow;
  bool ended_ = false;  ///< its last round
  std::thread thread_;
};

/// All of this rank's, and of the others', when nothing of the rank is in flight any more. `follower` closes the
/// others' when nothing of the process is, or some seconds later all the same. False: some seconds behind that, it has
/// not, and goes on.
[[nodiscard]] bool leave_regions(Regions &regions, RegionFollower &follower, const RankQueries &ranks, uint32_t rank);

}  // namespace rondo::cuda
