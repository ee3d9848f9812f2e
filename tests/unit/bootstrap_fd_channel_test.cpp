// SPDX-License-Identifier: Apache-2.0
// Descriptors that are handed over.
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/bootstrap/fd_channel.h"
#include "tests/catch.h"

using namespace rondo;

namespace {

constexpr uint64_t patience_ns = 20'000'000'000;

FileDescriptor a_file() { return FileDescriptor(::memfd_create("fd-channel-test", MFD_CLOEXEC)); }

ino_t inode_of(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

TEST_CASE("a descriptor on offer: whoever has the ticket takes it, as often as he likes, all at once") {
  auto file = a_file();
  const ino_t inode = inode_of(file.get());
  const auto offer = FdOffer::make(std::move(file), now_ns() + patience_ns);
  REQUIRE(offer.ok());
  std::array<ino_t, 8> taken{};
  std::vector<std::thread> takers;
  for (ino_t &it : taken)
    takers.emplace_back([&it, ticket = offer.value()->ticket()] {
      for (int round = 0; round < 20; ++round) {
        const auto got = take_descriptor(ticket, now_ns() + patience_ns);
        it = got.ok() ? inode_of(got.value().get()) : 0;
        if (it == 0) return;
      }
    });
  for (std::thread &taker : takers) taker.join();
  for (const ino_t it : taken) CHECK(it == inode);
}

TEST_CASE("a descriptor on offer: a wrong token gets nothing, and does not disturb the others") {
  const auto offer = FdOffer::make(a_file(), now_ns() + patience_ns);
  REQUIRE(offer.ok());
  FdTicket forged = offer.value()->ticket();
  forged.token[5] = forged.token[5] == 'a' ? 'b' : 'a';
  const auto refused = take_descriptor(forged, now_ns() + patience_ns);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().status == RONDO_ERROR_REMOTE);
  CHECK(take_descriptor(offer.value()->ticket(), now_ns() + patience_ns).ok());
}

TEST_CASE("a descriptor on offer: when the offer has ended a taker is told at once") {
  FdTicket ticket;
  {
    const auto offer = FdOffer::make(a_file(), now_ns() + patience_ns);
    REQUIRE(offer.ok());
    ticket = offer.value()->ticket();
  }
  const auto late = take_descriptor(ticket, now_ns() + patience_ns);
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().status == RONDO_ERROR_REMOTE);
  CHECK(late.error().message.find("is gone, or gave up") != std::string::npos);
}
