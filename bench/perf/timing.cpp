// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/timing.h"

#include <algorithm>

namespace rondo::perf {
namespace {

rondo_status_t call_once(const Session &session, const Case &what, const Shape &shape, Pointers at) {
  switch (what.collective) {
    case RONDO_ALL_REDUCE:
      return rondo_all_reduce(at.send, at.recv, shape.count, what.type, what.op, session.comm, session.stream);
    case RONDO_REDUCE_SCATTER:
      return rondo_reduce_scatter(at.send, at.recv, shape.count, what.type, what.op, session.comm, session.stream);
    case RONDO_ALL_GATHER:
      return rondo_all_gather(at.send, at.recv, shape.count, what.type, session.comm, session.stream);
    case RONDO_BROADCAST:
      return rondo_broadcast(at.send, at.recv, shape.count, what.type, what.root, session.comm, session.stream);
    case RONDO_REDUCE:
      return rondo_reduce(at.send, at.recv, shape.count, what.type, what.op, what.root, session.comm, session.stream);
    default: return RONDO_ERROR_UNSUPPORTED;
  }
}

/// `calls` calls, complete on return.
Outcome call(const Session &session, const Case &what, const Shape &shape, Pointers at, uint32_t calls) {
  rondo_status_t status = RONDO_OK;
  for (uint32_t i = 0; i < calls && status == RONDO_OK; ++i) status = call_once(session, what, shape, at);
  if (status == RONDO_OK && session.stream != nullptr) status = rondo_stream_synchronize(session.stream);
  if (status == RONDO_OK) return std::nullopt;
  return communication_failure(session.comm, rondo_collective_string(what.collective), status);
}

/// What stays the same over the runs of a size.
struct Target {
  Session &session;
  const Case &what;
  const Shape &shape;
  Workspace &workspace;
};

/// A run without a check. @param call_ns  receives this rank's time for one call.
Outcome run_once(const Target &target, double &call_ns) {
  Session &session = target.session;
  const uint32_t calls = session.options.aggregate_count;
  ++session.run_count;
  if (session.options.rewrite) target.workspace.rewrite(session.run_count);
  if (auto failure = session.group.barrier()) return failure;
  const uint64_t begin_ns = clock_ns();
  if (auto failure = call(session, target.what, target.shape, target.workspace.pointers(), calls)) return failure;
  call_ns = static_cast<double>(clock_ns() - begin_ns) / calls;
  return std::nullopt;
}

/// @param run_ns  receives the last run's whole time, inputs and barrier included, the slowest rank's.
Outcome warm_up(const Target &target, std::optional<double> &run_ns) {
  Session &session = target.session;
  const uint32_t runs = session.options.warmup_count.value_or(default_warmups(target.shape.bytes));
  double last_ns = 0;
  for (uint32_t run = 0; run < runs; ++run) {
    double call_ns = 0;
    const uint64_t begin_ns = clock_ns();
    if (auto failure = run_once(target, call_ns)) return failure;
    last_ns = static_cast<double>(clock_ns() - begin_ns);
  }
  if (runs == 0) return std::nullopt;
  if (auto failure = session.group.max({&last_ns, 1})) return failure;
  run_ns = last_ns;
  return std::nullopt;
}

Outcome check(const Target &target, Placement placement, std::optional<uint64_t> &wrong) {
  Session &session = target.session;
  // In place, a second call would take the first one's result as its input.
  const uint32_t calls = placement == Placement::in_place ? 1 : session.options.aggregate_count;
  uint64_t count = 0;
  for (uint32_t run = 0; run < session.options.check_count; ++run) {
    target.workspace.prepare(++session.run_count);
    if (auto failure = session.group.barrier()) return failure;
    if (auto failure = call(session, target.what, target.shape, target.workspace.pointers(), calls)) return failure;
    count += target.workspace.count_wrong();
  }
  if (session.options.check_count == 0) return std::nullopt;
  const uint64_t own = count;
  if (auto failure = session.group.sum(count)) return failure;
  wrong = std::max(own, count);  // a broken library may lose counts of other ranks in the sum, but not our own
  return std::nullopt;
}

}  // namespace

uint32_t default_iterations(std::optional<double> run_ns) {
  if (!run_ns || *run_ns <= 0) return iterations_unmeasured;
  const double fitting = static_cast<double>(time_budget_ns) / *run_ns;
  return static_cast<uint32_t>(std::clamp(fitting, double{iterations_min}, double{iterations_max}));
}

Outcome measure(Session &session, const Case &what, const Shape &shape, Placement placement, Workspace &workspace,
                Times &times) {
  const Target target{session, what, shape, workspace};
  workspace.select(shape, placement);
  workspace.prepare(++session.run_count);
  std::optional<double> run_ns;
  if (auto failure = warm_up(target, run_ns)) return failure;
  const uint32_t runs = session.options.iteration_count.value_or(default_iterations(run_ns));
  std::vector<double> call_times_ns(runs);
  for (double &call_ns : call_times_ns)
    if (auto failure = run_once(target, call_ns)) return failure;
  if (auto failure = session.group.max(call_times_ns)) return failure;
  times = summarise(call_times_ns);
  return check(target, placement, times.wrong);
}

}  // namespace rondo::perf
