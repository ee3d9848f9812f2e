// SPDX-License-Identifier: Apache-2.0
#include "transports/hosts/congestion.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "src/base/kernel_file.h"
#include "src/base/unique_handle.h"

namespace rondo::hosts {
namespace {

constexpr size_t name_bytes_max = 16;  // TCP_CA_NAME_MAX of the kernel
constexpr size_t min_rtt_word = 37;    // index of tcpi_min_rtt in the kernel's tcp_info, if <netinet/tcp.h> lacks it

bool set(int socket, const std::string &name) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

Result<FileDescriptor> probe_socket() {
  for (const int family : {AF_INET, AF_INET6})
    if (FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)); socket.valid()) return socket;
  return system_error("socket", errno);
}

std::string permitted_names() {
  const std::string names = read_kernel_line("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  return names.empty() ? "unknown" : names;
}

}  // namespace

std::string congestion_control_of(int socket) {
  std::array<char, name_bytes_max + 1> name{};
  socklen_t bytes = name_bytes_max;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &bytes) == 0 ? name.data() : "";
}

std::string Congestion::of_new_sockets() {
  const auto probe = probe_socket();
  return probe.ok() ? congestion_control_of(probe.value().get()) : "";
}

std::string Congestion::instead_of(std::string_view system) { return system.starts_with("bbr") ? "cubic" : ""; }

Result<Congestion> Congestion::make(const std::string &setting, std::string system) {
  const bool automatic = setting == "auto";
  const std::string wanted = automatic ? instead_of(system) : setting == "system" ? std::string() : setting;
  Congestion result;
  result.system_ = std::move(system);
  if (wanted.empty()) return result;
  RONDO_TRY_ASSIGN(const FileDescriptor probe, probe_socket());
  if (set(probe.get(), wanted)) {
    result.own_ = wanted;
    result.near_only_ = automatic;
  } else if (!automatic) {
    const bool forbidden = errno == EPERM;
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "RONDO_TCP_CONGESTION=" + wanted +
                     (forbidden ? " is not permitted to this process" : " is unknown to this kernel, or not loaded") +
                     "; permitted are auto, system and those of net.ipv4.tcp_allowed_congestion_control: " +
                     permitted_names()};
  }
  return result;
}

void Congestion::begin(int socket) const {
  if (!own_.empty()) static_cast<void>(set(socket, own_));  // make() has checked that the kernel takes it
}

void Congestion::settle(int socket, uint32_t near_limit_us) const {
  if (!near_only_ || congestion_control_of(socket) != own_) return;
  std::array<uint32_t, min_rtt_word + 1> info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, info.data(), &bytes) != 0 || bytes < sizeof info) return;
  if (info[min_rtt_word] > near_limit_us) static_cast<void>(set(socket, system_));
}

std::string Congestion::describe() const {
  const std::string system = "the system's " + (system_.empty() ? "own" : system_);
  if (own_.empty()) return system;
  return near_only_ ? own_ + " to hosts within " + std::to_string(near_us / 1000) + " ms, else " + system : own_;
}

}  // namespace rondo::hosts
