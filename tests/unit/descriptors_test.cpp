// SPDX-License-Identifier: Apache-2.0
// The library's own descriptors must have numbers above the standard streams', and fork() must close them.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "src/base/shared_file.h"
#include "src/base/signals_absorbed.h"
#include "src/base/unique_handle.h"
#include "tests/catch.h"
#include "tests/unit/child.h"

using namespace rondo;
using rondo_test::in_child;

namespace {

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

void limit_file_size(rlim_t bytes) {
  const rlimit limit{bytes, bytes};
  ::signal(SIGXFSZ, SIG_DFL);
  static_cast<void>(::setrlimit(RLIMIT_FSIZE, &limit));
}

}  // namespace

TEST_CASE("descriptors: where standard streams are closed, none of ours gets their numbers") {
  const auto body = [] {
    for (int standard = 0; standard <= 2; ++standard) ::close(standard);
    FileDescriptor first(::eventfd(0, EFD_CLOEXEC));
    FileDescriptor second;
    second.reset(::eventfd(0, EFD_CLOEXEC));
    if (first.get() <= 2 || second.get() <= 2 || first.get() == second.get()) return 1;
    for (int standard = 0; standard <= 2; ++standard)
      if (is_open(standard)) return 2;
    if ((::fcntl(first.get(), F_GETFD) & FD_CLOEXEC) == 0) return 3;
    const int number = first.get();
    first.reset();
    return is_open(number) ? 4 : 0;
  };
  CHECK(in_child(body) == 0);
}

TEST_CASE("descriptors: where no number above 2 is free, there is none, and errno says why") {
  const auto body = [] {
    ::close(0);
    const rlimit none{3, 3};
    ::setrlimit(RLIMIT_NOFILE, &none);
    const FileDescriptor descriptor(::eventfd(0, EFD_CLOEXEC));
    if (descriptor.valid() || errno != EMFILE) return 1;
    return is_open(0) ? 2 : 0;
  };
  CHECK(in_child(body) == 0);
}

TEST_CASE("descriptors: the child of a fork closes all of ours and nothing else, once") {
  const FileDescriptor kept(::eventfd(0, EFD_CLOEXEC));
  FileDescriptor moved(::eventfd(0, EFD_CLOEXEC));
  const FileDescriptor owner(std::move(moved));
  FileDescriptor given_away(::eventfd(0, EFD_CLOEXEC));
  const int foreign = given_away.release();
  FileDescriptor closed(::eventfd(0, EFD_CLOEXEC));
  const int reused = closed.get();
  closed.reset();
  REQUIRE(::dup2(foreign, reused) == reused);  // the program now uses this number, which was the library's
  const auto body = [&] {
    close_inherited_descriptors();
    if (is_open(kept.get()) || is_open(owner.get())) return 1;
    if (!is_open(foreign) || !is_open(reused)) return 2;
    // If the child opens a descriptor with one of these numbers, the inherited object must not close it.
    if (::dup2(foreign, kept.get()) != kept.get()) return 3;
    close_descriptor(kept.get());
    close_inherited_descriptors();
    return is_open(kept.get()) ? 0 : 4;
  };
  CHECK(in_child(body) == 0);
  CHECK(is_open(kept.get()));
  CHECK(is_open(owner.get()));
  ::close(foreign);
  ::close(reused);
}

TEST_CASE("shared file: beyond the limit on file sizes it is out of resources, and no signal is raised") {
  const auto body = [] {
    limit_file_size(1 << 20);
    if (!make_shared_file(1 << 20, "test").ok()) return 1;
    const auto refused = make_shared_file((1 << 20) + 4096, "test");
    if (refused.ok() || refused.error().status != RONDO_ERROR_OUT_OF_RESOURCES) return 2;
    return refused.error().message.find("ulimit -f") != std::string::npos &&
                   refused.error().message.find("1M") != std::string::npos
               ? 0
               : 3;
  };
  CHECK(in_child(body) == 0);
}

TEST_CASE("absorbed signals: writes fail by errno; a signal that the program had waiting stays its own") {
  int ends[2] = {-1, -1};
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  ::close(ends[0]);
  const auto write_one = [&] {
    const SignalsAbsorbed absorbed;
    return ::write(ends[1], "x", 1) < 0 ? errno : 0;
  };
  CHECK(in_child([&] {
          ::signal(SIGPIPE, SIG_DFL);
          return write_one() == EPIPE ? 0 : 1;
        }) == 0);
  CHECK(in_child([&] {
          ::signal(SIGPIPE, SIG_DFL);
          static_cast<void>(write_one());
          return ::write(ends[1], "x", 1) < 0 ? 1 : 0;  // SIGPIPE has the program's action again: it ends the child
        }) == -SIGPIPE);
  CHECK(in_child([&] {
          sigset_t pipe_signal, pending;
          ::sigemptyset(&pipe_signal);
          ::sigaddset(&pipe_signal, SIGPIPE);
          ::sigprocmask(SIG_BLOCK, &pipe_signal, nullptr);
          ::raise(SIGPIPE);
          if (write_one() != EPIPE) return 1;
          ::sigpending(&pending);
          return ::sigismember(&pending, SIGPIPE) == 1 ? 0 : 2;
        }) == 0);
  ::close(ends[1]);
}
