// SPDX-License-Identifier: Apache-2.0
#include "src/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

namespace rondo::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug: return spdlog::level::debug;
    case Level::info: return spdlog::level::info;
    case Level::warning: return spdlog::level::warn;
    case Level::error: return spdlog::level::err;
  }
  return spdlog::level::err;
}

/// Ours alone: it is not entered in spdlog's registry, so an application's own use of spdlog is not disturbed. Never
/// destroyed: our threads may still run while the process exits.
spdlog::logger &logger() {
  static spdlog::logger *const instance = [] {
    auto *const made = new spdlog::logger("rondo", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("rondo: %l: %v");
    const char *wanted = std::getenv("RONDO_LOG");
    made->set_level(wanted == nullptr ? spdlog::level::warn : spdlog::level::from_str(wanted));
    return made;
  }();
  return *instance;
}

}  // namespace

void write(Level level, const std::string &message) { logger().log(to_spdlog(level), message); }

bool enabled(Level level) { return logger().should_log(to_spdlog(level)); }

}  // namespace rondo::log
