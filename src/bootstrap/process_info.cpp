// SPDX-License-Identifier: Apache-2.0
// What /proc tells of processes.
#include "src/bootstrap/process_info.h"

#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <charconv>

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

/// Field `wanted` of text separated by single spaces, from 0.
std::optional<uint64_t> field(std::string_view text, int wanted) {
  for (int at = 0; at < wanted; ++at) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    text.remove_prefix(space + 1);
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');  // a name may hold spaces and parentheses
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  if (text.size() < close + 2) return std::nullopt;
  const std::string_view rest = text.substr(close + 2);  // state ppid pgrp ...; starttime is the 22nd of all
  const auto parent = field(rest, 1);
  const auto start = field(rest, 19);
  if (!parent || !start || *parent > 0x7fff'ffff) return std::nullopt;
  return ProcessStat{std::string(text.substr(open + 1, close - open - 1)), static_cast<pid_t>(*parent), *start};
}

std::optional<ProcessStat> process_stat(pid_t pid) {
  return parse_process_stat(read_small_file("/proc/" + std::to_string(pid) + "/stat"));
}

std::array<std::byte, 16> boot_digest() {
  const std::string text = read_small_file("/proc/sys/kernel/random/boot_id");
  std::array<std::byte, 16> digest;
  crypto_generichash(reinterpret_cast<unsigned char *>(digest.data()), digest.size(),
                     reinterpret_cast<const unsigned char *>(text.data()), text.size(), nullptr, 0);
  return digest;
}

std::string launcher_process() {
  const pid_t parent = ::getppid();
  pid_t chosen = parent;
  pid_t pid = parent;
  for (int at = 0; at < ancestors_max && pid > 1; ++at) {
    const auto stat = process_stat(pid);
    if (!stat) break;
    if (stat->name == proxy_name) {
      chosen = pid;
      break;
    }
    pid = stat->parent;
  }
  const auto stat = process_stat(chosen);
  return std::to_string(chosen) + "-" + std::to_string(stat ? stat->start_ticks : 0);
}

}  // namespace rondo
