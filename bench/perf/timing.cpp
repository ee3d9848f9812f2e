// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/timing.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "bench/perf/call.h"
#include "bench/perf/device_calls.h"

namespace rondo::perf {
namespace {

/// Makes `calls` calls, and returns when they are complete.
Outcome call(const Session &session, const Case &what, const Shape &shape, Pointers at, uint32_t calls) {
  rondo_status_t status = RONDO_OK;
  for (uint32_t i = 0; i < calls && status == RONDO_OK; ++i)
    status = make_call(what, shape, at, session.comm, session.stream);
  if (status == RONDO_OK && session.stream != nullptr) status = rondo_stream_synchronize(session.stream);
  if (status == RONDO_OK) return std::nullopt;
  return communication_failure(session.comm, name_of(what.collective), status);
}

/// The data that stays the same over all runs of a size.
struct Target {
  Session &session;
  const Case &what;
  const Shape &shape;
  Workspace &workspace;
};

/// Makes this rank's calls, and returns when they are complete.
Outcome time_calls(const Target &target, uint32_t calls, CallTime &time) {
  Session &session = target.session;
  const Pointers at = target.workspace.pointers();
  if (session.device != nullptr) return DeviceCalls(session, target.what, target.shape, at, calls).run(time);
  const uint64_t begin_ns = clock_ns();
  if (auto failure = call(session, target.what, target.shape, at, calls)) return failure;
  time.call_ns = static_cast<double>(clock_ns() - begin_ns) / calls;
  return std::nullopt;
}

/// Prepares the first run with this number of calls, and spoils the buffers.
Outcome prepare_calls(const Target &target, uint32_t calls) {
  Session &session = target.session;
  if (session.device == nullptr) return std::nullopt;
  return DeviceCalls(session, target.what, target.shape, target.workspace.pointers(), calls).prepare();
}

/// Makes a run without checking it.
Outcome run_once(const Target &target, CallTime &time) {
  Session &session = target.session;
  const uint32_t calls = session.options.aggregate_count;
  ++session.run_count;
  if (session.options.rewrite)
    if (auto failure = target.workspace.rewrite(session.run_count)) return failure;
  // During this pause, a limiter of the network recovers from the run before.
  if (session.options.pause_ms != 0) std::this_thread::sleep_for(std::chrono::milliseconds(session.options.pause_ms));
  if (auto failure = session.group.barrier()) return failure;
  return time_calls(target, calls, time);
}

/// @param run_ns  receives the whole time of the last run on the slowest rank, with inputs and barrier
Outcome warm_up(const Target &target, std::optional<double> &run_ns) {
  Session &session = target.session;
  const uint32_t runs = session.options.warmup_count.value_or(default_warmups(target.shape.bytes));
  double last_ns = 0;
  for (uint32_t run = 0; run < runs; ++run) {
    CallTime time;
    const uint64_t begin_ns = clock_ns();
    if (auto failure = run_once(target, time)) return failure;
    last_ns = static_cast<double>(clock_ns() - begin_ns);
  }
  if (runs == 0) return std::nullopt;
  if (auto failure = session.group.max({&last_ns, 1})) return failure;
  run_ns = last_ns;
  return std::nullopt;
}

Outcome check(const Target &target, Placement placement, std::optional<uint64_t> &wrong) {
  Session &session = target.session;
  // In place, a second call would use the result of the first call as its input.
  const uint32_t calls = placement == Placement::in_place ? 1 : session.options.aggregate_count;
  if (session.options.check_count == 0) return std::nullopt;
  if (calls != session.options.aggregate_count)
    if (auto failure = prepare_calls(target, calls)) return failure;
  uint64_t count = 0;
  for (uint32_t run = 0; run < session.options.check_count; ++run) {
    if (auto failure = target.workspace.prepare(++session.run_count)) return failure;
    if (auto failure = session.group.barrier()) return failure;
    CallTime time;
    if (auto failure = time_calls(target, calls, time)) return failure;
    if (auto failure = target.workspace.count_wrong(count)) return failure;
  }
  const uint64_t own = count;
  if (auto failure = session.group.sum(count)) return failure;
  wrong = std::max(own, count);  // a broken library may lose counts of other ranks, but not this rank's
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
  if (auto failure = prepare_calls(target, session.options.aggregate_count)) return failure;
  if (auto failure = workspace.prepare(++session.run_count)) return failure;
  std::optional<double> run_ns;
  if (auto failure = warm_up(target, run_ns)) return failure;
  const uint32_t runs = session.options.iteration_count.value_or(default_iterations(run_ns));
  std::vector<double> call_times_ns(runs), host_times_ns(runs);
  for (uint32_t run = 0; run < runs; ++run) {
    CallTime time;
    if (auto failure = run_once(target, time)) return failure;
    call_times_ns[run] = time.call_ns;
    host_times_ns[run] = time.host_ns;
  }
  if (auto failure = session.group.max(call_times_ns)) return failure;
  times = summarise(call_times_ns);
  if (session.device != nullptr && !session.options.graph) {
    if (auto failure = session.group.max(host_times_ns)) return failure;
    times.host_us = spread_of(host_times_ns).median_us;
  }
  return check(target, placement, times.wrong);
}

}  // namespace rondo::perf
