// SPDX-License-Identifier: Apache-2.0
// These tests hand descriptors over to other threads and processes.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/bootstrap/fd_channel.h"
#include "tests/catch.h"

using namespace rondo;

namespace {

constexpr uint64_t patience_ns = 120'000'000'000;

FileDescriptor a_file() { return FileDescriptor(::memfd_create("fd-channel-test", MFD_CLOEXEC)); }

/// Makes a connection on which the client sends nothing.
FileDescriptor connect_mute(const FdTicket &ticket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = std::string(1, '\0') + "rondo-" + std::string(ticket.name.data(), ticket.name.size());
  std::copy(name.begin(), name.end(), address.sun_path);
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  static_cast<void>(::connect(socket.get(), reinterpret_cast<const sockaddr *>(&address), bytes));
  return socket;
}

ino_t inode_of(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

TEST_CASE("descriptors on offer: more than a message holds arrive in their order") {
  const auto first = a_file(), last = a_file();
  std::vector<int> descriptors(300, first.get());
  descriptors.push_back(last.get());
  const auto offer = FdOffer::make(descriptors, now_ns() + patience_ns);
  REQUIRE(offer.ok());
  const auto taken = take_descriptors(offer.value()->ticket(), descriptors.size(), now_ns() + patience_ns);
  REQUIRE(taken.ok());
  CHECK(inode_of(taken.value()[0].get()) == inode_of(first.get()));
  CHECK(inode_of(taken.value()[299].get()) == inode_of(first.get()));
  CHECK(inode_of(taken.value()[300].get()) == inode_of(last.get()));
}

TEST_CASE("a descriptor on offer: each thread that has the ticket takes it, as often as it likes, all at once") {
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

TEST_CASE("a descriptor on offer: connections that say nothing, renewed for ever, keep no taker waiting") {
  const auto offer = FdOffer::make(a_file(), now_ns() + patience_ns);
  REQUIRE(offer.ok());
  const FdTicket ticket = offer.value()->ticket();
  std::atomic<bool> over = false;
  std::vector<FileDescriptor> mute;
  while (mute.size() < 100) mute.push_back(connect_mute(ticket));
  std::thread flood([&] {
    for (size_t at = 0; !over; at = (at + 1) % mute.size()) {
      char byte = 0;
      if (::recv(mute[at].get(), &byte, 1, MSG_DONTWAIT) == 0) mute[at] = connect_mute(ticket);
    }
  });
  for (int round = 0; round < 20; ++round) {
    const auto taken = take_descriptor(ticket, now_ns() + patience_ns);
    CHECK(taken.ok());
    if (!taken.ok()) break;
  }
  over = true;
  flood.join();
}

TEST_CASE("a descriptor for certain processes: any other one is turned away before it says anything") {
  auto server = FdServer::listen();
  REQUIRE(server.ok());
  const auto file = a_file();
  std::vector<FileDescriptor> mute;
  for (int at = 0; at < 100; ++at) mute.push_back(connect_mute(server.value().ticket()));
  Result<void> served;
  const std::vector<uint64_t> nobody{1};
  std::thread serving([&] { served = server.value().serve({file.get()}, nobody, now_ns() + patience_ns); });
  size_t closed = 0;
  for (const FileDescriptor &each : mute) {
    char byte = 0;
    pollfd entry{each.get(), POLLIN, 0};
    closed += ::poll(&entry, 1, 60'000) == 1 && ::recv(each.get(), &byte, 1, 0) == 0;
  }
  server.value().stop();
  serving.join();
  CHECK(closed == mute.size());
  CHECK(served.ok());
}

TEST_CASE("a descriptor for certain processes: one that did not come in time is named") {
  auto server = FdServer::listen();
  REQUIRE(server.ok());
  const auto file = a_file();
  const Result<void> served = server.value().serve({file.get()}, {1}, now_ns() + 10'000'000);
  REQUIRE_FALSE(served.ok());
  CHECK(served.error().status == RONDO_ERROR_TIMEOUT);
  CHECK(served.error().message.find("in time: 1") != std::string::npos);
}

TEST_CASE("a descriptor for certain processes: a wait ends as soon as the check says that it is in vain") {
  auto server = FdServer::listen();
  REQUIRE(server.ok());
  const auto file = a_file();
  const WaitCheck in_vain = [] { return Result<void>(Error{RONDO_ERROR_REMOTE, "rank 2 ended", -1, 2}); };
  const auto served = server.value().serve({file.get()}, {1}, now_ns() + patience_ns, in_vain);
  REQUIRE_FALSE(served.ok());
  CHECK(served.error().peer == 2);
  const auto taken = take_descriptor(server.value().ticket(), now_ns() + patience_ns, in_vain);  // nobody serves now
  REQUIRE_FALSE(taken.ok());
  CHECK(taken.error().peer == 2);
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
  CHECK(late.error().message.find("has ended, or gave up") != std::string::npos);
  CHECK(late.error().message.find("boot_id, as copies of a running machine do: reboot one") != std::string::npos);
}

TEST_CASE("fd channel: an offer that nobody takes ends when it is destroyed, not at its deadline") {
  constexpr uint64_t hour_ns = 3'600'000'000'000;  // no test waits this long
  FileDescriptor descriptor(::open("/dev/null", O_RDWR | O_CLOEXEC));
  auto offer = FdOffer::make(std::move(descriptor), now_ns() + hour_ns);
  REQUIRE(offer.ok());
  offer.value().reset();
  CHECK(offer.value() == nullptr);
}
