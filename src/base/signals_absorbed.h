// SPDX-License-Identifier: Apache-2.0
// This class prevents system calls of the library from ending the program by a signal.
#pragma once

#include <signal.h>

#include <cerrno>
#include <ctime>

namespace rondo {

/// While an object lives, two sorts of write in this thread fail without a signal. A write to a pipe without a reader
/// fails with EPIPE instead of SIGPIPE. A write beyond the limit of `ulimit -f` fails with EFBIG instead of SIGXFSZ.
/// The kernel sends both signals to the thread that made the call. So this object consumes a signal that arrives while
/// it lives, unless one was pending before.
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
    while (::sigtimedwait(&absorbed_, nullptr, &no_time) > 0) {  // ends, as each signal is pending at most once
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }

 private:
  sigset_t absorbed_{};
  sigset_t before_{};
};

}  // namespace rondo
