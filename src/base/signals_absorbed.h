// SPDX-License-Identifier: Apache-2.0
// Keeps a system call of the library from ending the program by a signal.
#pragma once

#include <signal.h>

#include <cerrno>
#include <ctime>

namespace rondo {

/// Makes two kinds of write in this thread fail while it lives. A write to a pipe that nobody reads fails with EPIPE,
/// one beyond the limit of `ulimit -f` with EFBIG. Neither raises SIGPIPE or SIGXFSZ. The kernel sends both signals to
/// the thread that made the call, so a signal that arrives meanwhile is taken here, unless one was pending before.
class SignalsAbsorbed {
 public:
  SignalsAbsorbed() {
    ::sigemptyset(&absorbed_);
    sigset_t pending;
    ::sigpending(&pending);
    for (const int number : {SIGPIPE, SIGXFSZ})
      if (::sigismember(&pending, number) != 1) ::sigaddset(&absorbed_, number);
    ::pthread_sigmask(SIG_BLOCK, &absorbed_, &before_);
  }
  SignalsAbsorbed(const SignalsAbsorbed &) = delete;
  SignalsAbsorbed &operator=(const SignalsAbsorbed &) = delete;
  ~SignalsAbsorbed() {
    const int error = errno;
    constexpr timespec no_time{};
    while (::sigtimedwait(&absorbed_, nullptr, &no_time) > 0) {  // bounded: each of the two is pending once at most
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }

 private:
  sigset_t absorbed_{};
  sigset_t before_{};
};

}  // namespace rondo
