// SPDX-License-Identifier: Apache-2.0
#include "src/base/names.h"

namespace rondo {

std::string version_text() {
  return std::to_string(RONDO_VERSION_MAJOR) + "." + std::to_string(RONDO_VERSION_MINOR) + "." +
         std::to_string(RONDO_VERSION_PATCH);
}

}  // namespace rondo
