// SPDX-License-Identifier: Apache-2.0
#include "src/cli/hosts/connection.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "src/base/clock.h"
#include "src/cli/run/launch.h"

namespace rondo::cli {
namespace {

constexpr size_t complaint_bytes_max = 1024;
constexpr uint64_t ssh_end_patience_ns = 500'000'000;

/// Quotes a word for the shell that ssh starts on the host.
std::string shell_word(const std::string &text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

[[noreturn]] void become_ssh(const std::vector<std::string> &words, const Pipe &in, const Pipe &out, const Pipe &said) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(in.read.get(), STDIN_FILENO);
  ::dup2(out.write.get(), STDOUT_FILENO);
  ::dup2(said.write.get(), STDERR_FILENO);
  std::vector<char *> arguments;
  for (const std::string &word : words) arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const std::string why = "cannot execute " + words[0] + ": " + std::strerror(errno) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, why.data(), why.size());
  ::_exit(255);
}

/// Returns one line without control characters for a terminal.
std::string as_line(std::string text) {
  for (char &c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  const size_t end = text.find_last_not_of(' ');
  return end == text.npos ? "" : text.substr(0, end + 1);
}

}  // namespace

void HostConnection::read_complaint() {
  std::array<char, 512> buffer;
  const ssize_t got_bytes = ::read(said.get(), buffer.data(), buffer.size());
  if (got_bytes < 0 && is_temporary(errno)) return;
  if (got_bytes <= 0) return said.reset();
  complaint.append(buffer.data(), static_cast<size_t>(got_bytes));
  if (complaint.size() > complaint_bytes_max) complaint.erase(0, complaint.size() - complaint_bytes_max);
}

std::string HostConnection::why_lost(const std::string &remote_rondo) {
  int status = -1;
  const uint64_t deadline_ns = now_ns() + ssh_end_patience_ns;
  while (ssh > 0 && ::waitpid(ssh, &status, WNOHANG) == 0 && now_ns() < deadline_ns) sleep_for_ns(5'000'000);
  while (said.valid() && now_ns() < deadline_ns) {  // reads all that has arrived by now
    pollfd ready{said.get(), POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) break;
    read_complaint();
  }
  const std::string words = as_line(complaint);
  const std::string quoted = words.empty() ? "" : ": " + words;
  const int code = status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (phase != Phase::connecting) return "the connection to it has ended" + quoted;
  if (code == 126 || code == 127)
    return "there is no rondo at " + remote_rondo + quoted +
           "; install the same version there, or give its path by --remote-rondo";
  if (code == 255) return "ssh cannot reach it" + quoted;
  return "rondo did not answer there" + quoted;
}

Result<HostConnection> connect_host(const HostShare &share, const std::vector<std::string> &ssh,
                                    const std::string &remote_rondo) {
  RONDO_TRY_ASSIGN(Pipe in, make_pipe());
  RONDO_TRY_ASSIGN(Pipe out, make_pipe());
  RONDO_TRY_ASSIGN(Pipe said, make_pipe());
  std::vector<std::string> words = ssh;
  words.push_back(share.host);
  words.push_back(shell_word(remote_rondo) + " run --agent");
  HostConnection connection;
  connection.share = share;
  connection.ssh = ::fork();
  if (connection.ssh < 0) return system_error("starting ssh (fork)", errno);
  if (connection.ssh == 0) become_ssh(words, in, out, said);
  connection.to = std::move(in.write);
  connection.from = std::move(out.read);
  connection.said = std::move(said.read);
  for (const int descriptor : {connection.to.get(), connection.from.get(), connection.said.get()})
    ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
  connection.heard_ns = now_ns();
  return connection;
}

}  // namespace rondo::cli
