// SPDX-License-Identifier: Apache-2.0
// This class runs the one-sided operations of a rank on host memory, one batch at a time.
#pragma once

#include <cstdint>
#include <span>

#include "src/engine/one_sided.h"
#include "src/engine/operations.h"
#include "src/engine/waiter.h"
#include "src/links/links.h"

namespace rondo {

class HostOneSided {
 public:
  /// Takes links that have signals and are open for messages. They must outlive this object.
  HostOneSided(Links &links, const WaitPolicy &wait) : links_(links), wait_(wait) {}

  /// Runs operations whose turn has come. Returns false if the communicator has failed.
  [[nodiscard]] bool run(std::span<const OneSided> operations, Operations &owner);

 private:
  [[nodiscard]] bool send(const OneSided &operation, Operations &owner);
  [[nodiscard]] bool wait(const OneSided &operation, Operations &owner);

  Links &links_;
  const WaitPolicy wait_;
};

}  // namespace rondo
