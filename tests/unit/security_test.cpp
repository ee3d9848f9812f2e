// SPDX-License-Identifier: Apache-2.0
// These tests check what another user's or container's process can do to a job on its host (docs/security.md).
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "src/base/clock.h"
#include "src/bootstrap/fd_channel.h"
#include "src/memory/region.h"
#include "src/topo/host.h"
#include "tests/catch.h"
#include "tests/unit/child.h"

using namespace rondo;
using rondo_test::in_child;

namespace {

constexpr uid_t nobody = 65534;
constexpr uint64_t patience_ns = 120'000'000'000;
constexpr int skipped = 77;

/// Runs `body` with the rights of another user. Only root can become another user.
template <class Body>
int as_another_user(const Body &body) {
  if (::geteuid() != 0) {
    std::printf("skipped: another user: only root can become one\n");
    return skipped;
  }
  return in_child([&] {
    if (::setgroups(0, nullptr) != 0 || ::setgid(nobody) != 0 || ::setuid(nobody) != 0) return 99;
    return body();
  });
}

void check_denied(int status) {
  if (status != skipped) CHECK(status == 0);
}

}  // namespace

TEST_CASE("another user: can neither open shared memory by its descriptor, nor read it, nor signal its process") {
  RegionTable table;
  const auto memory = table.allocate(4096);
  REQUIRE(memory.ok());
  const auto region = table.find(memory.value(), 4096);
  REQUIRE(region);
  const pid_t self = ::getpid();
  const std::string path = "/proc/" + std::to_string(self) + "/fd/" + std::to_string(region->descriptor);
  check_denied(as_another_user([&] {
    if (::open(path.c_str(), O_RDWR | O_CLOEXEC) >= 0 || errno != EACCES) return 1;
    char byte = 0;
    const iovec here{&byte, 1};
    const iovec there{memory.value(), 1};
    if (::process_vm_readv(self, &here, 1, &there, 1, 0) >= 0 || errno != EPERM) return 2;
    return ::kill(self, 0) == 0 || errno != EPERM ? 3 : 0;
  }));
}

TEST_CASE("another user: gets no descriptor, although it has the ticket, and holds nobody up") {
  const auto offer = FdOffer::make(FileDescriptor(::memfd_create("rondo-test", MFD_CLOEXEC)), now_ns() + patience_ns);
  REQUIRE(offer.ok());
  const FdTicket ticket = offer.value()->ticket();
  check_denied(as_another_user([&] {
    const auto taken = take_descriptor(ticket, now_ns() + patience_ns);
    return taken.ok() ? 1 : taken.error().status == RONDO_ERROR_REMOTE ? 0 : 2;
  }));
  CHECK(take_descriptor(ticket, now_ns() + patience_ns).ok());
}

TEST_CASE("another container: a process in other namespaces is on another host") {
  const std::string own = host_id().value();
  for (const int kind : {CLONE_NEWNET, CLONE_NEWUSER}) {
    const int status = in_child([&] {
      if (::unshare(kind) != 0) return skipped;  // containers may forbid new namespaces
      return host_id().value() == own ? 1 : 0;
    });
    if (status == skipped) std::printf("skipped: another container: this process may not make namespaces\n");
    check_denied(status);
  }
}
