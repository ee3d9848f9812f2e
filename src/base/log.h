// SPDX-License-Identifier: Apache-2.0
// Messages for a person, to standard error: "rondo: warning: rank 3: ...". The function that decides an error logs it,
// once; callers pass it on. RONDO_LOG=error|warning|info|debug, warning by default.
#pragma once

#include <string>

namespace rondo::log {

enum class Level { debug, info, warning, error };

void write(Level level, const std::string &message);
[[nodiscard]] bool enabled(Level level);

inline void debug(const std::string &message) { write(Level::debug, message); }
inline void info(const std::string &message) { write(Level::info, message); }
inline void warning(const std::string &message) { write(Level::warning, message); }
inline void error(const std::string &message) { write(Level::error, message); }

}  // namespace rondo::log
