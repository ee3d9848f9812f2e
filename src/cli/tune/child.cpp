// SPDX-License-Identifier: Apache-2.0
#include "src/cli/tune/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

namespace rondo::cli::tune {
namespace {

void replace_descriptor(int descriptor, const char *path) {
  if (const int file = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); file >= 0) ::dup2(file, descriptor);
}

}  // namespace

SignalsHeld::SignalsHeld() {
  ::sigemptyset(&held_);
  for (const int number : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP}) ::sigaddset(&held_, number);
  ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
}

void SignalsHeld::restore() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

int SignalsHeld::wait_for(pid_t child) const {
  int ended_by = 0;
  const auto heed = [&](int number) {
    if (number > 0 && number != SIGCHLD) ended_by = number;
  };
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {  // ends at the launcher's --timeout
    const int number = ::sigwaitinfo(&held_, nullptr);
    heed(number);
    if (number == SIGTERM || number == SIGHUP) ::kill(child, number);
  }
  const timespec no_time{};
  for (int number = 1; number > 0; heed(number)) number = ::sigtimedwait(&held_, nullptr, &no_time);
  if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
  return ended_by != 0 ? 128 + ended_by : WEXITSTATUS(status);
}

Folder::Folder() {
  const char *base = std::getenv("TMPDIR");
  path_ = (base != nullptr && *base != '\0' ? std::string(base) : "/tmp") + "/rondo-tune-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) error_number_ = errno;
}

Folder::~Folder() {
  std::error_code ignored;
  if (error_number_ == 0) std::filesystem::remove_all(path_, ignored);
}

Result<void> Folder::made() const {
  if (error_number_ == 0) return {};
  return system_error("cannot make the folder " + path_ + " (TMPDIR says where)", error_number_);
}

Result<std::string> own_program() {
  std::error_code failed;
  std::string program = std::filesystem::read_symlink("/proc/self/exe", failed).string();
  if (failed) return system_error("cannot find this program: /proc/self/exe", failed.value());
  return program;
}

Result<int> execute(const SignalsHeld &held, const std::vector<std::string> &words, const std::string &output_path,
                    const std::string &errors_path) {
  std::vector<char *> pointers;
  for (const std::string &word : words) pointers.push_back(const_cast<char *>(word.c_str()));
  pointers.push_back(nullptr);
  const pid_t own = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return system_error("cannot start rondo run", errno);
  if (child == 0) {
    held.restore();
    // The launcher must not outlive this process. The launcher's ranks end with it.
    static_cast<void>(::prctl(PR_SET_PDEATHSIG, SIGTERM));
    replace_descriptor(STDOUT_FILENO, output_path.c_str());
    replace_descriptor(STDERR_FILENO, errors_path.c_str());
    if (::getppid() == own) ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  return held.wait_for(child);
}

}  // namespace rondo::cli::tune
