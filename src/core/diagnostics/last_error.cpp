// SPDX-License-Identifier: Apache-2.0
#include "src/core/diagnostics/last_error.h"

#include <exception>

namespace rondo {
namespace {

Error &slot() noexcept {
  static thread_local Error error{RONDO_OK, {}};
  return error;
}

}  // namespace

rondo_status_t fail(const Error &error) noexcept {
  Error &kept = slot();
  kept.status = error.status;
  kept.rank = error.rank;
  kept.peer = error.peer;
  kept.operation = error.operation;
  try {
    kept.message = error.message;
  } catch (const std::exception &) {
    kept.message.clear();
  }
  return error.status;
}

const char *hold_message(const std::string &message) noexcept {
  static thread_local std::string held;
  try {
    held = message;
  } catch (const std::exception &) {
    return "out of memory";
  }
  return held.c_str();
}

const Error &last_error() noexcept { return slot(); }

}  // namespace rondo
