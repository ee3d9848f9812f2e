// SPDX-License-Identifier: Apache-2.0
// The engine of the simulator runs the lanes of a System slice by slice, with times in place of data.
//
// A slice of a step starts when its lane is free, a slot of each receive link has arrived, and each send link has
// credit for a slot. Its end follows from the costs of the step. All these times are maxima and sums of times of
// earlier slices. So lanes need not run in the order of time: each lane runs ahead until it must wait.
//
// The order of time matters only if several lanes share a resource (a port, cores). Requests for such a resource wait
// in a queue until no lane can run ahead any more. From then on, no new request is earlier than the first request of
// the queue, since a message leaves a resource or a link later than it enters. Requests of the same time are served by
// phase (turns on cores are last), and within a phase in the order of lanes.
//
// All tiles except the last are alike. If the whole state repeats, shifted only by tiles and time, it continues to
// repeat. So all remaining periods are skipped at once (state.cpp). The result is the same to the picosecond.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "src/sim/queue.h"
#include "src/sim/system.h"

namespace rondo::sim {

struct Outcome {
  int64_t time_ps = 0;      ///< time at which the last lane is done
  uint32_t step_count = 0;  ///< longest chain of dependent steps in a tile
  uint64_t move_count = 0;  ///< slices of steps that were run, without skipped ones
  uint64_t skipped_tile_count = 0;
  bool complete = true;                                 ///< false if the engine gave up, see Engine::run()
  std::array<uint64_t, link_class_count> link_bytes{};  ///< sum over all links of all ranks
};

class Engine {
 public:
  Engine(const SimCase &what, const System &system);

  /// A function that run() calls now and then with the number of moves so far.
  using Moved = std::function<void(uint64_t)>;

  /// Runs the system. If the lanes stop because schedule and slots do not match, returns RONDO_ERROR_INTERNAL. After
  /// `move_count_max` moves without a period it gives up, and Outcome::complete is false.
  [[nodiscard]] Result<Outcome> run(uint64_t move_count_max = UINT64_MAX, const Moved &moved = {});

 private:
  // Members that are used together are adjacent, because large systems mostly wait for memory.
  struct LaneState : SimLane {
    int64_t free_ps = 0;
    uint64_t tile = 0, rest_bytes = 0;
    uint32_t step = 0;
    uint32_t depth = 0;       ///< longest chain of this tile's steps that ends with the lane's last step
    uint32_t step_depth = 0;  ///< the same for the current step
    uint32_t posts = 0;
    bool queued = false, waits_for_core = false;
  };
  /// The state of a wire. Its slots form a ring. Counters are compared only by their differences.
  struct alignas(64) WireState : SimWire {
    uint32_t posted = 0;     ///< slots that the sender's lane has posted
    uint32_t sent = 0;       ///< slots whose departure from the first resource is known
    uint32_t delivered = 0;  ///< slots whose arrival is known
    uint32_t consumed = 0;
    bool out_ordered = true, in_ordered = true;
  };
  struct Slot {
    int64_t arrival_ps = 0, credit_ps = 0;
    uint64_t bytes = 0;
    uint32_t depth = 0;
  };
  /// The two highest bits of a request's order. The other bits are the lane, or for a turn the core.
  enum class Phase : uint8_t { core, out, in, turn };
  static constexpr uint32_t core_mask = UINT32_MAX >> 2;
  struct Core {
    uint32_t rank = no_index;
    bool idle = true;  ///< true if no turn of this core is in the queue
  };
  /// The cores that ranks share.
  struct Pool {
    std::vector<Core> cores;
    std::deque<uint32_t> waiting;  ///< ranks without a core, in the order of the line
    std::deque<uint32_t> ready;    ///< lanes that could continue, in the order of arrival
  };
  struct Snapshot {
    std::vector<int64_t> state;
    uint64_t tile = 0;
    int64_t time_ps = 0;
    std::array<uint64_t, link_class_count> link_bytes{};
  };

  void wake(uint32_t lane);
  void drain();
  bool load(uint32_t lane);
  bool move(uint32_t lane);
  void complete(uint32_t lane, int64_t end_ps);
  void post(uint32_t wire, uint32_t lane, int64_t time_ps);
  void send(uint32_t wire, int64_t time_ps);
  void arrive(uint32_t wire, int64_t time_ps);
  void serve(const Request &request);

  // cores.cpp
  void fill_pools();
  void want_core(uint32_t lane, int64_t time_ps);
  void plan_turn(uint32_t pool, uint32_t core, int64_t time_ps);
  void take_turn(uint32_t pool_index, uint32_t core_index, int64_t time_ps);
  [[nodiscard]] bool others_wait(const Pool &pool) const;
  /// Returns the cost of a slice of the lane's current step.
  [[nodiscard]] int64_t cost_ps(const LaneState &lane, uint64_t bytes) const;
  [[nodiscard]] Slot &slot(uint32_t wire, uint32_t counter) {
    return slots_[size_t{wire} * slot_count_ + (counter & (slot_count_ - 1))];
  }
  [[nodiscard]] uint32_t chunk_of(const SimLane &lane, const Step &step) const;
  [[nodiscard]] bool done(const LaneState &lane) const;
  [[nodiscard]] Result<void> check_done() const;
  /// Returns how long a message occupies a port. limited_ps() returns how long a rate limiter needs for its bytes.
  [[nodiscard]] int64_t occupancy_ps(LinkClass link, uint64_t bytes) const;
  [[nodiscard]] int64_t limited_ps(LinkClass link, uint64_t bytes) const;

  // state.cpp
  template <class Visit>
  void visit_state(int64_t now_ps, Visit visit);
  template <class Visit>
  void visit_wire(uint32_t wire, int64_t now_ps, Visit visit);
  [[nodiscard]] int64_t since(int64_t time_ps, int64_t now_ps) const;
  [[nodiscard]] uint64_t hash_state(int64_t now_ps);
  [[nodiscard]] Snapshot take_snapshot(int64_t now_ps);
  void look_for_period(int64_t now_ps);
  void skip(const Snapshot &before, const Snapshot &now);
  void shift_times(int64_t by_ps);

  const System &system_;
  bool use_period_;
  bool ordered_;  ///< true if no cores are shared, and every resource knows the order of its messages
  bool too_long_ = false;  ///< true if a time exceeds time_ps_max
  uint32_t slot_count_;
  double step_ps_, reduce_ps_, reduce_send_ps_, copy_ps_, memory_ps_;  ///< costs; all except the first are per byte
  int64_t switch_ps_;
  double wire_bytes_factor_, wire_bytes_extra_;
  std::array<int64_t, link_class_count> alpha_ps_{};
  std::array<double, link_class_count> byte_ps_{};  ///< time per byte of a port
  std::array<double, link_class_count> limited_byte_ps_{};
  std::array<int64_t, link_class_count> burst_ps_{};  ///< time of a burst at the limiter's rate; 0 without a limiter

  std::vector<LaneState> lanes_;
  std::vector<WireState> wires_;
  std::vector<Slot> slots_;
  std::vector<int64_t> out_free_ps_, in_free_ps_;
  std::vector<int64_t> out_full_ps_;  ///< time at which the limiter's bucket will be full again
  std::vector<Pool> pools_;
  std::vector<uint32_t> runnable_;
  RequestQueue requests_;             ///< requests of lanes (for a core), of pools (for a turn) or of wires
  uint32_t guide_ = 0;                ///< lane whose tiles are counted: the first lane that has steps
  uint64_t tile_limit_ = UINT64_MAX;  ///< lanes stop before this tile; used only without a queue
  uint64_t full_tile_count_ = 0;      ///< full tiles of the channel with the fewest tiles
  uint64_t looked_tile_ = 0;
  std::unordered_map<uint64_t, uint64_t> seen_;  ///< tile of each state, by the state's hash
  std::optional<Snapshot> snapshot_;
  uint64_t confirm_tile_ = 0;
  bool skipped_ = false;
  Outcome outcome_;
};

/// Simulates a case. `plan` must name the kernel load_store. No buffer is exported. docs/simulator.md has the model.
[[nodiscard]] Result<Outcome> simulate_load_store(const SimCase &what, const PlanChoice &plan);

}  // namespace rondo::sim
