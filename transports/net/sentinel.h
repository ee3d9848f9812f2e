// SPDX-License-Identifier: Apache-2.0
// The sentinel is a thread of a communicator on several hosts. It serves the control plane, and the links while no
// operation runs or the executing thread sleeps. Otherwise the executing thread serves the links, by step().
//
// The executing thread does not wake the sentinel at the end of an operation, because that would cost a system call.
// Instead, a sentinel that is not in charge polls every charge_look_ns. Before the executing thread sleeps, it wakes
// the sentinel, because no other thread would ring the executing thread's bell.
//
// If the ranks are on devices, the sentinel is always in charge of the links. Kernels post, but they neither serve
// links nor ring the bell.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/unique_handle.h"
#include "transports/net/control.h"
#include "transports/net/progress.h"

namespace rondo::net {

class Sentinel {
 public:
  struct Hooks {
    std::function<bool()> failed;              ///< says whether the communicator has failed
    std::function<void()> ring;                ///< wakes the executing thread, if it sleeps
    std::function<void(const Error &)> raise;  ///< raises a failure of the communicator
    std::function<void(Error)> raise_own;      ///< raises a failure of this rank itself, which names no other rank
    /// Raises a failure: the control connection with the host of a rank was reset although a link to that rank works.
    std::function<void(uint32_t peer)> raise_reset;
    /// Says whether a device may post. It is null if the posting thread serves the links or rings the bell. A device
    /// does neither, so the sentinel polls: without a pause while something moves, then less often
    /// (look_interval_ns()).
    std::function<bool()> in_flight{};
  };
  /// Starts the thread. All arguments outlive the sentinel.
  [[nodiscard]] static Result<std::unique_ptr<Sentinel>> start(Control &control, Progress &progress, Hooks hooks);
  Sentinel(const Sentinel &) = delete;
  Sentinel &operator=(const Sentinel &) = delete;
  ~Sentinel();

  /// Sets whether the executing thread is away from the links. The executing thread calls it.
  void set_away(bool away) { away_.store(away, std::memory_order_release); }  // pairs with the acquire in run()
  /// Makes the sentinel take charge at once of links that the executing thread has left. Any thread may call it.
  void kick();
  /// Wakes a sentinel that polls seldom, because a device will post. Any thread may call it.
  void expect_posts();
  /// Sends a failure of the communicator to the other hosts, once. Any thread may call it.
  void report_failure();
  // These functions call the functions of Progress with the same names. Any thread may call them.
  void open_blocks();
  void open_messages();
  void open_puts();
  /// Says whether the links to the rank have ended, so that nothing arrives from it any more. Any thread may call it.
  [[nodiscard]] bool has_lost(uint32_t peer) const;
  /// Makes one round over the links, on the executing thread. Returns true if something moved.
  bool step();
  /// Makes rounds until everything leaves without further calls, for at most `patience_ns`. Returns whether it does.
  bool flush(uint64_t patience_ns);
  /// Makes rounds until everything sent would arrive even if the network were destroyed now (Network::delivered()).
  /// Ends early after `patience_ns` or a failure of the communicator. Between two rounds the links are unlocked.
  void deliver(uint64_t patience_ns);

 private:
  Sentinel(Control &control, Progress &progress, Hooks hooks)
      : control_(control), progress_(progress), hooks_(std::move(hooks)) {}
  void run();
  /// Returns true if more may have to be moved now.
  bool serve_links();
  void wait(bool in_charge);
  [[nodiscard]] uint64_t look_interval_ns(bool in_charge) const;
  void look_for_failures(uint64_t now_ns);

  Control &control_;
  Progress &progress_;
  Hooks hooks_;
  FileDescriptor bell_;
  std::atomic<bool> away_{true};      ///< pairs with run(): once a thread reads true, no other thread uses the links
  std::atomic<bool> stopped_{false};  ///< relaxed: the bell orders this
  std::atomic<bool> failure_told_{false};  ///< relaxed: it decides which thread reports, and orders no data
  uint64_t links_lost_ns_ = 0;  ///< when a lost link was first seen; 0 if there is none
  uint64_t reset_ns_ = 0;  ///< when a link was first seen to work although the control connection was reset; 0 if never
  uint64_t moved_ns_ = 0;       ///< when a device's links last moved or were expected to; only the thread uses this
  uint64_t next_control_ns_ = 0;  ///< when it serves the control plane next, or 0 if there is something to read
  std::atomic<bool> looks_seldom_{false};  ///< true if expect_posts() must ring
  std::vector<pollfd> descriptors_;
  mutable std::mutex links_mutex_;  ///< protects progress_
  std::thread thread_;
};

}  // namespace rondo::net
