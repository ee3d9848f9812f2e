// SPDX-License-Identifier: Apache-2.0
// `rondo perf` from its arguments to its exit status: makes the communicator, runs the ranks, writes the files.
#include "bench/perf/perf.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <thread>
#include <variant>

#include "bench/perf/buffers.h"
#include "bench/perf/options.h"
#include "bench/perf/report.h"
#include "bench/perf/runner.h"

namespace rondo {
namespace {

using namespace perf;

constexpr uint64_t default_timeout_ns = 300'000'000'000u;

int tell(const Failure &failure) {
  if (failure.exit == Exit::ok) {
    std::fputs(failure.message.c_str(), stdout);
  } else {
    std::fprintf(stderr, "rondo perf: %s\n", failure.message.c_str());
  }
  return static_cast<int>(failure.exit);
}

Outcome write_file(const std::string &path, const std::string &text) {
  if (path.empty()) return std::nullopt;
  std::FILE *file = std::fopen(path.c_str(), "w");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int error = errno;
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (written) return std::nullopt;
  return Failure{Exit::usage, "cannot write " + path + ": " + std::strerror(error)};
}

Outcome write_files(const Options &options, const std::vector<Series> &all) {
  if (!options.json_path.empty())
    if (auto failure = write_file(options.json_path, to_json(all))) return failure;
  if (!options.csv_path.empty())
    if (auto failure = write_file(options.csv_path, to_csv(all))) return failure;
  if (!options.plot_path.empty())
    if (auto failure = write_file(options.plot_path, to_svg(all))) return failure;
  return std::nullopt;
}

/// All of a rank, its communicator's end included.
Outcome live(const Options &options, rondo_comm_t comm, Team *team, std::vector<Series> &all) {
  Outcome failure = run_rank(options, comm, team, all);
  if (!failure) {
    const rondo_status_t status = rondo_comm_finalize(comm);
    if (status != RONDO_OK) failure = communication_failure(comm, "rondo_comm_finalize", status);
  }
  if (failure && team != nullptr) {
    team->fail(*failure);           // first: what the others meet next follows from this one
    (void)rondo_comm_abort(comm);   // lets the other threads out of their calls
  }
  (void)rondo_comm_destroy(comm);
  return failure;
}

/// Ranks that are threads. Every one computes the same results; those of rank 0 are kept.
Outcome run_threads(const Options &options, std::vector<Series> &all) {
  const auto ranks = static_cast<size_t>(options.ranks);
  std::vector<rondo_comm_t> comms(ranks, nullptr);
  const std::vector<rondo_config_t> configs(ranks, options.config);
  const rondo_status_t status = rondo_comm_init_all(comms.data(), options.ranks, configs.data());
  if (status != RONDO_OK) return communication_failure(nullptr, "rondo_comm_init_all", status);
  const uint64_t timeout_ns = options.config.timeout_ms != 0 ? options.config.timeout_ms * uint64_t{1'000'000}
                                                             : default_timeout_ns;
  Team team(options.ranks, timeout_ns);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto body = [&, rank] {
      std::vector<Series> mine;
      (void)live(options, comms[rank], &team, mine);  // the first failure is the team's
      if (rank == 0) all = std::move(mine);
    };
    try {
      threads.emplace_back(body);
    } catch (const std::system_error &error) {
      team.fail({Exit::communication, std::string("cannot start a thread for a rank: ") + error.what()});
      for (size_t other = rank; other < ranks; ++other) {
        (void)rondo_comm_abort(comms[other]);
        (void)rondo_comm_destroy(comms[other]);
      }
      break;
    }
  }
  for (std::thread &thread : threads) thread.join();
  return team.first_failure();
}

/// This process is one rank of those that the environment tells of.
Outcome run_process(const Options &options, std::vector<Series> &all, int &rank) {
  rondo_comm_t comm = nullptr;
  const rondo_status_t status = rondo_comm_init_env(&comm, &options.config);
  if (status != RONDO_OK) return communication_failure(nullptr, "rondo_comm_init_env", status);
  (void)rondo_comm_rank(comm, &rank);
  Outcome failure = live(options, comm, nullptr, all);
  if (failure) failure->message = "rank " + std::to_string(rank) + ": " + failure->message;
  return failure;
}

}  // namespace

int run_perf(std::span<const char *const> args) {
  const auto parsed = parse_options(args);
  if (const auto *failure = std::get_if<Failure>(&parsed)) return tell(*failure);
  const auto &options = std::get<Options>(parsed);
  std::vector<Series> all;
  int rank = 0;
  if (auto failure = options.ranks != 0 ? run_threads(options, all) : run_process(options, all, rank))
    return tell(*failure);
  if (rank == 0)
    if (auto failure = write_files(options, all)) return tell(*failure);
  return static_cast<int>(count_wrong(all) == 0 ? Exit::ok : Exit::wrong_results);
}

}  // namespace rondo
