// SPDX-License-Identifier: Apache-2.0
// This file writes messages for people, one line each:
//
//     2026-11-23T03:10:06.123456Z node1:4711 rank 3 rondo: warning: transport: ...
//
// A line has the time (UTC), host:process, the rank that the message is about ("-" if unknown), level, subsystem and
// message. The function that finds an error logs it once, and its callers only return the error. RONDO_LOG selects the
// messages, and RONDO_LOG_FILE their destination. This file reads both variables itself, since the log must work before
// a Config exists. The Config checks them again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/result.h"

namespace rondo::log {

enum class Level { debug, info, warning, error };

enum class Subsystem { config, bootstrap, topology, transport, plan, memory, device, failure };
inline constexpr size_t subsystem_count = 8;

/// The lowest level that is written, for each subsystem.
struct Filter {
  std::array<Level, subsystem_count> least = [] {
    std::array<Level, subsystem_count> all;
    all.fill(Level::warning);
    return all;
  }();

  bool operator==(const Filter &) const = default;
};

/// Parses a filter such as "info", "info,bootstrap=debug" or "plan=debug". A level for all subsystems comes first, if
/// there is one. Levels for single subsystems override it. The case of letters does not matter.
[[nodiscard]] Result<Filter> parse_filter(std::string_view text);

/// Returns the path that `pattern`, a value of RONDO_LOG_FILE, stands for. %h is the host, %p the process, and %% a
/// percent sign. Other sequences that begin with % are errors.
[[nodiscard]] Result<std::string> file_path(std::string_view pattern, std::string_view host, int64_t process);

/// Fails if RONDO_LOG_FILE is set and could not be opened. Messages then go to standard error.
[[nodiscard]] Result<void> check_file();

/// The subject of a message.
struct Source {
  Source(Subsystem subsystem_of, int64_t rank_of = -1) : subsystem(subsystem_of), rank(rank_of) {}  // NOLINT: implicit

  Subsystem subsystem;
  int64_t rank;  ///< -1 for the rank of set_process_rank(), if any
};

/// Sets the rank for messages that name none. Call it if a launcher says which rank this process is.
void set_process_rank(uint32_t rank);

void write(Level level, Source source, const std::string &message);
[[nodiscard]] bool enabled(Level level, Subsystem subsystem);

inline void debug(Source source, const std::string &message) { write(Level::debug, source, message); }
inline void info(Source source, const std::string &message) { write(Level::info, source, message); }
inline void warning(Source source, const std::string &message) { write(Level::warning, source, message); }
inline void error(Source source, const std::string &message) { write(Level::error, source, message); }

}  // namespace rondo::log
