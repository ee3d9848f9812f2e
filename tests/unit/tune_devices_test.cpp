// SPDX-License-Identifier: Apache-2.0
#include "src/cli/tune/runs.h"

#include <algorithm>
#include <limits>
#include <set>

#include "tests/catch.h"

using namespace rondo;
using namespace rondo::cli::tune;

namespace {

constexpr PlanChoice device_ring{RONDO_ALGORITHM_RING, RONDO_PROTOCOL_SIMPLE, 1, 65536, RONDO_KERNEL_INTERPRETER};
constexpr PlanChoice blocks{RONDO_ALGORITHM_TWO_SHOT, RONDO_PROTOCOL_AUTO, 16, 64, RONDO_KERNEL_LOAD_STORE};

const std::string report = R"({"ranks": 2, "configuration": {"oversubscribed": true}, "results": [
  {"bytes": 8, "disturbed": false, "algorithm": "two_shot", "protocol": "auto", "kernel": "load_store",
   "channels": 16, "chunk_bytes": 64,
   "out_of_place": {"time_us": {"median": 3.5, "min": 3, "max": 4}}, "in_place": null},
  {"bytes": 64, "disturbed": true, "algorithm": "ring", "protocol": "simple", "kernel": "interpreter", "channels": 1,
   "chunk_bytes": 65536, "out_of_place": {"time_us": {"median": 7, "min": 6, "max": 9}}, "in_place": null}]})";

std::string without(std::string text, const std::string &part) {
  const size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.erase(at, part.size());
}

}  // namespace

TEST_CASE("tune --device: the library's own choice comes first, then every algorithm that can, and load_store") {
  const auto list = device_candidates({RONDO_ALL_REDUCE, 4, false, BufferPlace::device}, false);
  CHECK(list[0].asked == PlanChoice{});
  std::set<rondo_algorithm_t> interpreted;
  std::set<uint32_t> limits;
  for (const Candidate &it : list) {
    if (it.asked.kernel == RONDO_KERNEL_INTERPRETER) interpreted.insert(it.asked.algorithm);
    if (it.asked.kernel == RONDO_KERNEL_LOAD_STORE) limits.insert(it.blocks_max);
    if (it.asked.protocol == RONDO_PROTOCOL_LL) CHECK(it.bytes_max == 256 << 10);
  }
  CHECK(interpreted.size() == 5);
  CHECK(limits.size() == 5);
  const auto gathers = device_candidates({RONDO_ALL_GATHER, 4, false, BufferPlace::device}, false);
  CHECK(std::none_of(gathers.begin(), gathers.end(),
                     [](const Candidate &it) { return it.asked.algorithm == RONDO_ALGORITHM_TREE; }));
  CHECK(device_candidates({RONDO_ALL_REDUCE, 4, false, BufferPlace::device}, true).size() < list.size());
  // Other collectives use load_store at any size.
  const BufferPlace place =
      GENERATE(BufferPlace::device, BufferPlace::shared_device, BufferPlace::peer_devices);
  for (const auto &[collective, algorithm] :
       {std::pair(RONDO_ALL_GATHER, RONDO_ALGORITHM_ONE_SHOT), {RONDO_REDUCE_SCATTER, RONDO_ALGORITHM_ONE_SHOT},
        {RONDO_BROADCAST, RONDO_ALGORITHM_TWO_SHOT}, {RONDO_REDUCE, RONDO_ALGORITHM_TWO_SHOT}}) {
    const auto candidates = device_candidates({collective, 4, false, place}, false);
    CHECK(std::count_if(candidates.begin(), candidates.end(), [&, algorithm = algorithm](const Candidate &it) {
            return it.asked.kernel == RONDO_KERNEL_LOAD_STORE && it.asked.algorithm == algorithm &&
                   it.bytes_max == std::numeric_limits<uint64_t>::max();
          }) == 5);
  }
}

TEST_CASE("tune --device: a candidate is tried at sizes that were asked for, and at no others") {
  Options options;
  options.sizes = {8, 32, 128, 512, 300 << 10};
  const Group four{RONDO_ALL_GATHER, 4, false, BufferPlace::device};
  const auto up_to = [](uint64_t bytes_max) { return Candidate{{}, 0, bytes_max}; };
  // 8 B would be half an element for each rank.
  CHECK(sizes_of(options, four, {}) == std::vector<uint64_t>{32, 128, 512, 300 << 10});
  CHECK(sizes_of(options, {RONDO_ALL_REDUCE, 4, false, BufferPlace::device}, up_to(256 << 10)) ==
        std::vector<uint64_t>{8, 32, 128, 512});
  CHECK(sizes_of(options, four, up_to(16)).empty());
}

TEST_CASE("tune --device: what rondo perf reports is understood as it is, and nothing else") {
  const auto report_read = parse_perf(report);
  REQUIRE(report_read.ok());
  CHECK(report_read.value().oversubscribed);
  const auto &results = report_read.value().results;
  REQUIRE(results.size() == 2);
  CHECK(results[0].bytes == 8);
  CHECK(results[0].choice == blocks);
  CHECK(results[0].median_us == 3.5);
  CHECK_FALSE(results[0].disturbed);
  CHECK(results[1].choice == device_ring);
  CHECK(results[1].disturbed);
  for (const char *part : {"\"chunk_bytes\": 65536, ", "\"median\": 7, ", "ring", "]}", "\"results\":"})
    CHECK_FALSE(parse_perf(without(report, part)).ok());
  CHECK_FALSE(parse_perf(R"({"results": []})").ok());
  std::string nothing_moved = report;
  CHECK_FALSE(parse_perf(nothing_moved.replace(report.find("\"bytes\": 8"), 10, "\"bytes\": 0")).ok());
}

TEST_CASE("tune --device: candidates that came to the same choice are one, and rows and comparison follow from it") {
  PerfTimes times;
  for (const double us : {4.0, 2.0, 3.0}) times.add({1024, blocks, us});
  times.add({1024, device_ring, 9});
  times.add({64 << 20, blocks, 900});
  times.add({64 << 20, device_ring, 300});
  CHECK(times.best_us(1024) == 2);
  Measured measured;
  measured.group = {RONDO_ALL_REDUCE, 2, false, BufferPlace::shared_device};
  measured.series = times.series();
  measured.built_in = {{1024, device_ring}, {64 << 20, device_ring}};
  REQUIRE(measured.series.size() == 4);
  CHECK(measured.series[0].median_us == 3);

  const auto rows = build_rows({&measured, 1});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].buffers == BufferPlace::shared_device);
  CHECK(rows[0].choice == blocks);
  CHECK(rows[1].choice == device_ring);
  const auto table = TuningTable::make(rows);
  REQUIRE(table.ok());
  const auto comparisons = compare({&measured, 1}, table.value(), Config{});
  REQUIRE(comparisons.size() == 2);
  CHECK(worst_ratio(comparisons) == 1);
  CHECK(comparisons[0].built_in_us == 9.0);
  CHECK(comparison_text(comparisons).find("2 ranks as threads of a process, on one device") != std::string::npos);
}

TEST_CASE("tune: of a choice with undisturbed times, only these count") {
  PerfTimes times;
  times.add({1024, device_ring, 9, true});
  times.add({1024, device_ring, 5, false});
  times.add({1024, device_ring, 6, false});
  times.add({1024, blocks, 4, true});
  const auto series = times.series();
  REQUIRE(series.size() == 2);
  CHECK(series[0].median_us == 5.5);
  CHECK(series[0].max_us == 6);
  CHECK(series[0].quiet_round_count == 2);
  CHECK(series[0].round_count == 3);
  CHECK(series[1].median_us == 4);
  CHECK(series[1].quiet_round_count == 0);
}
