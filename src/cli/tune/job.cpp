// SPDX-License-Identifier: Apache-2.0
// Starts a job's ranks: `rondo run` of this very program, so that they live as every user's ranks do.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "src/cli/tune/tune.h"

namespace rondo::cli::tune {
namespace {

/// A folder of our own that goes with its files.
class Folder {
 public:
  Folder() {
    const char *base = std::getenv("TMPDIR");
    path_ = (base != nullptr && *base != '\0' ? std::string(base) : "/tmp") + "/rondo-tune-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) error_number_ = errno;
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  ~Folder() {
    std::error_code ignored;
    if (error_number_ == 0) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string &path() const { return path_; }
  [[nodiscard]] int error_number() const { return error_number_; }

 private:
  std::string path_;
  int error_number_ = 0;
};

/// While it lives, signals that end a job wait to be asked for: the launcher has to end its ranks first, and then this
/// process removes its folder. An interrupt comes to both from the terminal, the others to this process alone.
class SignalsHeld {
 public:
  SignalsHeld() {
    ::sigemptyset(&held_);
    for (const int number : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP}) ::sigaddset(&held_, number);
    ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  SignalsHeld(const SignalsHeld &) = delete;
  SignalsHeld &operator=(const SignalsHeld &) = delete;
  ~SignalsHeld() { restore(); }
  void restore() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  /// The exit status of `child`, 128 + number after a signal. What is to end this process is passed on to the child,
  /// and told even where that had just done its work.
  [[nodiscard]] int wait_for(pid_t child) const {
    int ended_by = 0;
    const auto heed = [&](int number) {
      if (number > 0 && number != SIGCHLD) ended_by = number;
    };
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {  // bounded by the launcher's own --timeout
      const int number = ::sigwaitinfo(&held_, nullptr);
      heed(number);
      if (number == SIGTERM || number == SIGHUP) ::kill(child, number);
    }
    const timespec no_time{};
    for (int number = 1; number > 0; heed(number)) number = ::sigtimedwait(&held_, nullptr, &no_time);
    if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    return WEXITSTATUS(status) == 0 && ended_by != 0 ? 128 + ended_by : WEXITSTATUS(status);
  }

 private:
  sigset_t held_{}, before_{};
};

/// The exit status, as SignalsHeld::wait_for().
Result<int> execute(const std::vector<std::string> &words) {
  std::vector<char *> pointers;
  for (const std::string &word : words) pointers.push_back(const_cast<char *>(word.c_str()));
  pointers.push_back(nullptr);
  const SignalsHeld held;
  const pid_t own = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return system_error("cannot start rondo run", errno);
  if (child == 0) {
    held.restore();
    // The launcher must not outlive us; it takes its ranks with it.
    static_cast<void>(::prctl(PR_SET_PDEATHSIG, SIGTERM));
    if (::getppid() == own) ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  return held.wait_for(child);
}

}  // namespace

Result<Measured> run_job(const Job &job) {
  const Folder folder;
  if (folder.error_number() != 0)
    return system_error("cannot make the folder " + folder.path() + " (TMPDIR says where)", folder.error_number());
  std::error_code failed;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", failed).string();
  if (failed) return system_error("cannot find this program: /proc/self/exe", failed.value());
  const std::string job_path = folder.path() + "/job.json", result_path = folder.path() + "/result.json";
  RONDO_TRY(write_file(job_path, job_text(job)));
  constexpr uint64_t patience = 20, least_seconds = 120;  // a busy machine is slower than was estimated, not this much
  const auto timeout_seconds = patience * static_cast<uint64_t>(estimate_seconds(job)) + least_seconds;
  RONDO_TRY_ASSIGN(const int status,
                   execute({program, "run", "-n", std::to_string(job.group.rank_count), "--timeout",
                            std::to_string(timeout_seconds), "--", program, "tune", "--job", job_path, "--result",
                            result_path}));
  if (status != 0)
    return Error{RONDO_ERROR_REMOTE, "measuring " + std::string(rondo_collective_string(job.group.collective)) +
                                         " among " + std::to_string(job.group.rank_count) +
                                         " ranks failed: rondo run ended with status " + std::to_string(status) +
                                         "; what it wrote above tells why"};
  return read_measured(result_path);
}

}  // namespace rondo::cli::tune
