// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_cuda/ipc.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace soft_cuda {
namespace {

constexpr uint32_t handle_magic = 0x48495343;  // "CSIH"

struct HandleText {
  uint32_t magic = handle_magic;
  ExportKind kind = ExportKind::memory;
  int32_t process = 0;
  int32_t device = 0;
  uint64_t bytes = 0;
  uint64_t name = 0;   ///< random name of the owner's socket
  uint64_t token = 0;  ///< random token of the export
  unsigned char reserved[24] = {};
};
static_assert(sizeof(HandleText) == sizeof(IpcMemoryHandle) && sizeof(HandleText) == sizeof(IpcEventHandle));

struct Export {
  int descriptor = -1;
  std::weak_ptr<void> alive;
};

/// The exports of this process. They are never destroyed, because a thread serves them until the process ends.
struct Owner {
  std::mutex mutex;
  int socket = -1;  ///< -1 before the first export
  uint64_t name = 0;
  std::unordered_map<uint64_t, Export> exports;  ///< by token
};

Owner &owner() {
  static Owner *const instance = new Owner;
  return *instance;
}

uint64_t random_number() {
  uint64_t number = 0;
  while (::getrandom(&number, sizeof number, 0) != sizeof number) {
  }
  return number;
}

socklen_t address_of(uint64_t name, sockaddr_un &address) {
  address = {};
  address.sun_family = AF_UNIX;
  // The first byte stays NUL, which makes the name an abstract one.
  const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "soft-cuda-%016llx",
                                   static_cast<unsigned long long>(name));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
}

void set_patience(int socket) {
  const timeval patience{60, 0};  // for a busy machine; a process that has ended refuses at once
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

bool peer_of(int socket, ucred &peer) {
  socklen_t bytes = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == ::geteuid();
}

/// A message of one byte, with room for one descriptor, since a descriptor must accompany data. It points into itself.
struct Message {
  Message() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  Message(const Message &) = delete;
  Message &operator=(const Message &) = delete;

  char payload = 's';
  iovec data{&payload, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
};

void send_descriptor(int socket, int descriptor) {
  Message message;
  cmsghdr *const header = CMSG_FIRSTHDR(&message.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  ::sendmsg(socket, &message.header, MSG_NOSIGNAL);
}

int receive_descriptor(int socket) {
  Message message;
  if (::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr *const header = CMSG_FIRSTHDR(&message.header);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

void answer(Owner &self, int client) {
  set_patience(client);
  ucred peer{};
  uint64_t token = 0;
  if (!peer_of(client, peer) || ::recv(client, &token, sizeof token, MSG_WAITALL) != sizeof token) return;
  std::shared_ptr<void> alive;  // keeps the descriptor open until it is sent
  int descriptor = -1;
  {
    const std::lock_guard lock(self.mutex);
    const auto found = self.exports.find(token);
    if (found == self.exports.end() || (alive = found->second.alive.lock()) == nullptr) return;
    descriptor = found->second.descriptor;
  }
  send_descriptor(client, descriptor);
}

void serve(Owner &self, int socket) {
  for (;;) {
    const int client = ::accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) {
      if (errno == EMFILE || errno == ENFILE) std::this_thread::yield();
      continue;
    }
    answer(self, client);
    ::close(client);
  }
}

/// Opens the socket at the first export.
bool listen_once(Owner &self) {
  if (self.socket >= 0) return true;
  self.name = random_number();
  sockaddr_un address{};
  const socklen_t bytes = address_of(self.name, address);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  if (::bind(socket, reinterpret_cast<const sockaddr *>(&address), bytes) != 0 || ::listen(socket, 128) != 0) {
    ::close(socket);
    return false;
  }
  self.socket = socket;
  std::thread([&self, socket] { serve(self, socket); }).detach();
  return true;
}

bool read_handle(const unsigned char *bytes, ExportKind kind, HandleText &text) {
  std::memcpy(static_cast<void *>(&text), bytes, sizeof text);
  return text.magic == handle_magic && text.kind == kind;
}

int ask(const HandleText &text, int socket) {
  set_patience(socket);
  sockaddr_un address{};
  const socklen_t bytes = address_of(text.name, address);
  ucred peer{};
  if (::connect(socket, reinterpret_cast<const sockaddr *>(&address), bytes) != 0 || !peer_of(socket, peer) ||
      peer.pid != text.process || ::send(socket, &text.token, sizeof text.token, MSG_NOSIGNAL) != sizeof text.token)
    return -1;
  return receive_descriptor(socket);
}

}  // namespace

CuStatus offer(int descriptor, ExportKind kind, int device, uint64_t bytes, const std::weak_ptr<void> &alive,
               unsigned char *handle) {
  Owner &self = owner();
  const std::lock_guard lock(self.mutex);
  if (!listen_once(self)) return CuStatus::operating_system;
  std::erase_if(self.exports, [](const auto &entry) { return entry.second.alive.expired(); });
  HandleText text;
  // An export always has the same token, since an import that is opened twice is one mapping.
  for (const auto &[token, known] : self.exports)
    if (known.descriptor == descriptor) text.token = token;
  if (text.token == 0) {
    text.token = random_number() | 1;
    self.exports[text.token] = {descriptor, alive};
  }
  text.kind = kind;
  text.process = ::getpid();
  text.device = device;
  text.bytes = bytes;
  text.name = self.name;
  std::memcpy(handle, &text, sizeof text);
  return CuStatus::success;
}

uint64_t export_key(const unsigned char *handle, ExportKind kind) {
  HandleText text;
  return read_handle(handle, kind, text) ? text.token ^ text.name * 0x9E37'79B9'7F4A'7C15u : 0;
}

CuStatus fetch(const unsigned char *handle, ExportKind kind, Fetched &fetched) {
  HandleText text;
  if (!read_handle(handle, kind, text)) return CuStatus::invalid_value;
  if (text.process == ::getpid()) return CuStatus::invalid_context;
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return CuStatus::operating_system;
  fetched.descriptor = ask(text, socket);
  fetched.device = text.device;
  fetched.bytes = text.bytes;
  ::close(socket);
  return fetched.descriptor >= 0 ? CuStatus::success : CuStatus::map_failed;
}

}  // namespace soft_cuda
