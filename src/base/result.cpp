// SPDX-License-Identifier: Apache-2.0
#include "src/base/result.h"

#include <cerrno>
#include <system_error>

namespace rondo {

bool ran_out(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOMEM || error_number == ENOBUFS;
}

Error system_error(const std::string &what, int error_number) {
  const bool descriptors = error_number == EMFILE || error_number == ENFILE;
  return {ran_out(error_number) ? RONDO_ERROR_OUT_OF_RESOURCES : RONDO_ERROR_SYSTEM,
          what + ": " + std::generic_category().message(error_number) +
              (descriptors ? "; raise the limit on descriptors (ulimit -n), or close some" : "")};
}

}  // namespace rondo
