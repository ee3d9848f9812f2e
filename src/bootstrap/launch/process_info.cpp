// SPDX-License-Identifier: Apache-2.0
// This file reads facts about processes from /proc.
#include "src/bootstrap/launch/process_info.h"

#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>

#include "src/base/unique_handle.h"

namespace rondo {
namespace {

constexpr std::string_view proxy_name = "hydra_pmi_proxy";
constexpr int ancestors_max = 64;

std::string read_small_file(const std::string &path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> buffer;
  const ssize_t count = file.valid() ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
  return count > 0 ? std::string(buffer.data(), static_cast<size_t>(count)) : std::string();
}

/// Returns the nearest ancestor that is MPICH's proxy.
std::optional<pid_t> nearest_proxy() {
  pid_t pid = ::getppid();
  for (int at = 0; at < ancestors_max && pid > 1; ++at) {
    const auto stat = process_stat(pid);
    if (!stat) break;
    if (stat->name == proxy_name) return pid;
    pid = stat->parent;
  }
  return std::nullopt;
}

}  // namespace

std::array<std::byte, 16> boot_digest() {
  std::array<char, 64> processes{};  // "pid:[4026531836]"; zeros if /proc has no entry
  [[maybe_unused]] const ssize_t length = ::readlink("/proc/self/ns/pid", processes.data(), processes.size() - 1);
  const std::string text = read_small_file("/proc/sys/kernel/random/boot_id") + processes.data();
  std::array<std::byte, 16> digest;
  crypto_generichash(reinterpret_cast<unsigned char *>(digest.data()), digest.size(),
                     reinterpret_cast<const unsigned char *>(text.data()), text.size(), nullptr, 0);
  return digest;
}

std::string launcher_process() {
  const pid_t chosen = nearest_proxy().value_or(::getppid());
  const auto stat = process_stat(chosen);
  return std::to_string(chosen) + "-" + std::to_string(stat ? stat->start_ticks : 0);
}

std::string parse_control_port(std::string_view command_line) {
  bool next = false;
  while (!command_line.empty()) {
    const std::string_view argument = command_line.substr(0, command_line.find('\0'));
    if (next) return std::string(argument);
    next = argument == "--control-port";
    command_line.remove_prefix(std::min(argument.size() + 1, command_line.size()));
  }
  return {};
}

std::string launcher_address() {
  const auto proxy = nearest_proxy();
  return proxy ? parse_control_port(read_small_file("/proc/" + std::to_string(*proxy) + "/cmdline")) : "";
}

}  // namespace rondo
