// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run/launch.h"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "src/cli/run/children.h"
#include "src/cli/run/guard.h"

namespace rondo::cli {
namespace {

constexpr std::array forwarded{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
// These signals are blocked and never read. So a write to a closed pipe fails with EPIPE, and a refused access to a
// terminal is an error instead of a stop.
constexpr std::array only_blocked{SIGPIPE, SIGTTIN, SIGTTOU};

/// Opens /dev/null. Also fills closed descriptors among 0 to 2 with it, so that no pipe gets these numbers.
Result<FileDescriptor> open_null() {
  for (int attempt = 0; attempt < 4; ++attempt) {
    const int descriptor = ::open("/dev/null", O_RDWR);
    if (descriptor < 0) return system_error("open /dev/null", errno);
    if (descriptor <= STDERR_FILENO) continue;  // it stays open
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    return FileDescriptor(descriptor);
  }
  return Error{RONDO_ERROR_SYSTEM, "open /dev/null: no descriptor above 2"};
}

bool is_ignored(int number) {
  struct sigaction action {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Turns signals into events of a descriptor. A signal that was ignored when the program started (nohup) stays ignored,
/// also in ranks.
Result<FileDescriptor> take_signals(sigset_t *mask_before) {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGCHLD);
  for (const int number : forwarded)
    if (!is_ignored(number)) ::sigaddset(&wanted, number);
  sigset_t blocked = wanted;
  for (const int number : only_blocked) ::sigaddset(&blocked, number);
  ::sigprocmask(SIG_BLOCK, &blocked, mask_before);
  FileDescriptor signals(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.valid()) return system_error("signalfd", errno);
  return signals;
}

void raise_descriptor_limit(rlimit *before) {
  ::getrlimit(RLIMIT_NOFILE, before);
  const rlimit raised{before->rlim_max, before->rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &raised);
}

Result<void> make_streams(LaunchPlan *plan, LauncherStreams *ours) {
  plan->streams.resize(plan->options.rank_count);
  if (plan->options.tag_output) {
    for (RankStreams &rank : plan->streams) {
      RONDO_TRY_ASSIGN(Pipe output, make_pipe());
      RONDO_TRY_ASSIGN(Pipe error, make_pipe());
      rank = {std::move(output.write), std::move(error.write)};
      ours->output.push_back(std::move(output.read));
      ours->error.push_back(std::move(error.read));
    }
  }
  if (::isatty(STDIN_FILENO) == 1) {
    RONDO_TRY_ASSIGN(Pipe input, make_pipe());
    ::fcntl(input.write.get(), F_SETFL, O_NONBLOCK);
    plan->input = std::move(input.read);
    ours->input = std::move(input.write);
  }
  return {};
}

}  // namespace

Result<Pipe> make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe2", errno);
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

Result<FileDescriptor> prepare_launcher() {
  sigset_t mask_before;
  if (!become_subreaper()) return system_error("prctl(PR_SET_CHILD_SUBREAPER)", errno);
  return take_signals(&mask_before);
}

Result<Launched> launch_guard(LaunchPlan plan) {
  Launched launched;
  RONDO_TRY_ASSIGN(plan.null_input, open_null());
  RONDO_TRY_ASSIGN(launched.signals, take_signals(&plan.signal_mask));
  if (!become_subreaper()) return system_error("prctl(PR_SET_CHILD_SUBREAPER)", errno);
  raise_descriptor_limit(&plan.descriptor_limit);
  RONDO_TRY(make_streams(&plan, &launched.streams));
  RONDO_TRY_ASSIGN(auto control, control_pair());
  launched.control = std::move(control.first);
  const pid_t launcher = ::getpid();
  launched.guard = ::fork();
  if (launched.guard < 0) return system_error("starting the guard process (fork)", errno);
  if (launched.guard == 0) {
    launched = {};  // otherwise the guard would not see the launcher's death, nor rank 0 the end of its input
    run_guard(std::move(plan), std::move(control.second), launcher);
    ::_exit(0);
  }
  // If rank 0 has this standard input, the launcher closes its own copy. Then the input's writer notices when rank 0
  // closes it.
  if (!launched.streams.input.valid()) ::dup2(plan.null_input.get(), STDIN_FILENO);
  return launched;
}

}  // namespace rondo::cli
