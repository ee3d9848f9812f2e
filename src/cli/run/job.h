// SPDX-License-Identifier: Apache-2.0
// This file makes the decisions of `rondo run`: which failure was the first, when the job must end, which signal goes
// to the ranks, and the exit status. It is a state machine without I/O. Events and the time are passed in, and actions
// are returned.
//
//   running --first failure, timeout, second INT/TERM/HUP/QUIT--> ending --guard reports all ended--> over
//      \------------------all ranks ended-----------------------/    \--guard lost or late: take_over--/
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rondo::cli {

constexpr int run_exit_timeout = 124;
constexpr int run_exit_not_executable = 126;
constexpr int run_exit_not_found = 127;
constexpr uint64_t run_no_deadline = UINT64_MAX;
/// After SIGKILL, the launcher waits this long for a process that the kernel does not end.
constexpr uint64_t run_kill_limit_ns = 5'000'000'000;
/// After grace and kill limit, the launcher waits this long for the guard. Then it ends all processes itself.
constexpr uint64_t run_guard_slack_ns = 2'000'000'000;

/// The step at which a rank failed to become the program. The guard's messages contain the step's number.
enum class StartFailure : int32_t { none, fork, set_up, bind, execute };

struct RankEnd {
  uint32_t rank = 0;
  pid_t pid = 0;
  int32_t wait_status = 0;  ///< in the form of waitpid()
  StartFailure start_failure = StartFailure::none;
  int32_t start_errno = 0;
};

struct JobActions {
  std::vector<int> forward;               ///< signals for every rank, in order
  std::optional<uint64_t> end_grace_ns;   ///< end all ranks: SIGTERM now, SIGKILL after this time
  bool stop_self = false;                 ///< after forwarding: stop this process until SIGCONT
  bool take_over = false;                 ///< the guard does not work: kill it and all processes below
  std::vector<std::string> messages;      ///< for standard error, a line each
};

class Job {
 public:
  struct Options {
    uint32_t rank_count = 0;
    std::string program;
    uint64_t timeout_ns = 0;  ///< 0 means none
    uint64_t grace_ns = 0;
    bool keep_going = false;  ///< a failed rank does not end the others
    std::vector<std::string> hosts{};  ///< by rank; empty if all ranks are on this machine
  };
  Job(Options options, uint64_t now_ns);

  void rank_ended(const RankEnd &end, uint64_t now_ns);
  void signal(int number, uint64_t now_ns);
  void all_ended(uint32_t left_count);  ///< the guard's report after every rank_ended; left_count could not be killed
  void guard_lost(int wait_status);     ///< the guard ended before all_ended
  void time_passed(uint64_t now_ns);
  void failed(std::string message, uint64_t now_ns);  ///< the launcher itself failed

  [[nodiscard]] JobActions take_actions();
  [[nodiscard]] uint64_t next_deadline_ns() const;
  [[nodiscard]] bool over() const { return over_; }
  /// Says whether the user or the timeout ended the job. Then possibly nobody reads the output any more.
  [[nodiscard]] bool was_cut_short() const { return cut_short_; }
  [[nodiscard]] int exit_status() const { return exit_status_; }

 private:
  void fail(int exit_status, std::string message, uint64_t now_ns);
  void end(uint64_t grace_ns, uint64_t now_ns);
  void ending_signal(int number, uint64_t now_ns);

  Options options_;
  JobActions actions_;
  uint64_t timeout_deadline_ns_ = run_no_deadline;
  uint64_t guard_deadline_ns_ = run_no_deadline;
  std::optional<uint64_t> stopped_since_ns_;
  uint32_t ended_count_ = 0;
  uint32_t ending_signal_count_ = 0;
  int exit_status_ = 0;
  bool succeeded_ = false;  ///< a rank has ended with status 0
  bool failed_ = false;
  bool ending_ = false;
  bool over_ = false;
  bool cut_short_ = false;
};

/// Returns text such as "exited with status 3", "was killed by signal 9 (Killed)" or "could not be started: ...".
[[nodiscard]] std::string describe(const RankEnd &end, const std::string &program);
/// Returns the status that a shell reports for such an end: the exit status, or 128 + signal. If the program could not
/// be started, the status is 127 or 126.
[[nodiscard]] int exit_status_of(const RankEnd &end);

}  // namespace rondo::cli
