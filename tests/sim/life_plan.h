// SPDX-License-Identifier: Apache-2.0
// This file describes one life of a communicator, drawn from a seed: its ranks, settings, calls and faults.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "src/core/communicator.h"
#include "tests/sim/random.h"

namespace rondo::sim {

enum class FaultKind : uint8_t {
  kill,             ///< SIGKILL: nothing of the process runs any more
  exit,             ///< the process ends between two calls, without a report
  stop,             ///< SIGSTOP for good
  pause,            ///< SIGSTOP, and SIGCONT in time
  never_calls,      ///< stays alive, but does not call
  leaves,           ///< destroys its communicator early
  finalizes,        ///< calls rondo_comm_finalize while other ranks call something else
  disagrees,        ///< one call has another collective, count, type, operation or root; other ranks may do the same
  aborts,           ///< rondo_comm_abort on a second thread
  partition,        ///< the network between some ranks and the others is cut during bootstrap
  other_settings,   ///< joins with another algorithm
  absent,           ///< never arrives
};
inline constexpr size_t fault_kind_count = 12;
[[nodiscard]] const char *name_of(FaultKind kind);

/// Mistakes in a transport or a clock, made on purpose. The simulation must detect each of them.
enum class Defect : uint8_t {
  none,
  early_flag,           ///< the flag of a slot is seen before its payload
  lost_wake,            ///< some wakes reach no thread, and sleeping has no limit
  deaf_to_death,        ///< dead processes are never noticed
  frozen_clock,         ///< no deadline ever passes
  hidden_disagreement,  ///< others cannot see what a rank has entered
  early_completion,     ///< an operation counts as complete when it begins
  lost_failure,         ///< a failure that one rank records does not reach the others
  early_counter,        ///< a flag or counter of the exchange is seen before its areas
};
inline constexpr size_t defect_count = 9;
[[nodiscard]] const char *name_of(Defect defect);

struct Fault {
  FaultKind kind = FaultKind::kill;
  uint32_t rank = 0;
  uint32_t call = 0;        ///< the call in which it happens: 0 is the initialisation, 1 the first operation
  uint64_t after = 0;       ///< how many times the rank's fibers run before it happens
  uint64_t duration_ns = 0;  ///< of a pause or partition; never_ns means for good
  uint32_t variant = 0;
};

/// A call that all ranks make, unless a fault changes it.
struct PlannedCall {
  Signature signature;
  bool in_place = false;
};

struct LifePlan {
  uint64_t seed = 0;
  Defect defect = Defect::none;
  uint32_t rank_count = 2;
  Settings settings;
  bool oversubscribed = false;
  bool wired = false;                ///< stores arrive late, see wire.h
  uint32_t readable_kinds = 0;       ///< of exported buffers
  bool registers = false;            ///< the buffers are registered
  uint64_t death_notice_ns = 0;      ///< time until the end of a dead process can be noticed
  std::vector<PlannedCall> calls;
  std::vector<Fault> faults;
  bool finalizes = false;

  [[nodiscard]] const Fault *fault(FaultKind kind, uint32_t rank) const;
};

/// Says whether `rank` takes part in the fault. A fault strikes fault.rank. But several ranks may disagree in the same
/// way.
[[nodiscard]] bool strikes(const Fault &fault, uint32_t rank);

[[nodiscard]] LifePlan draw_life(uint64_t seed, Defect defect);

/// Describes the plan for people.
[[nodiscard]] std::string describe(const LifePlan &plan);

/// Returns `call` as a disagreeing rank makes it.
[[nodiscard]] PlannedCall altered(const PlannedCall &call, uint32_t variant, uint32_t rank_count);

/// Says whether a rank completes a call only after every rank has taken part in it.
[[nodiscard]] bool waits_for_all(const Signature &signature);

/// Returns the elements in the whole vector of a call's collective.
[[nodiscard]] uint64_t vector_count(const PlannedCall &call, uint32_t rank_count);

}  // namespace rondo::sim
