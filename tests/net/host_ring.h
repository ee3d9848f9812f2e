// SPDX-License-Identifier: Apache-2.0
// This file runs the control plane of many hosts in one process and in virtual time. Every connection goes through a
// switch of the test. The switch carries whole cells with delays from a seed, counts them, and cuts connections on
// request.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "src/base/unique_handle.h"
#include "tests/net/scene_ranks.h"
#include "transports/net/control.h"

namespace rondo::net_test {

inline constexpr uint64_t ring_step_ns = 20'000'000;

/// Returns the ranks of the hosts for which `part` is `which`.
[[nodiscard]] std::vector<uint32_t> ranks_of(const std::vector<bool> &part, bool which, uint32_t per_host = 1);

enum class RingDefect { none, no_downs, no_passing_on, all_twice };

/// A ring of hosts with `per_host` ranks each. Ranks are numbered host by host.
class HostRing {
 public:
  struct Plan {
    uint32_t hosts = 6;
    uint32_t per_host = 1;
    uint32_t mesh_max = 4;
    uint64_t seed = 1;
    RingDefect defect = RingDefect::none;
  };
  explicit HostRing(const Plan &plan);

  /// Makes one step of the running hosts and of the switch.
  void step();
  /// Makes steps until the condition holds. Returns false if that takes more than `limit_ns`.
  template <class Condition>
  bool run(uint64_t limit_ns, const Condition &condition) {
    for (const uint64_t until_ns = now_ns_ + limit_ns; now_ns_ < until_ns;) {
      step();
      if (condition()) return true;
    }
    return false;
  }
  /// Says whether every host knows every rank to be alive.
  [[nodiscard]] bool all_met();

  /// Ends all processes of the host.
  void kill(uint32_t host);
  /// Makes all ranks of the host leave.
  void leave(uint32_t host);
  /// Stops the processes of the host, or continues them.
  void set_stopped(uint32_t host, bool stopped) { hosts_[host].stopped = stopped; }
  /// Drops everything that host `from` sends to host `to` from now on. Each end sees the end of the connection after
  /// 1.0 to 1.4 s.
  void cut(uint32_t from, uint32_t to);
  /// Separates two parts. If `one_way`, only what hosts of `part` send to the others is lost.
  void cut_in_two(const std::vector<bool> &part, bool one_way);
  [[nodiscard]] bool joined(uint32_t one, uint32_t other) const { return overlay_.place(one, other).has_value(); }
  /// Delivers to `host` a cell that seems to be from `neighbour`, but is not.
  void say(uint32_t neighbour, uint32_t host, const net::Cell &cell);

  [[nodiscard]] net::Control &control(uint32_t rank) {
    return *hosts_[rank / plan_.per_host].controls[rank % plan_.per_host];
  }
  [[nodiscard]] SceneRanks &ranks(uint32_t host) { return *hosts_[host].ranks; }
  [[nodiscard]] bool running(uint32_t host) const { return !hosts_[host].controls.empty() && !hosts_[host].stopped; }
  [[nodiscard]] uint32_t host_count() const { return plan_.hosts; }
  [[nodiscard]] const net::Overlay &overlay() const { return overlay_; }
  /// Returns the ranks that all running hosts of `part` believe dead, or nothing if these hosts do not agree.
  [[nodiscard]] std::optional<std::vector<uint32_t>> dead_to(const std::vector<bool> &part);
  [[nodiscard]] std::vector<ClockOffset> &clocks() { return clocks_; }

  /// Returns the largest number of times that one direction of one connection carried the same report. Reports are
  /// about ranks, by hosts that are not theirs, or about connections. passed_on() counts all reports about ranks.
  [[nodiscard]] uint32_t most_repeated() const;
  [[nodiscard]] uint32_t passed_on() const { return passed_on_; }
  /// Returns how many times a connection carried a question.
  [[nodiscard]] uint32_t questions() const { return questions_; }
  /// Returns the most cells that a single connection carried to the host.
  [[nodiscard]] uint32_t most_carried_to(uint32_t host) const;
  void forget_counts() { told_.clear(), carried_.clear(), passed_on_ = questions_ = 0; }

 private:
  struct Host {
    std::unique_ptr<SceneRanks> ranks;
    std::vector<std::unique_ptr<net::Control>> controls;  ///< empty after its processes have ended
    bool stopped = false;
  };
  struct Way {
    std::deque<std::pair<uint64_t, Bytes>> cells;  ///< with the time of each cell's arrival
    bool cut = false;
  };
  struct Line {
    std::array<uint32_t, 2> host{};
    std::array<FileDescriptor, 2> ends;        ///< the switch's, by host; none after the host saw the end
    std::array<Way, 2> ways;                   ///< by sending host
    std::array<uint64_t, 2> ends_ns{};         ///< 0 means never
    std::array<bool, 2> closed{};              ///< this host has closed its end
  };
  using Told = std::tuple<uint32_t, uint32_t, std::array<uint64_t, 4>>;  ///< from, to, rank and its state

  void take_in(Line &line, uint32_t side);
  void hand_out(Line &line, uint32_t side);
  void count(uint32_t from, uint32_t to, const Bytes &cell);
  [[nodiscard]] bool drops(uint32_t from, const Bytes &cell) const;
  [[nodiscard]] Line &line_between(uint32_t one, uint32_t other, uint32_t &side);

  Plan plan_;
  net::Overlay overlay_;
  std::mt19937_64 random_;
  std::vector<Host> hosts_;
  std::vector<Line> lines_;
  std::vector<ClockOffset> clocks_;  ///< by host: its latest measurement
  std::map<Told, uint32_t> told_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> carried_;  ///< by sender and receiver
  uint32_t passed_on_ = 0;
  uint32_t questions_ = 0;
  uint64_t now_ns_;
};

}  // namespace rondo::net_test
