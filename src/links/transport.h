// SPDX-License-Identifier: Apache-2.0
// A transport connects one rank of a communicator with the others; src/core/registry.cpp makes it. It owns the rank's
// links, its view of the other ranks, and the flight recorder. Other code gets one of these interfaces, not the
// transport.
#pragma once

#include "src/links/links.h"
#include "src/links/ranks.h"
#include "src/links/recording.h"

namespace rondo {

/// Each getter returns the same object at every call, and that object ends with the transport. The destructor reports
/// to the other ranks that this rank has left.
class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual Links &links() = 0;
  [[nodiscard]] virtual Ranks &ranks() = 0;
  [[nodiscard]] virtual FlightRecorder &recorder() = 0;
};

}  // namespace rondo
