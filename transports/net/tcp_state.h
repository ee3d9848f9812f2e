// SPDX-License-Identifier: Apache-2.0
// This file reads what the kernel knows of a TCP connection. The kernel's own limit (TCP_USER_TIMEOUT) is no measure of
// silence. The kernel checks it only when it retransmits, at growing intervals. It also counts the time in which a
// receiver has no room, as a stopped process has none.
#pragma once

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdint>

namespace rondo::net {

inline constexpr uint64_t default_network_timeout_ns = 1'000'000'000;  ///< RONDO_NETWORK_TIMEOUT

/// Returns zeros if the kernel does not say.
[[nodiscard]] inline tcp_info tcp_state_of(int descriptor) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return {};
  return info;
}

/// Returns how often in a row the kernel sent unacknowledged data again. If nothing can be sent, for instance on an
/// interface that is down, returns how often it probed the other end for room. It does either after 0.2, 0.6, 1.4 and 3
/// s between near hosts. A stopped process without room is probed, too, but its kernel answers. If only one direction
/// is cut, the end whose packets are lost still receives from the other, and detects the cut by this number.
[[nodiscard]] inline uint32_t repeats_in(const tcp_info &info) {
  return info.tcpi_unacked != 0 ? info.tcpi_retransmits : info.tcpi_probes;
}

/// The kernel asks the other end of a connection with nothing under way whether it is alive (a keepalive probe) when
/// nothing has arrived for this long. The kernel of a stopped process answers, too.
inline constexpr int idle_s = 1;

/// Returns false if nothing is sent that has to be acknowledged, so that the probes are keepalive probes.
[[nodiscard]] inline bool is_under_way(int descriptor) {
  int unacknowledged = 0;
  return ::ioctl(descriptor, SIOCOUTQ, &unacknowledged) != 0 || unacknowledged != 0;
}

/// Lets the next keepalive probe leave now, and not after a second more, after one had no answer.
inline void ask_again(int descriptor) {
  static_cast<void>(::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s));
}

/// Ends the connection for every process that holds it, and for the other end, which sees a reset. Data would wait
/// behind what is not acknowledged, but a reset leaves at once.
inline void reset_connection(int descriptor) {
  const sockaddr nowhere{AF_UNSPEC, {}};
  static_cast<void>(::connect(descriptor, &nowhere, sizeof nowhere));
}

/// The limits say how often in a row checks may find that nothing is acknowledged.
struct SilenceLimits {
  uint32_t looks = 0;    ///< that see what is not acknowledged
  uint32_t repeats = 0;  ///< of what was sent in vain, see repeats_in()
  uint32_t probes = 0;   ///< without an answer, one at each look
};

/// Returns the limits for silence that lasts `patience_ns`, with a look every `interval_ns`. The kernel waits twice as
/// long after each repeat, two minutes at most.
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

/// Checks a connection at intervals. It counts the checks, and not the time since the last acknowledgement. That time
/// is long if nothing was sent for long. It is also long if this process or the machine stood still, whose kernel may
/// have yet to take in what arrived meanwhile.
class SilenceWatch {
 public:
  /// Returns true if `limits.looks` checks in a row, this one too, have seen what was not acknowledged, with no
  /// acknowledgement between them. Also if it was sent again `limits.repeats` times, or keepalive probes have had no
  /// answer.
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
  /// Returns repeats_in() at the latest look: the kernel forgets it when the other end resets the connection.
  [[nodiscard]] uint32_t repeats() const { return repeats_; }
  /// Returns the time from the first to the latest check in a row that has seen what was not acknowledged. It is 0
  /// unless at least two have. Packets that acknowledge nothing new do not matter here, so the time grows at an end
  /// that is not heard but hears the other.
  [[nodiscard]] uint64_t unacknowledged_ns() const { return unacknowledged_ns_; }

 private:
  uint64_t begun_ns_ = 0;
  uint32_t looks_ = 0;
  uint32_t repeats_ = 0;
  uint64_t unacknowledged_since_ns_ = 0;  ///< 0: the latest check saw nothing of that kind
  uint64_t unacknowledged_ns_ = 0;
};

}  // namespace rondo::net
