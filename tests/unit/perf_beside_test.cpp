// SPDX-License-Identifier: Apache-2.0
// Tests the counts and reports of `rondo perf` for a collective beside a matrix product, and for processes that hand a
// device over.
#include <cstring>
#include <nlohmann/json.hpp>

#include "bench/perf/beside.h"
#include "bench/perf/options.h"
#include "bench/perf/perf_report.h"
#include "bench/perf/turns.h"
#include "tests/catch.h"

using namespace rondo::perf;

namespace {

Member member(const char *host, int64_t process, unsigned char device) {
  Member made;
  std::strcpy(made.host, host);
  made.process = process;
  made.device.ordinal = device;
  made.device.uuid[0] = device;
  return made;
}

rondo_plan_info_t plan(rondo_algorithm_t algorithm, uint32_t channels, uint64_t chunk_bytes) {
  rondo_plan_info_t made = RONDO_PLAN_INFO_INIT;
  made.algorithm = algorithm;
  made.channels = channels;
  made.chunk_bytes = chunk_bytes;
  return made;
}

Case case_of(rondo_collective_t collective, int ranks) { return {collective, RONDO_FLOAT32, RONDO_SUM, 0, ranks}; }

Spread spread(double median_us) { return {median_us, median_us / 2, median_us * 2}; }

Series series_beside() {
  Row row;
  row.bytes = 4096, row.count = 1024, row.algorithm = "ring", row.protocol = "simple", row.channels = 1;
  row.hand_overs = 6;
  row.out_of_place = Times{10, 9, 11, 0, 5.0};
  row.out_of_place->beside = BesideTimes{spread(10), spread(15), spread(1000), spread(1020), 0.75, 0.5};
  Series series{case_of(RONDO_ALL_GATHER, 2), {row}};
  series.machine.members = {member("a", 1, 0), member("a", 2, 0)};
  series.machine.copy_GBps = {100, 100};
  series.machine.hand_over_us = {12.5, 12.5};
  series.product = ProductFacts{"libx.so", "13.0.2", 512, 3};
  return series;
}

}  // namespace

TEST_CASE("perf beside: what counts is long enough, and the other one lasts longer") {
  for (const double product_ns : {1e3, 2e5, 1.4e6, 5e7})
    for (const double batch_ns : {3e3, 4e5, 1e7, 9e8}) {
      CAPTURE(product_ns, batch_ns);
      const BesideRuns runs = plan_runs(product_ns, batch_ns);
      CHECK(runs.products_alone.products == runs.products_beside.products);
      CHECK(runs.calls_alone.batches == runs.calls_beside.batches);
      CHECK(runs.products_alone.batches == 0);
      CHECK(runs.calls_alone.products == 0);
      for (const BesideRun &run : {runs.products_alone, runs.products_beside, runs.calls_alone, runs.calls_beside}) {
        CHECK((run.lead_batches != 0) != (run.lead_products != 0));
        CHECK(run.products <= products_max);
        CHECK(run.batches <= batches_max);
      }
      if (runs.products_alone.products < products_max)
        CHECK(runs.products_alone.products * product_ns >= window_ns_min);
      if (runs.products_beside.batches < batches_max)
        CHECK(runs.products_beside.batches * batch_ns >= outlasting * runs.products_beside.products * product_ns);
      if (runs.calls_beside.products < products_max)
        CHECK(runs.calls_beside.products * product_ns >= outlasting * runs.calls_beside.batches * batch_ns);
    }
}

TEST_CASE("perf beside: times of nothing plan a run that ends") {
  const BesideRuns runs = plan_runs(0, 0);
  CHECK(runs.products_beside.products == products_max);
  CHECK(runs.products_beside.batches == batches_max);
}

TEST_CASE("perf beside: the covered share is what both windows have in common") {
  CHECK(covered({10, 20}, {0, 100}) == 1);
  CHECK(covered({10, 20}, {15, 100}) == Approx(0.5));
  CHECK(covered({10, 20}, {12, 14}) == Approx(0.2));
  CHECK(covered({10, 20}, {20, 30}) == 0);
  CHECK(covered({10, 20}, {0, 5}) == 0);
  CHECK(covered({7, 7}, {0, 0}) == 1);
}

TEST_CASE("perf beside: slow-downs are told in the table and in JSON") {
  const Series series = series_beside();
  const std::string text = table_row(series.what, series.rows[0]);
  CHECK_THAT(text, Contains("# beside, out of place: product 1000.0 us alone, 1020.0 beside (+2.0 %, 50 % covered)"));
  CHECK_THAT(text, Contains("all_gather 10.00 us alone, 15.00 beside (+50.0 %, 75 % covered)"));
  CHECK_THAT(text, !Contains("in place:"));
  CHECK_THAT(table_end({&series, 1}), Contains("# Of the products      : 3\n"));
  CHECK(count_product_wrong({&series, 1}) == 3);
  const auto json = nlohmann::json::parse(to_json({&series, 1}, {}, {}), nullptr, false);
  REQUIRE_FALSE(json.is_discarded());
  CHECK(json["product"] ==
        nlohmann::json::parse(R"({"library": "libx.so", "version": "13.0.2", "size": 512, "wrong": 3})"));
  const auto &beside = json["results"][0]["out_of_place"]["beside"];
  CHECK(beside["slowdown"]["product"].get<double>() == Approx(0.02));
  CHECK(beside["slowdown"]["call"].get<double>() == Approx(0.5));
  CHECK(beside["covered"] == nlohmann::json::parse(R"({"call": 0.75, "product": 0.5})"));
  CHECK(beside["call_us"]["beside"] == nlohmann::json::parse(R"({"median": 15.0, "min": 7.5, "max": 30.0})"));
  CHECK(beside["product_us"]["alone"]["median"] == 1000.0);
}

TEST_CASE("perf turns: the time of a hand-over and their number are told where processes share a device") {
  Series series = series_beside();
  const auto told = nlohmann::json::parse(to_json({&series, 1}, {}, {}), nullptr, false);
  CHECK(told["devices"][0]["hand_over_us"] == 12.5);
  CHECK(told["results"][0]["hand_overs"] == 6);
  series.machine.hand_over_us.clear();
  const auto silent = nlohmann::json::parse(to_json({&series, 1}, {}, {}), nullptr, false);
  CHECK_FALSE(silent["devices"][0].contains("hand_over_us"));
  CHECK_FALSE(silent["results"][0].contains("hand_overs"));
}

TEST_CASE("perf turns: the first rank of each process on the device takes part") {
  const std::vector<Member> members{member("a", 1, 0), member("a", 1, 0), member("a", 2, 0), member("a", 3, 1),
                                    member("b", 2, 0), member("a", 2, 0), member("a", 4, 0)};
  CHECK(sharers_of(members, 0) == std::vector<size_t>{0, 2, 6});
  CHECK(sharers_of(members, 5) == std::vector<size_t>{0, 2, 6});
  CHECK(sharers_of(members, 3) == std::vector<size_t>{3});
  CHECK(sharers_of(members, 4) == std::vector<size_t>{4});
}

TEST_CASE("perf turns: a call takes the hops of its algorithm in each tile") {
  constexpr size_t mebibyte = 1 << 20;
  const auto count = [](const Case &what, const rondo_plan_info_t &made) {
    return hand_overs_of(what, 256 * mebibyte, made);
  };
  const Case pair = case_of(RONDO_ALL_REDUCE, 2), four = case_of(RONDO_ALL_REDUCE, 4);
  CHECK(count(pair, plan(RONDO_ALGORITHM_RING, 1, 4 * mebibyte)) == 2 * 32);
  CHECK(count(four, plan(RONDO_ALGORITHM_RING, 1, 4 * mebibyte)) == 6 * 16);
  CHECK(count(four, plan(RONDO_ALGORITHM_RING, 2, 4 * mebibyte)) == 6 * 8);
  CHECK(count(four, plan(RONDO_ALGORITHM_HALVING_DOUBLING, 1, 4 * mebibyte)) == 4 * 16);
  CHECK(count(four, plan(RONDO_ALGORITHM_TREE, 1, 64 * mebibyte)) == 4 * 4);
  CHECK(count(four, plan(RONDO_ALGORITHM_ONE_SHOT, 1, 256 * mebibyte)) == 1);
  CHECK(count(four, plan(RONDO_ALGORITHM_TWO_SHOT, 1, 64 * mebibyte)) == 2);
  CHECK(count(case_of(RONDO_ALL_GATHER, 4), plan(RONDO_ALGORITHM_RING, 1, 4 * mebibyte)) == 3 * 16);
  CHECK(count(case_of(RONDO_BROADCAST, 4), plan(RONDO_ALGORITHM_RING, 1, 4 * mebibyte)) == 3 * 64);
  CHECK(count(case_of(RONDO_ALL_REDUCE, 1), plan(RONDO_ALGORITHM_RING, 1, 4 * mebibyte)) == 0);
  CHECK(hand_overs_of(pair, 8, plan(RONDO_ALGORITHM_RING, 1, 4 * mebibyte)) == 2);
  rondo_plan_info_t direct = plan(RONDO_ALGORITHM_TWO_SHOT, 4, mebibyte);  // a chunk holds the parts of both ranks
  direct.kernel = RONDO_KERNEL_LOAD_STORE;
  CHECK(hand_overs_of(pair, 256 * mebibyte, direct) == 2 * 64);
}

TEST_CASE("perf options: a product beside needs a device, and a library needs a product") {
  const auto refuse = [](std::vector<const char *> args) {
    const auto parsed = parse_options(args);
    REQUIRE(std::holds_alternative<Failure>(parsed));
    CHECK(std::get<Failure>(parsed).exit == Exit::usage);
    return std::get<Failure>(parsed).message;
  };
  CHECK_THAT(refuse({"all_gather", "--beside-product", "64"}), Contains("add --device cuda"));
  CHECK_THAT(refuse({"all_gather", "--device", "cuda", "--product-library", "x"}), Contains("--beside-product"));
  CHECK_THAT(refuse({"all_gather", "--device", "cuda", "--beside-product", "64", "--against", "x"}),
             Contains("exclude each other"));
  CHECK_THAT(refuse({"all_gather", "--device", "cuda", "--beside-product", "8"}), Contains("--help"));
  const auto parsed = parse_options(
      std::vector<const char *>{"all_gather", "--device", "cuda", "--beside-product", "64", "--product-library", "x"});
  REQUIRE(std::holds_alternative<Options>(parsed));
  CHECK(std::get<Options>(parsed).product_size == 64);
  CHECK(std::get<Options>(parsed).product_library == "x");
}
