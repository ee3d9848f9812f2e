// SPDX-License-Identifier: Apache-2.0
// This file is `rondo tune --hosts`. A launcher has started ranks on several hosts. They measure one link within a host
// and one between hosts, and the simulator chooses with the results.
//
// Two ranks make a separate communicator and send each other blocks of growing sizes, each after a pause. After a pause
// a limiter's bucket is full, as it is for a program that calls now and then. All other ranks wait.
#include "src/cli/tune/hosts.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include "src/base/clock.h"
#include "src/base/size.h"
#include "src/cli/tune/comm.h"
#include "src/cli/tune/tuner_input.h"
#include "src/console/output.h"
#include "src/topo/host.h"

namespace rondo::cli::tune {
namespace {

constexpr uint64_t sizes[] = {8, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
constexpr size_t size_count_min = 4;
constexpr double long_us = 500'000;  // if an exchange takes so long, no larger one is tried
constexpr uint32_t small_round_count = 201, round_count = 7;
constexpr auto pause = std::chrono::milliseconds(30);

uint64_t number_of(const std::string &text) {
  uint64_t hash = 0xCBF2'9CE4'8422'2325u;  // FNV-1a
  for (const char character : text) hash = (hash ^ static_cast<unsigned char>(character)) * 0x0000'0100'0000'01B3u;
  return hash;
}

class HostsRank {
 public:
  Result<HostFindings> measure(const Options &options) {
    RONDO_TRY(connect());
    if (rank_ == 0)
      if (auto complaint = console::check_output(options.output)) return invalid_argument(std::move(*complaint));
    uint32_t first_inside = no_rank, inside = no_rank;  // the first two ranks that share a host
    uint32_t between = no_rank;                         // the first rank that is not on rank 0's host
    for (uint32_t rank = 1; rank < node_of_.size(); ++rank) {
      if (node_of_[rank] != node_of_[0]) between = std::min(between, rank);
      for (uint32_t other = 0; other < rank && inside == no_rank; ++other)
        if (node_of_[other] == node_of_[rank]) first_inside = other, inside = rank;
    }
    if (between == no_rank)
      return invalid_argument("all " + std::to_string(node_of_.size()) +
                              " ranks are on one host; start ranks on several with torchrun, mpirun or srun, or leave "
                              "--hosts out");
    HostFindings findings;
    RONDO_TRY_ASSIGN(findings.between, exchange(0, between));
    if (inside != no_rank) {
      RONDO_TRY_ASSIGN(findings.inside, exchange(first_inside, inside));
    }
    RONDO_TRY(conclude(options, findings));
    RONDO_TRY(check(rondo_comm_finalize(world_.get()), world_.get(), "rondo_comm_finalize"));
    return findings;
  }
  [[nodiscard]] uint32_t rank() const { return rank_; }

 private:
  static constexpr uint32_t no_rank = UINT32_MAX;

  Result<void> connect() {
    RONDO_TRY_ASSIGN(world_, make_comm({}));
    int rank = 0, rank_count = 0;
    RONDO_TRY(check(rondo_comm_rank(world_.get(), &rank), world_.get(), "rondo_comm_rank"));
    RONDO_TRY(check(rondo_comm_size(world_.get(), &rank_count), world_.get(), "rondo_comm_size"));
    rank_ = static_cast<uint32_t>(rank);
    RONDO_TRY_ASSIGN(const std::string host, host_id());
    const uint64_t own = number_of(host);
    std::vector<uint64_t> hosts(static_cast<size_t>(rank_count));
    RONDO_TRY(check(rondo_all_gather(&own, hosts.data(), 1, RONDO_UINT64, world_.get(), nullptr), world_.get(),
                    "rondo_all_gather"));
    std::map<uint64_t, uint32_t> known;
    for (const uint64_t it : hosts) node_of_.push_back(known.emplace(it, known.size()).first->second);
    return {};
  }

  /// Makes two ranks exchange. Every rank calls it, and gets the results of rank `first`.
  Result<std::vector<Exchange>> exchange(uint32_t first, uint32_t second) {
    rondo_unique_id_t id{};
    if (rank_ == first) RONDO_TRY(check(rondo_get_unique_id(&id, nullptr), nullptr, "rondo_get_unique_id"));
    RONDO_TRY(share(&id, sizeof id, first));
    std::vector<double> numbers(4 * std::size(sizes));
    if (rank_ == first || rank_ == second) {
      const rondo_config_t config = config_for({RONDO_ALGORITHM_ONE_SHOT, RONDO_PROTOCOL_SIMPLE, 1, 0});
      rondo_comm_t made = nullptr;
      RONDO_TRY(check(rondo_comm_init(&made, &id, rank_ == first ? 0 : 1, 2, &config), nullptr, "rondo_comm_init"));
      const Comm pair(made);
      RONDO_TRY(measure_pair(pair.get(), numbers));
      RONDO_TRY(check(rondo_comm_finalize(pair.get()), pair.get(), "rondo_comm_finalize"));
    }
    RONDO_TRY(share(numbers.data(), numbers.size() * sizeof(double), first));
    std::vector<Exchange> exchanges;
    for (size_t at = 0; at < numbers.size() && numbers[at] > 0; at += 4)
      exchanges.push_back({static_cast<uint64_t>(numbers[at]), numbers[at + 1], numbers[at + 2], numbers[at + 3]});
    return exchanges;
  }

  Result<void> share(void *bytes, size_t byte_count, uint32_t from) {
    return check(rondo_broadcast(bytes, bytes, byte_count, RONDO_UINT8, static_cast<int>(from), world_.get(), nullptr),
                 world_.get(), "rondo_broadcast");
  }

  /// Measures one pair. The time of the slower rank counts. Both ranks know both times, so they stop at the same size.
  static Result<void> measure_pair(rondo_comm_t pair, std::vector<double> &numbers) {
    size_t at = 0;
    for (const uint64_t bytes : sizes) {
      std::vector<std::byte> send(bytes, std::byte{1}), recv(2 * bytes);
      std::vector<double> times_us;
      const uint32_t rounds = bytes <= 8 ? small_round_count : round_count;
      for (uint32_t round = 0; round <= rounds; ++round) {  // the first round touches the memory
        if (bytes > 8) std::this_thread::sleep_for(pause);
        RONDO_TRY(check(rondo_barrier(pair, nullptr), pair, "rondo_barrier"));
        const uint64_t begin_ns = now_ns();
        RONDO_TRY(check(rondo_all_gather(send.data(), recv.data(), bytes, RONDO_UINT8, pair, nullptr), pair,
                        "rondo_all_gather"));
        double time_us = static_cast<double>(now_ns() - begin_ns) * 1e-3;
        RONDO_TRY(check(rondo_all_reduce(&time_us, &time_us, 1, RONDO_FLOAT64, RONDO_MAX, pair, nullptr), pair,
                        "rondo_all_reduce"));
        if (round > 0) times_us.push_back(time_us);
        if (round > 2 && time_us > long_us) break;
      }
      std::sort(times_us.begin(), times_us.end());
      for (const double number : {static_cast<double>(bytes), times_us[times_us.size() / 2], times_us.front(),
                                  times_us.back()})
        numbers[at++] = number;
      if (times_us[times_us.size() / 2] > long_us && at >= 4 * size_count_min) break;
    }
    return {};
  }

  Result<void> conclude(const Options &options, HostFindings &findings) {
    RONDO_TRY_ASSIGN(const Config config, read_config());
    // The library knows the cores of all ranks, each of which may be bound to some.
    rondo_comm_properties_t properties = RONDO_COMM_PROPERTIES_INIT;
    RONDO_TRY(check(rondo_comm_get_properties(world_.get(), &properties), world_.get(), "rondo_comm_get_properties"));
    findings.oversubscribed = properties.oversubscribed != 0;
    if (rank_ != 0) return {};
    const auto host_count = *std::max_element(node_of_.begin(), node_of_.end()) + 1;
    TunerInput input = tuner_input(config, static_cast<uint32_t>(node_of_.size()), findings.oversubscribed, host_count);
    input.overrides = {};
    const sim::LinkCost between = fit_link(findings.between);
    sim::LinkCost inside = findings.inside.empty() ? between : fit_link(findings.inside);
    inside.burst_bytes = inside.peak_GBps = 0;  // a host has no limiter: memory beyond the caches looks like one
    findings.network = network_of(node_of_, inside, between, input);
    RONDO_TRY_ASSIGN(findings.rows, simulate_rows(options, findings.network, input));
    return {};
  }

  Comm world_;
  uint32_t rank_ = 0;
  std::vector<uint32_t> node_of_;
};

}  // namespace

Result<void> tune_hosts(const Options &options) {
  HostsRank rank;
  RONDO_TRY_ASSIGN(const HostFindings findings, rank.measure(options));
  if (rank.rank() != 0) return {};
  const std::string document = hosts_document(findings, options.collectives);
  // The summary shows the table as the library will read it.
  if (auto table = parse_tuning(document); !table.ok())
    return Error{RONDO_ERROR_INTERNAL, "its own table is refused: " + table.error().message};
  if (auto complaint = console::write_output(options.output, document))
    return Error{RONDO_ERROR_SYSTEM, std::move(*complaint)};
  const bool to_output = options.output == "-";
  const char *const name = to_output ? "FILE" : options.output.c_str();
  std::fprintf(to_output ? stderr : stdout,
               "%s%s: %s; use it with RONDO_TUNING_FILE=%s on every host, and with rondo sim --table %s --ranks "
               "%llu\n",
               hosts_text(findings).c_str(), to_output ? "standard output" : name,
               counted(findings.rows.size(), "row").c_str(), name, name,
               static_cast<unsigned long long>(findings.network.rank_count()));
  return {};
}

}  // namespace rondo::cli::tune
