// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/counting.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "bench/perf/device_calls.h"

namespace rondo::perf {
namespace {

uint64_t sum_of(const uint64_t (&of)[3]) { return std::accumulate(std::begin(of), std::end(of), uint64_t{0}); }

/// Runs `act` on rank 0, for all ranks.
template <class Do>
Outcome by_first(const Session &session, const Do &act) {
  return session.group.rank() == 0 ? act() : std::nullopt;
}

}  // namespace

Outcome count_call(Session &session, const Case &what, const Shape &shape, Workspace &workspace,
                   std::vector<Accesses> &counts) {
  CallTime time;
  DeviceCalls call(session, what, shape, workspace.pointers(), 1);
  if (auto failure = call.prepare()) return failure;
  if (auto failure = session.group.barrier()) return failure;  // so that nothing else runs and is counted
  if (auto failure = by_first(session, [&] { return session.device->begin_count(); })) return failure;
  if (auto failure = session.group.barrier()) return failure;
  if (auto failure = call.run(time)) return failure;
  if (auto failure = session.group.barrier()) return failure;
  if (auto failure = by_first(session, [&] { return session.device->end_count(counts); })) return failure;
  return session.group.barrier();
}

std::string count_line(const Shape &shape, std::span<const Accesses> counts) {
  uint64_t moved = 0;
  Accesses most;
  for (const Accesses &rank : counts) {
    moved += sum_of(rank.read_bytes) + sum_of(rank.written_bytes);
    for (const auto field : {&Accesses::blocks, &Accesses::host_loads, &Accesses::host_stores, &Accesses::releases,
                             &Accesses::acquires, &Accesses::read_modify_writes, &Accesses::barriers,
                             &Accesses::chain_to_result, &Accesses::chain})
      most.*field = std::max(most.*field, rank.*field);
  }
  const double given = static_cast<double>(counts.size()) * static_cast<double>(std::max<size_t>(shape.bytes, 1));
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  char line[400];
  std::snprintf(line, sizeof line,
                "#   counted: %.3f bytes moved for each given; at most, of a rank: %llu blocks, %llu host loads, %llu "
                "host stores, %llu releases, %llu acquires, %llu read-modify-writes, %llu barriers; chain %llu to the "
                "result, %llu in all\n",
                static_cast<double>(moved) / given, number(most.blocks), number(most.host_loads),
                number(most.host_stores), number(most.releases), number(most.acquires),
                number(most.read_modify_writes), number(most.barriers), number(most.chain_to_result),
                number(most.chain));
  return line;
}

}  // namespace rondo::perf
