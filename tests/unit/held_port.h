// SPDX-License-Identifier: Apache-2.0
// This file reserves a port for a test in which a store listens on a given port.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "src/base/unique_handle.h"
#include "tests/catch.h"

namespace rondo_test {

/// A port of loopback. While this object exists, the kernel gives the port only to sockets that request it by number,
/// like a store's socket. So no other program on this machine gets the port by chance.
class HeldPort {
 public:
  HeldPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;  // a store's socket has this option, too; this one never listens
    REQUIRE(::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto *const plain = reinterpret_cast<sockaddr *>(&address);
    REQUIRE(::bind(socket_.get(), plain, bytes) == 0);
    REQUIRE(::getsockname(socket_.get(), plain, &bytes) == 0);
    number_ = ntohs(address.sin_port);
  }
  [[nodiscard]] uint16_t number() const { return number_; }

 private:
  rondo::FileDescriptor socket_;
  uint16_t number_ = 0;
};

}  // namespace rondo_test
