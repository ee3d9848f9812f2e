// SPDX-License-Identifier: Apache-2.0
// This file starts the library's own threads.
#pragma once

#include <signal.h>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "src/base/result.h"

namespace rondo {

/// Blocks all signals while it lives. A thread started meanwhile leaves all signals to the application's threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked &) = delete;
  SignalsBlocked &operator=(const SignalsBlocked &) = delete;

 private:
  sigset_t before_{};
};

/// Starts a thread that runs `body`. RONDO_ERROR_OUT_OF_RESOURCES names the purpose, such as "a stream".
template <class Body>
[[nodiscard]] Result<std::thread> start_thread(const std::string &purpose, Body body) {
  const SignalsBlocked blocked;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error &error) {
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, "no thread could be started for " + purpose + ": " + error.what() +
                                                   "; raise the limit on threads (ulimit -u)"};
  }
}

}  // namespace rondo
