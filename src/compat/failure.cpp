// SPDX-License-Identifier: Apache-2.0
#include "src/compat/failure.h"

#include <cstdlib>
#include <mutex>
#include <optional>

#include "src/compat/exports.h"

namespace rondo::compat {
namespace {

constexpr int default_version = 23007;
constexpr int first_version_with_timeout = 23000;
constexpr int version_min = 20000, version_max = 99999;  // numbers are major * 10,000 + minor * 100 + patch

struct LastFailure {
  std::mutex mutex;
  std::string sentence;
};

/// Returns the last failure. It is never destroyed, because threads may read it until the process ends.
LastFailure &kept() {
  static auto *const instance = new LastFailure;
  return *instance;
}

/// Parses a version such as "2.28.9" or "22809".
std::optional<int> parse_version(const char *text) {
  long parts[3] = {};
  int count = 0;
  for (const char *at = text; count < 3; ++at) {
    if (*at < '0' || *at > '9') return std::nullopt;
    char *end = nullptr;
    parts[count++] = std::strtol(at, &end, 10);
    at = end;
    if (*at == '\0') break;
    if (*at != '.') return std::nullopt;
    if (count == 3) return std::nullopt;
  }
  if (count == 3 && (parts[0] > 9 || parts[1] > 99 || parts[2] > 99)) return std::nullopt;
  const long version = count == 3 ? parts[0] * 10'000 + parts[1] * 100 + parts[2] : parts[0];
  if (count == 2 || version < version_min || version > version_max) return std::nullopt;
  return static_cast<int>(version);
}

bool has_timeouts() {
  int version = default_version;
  static_cast<void>(reported_version(&version));
  return version >= first_version_with_timeout;
}

/// Returns whether the reason is an error of the driver: the message then has the error's name.
bool is_of_driver(const std::string &message) { return message.find("CUDA_ERROR_") != std::string::npos; }

}  // namespace

ncclResult_t fail(ncclResult_t result, const std::string &sentence) {
  LastFailure &last = kept();
  const std::lock_guard lock(last.mutex);
  last.sentence = sentence;
  return result;
}

ncclResult_t refuse(const char *function, const std::string &what) {
  return fail(ncclInvalidArgument, std::string(function) + ": " + what);
}

ncclResult_t result_of(rondo_status_t status) {
  switch (status) {
    case RONDO_OK:
      return ncclSuccess;
    case RONDO_ERROR_INVALID_ARGUMENT:
    case RONDO_ERROR_INVALID_HANDLE:
      return ncclInvalidArgument;
    case RONDO_NOT_READY:  // of a ready communicator, which another thread suspends or resumes
    case RONDO_ERROR_UNSUPPORTED:
    case RONDO_ERROR_MISMATCH:
    case RONDO_ERROR_INVALID_USAGE:
    case RONDO_ERROR_REVOKED:
      return ncclInvalidUsage;
    case RONDO_ERROR_REMOTE:
    case RONDO_ERROR_ABORTED:
    case RONDO_ERROR_COMM_FAILED:
      return ncclRemoteError;
    case RONDO_ERROR_TIMEOUT:
      return has_timeouts() ? ncclTimeout : ncclRemoteError;
    case RONDO_ERROR_INTERNAL:
      return ncclInternalError;
    default:
      return ncclSystemError;
  }
}

ncclResult_t pass_on(rondo_status_t status, rondo_comm_t comm) {
  if (status == RONDO_OK) return ncclSuccess;
  rondo_error_t error = RONDO_ERROR_INIT;
  // If the communicator has failed earlier, it has the reason. Otherwise the reason is this thread's last error.
  const rondo_status_t known = rondo_comm_last_error(status == RONDO_ERROR_COMM_FAILED ? comm : nullptr, &error);
  // In a child of fork(), Rondo refuses to write the error, but has its message.
  const std::string message = known == RONDO_OK ? error.message : rondo_last_error_message(nullptr);
  const rondo_status_t reason = error.status == RONDO_OK ? status : error.status;
  const bool driver = is_of_driver(message) && result_of(reason) == ncclSystemError;
  return fail(driver ? ncclUnhandledCudaError : result_of(reason), message);
}

const char *last_failure() {
  LastFailure &last = kept();
  std::string copy;
  {
    const std::lock_guard lock(last.mutex);
    copy = last.sentence;
  }
  return hold_text(copy);
}

const char *hold_text(const std::string &text) {
  thread_local std::string held;
  held = text;
  return held.c_str();
}

ncclResult_t reported_version(int *version) {
  *version = default_version;
  const char *const text = std::getenv("RONDO_NCCL_VERSION");
  if (text == nullptr || *text == '\0') return ncclSuccess;
  const auto parsed = parse_version(text);
  if (!parsed)
    return fail(ncclInvalidUsage, "RONDO_NCCL_VERSION is '" + std::string(text) +
                                      "'; give a release such as 2.28.9, or its number, 22809");
  *version = *parsed;
  return ncclSuccess;
}

}  // namespace rondo::compat

using namespace rondo::compat;

NCCL_EXPORT ncclResult_t ncclGetVersion(int *version) {
  if (version == nullptr) return fail(ncclInvalidArgument, "ncclGetVersion: version is NULL");
  return reported_version(version);
}
NCCL_ALIAS(GetVersion)

/// Returns NCCL's text, for which programs may search, and where Rondo's own message is.
NCCL_EXPORT const char *ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (ncclGetLastError has details)";
    case ncclSystemError:
      return "unhandled system error (ncclGetLastError has details)";
    case ncclInternalError:
      return "internal error (of Rondo; ncclGetLastError has details)";
    case ncclInvalidArgument:
      return "invalid argument (ncclGetLastError has details)";
    case ncclInvalidUsage:
      return "invalid usage (ncclGetLastError has details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error (ncclGetLastError has details)";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclTimeout:
      return "timeout (ncclGetLastError has details)";
  }
  return "unknown result code";
}
NCCL_ALIAS(GetErrorString)
