// SPDX-License-Identifier: Apache-2.0
#include "src/base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "src/base/parse.h"
#include "src/base/process_object.h"
#include "src/base/spelling.h"
#include "src/base/signals_absorbed.h"
#include "src/base/unique_handle.h"

namespace rondo::log {
namespace {

constexpr std::array level_names{"debug", "info", "warning", "error"};
constexpr std::array<const char *, subsystem_count> subsystem_names{
    "config", "bootstrap", "topology", "transport", "plan", "memory", "device", "failure"};

std::string host() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

/// Returns the index of `text` in `names`. The case of letters does not matter.
std::optional<size_t> find_name(std::span<const char *const> names, std::string_view text) {
  for (size_t index = 0; index < names.size(); ++index)
    if (equal_in_any_case(names[index], text)) return index;
  return std::nullopt;
}

std::string listed(std::span<const char *const> names) {
  std::string list;
  for (const char *name : names) list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

Result<Level> parse_level(std::string_view text) {
  if (const auto index = find_name(level_names, text)) return static_cast<Level>(*index);
  return invalid_argument(in_quotes(text) + " is not a known level" + known_are(text, listed(level_names)));
}

std::string_view variable(const char *name) {
  const char *value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// Writes lines to a descriptor. If a line cannot be written, it is lost: the log raises no signal and stops no rank.
class Sink {
 public:
  /// Makes later lines go to the file instead of standard error. `path` names the file in a message about a lost line.
  void use(FileDescriptor file, std::string path) {
    own_ = std::move(file);
    path_ = std::move(path);
  }

  /// Writes a whole line. Any thread may call it. Lines are not buffered, so the last lines of a killed process are in
  /// the file.
  void write(std::string_view line) {
    const std::lock_guard lock(mutex_);
    const SignalsAbsorbed absorbed;
    const int error = write_all(own_.valid() ? own_.get() : STDERR_FILENO, line);
    if (error != 0 && error_ == 0 && own_.valid()) {
      const std::string why = "rondo: warning: config: RONDO_LOG_FILE: lines are lost: cannot write " +
                              in_quotes(path_) + ": " + std::strerror(error) + "\n";
      static_cast<void>(write_all(STDERR_FILENO, why));
    }
    error_ = error;
  }

 private:
  /// Writes the text. If the reader is slow, the function waits up to a second, unless the previous line could not be
  /// written. Returns errno, or 0.
  int write_all(int descriptor, std::string_view text) const {
    constexpr int patience_ms = 1000;
    for (size_t done = 0; done < text.size();) {  // each iteration writes, waits once, or ends
      const ssize_t written = ::write(descriptor, text.data() + done, text.size() - done);
      if (written > 0) done += static_cast<size_t>(written);
      if (written >= 0 || errno == EINTR) continue;
      const int error = errno;
      pollfd ready{descriptor, POLLOUT, 0};
      if (error != EAGAIN || error_ != 0 || ::poll(&ready, 1, patience_ms) <= 0) return error;
    }
    return 0;
  }

  std::mutex mutex_;
  FileDescriptor own_;  ///< invalid for standard error
  std::string path_;
  int error_ = 0;  ///< error of the latest line
};

/// Returns why open() failed with ENXIO, as text for a message.
const char *not_opened(const std::string &path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return std::strerror(ENXIO);
  if (S_ISFIFO(about.st_mode)) return "it is a FIFO that no program reads";
  return S_ISSOCK(about.st_mode) ? "it is a socket, which cannot be opened as a file" : std::strerror(ENXIO);
}

/// Returns the current time in UTC, as "2026-11-23T03:10:06.123456Z".
std::string time_text() {
  timespec now{};
  tm parts{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  ::gmtime_r(&now.tv_sec, &parts);
  std::array<char, 64> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text.data() + size, text.size() - size, ".%06ldZ", now.tv_nsec / 1000);
  return text.data();
}

struct Log {
  const std::string host_name = host();
  Filter filter;
  Sink sink;
  Result<void> file;
  std::atomic<int64_t> process_rank{-1};  // relaxed: no other data depends on it

  Log() {
    if (auto wanted = parse_filter(variable("RONDO_LOG")); wanted.ok()) filter = wanted.value();
    if (const std::string_view pattern = variable("RONDO_LOG_FILE"); !pattern.empty()) file = open(pattern);
  }

  Result<void> open(std::string_view pattern) {
    RONDO_TRY_ASSIGN(const std::string path, file_path(pattern, host_name, ::getpid()));
    const auto refuse = [&path](const char *why) {
      return invalid_argument("the file " + in_quotes(path) + " cannot be written (" + why +
                              "); name one in a folder that exists and that you may write to");
    };
    // O_NONBLOCK: if it is a FIFO, do not wait for a reader.
    constexpr int flags = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    FileDescriptor opened(::open(path.c_str(), flags, 0666));
    if (!opened.valid()) return refuse(errno == ENXIO ? not_opened(path) : std::strerror(errno));
    sink.use(std::move(opened), path);
    return {};
  }
};

/// Returns the log. A child of fork() makes its own, because its parent's file is closed in the child.
Log &instance() {
  static constinit ProcessObject<Log> log;
  static const int handler = ::pthread_atfork(nullptr, nullptr, [] { log.forget(); });
  static_cast<void>(handler);
  return log.get();
}

}  // namespace

Result<Filter> parse_filter(std::string_view text) {
  Filter filter;
  bool first = true;
  while (!text.empty()) {  // each iteration takes one entry
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view entry = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = entry.find('=');
    if (equals == entry.npos) {
      RONDO_TRY_ASSIGN(const Level level, parse_level(entry));
      if (!first)
        return invalid_argument(in_quotes(entry) + " is a level for all, which comes first, as in info,plan=debug");
      filter.least.fill(level);
    } else {
      const auto subsystem = find_name(subsystem_names, entry.substr(0, equals));
      if (!subsystem)
        return invalid_argument(in_quotes(entry.substr(0, equals)) +
                                " is not a known subsystem" +
                                known_are(entry.substr(0, equals), listed(subsystem_names)));
      RONDO_TRY_ASSIGN(filter.least[*subsystem], parse_level(entry.substr(equals + 1)));
    }
    first = false;
  }
  return filter;
}

Result<std::string> file_path(std::string_view pattern, std::string_view host, int64_t process) {
  std::string path;
  for (size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '%') {
      path += pattern[at];
      continue;
    }
    const char letter = at + 1 < pattern.size() ? pattern[at + 1] : '\0';
    if (letter != 'h' && letter != 'p' && letter != '%')
      return invalid_argument(in_quotes(pattern) +
                              " has a % that is none of: %h (host), %p (process), %% (a percent sign)");
    path += letter == 'h' ? std::string(host) : letter == 'p' ? std::to_string(process) : "%";
    ++at;
  }
  return path;
}

Result<void> check_file() { return instance().file; }

void set_process_rank(uint32_t rank) { instance().process_rank.store(rank, std::memory_order_relaxed); }

void write(Level level, Source source, const std::string &message) {
  if (!enabled(level, source.subsystem)) return;
  Log &log = instance();
  const int64_t rank = source.rank >= 0 ? source.rank : log.process_rank.load(std::memory_order_relaxed);
  log.sink.write(time_text() + " " + log.host_name + ":" + std::to_string(::getpid()) + " rank " +
                 (rank >= 0 ? std::to_string(rank) : "-") + " rondo: " + level_names[static_cast<size_t>(level)] +
                 ": " + subsystem_names[static_cast<size_t>(source.subsystem)] + ": " + message + "\n");
}

bool enabled(Level level, Subsystem subsystem) {
  return level >= instance().filter.least[static_cast<size_t>(subsystem)];
}

}  // namespace rondo::log
