// SPDX-License-Identifier: Apache-2.0
#include "src/console/standard_streams.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace rondo::console {

void begin_standard_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor)
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", O_RDWR);  // takes the lowest number that is free
  struct sigaction action {};
  action.sa_handler = [](int) {};  // not SIG_IGN, which programs that are started would inherit
  (void)::sigaction(SIGXFSZ, &action, nullptr);
}

int end_standard_streams(const char *name, int status) {
  const bool lost_before = std::ferror(stdout) != 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !lost_before) return status;
  const char *why = flushed ? "a write failed" : std::strerror(errno);
  std::fprintf(stderr, "%s: cannot write standard output: %s; what it printed is not complete\n", name, why);
  return status == 0 ? 1 : status;
}

}  // namespace rondo::console
