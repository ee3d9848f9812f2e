// SPDX-License-Identifier: Apache-2.0
// The congestion control of sockets between hosts (RONDO_TCP_CONGESTION). It decides when a sender's own packets leave,
// so each end chooses for itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/result.h"

namespace rondo::hosts {

class Congestion {
 public:
  /// Near hosts have at most this round trip. For them `auto` takes cubic in place of bbr. bbr paces packets, which
  /// slows messages of 256 KiB and more between them (docs/lab/between-hosts.md). Over longer paths bbr stays.
  static constexpr uint32_t near_us = 1000;

  /// Every socket keeps the control that the system and its routes give it.
  Congestion() = default;

  /// Makes the choice that `setting` names, as RONDO_TCP_CONGESTION has it. A new socket has `system`.
  /// RONDO_ERROR_UNSUPPORTED: the kernel does not have that choice, or does not permit it to this process. The message
  /// lists what it permits.
  [[nodiscard]] static Result<Congestion> make(const std::string &setting, std::string system = of_new_sockets());
  [[nodiscard]] static std::string of_new_sockets();  ///< empty if the kernel does not report it

  /// Returns what `auto` takes where the system has `system`, or an empty string if it keeps `system`.
  [[nodiscard]] static std::string instead_of(std::string_view system);

  /// Sets a socket that neither listens nor connects yet. What a listener accepts begins like the listener. A route's
  /// own congestion control (`ip route ... congctl`) overrides it.
  void begin(int socket) const;

  /// Sets a connected socket back to the system's control if the choice is for near hosts and its host is not near. It
  /// cannot distinguish that choice from a route's cubic that is not locked.
  void settle(int socket, uint32_t near_limit_us = near_us) const;

  [[nodiscard]] std::string describe() const;  ///< for people, such as "cubic to hosts within 1 ms"

 private:
  std::string system_;
  std::string own_;         ///< empty: the system's
  bool near_only_ = false;  ///< own_ is for near hosts
};

/// Returns the socket's congestion control, or an empty string if the kernel does not report it.
[[nodiscard]] std::string congestion_control_of(int socket);

}  // namespace rondo::hosts
