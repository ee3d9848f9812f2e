// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "src/base/clock.h"
#include "src/cli/run/children.h"

namespace rondo::cli {
namespace {

constexpr int status_not_executable = run_exit_not_executable << 8;  // in the form of waitpid()
constexpr int ending_poll_ms = 20;                                   // interval between searches for new orphans

struct RankState {
  enum class Phase { waiting, running, ended, reported };
  Phase phase = Phase::waiting;
  RankEnd end;
};

class Guard {
 public:
  Guard(LaunchPlan plan, FileDescriptor control)
      : plan_(std::move(plan)), control_(std::move(control)), ranks_(plan_.options.rank_count) {}

  [[nodiscard]] bool set_up();
  void run();

 private:
  bool take_orders();  ///< returns false if the launcher is gone
  void obey(const Order &order);
  void start_ranks(const Order &start);
  bool start_rank(const Order &start, uint32_t rank);
  void note_start_failures();
  void note_end(pid_t pid, int wait_status);
  void signal_ranks(int number);
  void begin_ending(uint64_t grace_ns);
  void terminate_orphans();
  bool send_rank_ends();  ///< returns false if the launcher's queue is full
  [[nodiscard]] bool all_ranks_ended() const;
  void wait_for_event(bool reports_wait);
  void kill_all();

  LaunchPlan plan_;
  FileDescriptor control_;
  FileDescriptor child_events_;
  FileDescriptor failures_read_;
  FileDescriptor failures_write_;
  std::vector<RankState> ranks_;
  std::set<pid_t> terminated_;  // children that got SIGTERM
  uint64_t kill_at_ns_ = run_no_deadline;
  uint32_t left_count_ = 0;
  bool ending_ = false;
  bool killed_ = false;
};

bool Guard::set_up() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  child_events_.reset(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  failures_read_.reset(ends[0]);
  failures_write_.reset(ends[1]);
  return child_events_.valid() && become_subreaper();
}

bool Guard::start_rank(const Order &start, uint32_t rank) {
  const pid_t guard = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become_rank(plan_, start, rank, guard, failures_write_.get());
  RankState &state = ranks_[rank];
  state.end.rank = rank;
  if (pid < 0) {
    state.end.start_failure = StartFailure::fork;
    state.end.start_errno = errno;
    state.end.wait_status = status_not_executable;
    state.phase = RankState::Phase::ended;
    return false;
  }
  ::setpgid(pid, pid);
  state.end.pid = pid;
  state.phase = RankState::Phase::running;
  return true;
}

void Guard::start_ranks(const Order &start) {
  bool started = true;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (started) {
      started = start_rank(start, rank);
    } else {  // not started, because an earlier start failed and was reported
      ranks_[rank].end.rank = rank;
      ranks_[rank].phase = RankState::Phase::ended;
    }
  }
  // The ranks have their own descriptors now. If the guard kept its copies open, the launcher would not notice when a
  // rank closes a stream.
  plan_.streams.clear();
  plan_.input.reset();
  ::dup2(plan_.null_input.get(), STDIN_FILENO);
}

void Guard::note_start_failures() {
  StartFailureRecord record;
  while (::read(failures_read_.get(), &record, sizeof record) == static_cast<ssize_t>(sizeof record)) {
    if (record.rank >= ranks_.size()) continue;
    ranks_[record.rank].end.start_failure = record.failure;
    ranks_[record.rank].end.start_errno = record.error_number;
  }
}

void Guard::note_end(pid_t pid, int wait_status) {
  terminated_.erase(pid);
  note_start_failures();
  const auto rank = std::find_if(ranks_.begin(), ranks_.end(), [pid](const RankState &state) {
    return state.phase == RankState::Phase::running && state.end.pid == pid;
  });
  if (rank == ranks_.end()) return;  // an orphan that a rank left
  rank->end.wait_status = wait_status;
  rank->phase = RankState::Phase::ended;
}

/// Signals the process group of each rank, as a terminal would. If a rank is in another group, signals the rank
/// alone.
void Guard::signal_ranks(int number) {
  for (const RankState &state : ranks_)
    if (state.phase == RankState::Phase::running && ::kill(-state.end.pid, number) != 0)
      ::kill(state.end.pid, number);
}

void Guard::begin_ending(uint64_t grace_ns) {
  const uint64_t now = now_ns();
  kill_at_ns_ = std::min(kill_at_ns_, grace_ns > run_no_deadline - now ? run_no_deadline : now + grace_ns);
  if (ending_) return;
  ending_ = true;
  signal_ranks(SIGTERM);
  signal_ranks(SIGCONT);  // a stopped process would not receive SIGTERM
  for (const RankState &state : ranks_)
    if (state.phase == RankState::Phase::running) terminated_.insert(state.end.pid);
}

/// Terminates orphans. More orphans appear as their parents end. Each orphan gets the signal once.
void Guard::terminate_orphans() {
  for (const pid_t child : list_children()) {
    if (!terminated_.insert(child).second) continue;
    ::kill(child, SIGTERM);
    ::kill(child, SIGCONT);
  }
}

void Guard::obey(const Order &order) {
  switch (order.kind) {
    case Order::Kind::start: start_ranks(order); break;
    case Order::Kind::signal: signal_ranks(order.signal); break;
    case Order::Kind::end: begin_ending(order.grace_ns); break;
  }
}

bool Guard::take_orders() {
  Order order;
  while (true) {  // ends when the queue, which is bounded, is empty
    switch (receive_order(control_.get(), &order)) {
      case Received::message: obey(order); break;
      case Received::nothing: return true;
      case Received::closed: return false;
    }
  }
}

bool Guard::send_rank_ends() {
  for (RankState &state : ranks_) {
    if (state.phase != RankState::Phase::ended) continue;
    if (!send_report(control_.get(), {Report::Kind::rank_ended, state.end, 0})) return false;
    state.phase = RankState::Phase::reported;
  }
  return true;
}

bool Guard::all_ranks_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const RankState &state) {
    return state.phase == RankState::Phase::ended || state.phase == RankState::Phase::reported;
  });
}

void Guard::wait_for_event(bool reports_wait) {
  std::array<pollfd, 2> events{pollfd{control_.get(), static_cast<short>(POLLIN | (reports_wait ? POLLOUT : 0)), 0},
                               pollfd{child_events_.get(), POLLIN, 0}};
  ::poll(events.data(), events.size(), ending_ ? ending_poll_ms : -1);  // the launcher's death is an event, too
  signalfd_siginfo info;
  while (::read(child_events_.get(), &info, sizeof info) > 0) {  // SIGCHLD does not queue, so there is at most one
  }
}

void Guard::kill_all() {
  killed_ = true;
  signal_ranks(SIGKILL);  // without a usable /proc, kill_children() finds no child
  left_count_ = kill_children(now_ns() + run_kill_limit_ns, [this](pid_t pid, int status) { note_end(pid, status); });
}

void Guard::run() {
  bool children = false;
  while (true) {  // ends with the launcher, or after all has ended and was reported
    if (!take_orders()) return kill_all();
    if (!killed_) children = reap_children([this](pid_t pid, int status) { note_end(pid, status); });
    if (children && all_ranks_ended() && !ending_) begin_ending(plan_.options.grace_ns);
    if (ending_ && children) terminate_orphans();
    if (children && now_ns() >= kill_at_ns_ && !killed_) {
      kill_all();
      children = false;
    }
    bool told = send_rank_ends();
    if (told && !children && all_ranks_ended()) {
      told = send_report(control_.get(), {Report::Kind::all_ended, {}, left_count_});
      if (told) return;
    }
    wait_for_event(/*reports_wait=*/!told);
  }
}

}  // namespace

void run_guard(LaunchPlan plan, FileDescriptor control, pid_t launcher) {
  ::prctl(PR_SET_PDEATHSIG, SIGCONT, 0, 0, 0);
  if (::getppid() != launcher) return;
  ::prctl(PR_SET_NAME, "rondo-guard", 0, 0, 0);
  ::setpgid(0, 0);
  Guard guard(std::move(plan), std::move(control));
  if (guard.set_up()) guard.run();
}

}  // namespace rondo::cli
