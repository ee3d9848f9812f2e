// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/runner.h"

#include <unistd.h>

#include <cstdio>

#include "bench/perf/timing.h"

namespace rondo::perf {
namespace {

/// A host stream for the length of a scope.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;
  ~Stream() {
    if (stream_ != nullptr) (void)rondo_stream_destroy(stream_);
  }
  [[nodiscard]] Outcome create() {
    const rondo_status_t status = rondo_stream_create(&stream_);
    if (status != RONDO_OK) return communication_failure(nullptr, "rondo_stream_create", status);
    return std::nullopt;
  }
  [[nodiscard]] rondo_stream_t get() const { return stream_; }

 private:
  rondo_stream_t stream_ = nullptr;
};

/// Rank 0's voice: rows to standard output as they come; what is going on to standard error if that is a terminal.
class Voice {
 public:
  explicit Voice(bool speaks) : speaks_(speaks), shows_progress_(speaks && ::isatty(STDERR_FILENO) == 1) {}

  void say(const std::string &text) const {
    if (!speaks_) return;
    if (shows_progress_) std::fputs("\r\033[K", stderr);
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }
  void show(size_t done, size_t count, size_t bytes, Placement placement) const {
    if (!shows_progress_) return;
    std::fprintf(stderr, "\r\033[K%zu of %zu: %zu bytes, %s ...", done + 1, count, bytes,
                 placement == Placement::in_place ? "in place" : "out of place");
    std::fflush(stderr);
  }

 private:
  bool speaks_, shows_progress_;
};

Outcome plan_of(rondo_comm_t comm, const Case &what, Row &row) {
  rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
  const rondo_status_t status = rondo_comm_query_plan(comm, what.collective, row.count, what.type, &plan);
  if (status != RONDO_OK) return communication_failure(comm, "rondo_comm_query_plan", status);
  row.algorithm = rondo_algorithm_string(plan.algorithm);
  row.protocol = rondo_protocol_string(plan.protocol);
  row.channels = plan.channels;
  return std::nullopt;
}

Outcome run_case(Session &session, Arenas &arenas, const Voice &voice, Series &series) {
  const Options &options = session.options;
  const Case &what = series.what;
  const std::vector<size_t> sizes = sizes_of(options);
  Workspace workspace(what, session.group.rank(), options.seed, arenas);
  for (size_t done = 0; done < sizes.size(); ++done) {
    const Shape shape = shape_of(what, session.group.rank(), sizes[done]);
    if (!series.rows.empty() && series.rows.back().count == shape.count) continue;  // rounded down to the same call
    Row row;
    row.bytes = shape.bytes;
    row.count = shape.count;
    if (auto failure = plan_of(session.comm, what, row)) return failure;
    for (const Placement placement : {Placement::out_of_place, Placement::in_place}) {
      const bool in_place = placement == Placement::in_place;
      if (!(in_place ? options.in_place : options.out_of_place)) continue;
      voice.show(done, sizes.size(), shape.bytes, placement);
      auto &times = (in_place ? row.in_place : row.out_of_place).emplace();
      if (auto failure = measure(session, what, shape, placement, workspace, times)) return failure;
    }
    voice.say(table_row(what, row));
    series.rows.push_back(row);
  }
  return std::nullopt;
}

std::string version() {
  int major = 0, minor = 0, patch = 0;
  rondo_version(&major, &minor, &patch);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

/// The number of ranks whose buffers share this host's memory.
Outcome check_memory_of_host(const Options &options, rondo_comm_t comm, int ranks) {
  rondo_comm_properties_t properties = RONDO_COMM_PROPERTIES_INIT;
  const rondo_status_t status = rondo_comm_get_properties(comm, &properties);
  if (status != RONDO_OK) return communication_failure(comm, "rondo_comm_get_properties", status);
  return check_memory(arena_sizes(options, ranks), properties.local_rank_count, available_memory_bytes());
}

}  // namespace

Outcome run_rank(const Options &options, rondo_comm_t comm, Team *team, std::vector<Series> &all) {
  int rank = 0, ranks = 1;
  rondo_status_t status = rondo_comm_rank(comm, &rank);
  if (status == RONDO_OK) status = rondo_comm_size(comm, &ranks);
  if (status != RONDO_OK) return communication_failure(comm, "rondo_comm_rank", status);
  if (options.root >= ranks)
    return Failure{Exit::usage, "--root " + std::to_string(options.root) + " is not one of the " +
                                    std::to_string(ranks) + " ranks"};
  if (auto failure = check_memory_of_host(options, comm, ranks)) return failure;
  Arenas arenas;  // ends before the communicator, which may know its memory
  if (auto failure = arenas.allocate(options, ranks, comm)) return failure;
  Stream stream;
  if (options.use_stream)
    if (auto failure = stream.create()) return failure;
  Session session{options, comm, stream.get(), Group(comm, rank, ranks, team)};
  const Voice voice(rank == 0);
  std::vector<Member> members;
  if (auto failure = session.group.gather_members(members)) return failure;
  voice.say(table_head(options, members, version()));
  for (const rondo_type_t type : options.types) {
    for (const rondo_op_t op : options.ops) {
      all.push_back({{options.collective, type, op, options.root, ranks}, {}});
      if (auto failure = run_case(session, arenas, voice, all.back())) return failure;
    }
  }
  voice.say(table_end(all));
  return std::nullopt;
}

}  // namespace rondo::perf
