// SPDX-License-Identifier: Apache-2.0
#include "src/bootstrap/pmi.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "src/base/clock.h"

namespace rondo {
namespace {

constexpr uint64_t patience_ns = 5'000'000'000;
constexpr size_t answer_bytes_max = 1024;

/// Up to the line's end and not beyond, as what follows is another's.
std::string receive_line(int descriptor) {
  std::string line;
  const uint64_t deadline_ns = now_ns() + patience_ns;
  while (line.size() < answer_bytes_max && now_ns() < deadline_ns) {
    pollfd ready{descriptor, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>((deadline_ns - now_ns()) / 1'000'000)) <= 0) continue;
    char next = 0;
    if (::recv(descriptor, &next, 1, MSG_DONTWAIT) != 1) return {};
    if (next == '\n') return line;
    line += next;
  }
  return {};
}

}  // namespace

std::string pmi_job_name(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISSOCK(status.st_mode)) return {};
  constexpr std::string_view request = "cmd=get_my_kvsname\n";
  const ssize_t sent = ::send(descriptor, request.data(), request.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(request.size())) return {};
  const std::string answer = receive_line(descriptor);
  constexpr std::string_view expected = "cmd=my_kvsname kvsname=";
  if (!answer.starts_with(expected)) return {};
  const std::string name = answer.substr(expected.size());
  return name.substr(0, name.find(' '));
}

}  // namespace rondo
