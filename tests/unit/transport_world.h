// SPDX-License-Identifier: Apache-2.0
// The suite of transports runs over these groups:
// - ranks of one host
// - ranks of two hosts, here threads of one process with a segment for each "host" and TCP between them
// - ranks of one host in the seeded world of tests/sim, whose stores are seen at once or late
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/bootstrap/store/store.h"
#include "src/memory/segment_table.h"
#include "tests/sim/sim_transport.h"
#include "src/links/transport.h"

namespace rondo_test {

inline constexpr uint64_t patience_ns = 60'000'000'000;  // tests end much earlier unless something is broken
inline constexpr uint32_t channel_count = 2;

enum class Seeded { no, prompt_stores, late_stores };

struct WorldKind {
  const char *name;
  std::vector<uint32_t> node_of;  ///< by rank
  Seeded seeded = Seeded::no;
};

[[nodiscard]] const std::vector<WorldKind> &world_kinds();

/// The first value of all counters of links. With before_wrap, they soon exceed 32 bits.
enum class Counters : uint64_t { from_zero = 0, before_wrap = (uint64_t{1} << 32) - 3 };

/// A group whose ranks are on the nodes of the kind, with a transport for each rank.
class World {
 public:
  /// Makes the group. `mortal` is a rank that can be killed: a separate process, which does nothing.
  explicit World(const WorldKind &kind, std::optional<uint32_t> mortal = {}, Counters counters = Counters::from_zero);
  ~World();

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(node_of_.size()); }
  [[nodiscard]] uint32_t node_of(uint32_t rank) const { return node_of_[rank]; }
  [[nodiscard]] uint64_t first_counter() const { return static_cast<uint64_t>(counters_); }
  [[nodiscard]] rondo::Links &links(uint32_t rank) { return transports_[rank]->links(); }
  [[nodiscard]] rondo::Ranks &ranks(uint32_t rank) { return transports_[rank]->ranks(); }
  [[nodiscard]] rondo::FlightRecorder &recorder(uint32_t rank) { return transports_[rank]->recorder(); }

  /// Lets `rank` leave, as when its communicator is destroyed.
  void leave(uint32_t rank);
  void kill(uint32_t rank);
  /// Makes progress. Links between hosts move only while their ranks make progress, and late stores only while time
  /// passes. The rank `silent` makes no progress.
  void progress(std::optional<uint32_t> silent = {});
  /// Runs `body`, which makes calls of the rank. In a seeded world, the rank's earlier posts become visible meanwhile.
  void act(uint32_t rank, const std::function<void()> &body);

 private:
  void fork_mortal();
  void begin_counters();
  void connect_all(const rondo::Endpoint &endpoint);
  rondo::Result<void> connect(uint32_t rank, const rondo::Endpoint &endpoint);
  void in_fiber(uint32_t rank, const std::function<void()> &body);

  const std::vector<uint32_t> node_of_;
  const std::optional<uint32_t> mortal_;
  const Counters counters_;
  const rondo::Secret secret_ = rondo::random_secret();
  pid_t child_ = -1;
  int to_child_ = -1;
  rondo::SegmentTable segments_;
  rondo::sim::StackPool stacks_;
  rondo::sim::LifePlan plan_;
  std::unique_ptr<rondo::sim::Scheduler> scheduler_;
  std::unique_ptr<rondo::sim::SimHost> host_;  ///< null if not seeded
  std::vector<std::unique_ptr<rondo::Transport>> transports_;
};

}  // namespace rondo_test
