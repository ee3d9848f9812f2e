// SPDX-License-Identifier: Apache-2.0
// This file measures the silence of a TCP connection by what the kernel knows. The kernel's own TCP_USER_TIMEOUT does
// not suffice. The kernel checks it only when it retransmits, at growing intervals. The timeout also ends a connection
// whose receiver has no room, although the receiver may only be stopped.
#pragma once

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdint>

namespace rondo::net {

inline constexpr uint64_t default_network_timeout_ns = 1'000'000'000;  ///< RONDO_NETWORK_TIMEOUT

/// Returns the kernel's state of a connection, or zeros if the kernel does not report it.
[[nodiscard]] inline tcp_info tcp_state_of(int descriptor) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return {};
  return info;
}

/// Returns how many times in a row the kernel has retransmitted unacknowledged data. If nothing can be sent, as on an
/// interface that is down, returns how many times the kernel has probed the other end for room. Between near hosts, the
/// kernel retransmits or probes after 0.2, 0.6, 1.4 and 3 s. A stopped process is no problem: its kernel answers
/// probes. If one direction is cut, the end whose packets are lost still receives, and detects the cut by this number.
[[nodiscard]] inline uint32_t repeats_in(const tcp_info &info) {
  return info.tcpi_unacked != 0 ? info.tcpi_retransmits : info.tcpi_probes;
}

/// Time without traffic, in seconds, after which the kernel sends a keepalive probe. The probe asks whether the other
/// end is alive. The kernel of a stopped process answers it, too.
inline constexpr int idle_s = 1;

/// Says whether sent or queued data waits for an acknowledgement. If not, the kernel's probes are keepalive probes.
[[nodiscard]] inline bool is_under_way(int descriptor) {
  int unacknowledged = 0;
  return ::ioctl(descriptor, SIOCOUTQ, &unacknowledged) != 0 || unacknowledged != 0;
}

/// Sends the next keepalive probe now, after a probe without an answer. The kernel alone would send it a second later.
inline void ask_again(int descriptor) {
  static_cast<void>(::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s));
}

/// Resets the connection for every process that holds it, and for the other end. A reset leaves at once, while data
/// would queue after unacknowledged data.
inline void reset_connection(int descriptor) {
  const sockaddr nowhere{AF_UNSPEC, {}};
  static_cast<void>(::connect(descriptor, &nowhere, sizeof nowhere));
}

/// The number of checks or retransmissions in a row, without an acknowledgement, after which a connection is lost.
struct SilenceLimits {
  uint32_t looks = 0;    ///< checks that see unacknowledged data
  uint32_t repeats = 0;  ///< retransmissions in vain, see repeats_in()
  uint32_t probes = 0;   ///< probes without an answer, one per check
};

/// Returns the limits for a silence of `patience_ns`, with a check every `interval_ns`. After each retransmission the
/// kernel waits twice as long, up to two minutes.
[[nodiscard]] constexpr SilenceLimits silence_limits(uint64_t patience_ns, uint64_t interval_ns) {
  constexpr uint64_t first_pause_ns = 200'000'000, pause_max_ns = 120'000'000'000;
  SilenceLimits limits;
  limits.looks = static_cast<uint32_t>((patience_ns + interval_ns - 1) / interval_ns);
  limits.probes = limits.looks - 1;
  uint64_t begun_ns = 0;
  for (uint64_t pause_ns = first_pause_ns; begun_ns < patience_ns; ++limits.repeats) {  // bounded by the patience
    begun_ns += pause_ns;
    pause_ns = pause_ns * 2 < pause_max_ns ? pause_ns * 2 : pause_max_ns;
  }
  return limits;
}

/// Checks a connection at intervals. It counts checks instead of the time since the last acknowledgement, because that
/// time also grows when nothing was sent. It grows, too, if this process or the machine stood still and the kernel has
/// not processed what arrived since.
class SilenceWatch {
 public:
  /// Returns true if `limits.looks` checks in a row, including this one, saw unacknowledged data and no acknowledgement
  /// in between. It also returns true after `limits.repeats` retransmissions, or if keepalive probes had no answer.
  [[nodiscard]] bool look(int descriptor, uint64_t now_ns, const SilenceLimits &limits) {
    constexpr uint64_t ms_ns = 1'000'000, tick_ms = 10;  // the kernel counts in ticks
    const tcp_info info = tcp_state_of(descriptor);
    repeats_ = repeats_in(info);
    if (info.tcpi_unacked == 0) unacknowledged_since_ns_ = 0;
    else if (unacknowledged_since_ns_ == 0) unacknowledged_since_ns_ = now_ns;
    unacknowledged_ns_ = unacknowledged_since_ns_ != 0 ? now_ns - unacknowledged_since_ns_ : 0;
    const bool heard = looks_ != 0 && info.tcpi_last_ack_recv + tick_ms < (now_ns - begun_ns_) / ms_ns;
    if (looks_ == 0 || heard) {
      begun_ns_ = now_ns;
      looks_ = 0;
    }
    looks_ = info.tcpi_unacked != 0 ? looks_ + 1 : 0;
    if (looks_ >= limits.looks) return true;
    if (info.tcpi_unacked != 0 || info.tcpi_probes == 0 || is_under_way(descriptor))
      return repeats_in(info) >= limits.repeats;
    if (info.tcpi_probes < limits.probes) ask_again(descriptor);
    return info.tcpi_probes >= limits.probes;
  }
  /// Returns repeats_in() at the latest check. It is kept because the kernel forgets it when the other end resets the
  /// connection.
  [[nodiscard]] uint32_t repeats() const { return repeats_; }
  /// Returns the time between the first and the latest check in a row that saw unacknowledged data. It is 0 with fewer
  /// than two such checks. Packets from the other end that acknowledge nothing new do not reset it. So the time also
  /// grows if this end hears the other one but is not heard.
  [[nodiscard]] uint64_t unacknowledged_ns() const { return unacknowledged_ns_; }

 private:
  uint64_t begun_ns_ = 0;
  uint32_t looks_ = 0;
  uint32_t repeats_ = 0;
  uint64_t unacknowledged_since_ns_ = 0;  ///< 0: the latest check saw no unacknowledged data
  uint64_t unacknowledged_ns_ = 0;
};

}  // namespace rondo::net
