// SPDX-License-Identifier: Apache-2.0
// A transport connects one rank of a communicator with the other ranks. src/core/registry.cpp makes it. It owns the
// interfaces to the rank's links, to the other ranks and to the flight recorder. Other code gets one of these
// interfaces, and not the transport.
#pragma once

#include "src/links/links.h"
#include "src/links/ranks.h"
#include "src/links/recording.h"

namespace rondo {

/// The owner of the interfaces. Each getter always returns the same object, which ends with the transport. The
/// destructor reports to the other ranks that this rank has left.
class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual Links &links() = 0;
  [[nodiscard]] virtual Ranks &ranks() = 0;
  [[nodiscard]] virtual FlightRecorder &recorder() = 0;
};

}  // namespace rondo
