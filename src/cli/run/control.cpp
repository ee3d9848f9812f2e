// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run/control.h"

#include <sys/socket.h>

#include <cerrno>
#include <type_traits>

#include "src/cli/run/streams.h"

namespace rondo::cli {
namespace {

template <class Message>
bool send_message(int control, const Message &message) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return ::send(control, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message);
}

template <class Message>
Received receive_message(int control, Message *message) {
  const ssize_t received_bytes = ::recv(control, message, sizeof *message, MSG_DONTWAIT);
  if (received_bytes == static_cast<ssize_t>(sizeof *message)) return Received::message;
  if (received_bytes < 0 && is_temporary(errno)) return Received::nothing;
  return Received::closed;
}

}  // namespace

Result<std::pair<FileDescriptor, FileDescriptor>> control_pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return system_error("socketpair", errno);
  return std::pair(FileDescriptor(ends[0]), FileDescriptor(ends[1]));
}

bool send_order(int control, const Order &order) { return send_message(control, order); }
bool send_report(int control, const Report &report) { return send_message(control, report); }
Received receive_order(int control, Order *order) { return receive_message(control, order); }
Received receive_report(int control, Report *report) { return receive_message(control, report); }

}  // namespace rondo::cli
