// SPDX-License-Identifier: Apache-2.0
// src/core/registry.cpp makes a transport for one rank of a communicator. It owns the rank's links, its view of the
// other ranks, and the flight recorder. A part of the core takes the one interface that it needs, not the owner.
#pragma once

#include "src/links/flight_recorder.h"
#include "src/links/links.h"
#include "src/links/ranks.h"

namespace rondo {

/// The three objects are the same at every call, and end with the transport. Its destructor reports to the other ranks
/// that this one has left.
class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual Links &links() = 0;
  [[nodiscard]] virtual Ranks &ranks() = 0;
  [[nodiscard]] virtual FlightRecorder &recorder() = 0;
};

}  // namespace rondo
