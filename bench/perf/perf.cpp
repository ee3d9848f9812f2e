// SPDX-License-Identifier: Apache-2.0
// This file runs `rondo perf` from its arguments to its exit status. It makes the communicator, runs the ranks and
// writes the files.
#include "bench/perf/perf.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <variant>

#include "bench/perf/buffers.h"
#include "bench/perf/options.h"
#include "bench/perf/perf_report.h"
#include "bench/perf/runner.h"
#include "src/console/output.h"
#include "src/topo/host.h"

namespace rondo {
namespace {

using namespace perf;

int tell(const Failure &failure) {
  if (failure.exit == Exit::ok) {
    std::fputs(failure.message.c_str(), stdout);
  } else {
    std::fprintf(stderr, "rondo perf: %s\n", failure.message.c_str());
  }
  return static_cast<int>(failure.exit);
}

Outcome write_file(const std::string &path, const std::string &text) {
  if (auto complaint = console::write_output(path, text)) return Failure{Exit::usage, std::move(*complaint)};
  return std::nullopt;
}

/// Checks, before any measurement, whether rank 0 can write the results. The contents of the files stay.
Outcome check_files(const Options &options) {
  for (const char *name : {"RONDO_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char *rank = std::getenv(name); rank != nullptr && std::strcmp(rank, "0") != 0) return std::nullopt;
  for (const std::string &path : {options.json_path, options.csv_path, options.plot_path})
    if (auto complaint = console::check_output(path)) return Failure{Exit::usage, std::move(*complaint)};
  return std::nullopt;
}

/// Describes why the communicator could not be made: the request is impossible, or not all ranks arrived.
Failure start_failure(const char *what, rondo_status_t status) {
  Failure failure = communication_failure(nullptr, what, status);
  if (status == RONDO_ERROR_INVALID_ARGUMENT || status == RONDO_ERROR_UNSUPPORTED) failure.exit = Exit::usage;
  return failure;
}

Outcome write_files(const Options &options, const RunFacts &facts, const std::vector<Series> &all) {
  if (!options.json_path.empty())
    if (auto failure = write_file(options.json_path, to_json(all, facts, options))) return failure;
  if (!options.csv_path.empty())
    if (auto failure = write_file(options.csv_path, to_csv(all))) return failure;
  if (!options.plot_path.empty())
    if (auto failure = write_file(options.plot_path, to_svg(all))) return failure;
  return std::nullopt;
}

/// A rank's communicators and its device.
struct Rank {
  rondo_comm_t comm = nullptr;     ///< the communicator whose calls are timed
  rondo_comm_t control = nullptr;  ///< on host memory; null if `comm` is on host memory
  std::unique_ptr<Device> device;
  uint64_t setup_ns = 0;  ///< time to make `comm`
};

/// Calls `make`, which makes `rank.comm`, and measures its time.
template <class Make>
rondo_status_t make_timed(Rank &rank, const Make &make) {
  const uint64_t begin_ns = clock_ns();
  const rondo_status_t status = make();
  rank.setup_ns = clock_ns() - begin_ns;
  return status;
}

/// The devices on which ranks run, the library to compare with, and the products beside the calls.
struct Place {
  Devices &devices;
  int device_count = 0;
  std::optional<OtherLibrary> other = std::nullopt;
  std::optional<ProductLibrary> products = std::nullopt;
};

/// Runs a rank from beginning to end, including the end of its communicators.
Outcome live(const Options &options, const Place &place, Rank &rank, Team *team, std::vector<Series> &all) {
  const rondo_comm_t control = rank.control != nullptr ? rank.control : rank.comm;
  Outcome failure = run_rank({options, rank.comm, control, rank.device.get(), place.other ? &*place.other : nullptr,
                              place.products ? &*place.products : nullptr, rank.setup_ns, team},
                             all);
  for (const rondo_comm_t comm : {rank.comm, rank.control}) {
    if (failure || comm == nullptr) continue;
    const rondo_status_t status = rondo_comm_finalize(comm);
    if (status != RONDO_OK) failure = communication_failure(comm, "rondo_comm_finalize", status);
  }
  if (failure && team != nullptr) {
    team->fail(*failure);               // first, because it causes the other ranks' failures
    (void)rondo_comm_abort(rank.comm);  // releases the other threads from their calls
  }
  (void)rondo_comm_destroy(rank.comm);
  if (rank.control != nullptr) (void)rondo_comm_destroy(rank.control);
  return failure;
}

/// Returns the ordinal of the device for the rank with this index on its host.
int ordinal_for(const Options &options, int device_count, size_t index) {
  if (options.ordinals.empty()) return static_cast<int>(index % static_cast<size_t>(device_count));
  return options.ordinals[index % options.ordinals.size()];
}

/// Runs ranks that are threads. All of them compute the same results, and rank 0's results are kept.
Outcome run_threads(const Options &options, Place &place, std::vector<Series> &all) {
  const auto count = static_cast<size_t>(options.ranks);
  std::vector<Rank> ranks(count);
  std::vector<rondo_comm_t> comms(count, nullptr);
  std::vector<rondo_config_t> configs(count, options.config);
  for (size_t rank = 0; options.on_device && rank < count; ++rank) {
    configs[rank].device = ordinal_for(options, place.device_count, rank);
    if (auto failure = place.devices.open(configs[rank].device, ranks[rank].device)) return failure;
  }
  const rondo_status_t status =
      make_timed(ranks[0], [&] { return rondo_comm_init_all(comms.data(), options.ranks, configs.data()); });
  if (status != RONDO_OK) return start_failure("rondo_comm_init_all", status);
  const std::vector<Processors> shares = allowed_shares(static_cast<uint32_t>(count));
  Team team(options.ranks, timeout_ns(options), !shares.empty());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < count; ++rank) {
    ranks[rank].comm = comms[rank];
    ranks[rank].setup_ns = ranks[0].setup_ns;
    const auto body = [&, rank] {
      if (!shares.empty()) (void)bind_to(shares[rank]);  // as rondo run does; if it fails, the rank runs on any core
      std::vector<Series> mine;
      (void)live(options, place, ranks[rank], &team, mine);  // the team has the first failure
      if (rank == 0) all = std::move(mine);
    };
    try {
      threads.emplace_back(body);
    } catch (const std::system_error &error) {
      team.fail({Exit::communication, std::string("cannot start a thread for a rank: ") + error.what()});
      for (size_t other = rank; other < count; ++other) {
        (void)rondo_comm_abort(comms[other]);
        (void)rondo_comm_destroy(comms[other]);
      }
      break;
    }
  }
  for (std::thread &thread : threads) thread.join();
  return team.first_failure();
}

/// Finds this process's index among the ranks of its host, through the communicator on host memory.
Outcome local_index(rondo_comm_t control, size_t &index) {
  int rank = 0, ranks = 1;
  rondo_status_t status = rondo_comm_rank(control, &rank);
  if (status == RONDO_OK) status = rondo_comm_size(control, &ranks);
  if (status != RONDO_OK) return communication_failure(control, "rondo_comm_rank", status);
  std::vector<Member> members;
  if (auto failure = Group(control, rank, ranks, nullptr).gather_members({}, members)) return failure;
  for (size_t other = 0; other < static_cast<size_t>(rank); ++other)
    if (std::strcmp(members[other].host, members[static_cast<size_t>(rank)].host) == 0) ++index;
  return std::nullopt;
}

/// Makes a communicator on host memory, and then one on the device. The first one finds the device of this rank, and
/// serves the exchanges between timed runs.
Outcome join_on_device(const Options &options, Place &place, Rank &self) {
  rondo_config_t plain = RONDO_CONFIG_INIT;  // requested settings apply to the device's communicator
  plain.kernel = RONDO_KERNEL_INTERPRETER;
  plain.protocol = RONDO_PROTOCOL_SIMPLE;
  plain.channels = 1;
  plain.timeout_ms = options.config.timeout_ms;
  rondo_status_t status = rondo_comm_init_env(&self.control, &plain);
  if (status != RONDO_OK) return start_failure("rondo_comm_init_env", status);
  size_t index = 0;
  if (auto failure = local_index(self.control, index)) return failure;
  rondo_config_t config = options.config;
  config.device = ordinal_for(options, place.device_count, index);
  if (auto failure = place.devices.open(config.device, self.device)) return failure;
  status = make_timed(self, [&] { return rondo_comm_init_env(&self.comm, &config); });
  if (status != RONDO_OK) return start_failure("rondo_comm_init_env", status);
  return std::nullopt;
}

/// Runs this process as one rank of the job that the environment describes.
Outcome run_process(const Options &options, Place &place, std::vector<Series> &all, int &rank) {
  Rank self;
  Outcome failure;
  if (options.on_device) {
    failure = join_on_device(options, place, self);
  } else if (const auto status = make_timed(self, [&] { return rondo_comm_init_env(&self.comm, &options.config); });
             status != RONDO_OK) {
    failure = start_failure("rondo_comm_init_env", status);
  }
  if (self.comm == nullptr) {
    if (self.control != nullptr) (void)rondo_comm_destroy(self.control);
    return failure;
  }
  (void)rondo_comm_rank(self.comm, &rank);
  failure = live(options, place, self, nullptr, all);
  if (failure) failure->message = "rank " + std::to_string(rank) + ": " + failure->message;
  return failure;
}

}  // namespace

int run_perf(std::span<const char *const> args, Devices &devices) {
  const auto parsed = parse_options(args);
  if (const auto *failure = std::get_if<Failure>(&parsed)) return tell(*failure);
  const auto &options = std::get<Options>(parsed);
  const RunFacts facts = collect_facts(args);
  if (auto failure = check_files(options)) return tell(*failure);
  std::vector<Series> all;
  int rank = 0;
  Place place{devices};
  if (options.on_device)
    if (auto failure = devices.count(place.device_count)) return tell(*failure);
  if (!options.against_path.empty())
    if (auto failure = place.other.emplace().open(options.against_path)) return tell(*failure);
  if (options.product_size != 0)
    if (auto failure = place.products.emplace().open(options.product_library)) return tell(*failure);
  if (auto failure = options.ranks != 0 ? run_threads(options, place, all) : run_process(options, place, all, rank))
    return tell(*failure);
  if (rank == 0)
    if (auto failure = write_files(options, facts, all)) return tell(*failure);
  const uint64_t wrong = count_wrong(all) + count_other_wrong(all) + count_product_wrong(all);
  return static_cast<int>(wrong == 0 ? Exit::ok : Exit::wrong_results);
}

}  // namespace rondo
