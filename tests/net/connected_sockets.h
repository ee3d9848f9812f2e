// SPDX-License-Identifier: Apache-2.0
// This file is for tests that are themselves one end of a connection.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <functional>

#include "src/base/unique_handle.h"
#include "tests/catch.h"

namespace rondo::net_test {

/// Returns both ends of a connection over loopback. The kernel buffers about `receive_bytes` for the first end; 0 keeps
/// the default. `prepare` is called with the listener and with the first end, before they listen or connect.
inline std::array<FileDescriptor, 2> connected_sockets(int receive_bytes = 0,
                                                       const std::function<void(int)> &prepare = {}) {
  FileDescriptor listener(::socket(AF_INET, SOCK_STREAM, 0));
  if (prepare) prepare(listener.get());
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto *const plain = reinterpret_cast<sockaddr *>(&address);
  REQUIRE(::bind(listener.get(), plain, bytes) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), plain, &bytes) == 0);
  FileDescriptor connector(::socket(AF_INET, SOCK_STREAM, 0));
  if (prepare) prepare(connector.get());
  if (receive_bytes != 0)
    REQUIRE(::setsockopt(connector.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes) == 0);
  REQUIRE(::connect(connector.get(), plain, bytes) == 0);
  FileDescriptor acceptor(::accept(listener.get(), nullptr, nullptr));
  REQUIRE(acceptor.valid());
  return {std::move(connector), std::move(acceptor)};
}

}  // namespace rondo::net_test
