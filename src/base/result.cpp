// SPDX-License-Identifier: Apache-2.0
#include "src/base/result.h"

#include <system_error>

namespace rondo {

Error system_error(const std::string &what, int error_number) {
  return {RONDO_ERROR_SYSTEM, what + ": " + std::generic_category().message(error_number)};
}

}  // namespace rondo
