// SPDX-License-Identifier: Apache-2.0
#include "src/api/boundary.h"

#include <exception>

namespace rondo {
namespace {

struct Slot {
  Error error{RONDO_OK, {}};
  rondo_comm_t comm = nullptr;  ///< communicator of the call, or null if the call had none
};

Slot &slot() noexcept {
  static thread_local Slot kept;
  return kept;
}

}  // namespace

rondo_status_t fail(const Error &error) noexcept {
  slot().comm = nullptr;
  Error &kept = slot().error;
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

const Error &last_error() noexcept { return slot().error; }

void set_failed_communicator(rondo_comm_t comm) noexcept { slot().comm = comm; }

const Error *last_refusal(rondo_comm_t comm) noexcept {
  if (comm == nullptr || slot().comm != comm) return nullptr;
  switch (slot().error.status) {
    case RONDO_ERROR_INVALID_ARGUMENT:
    case RONDO_ERROR_INVALID_USAGE:
    case RONDO_ERROR_UNSUPPORTED:
    case RONDO_ERROR_OUT_OF_RESOURCES:
    case RONDO_ERROR_SYSTEM:
      return &slot().error;
    default:
      return nullptr;
  }
}

}  // namespace rondo
