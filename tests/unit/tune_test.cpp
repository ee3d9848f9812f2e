// SPDX-License-Identifier: Apache-2.0
#include "src/cli/tune/runs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/cli/sim/sim.h"
#include "src/cli/tune/tuner_input.h"
#include "tests/catch.h"
#include "tests/sanitized.h"

using namespace rondo;
using namespace rondo::cli::tune;

namespace {

constexpr PlanChoice ring{RONDO_ALGORITHM_RING, RONDO_PROTOCOL_SIMPLE, 2, 65536, RONDO_KERNEL_INTERPRETER};
constexpr PlanChoice ring_fine{RONDO_ALGORITHM_RING, RONDO_PROTOCOL_SIMPLE, 2, 4096, RONDO_KERNEL_INTERPRETER};
constexpr PlanChoice tree{RONDO_ALGORITHM_TREE, RONDO_PROTOCOL_LL, 1, 2048, RONDO_KERNEL_INTERPRETER};

/// Times in microseconds of the choices at each size.
struct Times {
  uint64_t bytes;
  std::vector<std::pair<PlanChoice, double>> of;
};

Measured measured(const Group &group, const std::vector<Times> &sizes) {
  Measured result{group, {}, 0, 0};
  for (const Times &size : sizes)
    for (const auto &[choice, time_us] : size.of)
      result.series.push_back({size.bytes, choice, time_us, time_us, time_us, 5, 9});
  return result;
}

const Group four{RONDO_ALL_REDUCE, 4, false};

std::vector<PlanChoice> choices(const std::vector<TuningRow> &rows) {
  std::vector<PlanChoice> list;
  for (const TuningRow &row : rows) list.push_back(row.choice);
  return list;
}

Result<std::variant<Options, std::string>> parse(std::vector<const char *> args) { return parse_options(args); }

std::string refusal(std::vector<const char *> args) {
  const auto parsed = parse(std::move(args));
  return parsed.ok() ? "accepted" : parsed.error().message;
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("tune: sizes with one best choice become one row, another best one begins the next halfway between") {
  const std::vector<Measured> all{measured(four, {{1024, {{tree, 1}, {ring, 2}}},
                                                  {4096, {{tree, 2}, {ring, 3}}},
                                                  {65536, {{tree, 20}, {ring, 10}}},
                                                  {uint64_t{16} << 20, {{tree, 2000}, {ring, 900}}}})};
  const auto rows = build_rows(all);
  REQUIRE(choices(rows) == std::vector{tree, ring});
  CHECK(rows[0].bytes_max == 16384);  // the geometric mean: 4096 x 4 = 65536 / 4
  CHECK(rows[1].bytes_max == TuningRow::any_bytes);
}

TEST_CASE("tune: a table of small messages says nothing about large ones") {
  const auto rows = build_rows(std::vector{measured(four, {{1024, {{tree, 1}}}, {4096, {{tree, 2}}}})});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].bytes_max == 8192);
}

TEST_CASE("tune: neighbours are merged while the loss is noise, never over 10 percent") {
  const auto with_loss = [](double ratio) {
    return build_rows(std::vector{measured(four, {{1024, {{tree, 1}, {ring, 2}}},
                                                  {4096, {{tree, 1 * ratio}, {ring, 1}}},
                                                  {16384, {{tree, 1}, {ring, 2}}}})});
  };
  CHECK(with_loss(1.02).size() == 1);
  CHECK(with_loss(1.099).size() == 3);  // another row is worth it
  CHECK(with_loss(1.2).size() == 3);
  // Many small losses add up, so another row is worth it.
  std::vector<Times> sizes;
  for (uint64_t bytes = 1024; bytes <= 65536; bytes *= 2)
    sizes.push_back({bytes, {{tree, 1}, {ring, bytes < 8192 ? 2 : 0.95}}});
  CHECK(choices(build_rows(std::vector{measured(four, sizes)})) == std::vector{tree, ring});
}

TEST_CASE("tune: a chunk that a message does not fill is like any larger one") {
  const std::vector<Measured> all{
      measured(four, {{1024, {{ring_fine, 1}}}, {65536, {{ring_fine, 9}, {ring, 5}}}})};
  const auto rows = build_rows(all);
  CHECK(choices(rows) == std::vector{ring});
  const TuningTable table = TuningTable::make(rows).value();
  const auto comparisons = compare(all, table, Config{});
  REQUIRE(comparisons.size() == 2);
  CHECK(comparisons[0].chosen_us == 1.0);
  CHECK(worst_ratio(comparisons) == 1.0);
}

TEST_CASE("tune: rows of several groups come in the order that the table wants") {
  const std::vector<Times> sizes{{1024, {{ring, 1}}}};
  const auto rows = build_rows(
      std::vector{measured({RONDO_BROADCAST, 8, true}, sizes), measured({RONDO_ALL_REDUCE, 8, true}, sizes),
                  measured({RONDO_ALL_REDUCE, 2, false}, sizes), measured({RONDO_BROADCAST, 2, false}, sizes)});
  CHECK(rows.size() == 4);
  CHECK(TuningTable::make(rows).ok());
}

TEST_CASE("tune: what no quiet round supports is dropped, and a size of which nothing is left is named") {
  Measured some = measured(four, {{64, {{ring, 1}, {tree, 2}}}, {1024, {{ring, 3}, {tree, 2}}}, {4096, {{tree, 9}}}});
  some.series[0].quiet_round_count = 1;
  some.series[4].quiet_round_count = 5;
  CHECK(drop_disturbed(some) == std::vector<uint64_t>{1024});
  REQUIRE(some.series.size() == 2);
  CHECK((some.series[0].bytes == 64 && some.series[0].choice == ring));
  CHECK((some.series[1].bytes == 4096 && some.series[1].choice == tree));
  CHECK(drop_disturbed(some).empty());
}

TEST_CASE("tune: a choice that is too slow, or was not measured, shows") {
  const std::vector<Measured> all{measured(four, {{1024, {{tree, 1}, {ring, 1.5}}}})};
  const auto judge = [&](const PlanChoice &choice) {
    const auto table = TuningTable::make({{RONDO_ALL_REDUCE, 4, false, TuningRow::any_bytes, choice}});
    return worst_ratio(compare(all, table.value(), Config{}));
  };
  CHECK(judge(tree) == 1);
  CHECK(judge(ring) == 1.5);
  CHECK(judge({RONDO_ALGORITHM_HALVING_DOUBLING, RONDO_PROTOCOL_LL, 1, 1024, RONDO_KERNEL_INTERPRETER}) ==
        std::numeric_limits<double>::infinity());
  CHECK(contains(comparison_text(compare(all, TuningTable(), Config{})), "tree/ll 1x2K"));
}

TEST_CASE("tune: the fit finds latency and bandwidth again, and says how far off it is") {
  std::vector<Times> sizes;
  for (uint64_t bytes = 64; bytes <= uint64_t{1} << 24; bytes *= 8)
    sizes.push_back({bytes, {{ring, 5 + static_cast<double>(bytes) / 2000}, {ring_fine, 1e9}}});
  const auto fits = fit_all(std::vector{measured(four, sizes)});
  REQUIRE(fits.size() == 1);
  CHECK(fits[0].alpha_us == Approx(5));
  CHECK(fits[0].bandwidth_GBps == Approx(2));
  CHECK(fits[0].error_max < 1e-6);
  sizes[1].of[0].second *= 2;
  CHECK(fit_all(std::vector{measured(four, sizes)})[0].error_max > 0.2);
}

TEST_CASE("tune: the library's own choice is the first candidate, and no two do the same at a size") {
  Options options;
  options.sizes = {96, 24 << 10, 24 << 20};
  for (const uint32_t rank_count : {2u, 3u, 8u})
    for (const rondo_collective_t collective : {RONDO_ALL_REDUCE, RONDO_ALL_GATHER, RONDO_REDUCE}) {
      const Group group{collective, rank_count};
      TunerInput input = cli::tuner_input(Config{}, rank_count, false);
      const auto list = host_candidates(options, group, input);
      REQUIRE(list.size() >= 4);
      CHECK(list[0].asked == PlanChoice{});
      std::set<uint64_t> tried;
      input.collective = collective;
      for (size_t at = 1; at < list.size(); ++at)
        for (const uint64_t bytes : sizes_of(options, group, list[at])) {
          tried.insert(bytes);
          input.bytes = rounded_bytes(group, bytes);
          input.overrides = list[at].asked;
          const bool first = bytes == list[at].bytes_min;
          CHECK((choose_plan(input).ok() || !first));
        }
      CHECK(tried.size() == options.sizes.size());
      CHECK(std::none_of(list.begin(), list.end(), [](const Candidate &it) {
        return it.asked.protocol == RONDO_PROTOCOL_LL && it.bytes_max > 256 << 10;
      }));
      CHECK(std::none_of(list.begin(), list.end(), [](const Candidate &it) {
        return it.asked.algorithm == RONDO_ALGORITHM_HIERARCHICAL;  // for several hosts
      }));
    }
}

TEST_CASE("tune: on several hosts there is one group of all ranks, hierarchical is tried, and rows say so") {
  const auto parsed = parse({"--hosts", "a:4,b:4", "--sizes", "64K-4M/8", "--collectives", "all_reduce,reduce"});
  const auto options = std::get<Options>(parsed.value());
  const auto groups = host_groups(options, 2).value();
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].rank_count == 8);
  CHECK(groups[0].several_hosts);
  const auto list = host_candidates(options, groups[0], cli::tuner_input(Config{}, 8, false, 2));
  CHECK(std::any_of(list.begin(), list.end(), [](const Candidate &it) {
    return it.asked.algorithm == RONDO_ALGORITHM_HIERARCHICAL;
  }));
  CHECK(std::none_of(list.begin(), list.end(), [](const Candidate &it) {
    return it.asked.kernel == RONDO_KERNEL_LOAD_STORE;  // for ranks that share memory
  }));
  Measured of_hosts = measured(groups[0], {{65536, {{ring, 20}, {tree, 9}}}});
  of_hosts.built_in = {{65536, ring}};
  const auto rows = build_rows(std::vector{of_hosts});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].several_hosts);
  const auto comparisons = compare(std::vector{of_hosts}, TuningTable::make(rows).value(), Config{});
  REQUIRE(comparisons.size() == 1);
  CHECK(comparisons[0].chosen_us == 9.0);
  CHECK(comparisons[0].built_in_us == 20.0);
}

TEST_CASE("tune: the document holds rows that read back, and what they follow from") {
  Findings findings;
  findings.topology.processor = "a \xff processor";
  findings.topology.cores.resize(4);
  findings.costs.latency_us = 0.123456;
  findings.costs.rates = {{4096, 30, {{RONDO_FLOAT32, 20}, {RONDO_BFLOAT16, 10}}}, {1 << 20, 3, {{RONDO_FLOAT32, 2}}}};
  findings.all = {
      measured({RONDO_ALL_REDUCE, 2, false}, {{1024, {{tree, 1}, {ring, 2}}}, {4096, {{tree, 9}, {ring, 3}}}})};
  const auto rows = build_rows(findings.all);
  const std::string text = document_text(findings, rows);
  const auto table = parse_tuning(text);
  REQUIRE(table.ok());
  CHECK(std::vector<TuningRow>(table.value().rows().begin(), table.value().rows().end()) == rows);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  CHECK(json["costs"]["latency_us"] == 0.1235);
  CHECK(json["costs"]["rates"][0]["reduce_GBps"]["bfloat16"] == 10.0);
  CHECK(json["measurements"][0]["series"].size() == 4);
  REQUIRE(json["networks"].size() == 2);
  CHECK(json["networks"][0]["network"]["nodes"][0]["ranks"] == 2);
  CHECK(json["networks"][1]["bytes"] == 4096);
  CHECK(json["fits"].size() == 2);
}

namespace {

double simulated_us(const sim::Network &network, uint64_t bytes, const PlanChoice &choice) {
  sim::SimCase what;
  what.bytes = bytes;
  what.overrides = choice;
  what.network = network;
  const auto result = sim::Simulator().simulate(what);
  REQUIRE(result.ok());
  return static_cast<double>(result.value().outcome.time_ps) / sim::ps_per_us;
}

/// Returns a network of ranks on two cores. Its costs differ from the measured costs of the machine.
sim::Network true_network(uint32_t rank_count) {
  sim::Network network;
  network.nodes = {{rank_count, 1, 0}};
  network.links[1] = {0.4, 0.4, 12, sim::Sharing::pair};
  network.step_us = 0.2;
  network.reduce_GBps = 9;
  network.reduce_send_GBps = 20;
  network.copy_GBps = 14;
  network.memory_GBps = 5;
  network.core_count = 2;
  network.switch_us = 0.7;
  const TunerInput slots = cli::tuner_input(Config{}, rank_count, rank_count > 2);
  network.slot_count = slots.slot_count;
  network.slot_bytes = static_cast<uint32_t>(slots.slot_bytes);
  network.post_bytes = static_cast<uint32_t>(slots.post_bytes);
  network.exchange_chunk_bytes = static_cast<uint32_t>(slots.exchange_chunk_bytes);
  return network;
}

}  // namespace

TEST_CASE("tune: the simulator on a calibrated network tells the times that were measured") {
  Findings findings;
  findings.topology.cores.resize(2);
  findings.topology.pus = {{0, 0, 0, true}, {1, 1, 0, true}};
  findings.costs.latency_us = 0.1;
  findings.costs.bandwidth_GBps = 20;
  findings.costs.handover_us = 0.5;
  findings.costs.rates = {{1 << 20, 30, {{RONDO_FLOAT32, 20}}}};
  rondo_test::GateShare share("numbers of ranks on a calibrated network");
  for (const uint32_t rank_count : {2u, 8u}) {
    if (!share.has_next()) continue;
    Measured measured{{RONDO_ALL_REDUCE, rank_count, rank_count > 2}, {}, 0, 0};
    for (const uint64_t bytes : {uint64_t{64} << 10, uint64_t{1} << 20})
      for (const rondo_algorithm_t algorithm :
           {RONDO_ALGORITHM_RING, RONDO_ALGORITHM_TREE, RONDO_ALGORITHM_ONE_SHOT, RONDO_ALGORITHM_TWO_SHOT}) {
        const PlanChoice choice{algorithm, RONDO_PROTOCOL_SIMPLE, 1, 32 << 10, RONDO_KERNEL_INTERPRETER};
        const double time_us = simulated_us(true_network(rank_count), bytes, choice);
        measured.series.push_back({bytes, choice, time_us, time_us, time_us, 5, 9});
        // The simulated plan is not a slower one, and not one of another protocol.
        const PlanChoice slower{algorithm, RONDO_PROTOCOL_SIMPLE, 1, 64, RONDO_KERNEL_INTERPRETER};
        const PlanChoice by_ll{algorithm, RONDO_PROTOCOL_LL, 1, 4096, RONDO_KERNEL_INTERPRETER};
        measured.series.push_back({bytes, slower, 9e9, 9e9, 9e9, 5, 9});
        measured.series.push_back({bytes, by_ll, 1e-3, 1e-3, 1e-3, 5, 9});
      }
    for (const uint64_t bytes : {uint64_t{64} << 10, uint64_t{1} << 20})
      for (const rondo_algorithm_t algorithm : {RONDO_ALGORITHM_RING, RONDO_ALGORITHM_TWO_SHOT}) {
        const PlanChoice choice{algorithm, RONDO_PROTOCOL_AUTO, 1, 32 << 10, RONDO_KERNEL_LOAD_STORE};
        sim::Network other = true_network(rank_count);  // the kernels need not have the same costs
        other.reduce_GBps = 4;
        const double time_us = simulated_us(other, bytes, choice);
        measured.series.push_back({bytes, choice, time_us, time_us, time_us, 5, 9});
      }
    std::stable_sort(measured.series.begin(), measured.series.end(),
                     [](const Series &one, const Series &two) { return one.bytes < two.bytes; });
    const auto calibrations = calibrate(findings, measured);
    REQUIRE(calibrations.size() == 4);
    for (const Calibration &calibration : calibrations) {
      CAPTURE(rank_count, calibration.bytes, rondo_kernel_string(calibration.kernel));
      CHECK(calibration.error_max < 0.1);
      for (const Series &series : measured.series) {
        if (series.bytes != calibration.bytes || series.min_us > 1e9 || series.min_us <= 1e-3) continue;
        if (series.choice.kernel != calibration.kernel) continue;
        CHECK(simulated_us(calibration.network, series.bytes, series.choice) ==
              Approx(series.median_us).epsilon(calibration.error_max + 1e-3));
      }
    }
  }
}

TEST_CASE("tune: networks of the table are found again, mixed between sizes, refused where there are none") {
  const std::string path = "/tmp/rondo-tuned-test-" + std::to_string(reinterpret_cast<uintptr_t>(&path)) + ".json";
  nlohmann::ordered_json json;
  sim::Network low = true_network(4), high = low;
  high.reduce_GBps = 36;
  high.step_us = 0;
  json["networks"] = nlohmann::ordered_json::array();
  for (const auto &[bytes, network] : {std::pair(1024, &low), std::pair(16384, &high)})
    json["networks"].push_back(
        {{"collective", "all_reduce"}, {"ranks", 4}, {"bytes", bytes}, {"network", cli::network_json(*network)}});
  REQUIRE(write_file(path, json.dump()).ok());
  const auto tuned = cli::TunedNetworks::read(path, RONDO_ALL_REDUCE);
  REQUIRE(tuned.ok());
  const auto reduce_at = [&](uint64_t bytes) { return tuned.value().at(4, bytes).value().reduce_GBps; };
  CHECK(reduce_at(8) == 9);
  CHECK(reduce_at(1024) == 9);
  CHECK(reduce_at(4096) == Approx(18));
  CHECK(tuned.value().at(4, 4096).value().step_us == Approx(0.1));
  CHECK(reduce_at(1 << 30) == 36);
  CHECK(contains(tuned.value().at(3, 64).error().message, "for 3 ranks; it has them for 4"));
  CHECK(contains(cli::TunedNetworks::read(path, RONDO_REDUCE).error().message, "no networks for reduce"));
  CHECK(contains(cli::TunedNetworks::read(path, RONDO_ALL_REDUCE, RONDO_KERNEL_LOAD_STORE).error().message,
                 "no networks for all_reduce by load_store"));
  json["networks"][1]["kernel"] = "load_store";
  REQUIRE(write_file(path, json.dump()).ok());
  CHECK(cli::TunedNetworks::read(path, RONDO_ALL_REDUCE).value().at(4, 16384).value().reduce_GBps == 9);
  CHECK(
      cli::TunedNetworks::read(path, RONDO_ALL_REDUCE, RONDO_KERNEL_LOAD_STORE).value().at(4, 8).value().reduce_GBps ==
      36);
  json["networks"][0].erase("bytes");
  REQUIRE(write_file(path, json.dump()).ok());
  CHECK(contains(cli::TunedNetworks::read(path, RONDO_ALL_REDUCE).error().message, "make it again"));
  REQUIRE(write_file(path, "[]").ok());
  CHECK(contains(cli::TunedNetworks::read(path, RONDO_ALL_REDUCE).error().message, "no table of `rondo tune`"));
  std::remove(path.c_str());
  CHECK(contains(cli::TunedNetworks::read(path, RONDO_ALL_REDUCE).error().message, "cannot read"));
}

TEST_CASE("tune: options are lists and ranges, and what cannot be is answered") {
  const auto options =
      std::get<Options>(parse({"--ranks", "8,2", "--collectives", "reduce,all_reduce", "--sizes", "8-1K/8"}).value());
  CHECK(options.rank_counts == std::vector<uint32_t>{2, 8});
  CHECK(options.collectives == std::vector{RONDO_ALL_REDUCE, RONDO_REDUCE});
  CHECK(options.sizes == std::vector<uint64_t>{8, 64, 512, 1024});
  CHECK(std::get<Options>(parse({}).value()).sizes.back() == uint64_t{64} << 20);
  const auto quick = std::get<Options>(parse({"--quick", "--rounds", "4"}).value());
  CHECK(quick.round_count == 4);
  CHECK(quick.sizes == std::vector<uint64_t>{8, 256, 8192, 262144, 1 << 20});
  CHECK(std::get<std::string>(parse({"--help"}).value()).find("--quick") != std::string::npos);
  CHECK(contains(refusal({"--ranks", "1"}), "--ranks: '1' is not a number from 2 to 64"));
  CHECK(contains(refusal({"--ranks", "2,,4"}), "--ranks: ''"));
  CHECK(contains(refusal({"--collectives", "alltoall"}), "--collectives: there is nothing to choose for all_to_all"));
  CHECK(contains(refusal({"--collectives", "all_to_some"}), "--collectives: unknown collective 'all_to_some'"));
  CHECK_FALSE(contains(refusal({"--collectives", "all_to_some"}), "barrier"));
  CHECK(contains(refusal({"--collectives", "barrier"}), "a barrier has no plan of its own"));
  CHECK(contains(refusal({"--sizes", "8-4"}), "--sizes: the first size is above the last"));
  CHECK(contains(refusal({"--sizes", "8-64/1"}), "--sizes: '1' is not a number from 2 to 1024"));
  CHECK(contains(refusal({"--sizes", "2G"}), "--sizes: '2G'"));
  CHECK(contains(refusal({"--rounds", "0"}), "--rounds"));
  for (const auto &words : {std::vector{"--hosts"}, {"--hosts", "-o", "hosts.json"}})
    CHECK(contains(refusal(words), "--hosts takes the hosts and the ranks on each, such as --hosts a:4,b:4"));
  CHECK(contains(refusal({"--hosts", "a:4"}), "'a:4' is one host"));
  CHECK(contains(refusal({"--hosts", "a:4,b:4", "--device", "cuda"}), "give one of them"));
}

TEST_CASE("tune: ranks beyond the cores are a group of their own, and sizes without an element for each are left out") {
  Options options;
  options.rank_counts = {2, 3};
  options.collectives = {RONDO_ALL_GATHER};
  options.sizes = {4, 8, 64};
  const auto groups = host_groups(options, 2).value();
  REQUIRE(groups.size() == 2);
  CHECK_FALSE(groups[0].oversubscribed);
  CHECK(groups[1].oversubscribed);
  CHECK(sizes_of(options, groups[1], {}) == std::vector<uint64_t>{64});
  options.sizes = {4};
  CHECK_FALSE(host_groups(options, 2).ok());
}
