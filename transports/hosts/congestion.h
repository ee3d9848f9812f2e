// SPDX-License-Identifier: Apache-2.0
// This file sets the congestion control of sockets between hosts (RONDO_TCP_CONGESTION). Congestion control decides
// when the sender's own packets leave, so the two ends may choose differently.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/result.h"

namespace rondo::hosts {

class Congestion {
 public:
  /// The longest round trip to a near host, in microseconds. For near hosts `auto` replaces bbr by cubic, because the
  /// pacing of bbr slows messages of 256 KiB and more there (docs/lab/between-hosts.md). On longer paths bbr stays.
  static constexpr uint32_t near_us = 1000;

  /// Leaves every socket the control that the system and its routes give it.
  Congestion() = default;

  /// Makes the choice that `setting`, a value of RONDO_TCP_CONGESTION, names. `system` is the control of a new socket.
  /// RONDO_ERROR_UNSUPPORTED: the kernel does not have the named control, or does not permit it to this process. The
  /// message lists the permitted controls.
  [[nodiscard]] static Result<Congestion> make(const std::string &setting, std::string system = of_new_sockets());
  [[nodiscard]] static std::string of_new_sockets();  ///< empty if the kernel does not report it

  /// Returns the control that `auto` uses if the system uses `system`, or an empty string if it keeps `system`.
  [[nodiscard]] static std::string instead_of(std::string_view system);

  /// Sets the control of a socket before it listens or connects. An accepted socket inherits the control of its
  /// listener. If a route has a control of its own (`ip route ... congctl`), that control is used instead.
  void begin(int socket) const;

  /// Sets a connected socket back to the system's control if begin() set one for near hosts only and the other host is
  /// not near. A route's own cubic without a lock looks like the cubic of begin(), so it is overridden, too.
  void settle(int socket, uint32_t near_limit_us = near_us) const;

  [[nodiscard]] std::string describe() const;  ///< for people, such as "cubic to hosts within 1 ms"

 private:
  std::string system_;
  std::string own_;         ///< control that begin() sets; empty if it leaves the system's
  bool near_only_ = false;  ///< own_ is for near hosts
};

/// Returns the socket's congestion control, or an empty string if the kernel does not report it.
[[nodiscard]] std::string congestion_control_of(int socket);

}  // namespace rondo::hosts
