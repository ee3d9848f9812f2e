// SPDX-License-Identifier: Apache-2.0
#include "src/base/kernel_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <limits>

#include "src/base/unique_handle.h"
#include "src/base/user_file.h"

namespace rondo {
namespace {

/// Returns the number in field `wanted` of `text`. Fields are counted from 0, and separated by single spaces.
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

std::string read_kernel_file(const std::string &path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!file.valid() || read_open_file(file.get(), std::numeric_limits<size_t>::max() - 1, text)) text.clear();
  return text;
}

std::string read_kernel_line(const std::string &path) {
  std::string text = read_kernel_file(path);
  if (const size_t end = text.find('\n'); end != text.npos) text.resize(end);
  return text;
}

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');  // the name before it may contain spaces and parentheses
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  if (text.size() < close + 3) return std::nullopt;
  const std::string_view rest = text.substr(close + 2);  // state ppid pgrp ...; starttime is field 22
  const auto parent = field(rest, 1);
  const auto thread_count = field(rest, 17);
  const auto start = field(rest, 19);
  if (!parent || !thread_count || !start || *parent > 0x7fff'ffff) return std::nullopt;
  return ProcessStat{std::string(text.substr(open + 1, close - open - 1)), static_cast<pid_t>(*parent), *start, rest[0],
                     *thread_count};
}

bool proc_has_own_numbers() {
  std::array<char, 16> number{};
  const ssize_t length = ::readlink("/proc/self", number.data(), number.size());
  return length > 0 && std::string_view(number.data(), static_cast<size_t>(length)) == std::to_string(::getpid());
}

std::optional<ProcessStat> process_stat(pid_t pid) {
  if (!proc_has_own_numbers()) return std::nullopt;
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> buffer;
  const ssize_t count = file.valid() ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
  return count > 0 ? parse_process_stat({buffer.data(), static_cast<size_t>(count)}) : std::nullopt;
}

ProcessName own_process() {
  const auto stat = process_stat(::getpid());
  return {static_cast<uint64_t>(::getpid()), stat ? stat->start_ticks : 0};
}

}  // namespace rondo
