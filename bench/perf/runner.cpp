// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/runner.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string_view>
#include <vector>

#include "bench/perf/beside.h"
#include "bench/perf/data.h"
#include "bench/perf/floor.h"
#include "bench/perf/timing.h"
#include "bench/perf/turns.h"
#include "src/base/spelling.h"
#include "src/console/progress.h"
#include "src/console/terminal.h"

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

/// Prints on rank 0. It prints rows to standard output as they are measured, and progress to standard error if that is
/// a terminal.
class Voice {
 public:
  Voice(bool speaks, std::FILE *to)
      : to_(to), speaks_(speaks), shows_progress_(speaks && ::isatty(STDERR_FILENO) == 1) {}

  [[nodiscard]] size_t columns() const { return console::terminal_columns(to_); }

  void say(const std::string &text) const {
    if (!speaks_) return;
    if (shows_progress_) std::fputs("\r\033[K", stderr);
    std::fputs(console::fitted(text, to_).c_str(), to_);
    std::fflush(to_);
  }
  /// Shows the progress.
  /// @param part  the part of all measurements that is done, from 0 to 1
  void show(size_t bytes, Placement placement, double part) const {
    if (!shows_progress_) return;
    const double elapsed_s = static_cast<double>(clock_ns() - begin_ns_) * 1e-9;
    std::fprintf(stderr, "\r\033[K%s, %s: %s", show_bytes(bytes).c_str(),
                 placement == Placement::in_place ? "in place" : "out of place",
                 console::progress_text(part, elapsed_s).c_str());
    std::fflush(stderr);
  }

 private:
  std::FILE *to_;
  bool speaks_, shows_progress_;
  uint64_t begin_ns_ = clock_ns();
};

/// The share of a case in all measurements.
struct ProgressShare {
  double begin = 0, share = 1;
  TableColumns columns = {};
};

/// Returns a size's weight for the progress. Small sizes take as long as 1 MiB, because they are called more often.
double weight_of(size_t bytes) { return static_cast<double>(bytes + (size_t{1} << 20)); }

Outcome plan_of(rondo_comm_t comm, const Case &what, Row &row) {
  if (!has_plan(what.collective)) {
    row.algorithm = row.protocol = row.kernel = "none";
    return std::nullopt;
  }
  rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
  const rondo_status_t status = rondo_comm_query_plan(comm, what.collective, row.count, what.type, &plan);
  // This thread's last error describes the failure. The communicator may have failed since then, because another rank
  // had the same error and left.
  if (status != RONDO_OK) return communication_failure(nullptr, "rondo_comm_query_plan", status);
  row.algorithm = rondo_algorithm_string(plan.algorithm);
  row.protocol = rondo_protocol_string(plan.protocol);
  row.kernel = rondo_kernel_string(plan.kernel);
  row.channels = plan.channels;
  row.chunk_bytes = plan.chunk_bytes;
  row.hand_overs = hand_overs_of(what, row.bytes, plan);
  return std::nullopt;
}

/// The work of a rank besides its own calls.
struct Rivals {
  std::optional<OtherComm> other;  ///< the communicator of --against
  std::optional<Beside> beside;    ///< the products of --beside-product
};

Outcome run_case(Session &session, Rivals &rivals, Arenas &arenas, const Voice &voice, const ProgressShare &part,
                 Series &series) {
  const Options &options = session.options;
  const Case &what = series.what;
  const std::vector<size_t> sizes = sizes_of(options);
  double weight = 0, weight_done = 0;
  for (const size_t bytes : sizes) weight += weight_of(bytes);
  Workspace workspace(what, session.group.rank(), options.seed, arenas);
  for (size_t done = 0; done < sizes.size(); ++done) {
    const Shape shape = shape_of(what, session.group.rank(), sizes[done]);
    if (!series.rows.empty() && series.rows.back().count == shape.count) continue;  // rounded down to the same call
    Row row;
    row.bytes = shape.bytes;
    row.count = shape.count;
    if (auto failure = plan_of(session.comm, what, row)) return failure;
    const LoadReading before = read_load();
    for (const Placement placement : {Placement::out_of_place, Placement::in_place}) {
      const bool in_place = placement == Placement::in_place;
      if (!(in_place ? options.in_place : options.out_of_place)) continue;
      voice.show(shape.bytes, placement, part.begin + part.share * weight_done / weight);
      auto &times = (in_place ? row.in_place : row.out_of_place).emplace();
      if (auto failure = measure(session, what, shape, placement, workspace, times)) return failure;
      if (session.device != nullptr)
        times.floor_us = floor_us(what, shape.bytes, placement, series.machine.members, series.machine.copy_GBps);
      if (rivals.beside)
        if (auto failure =
                rivals.beside->measure(what, shape, workspace.pointers(), times.beside.emplace(), *series.product))
          return failure;
      if (!rivals.other) continue;
      auto &other_times = (in_place ? row.other_in_place : row.other_out_of_place).emplace();
      session.other = &*rivals.other;
      if (auto failure = measure(session, what, shape, placement, workspace, other_times)) return failure;
      session.other = nullptr;
      session.device->forget_graph();  // the other library waits for graphs that have its calls
      other_times.floor_us = times.floor_us;
    }
    const bool oversubscribed = series.machine.properties && series.machine.properties->oversubscribed != 0;
    if (auto failure =
            find_disturbance(session.group, series.machine.members, before, oversubscribed, row.disturbance))
      return failure;
    voice.say(table_row(what, row, part.columns));
    series.rows.push_back(row);
    weight_done += weight_of(sizes[done]);
  }
  return std::nullopt;
}

/// Checks the memory of the ranks whose buffers are in this host's memory.
Outcome check_memory_of_host(const Options &options, rondo_comm_t comm, int ranks) {
  rondo_comm_properties_t properties = RONDO_COMM_PROPERTIES_INIT;
  const rondo_status_t status = rondo_comm_get_properties(comm, &properties);
  if (status != RONDO_OK) return communication_failure(comm, "rondo_comm_get_properties", status);
  return check_memory(arena_sizes(options, ranks), properties.local_rank_count, available_memory_bytes());
}

/// Measures the bandwidth of copies on each device. The first rank of a device measures it for all its ranks.
Outcome measure_copies(Session &session, std::span<const Member> members, std::vector<double> &copy_GBps) {
  const auto rank = static_cast<size_t>(session.group.rank());
  copy_GBps.assign(members.size(), 0);
  if (first_on_device(members, rank) == rank)
    if (auto failure = session.device->measure_copy(copy_GBps[rank])) return failure;
  if (auto failure = session.group.max(copy_GBps)) return failure;
  for (size_t other = 0; other < members.size(); ++other) copy_GBps[other] = copy_GBps[first_on_device(members, other)];
  return std::nullopt;
}

/// Returns how many ranks the other library allows on one device. From version 2.30 on, NCCL allows two if this
/// variable is 1.
size_t other_ranks_on_a_device() {
  const char *const text = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return text != nullptr && std::string_view(text) == "1" ? 2 : 1;
}

/// Returns a failure if a device has more ranks than the other library allows.
Outcome check_for_other(std::span<const Member> members) {
  std::map<size_t, std::vector<size_t>> ranks_of;  // ranks by the first rank of their device
  for (size_t rank = 0; rank < members.size(); ++rank) ranks_of[first_on_device(members, rank)].push_back(rank);
  const size_t most = other_ranks_on_a_device();
  for (const auto &[first, ranks] : ranks_of) {
    if (ranks.size() <= most) continue;
    return Failure{Exit::usage,
                   "--against takes " + counted(most, "rank") +
                       " on a device, but ranks " + std::to_string(first) + " and " + std::to_string(ranks[most]) +
                       " are on the same one; start fewer ranks" +
                       (most == 1 ? ", or set NCCL_MULTI_RANK_GPU_ENABLE=1 if the library is NCCL 2.30 or newer, which "
                                    "then takes two"
                                  : "")};
  }
  return std::nullopt;
}

/// Makes the communicator of the other library, if that is requested.
Outcome join_other(Session &session, const OtherLibrary *library, std::span<const Member> members,
                   std::optional<OtherComm> &other) {
  if (library == nullptr) return std::nullopt;
  if (auto failure = check_for_other(members)) return failure;
  if (auto failure = session.device->make_current()) return failure;
  other.emplace(*library);
  return other->init(session.group);
}

/// Makes the word whose value starts all streams. It belongs to rank 0.
Outcome open_start(Session &session) {
  if (session.group.rank() == 0)
    if (auto failure = session.device->make_start(session.start)) return failure;
  return session.group.broadcast(std::as_writable_bytes(std::span(&session.start, 1)));
}

/// Prepares one graph for all ranks, on rank 0's device.
Outcome open_one_graph(Session &session, std::span<const Member> members) {
  for (size_t rank = 0; rank < members.size(); ++rank)
    if (first_on_device(members, rank) != 0)
      return Failure{Exit::usage, "--one-graph is for ranks that share a device; give --device cuda:0"};
  if (auto failure = session.device->check_one_graph(session.group.ranks())) return failure;
  session.first = session.device;
  return session.group.broadcast(std::as_writable_bytes(std::span(&session.first, 1)));
}

Outcome min_of_all(Group &group, double value, std::optional<double> &min) {
  double negative = -value;
  if (auto failure = group.max(std::span(&negative, 1))) return failure;
  min = -negative;
  return std::nullopt;
}

/// Checks that every plan is possible before measuring, because an algorithm or a protocol may not support the
/// collective.
Outcome check_plans(const Session &session, int ranks) {
  const Options &options = session.options;
  for (const rondo_type_t type : options.types) {
    for (const size_t bytes : sizes_of(options)) {
      const Case what{options.collective, type, options.ops.front(), options.root, ranks};
      Row row;
      row.count = shape_of(what, session.group.rank(), bytes).count;
      if (auto failure = plan_of(session.comm, what, row)) {
        failure->exit = Exit::usage;
        return failure;
      }
    }
  }
  return std::nullopt;
}

std::vector<int> roots_of(const Options &options, int ranks) {
  if (!options.all_roots || !has_root(options.collective)) return {options.root};
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Makes the operation of a mulsum. It ends with the communicator.
Outcome make_op(const Session &session, Case &what) {
  if (what.op != mulsum) return std::nullopt;
  const uint64_t factor = make_factor(what.type, session.group.rank());
  const rondo_status_t status =
      rondo_op_create_premul_sum(&what.made, &factor, what.type, RONDO_RESIDENCE_HOST, session.comm);
  if (status == RONDO_OK) return std::nullopt;
  return communication_failure(session.comm, "rondo_op_create_premul_sum", status);
}

Outcome run_cases(Session &session, const RankParts &parts, Rivals &rivals, Arenas &arenas, int ranks,
                  std::vector<Series> &all) {
  const Options &options = session.options;
  const Voice voice(session.group.rank() == 0, options.table_to_errors ? stderr : stdout);
  std::vector<Member> members;
  const DeviceName device = session.device != nullptr ? session.device->describe() : DeviceName{};
  if (auto failure = session.group.gather_members(device, members)) return failure;
  Machine machine{members};
  rondo_comm_properties_t &properties = machine.properties.emplace();
  properties = RONDO_COMM_PROPERTIES_INIT;
  const rondo_status_t told = rondo_comm_get_properties(session.comm, &properties);
  if (told != RONDO_OK) return communication_failure(session.comm, "rondo_comm_get_properties", told);
  if (auto failure = min_of_all(session.group, static_cast<double>(parts.setup_ns) * 1e-6, machine.setup_ms))
    return failure;
  if (session.device != nullptr) {
    if (auto failure = measure_copies(session, members, machine.copy_GBps)) return failure;
    if (auto failure = measure_hand_overs(session.group, *session.device, members, machine.hand_over_us))
      return failure;
  }
  if (auto failure = join_other(session, parts.other, members, rivals.other)) return failure;
  std::optional<ProductFacts> product;
  if (parts.products != nullptr)
    if (auto failure = rivals.beside.emplace(session).open(*parts.products, members, product.emplace())) return failure;
  if (options.together)
    if (auto failure = open_start(session)) return failure;
  if (options.one_graph)
    if (auto failure = open_one_graph(session, members)) return failure;
  const TableColumns columns = table_columns(options, !machine.copy_GBps.empty(), voice.columns());
  voice.say(table_head(options, machine, version_text(), columns));
  const std::vector<int> roots = roots_of(options, ranks);
  const double share = 1.0 / static_cast<double>(options.types.size() * options.ops.size() * roots.size());
  for (const rondo_type_t type : options.types) {
    for (const rondo_op_t op : options.ops) {
      for (const int root : roots) {
        all.push_back({{options.collective, type, op, root, ranks}, {}, machine});
        if (auto failure = make_op(session, all.back().what)) return failure;
        all.back().graph = options.graph, all.back().one_graph = options.one_graph;
        all.back().together = options.together;
        if (parts.other != nullptr)
          all.back().other_library = parts.other->path(), all.back().other_version = parts.other->version();
        all.back().product = product;
        const ProgressShare part{share * static_cast<double>(all.size() - 1), share, columns};
        if (auto failure = run_case(session, rivals, arenas, voice, part, all.back())) return failure;
      }
    }
  }
  voice.say(table_end(all));
  return std::nullopt;
}

}  // namespace

Outcome run_rank(const RankParts &parts, std::vector<Series> &all) {
  const Options &options = parts.options;
  int rank = 0, ranks = 1;
  rondo_status_t status = rondo_comm_rank(parts.comm, &rank);
  if (status == RONDO_OK) status = rondo_comm_size(parts.comm, &ranks);
  if (status != RONDO_OK) return communication_failure(parts.comm, "rondo_comm_rank", status);
  if (options.root >= ranks)
    return Failure{Exit::usage,
                   "-r " + std::to_string(options.root) + " names no rank of this job, which has " +
                       counted(static_cast<uint64_t>(ranks), "rank") + " (ranks as threads are --ranks N)"};
  if (!takes_ranks(options.collective, ranks)) return wrong_ranks(options.collective);
  if (parts.device == nullptr)  // a device reports a lack of memory itself
    if (auto failure = check_memory_of_host(options, parts.comm, ranks)) return failure;
  Arenas arenas;  // ends before the communicator, which may have its memory registered
  Stream stream;
  Session session{options, parts.comm, nullptr, parts.device, Group(parts.control, rank, ranks, parts.team)};
  Rivals rivals;
  Outcome failure = check_plans(session, ranks);  // first: processes communicate by `comm`, which needs a possible plan
  if (!failure) failure = arenas.allocate(options, ranks, parts.comm, parts.device);
  if (!failure && options.on_device && options.buffers == Buffers::registered)
    failure = session.group.barrier();  // registered memory is opened while nothing is in flight
  if (!failure && options.use_stream && parts.device == nullptr) failure = stream.create();
  session.stream = stream.get();
  if (!failure) failure = run_cases(session, parts, rivals, arenas, ranks, all);
  // Memory that a kernel of this rank uses must not be freed while the kernel waits for a rank that has given up.
  if (failure && parts.team != nullptr) parts.team->fail(*failure);  // causes the other ranks' next failures
  if (failure) (void)rondo_comm_abort(parts.comm);
  if (failure && rivals.other) {  // its kernels do not end by our abort, and it waits for graphs with its calls
    parts.device->forget_graph();
    rivals.other->abort();
  }
  // The communicator does not know of replays, so they must end before the communicator. The abort above ends them.
  if (failure && options.graph && parts.device != nullptr) (void)parts.device->wait();
  if (!failure && (rivals.other || rivals.beside)) {
    // Freeing memory waits for the device. So the device must not be waiting for a rank that has not reached this
    // point.
    rivals.other.reset();
    rivals.beside.reset();
    failure = session.group.barrier();
  }
  return failure;
}

}  // namespace rondo::perf
