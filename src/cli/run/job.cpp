// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run/job.h"

#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include <algorithm>
#include <utility>

namespace rondo::cli {
namespace {

uint64_t later(uint64_t time_ns, uint64_t by_ns) {
  return by_ns > run_no_deadline - time_ns ? run_no_deadline : time_ns + by_ns;
}

/// Returns e.g. "2" or "0.25".
std::string seconds_text(uint64_t time_ns) {
  std::string text = std::to_string(static_cast<double>(time_ns) / 1e9);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string describe_start(const RankEnd &end, const std::string &program) {
  std::string text = "could not be started: ";
  switch (end.start_failure) {
    case StartFailure::none: break;
    case StartFailure::fork: text += "no new process"; break;
    case StartFailure::set_up: text += "its descriptors or environment could not be set up"; break;
    case StartFailure::bind: text += "it could not be bound to its core"; break;
    case StartFailure::execute: text += "cannot execute " + program; break;
  }
  text += std::string(": ") + std::strerror(end.start_errno);
  if (end.start_errno == ENOEXEC) text += " (a script needs a first line like #!/bin/sh)";
  if (end.start_errno == ENOENT) text += " (the interpreter that it names is missing)";
  return text;
}

}  // namespace

std::string describe(const RankEnd &end, const std::string &program) {
  if (end.start_failure != StartFailure::none) return describe_start(end, program);
  if (!WIFSIGNALED(end.wait_status)) return "exited with status " + std::to_string(WEXITSTATUS(end.wait_status));
  const int number = WTERMSIG(end.wait_status);
  return "was killed by signal " + std::to_string(number) + " (" + ::strsignal(number) + ")" +
         (WCOREDUMP(end.wait_status) ? ", core dumped" : "");
}

int exit_status_of(const RankEnd &end) {
  if (end.start_failure != StartFailure::none)
    return end.start_failure == StartFailure::execute && end.start_errno == ENOENT ? run_exit_not_found
                                                                                   : run_exit_not_executable;
  return WIFSIGNALED(end.wait_status) ? 128 + WTERMSIG(end.wait_status) : WEXITSTATUS(end.wait_status);
}

Job::Job(Options options, uint64_t now_ns) : options_(std::move(options)) {
  if (options_.timeout_ns != 0) timeout_deadline_ns_ = later(now_ns, options_.timeout_ns);
}

void Job::end(uint64_t grace_ns, uint64_t now_ns) {
  ending_ = true;
  actions_.end_grace_ns = grace_ns;
  guard_deadline_ns_ = later(now_ns, later(grace_ns, run_kill_limit_ns + run_guard_slack_ns));
}

/// Records a failure. Only the first one counts, because it, or the launcher's reaction to it, causes the later ones.
void Job::fail(int exit_status, std::string message, uint64_t now_ns) {
  if (failed_ || ending_) return;
  failed_ = true;
  exit_status_ = exit_status;
  const uint32_t others = options_.rank_count - ended_count_;
  if (others != 0) message += ended_count_ == 0 ? "; ending all ranks" : "; ending the other ranks";
  actions_.messages.push_back(std::move(message));
  if (others != 0) end(options_.grace_ns, now_ns);
}

void Job::rank_ended(const RankEnd &end, uint64_t now_ns) {
  ++ended_count_;
  const int status = exit_status_of(end);
  succeeded_ |= status == 0;
  if (status != 0) {
    std::string name = "rank " + std::to_string(end.rank);
    const std::string host = options_.hosts.empty() ? "" : "host " + options_.hosts[end.rank];
    const bool had_process = end.pid > 0 && end.start_failure == StartFailure::none;
    const std::string process = had_process ? "pid " + std::to_string(end.pid) : "";
    const std::string both = host + (host.empty() || process.empty() ? "" : ", ") + process;
    if (!both.empty()) name += " (" + both + ")";
    const std::string what = name + " " + describe(end, options_.program);
    const bool others_run = ended_count_ < options_.rank_count;
    const bool goes_on = options_.keep_going && end.start_failure == StartFailure::none && (others_run || succeeded_);
    if (!goes_on) fail(status, what, now_ns);
    else if (!ending_) actions_.messages.push_back(what + (others_run ? "; the others go on" : ""));
  }
  if (ended_count_ == options_.rank_count && !ending_)  // the guard itself ends what the ranks left
    guard_deadline_ns_ = later(now_ns, later(options_.grace_ns, run_kill_limit_ns + run_guard_slack_ns));
}

void Job::ending_signal(int number, uint64_t now_ns) {
  ++ending_signal_count_;
  if (ending_signal_count_ == 1 && !ending_) {
    actions_.forward.push_back(number);
    return;
  }
  cut_short_ = true;
  const bool at_once = ending_;  // requested a second time
  if (!failed_) {
    failed_ = true;
    exit_status_ = 128 + number;
  }
  actions_.messages.push_back(std::string(::strsignal(number)) +
                              (at_once ? ": killing all ranks" : " again: ending all ranks"));
  end(at_once ? 0 : options_.grace_ns, now_ns);
}

void Job::signal(int number, uint64_t now_ns) {
  switch (number) {
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT:
      ending_signal(number, now_ns);
      break;
    case SIGTSTP:
      actions_.forward.push_back(number);
      actions_.stop_self = true;
      stopped_since_ns_ = now_ns;
      break;
    case SIGCONT:
      actions_.forward.push_back(number);
      if (stopped_since_ns_.has_value() && timeout_deadline_ns_ != run_no_deadline)
        timeout_deadline_ns_ = later(timeout_deadline_ns_, now_ns - *stopped_since_ns_);
      stopped_since_ns_.reset();
      break;
    default:
      actions_.forward.push_back(number);
      break;
  }
}

void Job::all_ended(uint32_t left_count) {
  over_ = true;
  if (left_count != 0)
    actions_.messages.push_back(std::to_string(left_count) + " processes of the job could not be killed");
}

void Job::guard_lost(int wait_status) {
  const RankEnd end{.wait_status = wait_status};
  if (!failed_) exit_status_ = std::max(exit_status_of(end), 1);
  if (!failed_) actions_.messages.push_back("the guard process " + describe(end, {}) + "; killing all ranks");
  failed_ = true;
  actions_.take_over = true;
  over_ = true;
}

void Job::failed(std::string message, uint64_t now_ns) { fail(1, std::move(message), now_ns); }

void Job::time_passed(uint64_t now_ns) {
  if (stopped_since_ns_.has_value()) return;  // a stopped job cannot use its time, so that time does not count
  if (now_ns >= timeout_deadline_ns_ && !ending_ && ended_count_ < options_.rank_count) {
    timeout_deadline_ns_ = run_no_deadline;
    cut_short_ = true;
    fail(run_exit_timeout, "the job did not end within " + seconds_text(options_.timeout_ns) + " s", now_ns);
  }
  if (now_ns >= guard_deadline_ns_ && !over_) {
    guard_deadline_ns_ = run_no_deadline;
    actions_.messages.push_back(options_.hosts.empty() ? "the guard process does not answer; killing it and all ranks"
                                                       : "not all hosts have ended their ranks; leaving them");
    if (!failed_) exit_status_ = 1;
    failed_ = true;
    actions_.take_over = true;
    over_ = true;
  }
}

JobActions Job::take_actions() { return std::exchange(actions_, {}); }

uint64_t Job::next_deadline_ns() const {
  if (over_ || stopped_since_ns_.has_value()) return run_no_deadline;
  return std::min(ending_ ? run_no_deadline : timeout_deadline_ns_, guard_deadline_ns_);
}

}  // namespace rondo::cli
