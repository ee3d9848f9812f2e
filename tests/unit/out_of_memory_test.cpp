// SPDX-License-Identifier: Apache-2.0
// In these tests memory runs out in the middle of a call, which must leave nothing behind.
#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <string>
#include <thread>

#include "src/base/kernel_file.h"
#include "src/core/regroup_log.h"
#include "tests/catch.h"
#include "tests/unit/allocation_count.h"
#include "transports/shm/peers.h"

using namespace rondo;

namespace {

/// Calls `body` in a thread that can allocate nothing. Returns whether the call threw.
template <class Body>
bool lacks_memory(const Body &body) {
  bool threw = false;
  const rondo_test::OthersOutOfMemory shortage;
  std::thread([&] {
    try {
      body();
    } catch (const std::bad_alloc &) {
      threw = true;
    }
  }).join();
  return threw;
}

}  // namespace

TEST_CASE("out of memory: a shrink or grow that cannot begin does not block the next one") {
  RegroupLog log;
  const Regrouping wanted;
  CHECK(lacks_memory([&] { static_cast<void>(log.begin(wanted)); }));
  const auto begun = log.begin(wanted);
  REQUIRE(begun);
  CHECK(begun->number == 1);
  CHECK(begun->occurrence == 1);
}

TEST_CASE("out of memory: the mapping of a peer's region does not outlive a failure to remember it") {
  constexpr const char *name = "rondo-test-unremembered";
  const FileDescriptor file(::memfd_create(name, MFD_CLOEXEC));
  REQUIRE(file.valid());
  REQUIRE(::ftruncate(file.get(), 4096) == 0);
  const FileIdentity identity = identify(file.get());
  SlotHeader exported{};
  exported.region = 1;
  exported.inode = identity.inode;
  exported.region_bytes = 4096;
  exported.descriptor = file.get();
  shm::MappingCache cache;
  CHECK(lacks_memory([&] { static_cast<void>(cache.find(::getpid(), exported, identity.device)); }));
  CHECK(read_kernel_file("/proc/self/maps").find(name) == std::string::npos);
  CHECK(cache.find(::getpid(), exported, identity.device) != nullptr);
  CHECK(read_kernel_file("/proc/self/maps").find(name) != std::string::npos);
}
