// SPDX-License-Identifier: Apache-2.0
// Tests what `rondo perf` prints and writes.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/perf/perf_report.h"
#include "tests/catch.h"

using namespace rondo::perf;

namespace {

Times times_of(double median_us, std::optional<uint64_t> wrong) {
  return {median_us, median_us * 0.8, median_us * 1.7, wrong};
}

Row row_of(size_t bytes, double median_us, std::optional<uint64_t> wrong) {
  Row row;
  row.bytes = bytes;
  row.count = bytes / 4;
  row.algorithm = "ring";
  row.protocol = "ll";
  row.channels = 2;
  row.out_of_place = times_of(median_us, wrong);
  row.in_place = times_of(median_us * 0.9, wrong);
  return row;
}

Series series_of(rondo_type_t type, rondo_op_t op) {
  Series series{{RONDO_ALL_REDUCE, type, op, 0, 4}, {}};
  for (size_t bytes = 8; bytes <= size_t{256} << 20; bytes *= 4)
    series.rows.push_back(row_of(bytes, 6 + static_cast<double>(bytes) / 5e3, 0));
  return series;
}

size_t count_of(const std::string &text, const std::string &what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("perf report: median, least and greatest of the runs") {
  CHECK(summarise(std::vector<double>{3e3, 1e3, 2e3}).median_us == Approx(2));
  const Times even = summarise(std::vector<double>{4e3, 1e3, 2e3, 9e3});
  CHECK(even.median_us == Approx(3));
  CHECK(even.min_us == Approx(1));
  CHECK(even.max_us == Approx(9));
  CHECK(summarise(std::vector<double>{5e3}).median_us == Approx(5));
}

TEST_CASE("perf report: bandwidth counts 10^9 bytes a second") {
  const Bandwidth rate = bandwidth({RONDO_ALL_REDUCE, RONDO_FLOAT32, RONDO_SUM, 0, 4}, 8'000'000, times_of(1000, 0));
  CHECK(rate.algorithm_GBps == Approx(8));
  CHECK(rate.bus_GBps == Approx(12));
}

TEST_CASE("perf report: the table fits terminals of 120 and 80 columns, and others than terminals get all of it") {
  Series series{{RONDO_REDUCE, RONDO_BFLOAT16, RONDO_MAX, 2, 4}, {row_of(size_t{1} << 28, 12.5, 0)}};
  series.rows[0].disturbance = {0.4, 1.2, 0, true};
  Options options;
  options.collective = RONDO_REDUCE;
  options.types = {RONDO_BFLOAT16};
  options.ops = {RONDO_MAX};
  options.root = 2;
  Machine machine;
  machine.members.resize(4);
  const auto widest = [](const std::string &text) {
    size_t most = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with("# min")) most = std::max(most, line.size());
    return most;
  };
  for (const size_t terminal : {80u, 95u, 96u, 120u, 124u}) {
    const TableColumns columns = table_columns(options, false, terminal);
    const std::string head = table_head(options, machine, "1", columns);
    CHECK(widest(head) <= terminal);
    CHECK(widest(table_row(series.what, series.rows[0], columns)) <= terminal);
    CHECK_THAT(head, Contains("# type: bfloat16 redop: max root: 2\n"));
    CHECK((head.find("count") != std::string::npos) == (terminal >= 96));
  }
  for (const size_t terminal : {0u, 125u}) {
    const TableColumns columns = table_columns(options, false, terminal);
    CHECK(table_row(series.what, series.rows[0], columns) == table_row(series.what, series.rows[0]));
    CHECK_THAT(table_head(options, machine, "1", columns), Contains(" redop ") && !Contains("redop:"));
  }
  options.ops = {RONDO_MAX, RONDO_SUM};  // a column names the operation
  CHECK(table_columns(options, false, 80).choices);
}

TEST_CASE("perf report: one rank without a launcher is told how to be more") {
  Options options;
  Machine machine;
  machine.members.resize(1);
  CHECK_THAT(table_head(options, machine, "1"),
             Contains("# One rank exchanges no data") && Contains("rondo run -n N\n"));
  options.ranks = 1;  // a request
  CHECK_THAT(table_head(options, machine, "1"), !Contains("exchanges no data"));
  options.ranks = 0;
  machine.members.resize(2);
  CHECK_THAT(table_head(options, machine, "1"), !Contains("exchanges no data"));
}

TEST_CASE("perf report: the table has nccl-tests' columns, and says OK or FAILED") {
  Series series{{RONDO_REDUCE, RONDO_BFLOAT16, RONDO_MAX, 2, 4}, {row_of(4096, 12.5, 0)}};
  std::istringstream row(table_row(series.what, series.rows[0]));
  std::vector<std::string> words;
  for (std::string word; row >> word;) words.push_back(word);
  CHECK(words == std::vector<std::string>{"4096", "1024", "bfloat16", "max", "2", "12.50", "0.33", "0.33", "0", "11.25",
                                          "0.36", "0.36", "0"});
  CHECK_THAT(table_end({&series, 1}), Contains("# Out of bounds values : 0 OK"));
  CHECK_THAT(table_end({&series, 1}), Contains("# Avg bus bandwidth    : 0.3459"));
  series.rows.push_back(row_of(8192, 12.5, 3));
  CHECK_THAT(table_end({&series, 1}), Contains("# Out of bounds values : 6 FAILED"));
  CHECK(count_wrong({&series, 1}) == 6);
  series.rows[0].disturbance = {0.4, 1.2, 0, true};
  CHECK(table_row(series.what, series.rows[0]).ends_with(" !\n"));
  CHECK_THAT(table_end({&series, 1}), Contains("# Disturbed rows (!)   : 1 of 2;") && Contains("40 %") &&
                                          Contains("rondo run --bind core"));
  const Series silent{series.what, {row_of(8, 1, std::nullopt)}};
  CHECK_THAT(table_end({&silent, 1}), Contains("# Out of bounds values : not checked") && !Contains("Disturbed"));
  const Row unchecked = row_of(8, 1, std::nullopt);
  CHECK_THAT(table_row({RONDO_ALL_GATHER, RONDO_INT8, RONDO_SUM, 0, 2}, unchecked), Contains("none      -1"));
  CHECK_THAT(table_row(series.what, unchecked), Contains("N/A"));
}

TEST_CASE("perf report: JSON has exactly the promised form") {
  const Series series{{RONDO_ALL_REDUCE, RONDO_FLOAT32, RONDO_SUM, 0, 2},
                      {row_of(8, 10, 0)},
                      {.members = {{"node1", 17, {}}, {"node1", 18, {}}}}};
  const RunFacts facts{"0.1.0", "0123456789ab", "2026-11-23T03:10:06Z", {"all_reduce"}, {{"RONDO_LOG", "info"}}};
  const auto json = nlohmann::json::parse(to_json({&series, 1}, facts, {}), nullptr, false);
  REQUIRE_FALSE(json.is_discarded());
  const auto expected = nlohmann::json::parse(R"({
    "collective": "all_reduce", "ranks": 2, "type": "float32", "op": "sum", "root": null, "device": "host",
    "version": "0.1.0", "commit": "0123456789ab", "time": "2026-11-23T03:10:06Z", "arguments": ["all_reduce"],
    "environment": {"RONDO_LOG": "info"}, "hosts": [{"name": "node1", "ranks": [0, 1], "processes": [17, 18]}],
    "configuration": {"algorithm": "auto", "protocol": "auto", "kernel": "auto", "channels": 0, "chunk_bytes": 0,
      "max_ctas": 0,
      "timeout_ms": 0, "threads": false, "stream": false, "rewrite": true, "check_count": 1, "aggregate_count": 1,
      "seed": 1},
    "results": [{"bytes": 8, "count": 2, "algorithm": "ring", "protocol": "ll", "kernel": "interpreter", "channels": 2,
      "chunk_bytes": 4096, "disturbed": false, "load": {"waited": 0, "others": 0, "stolen": 0},
      "out_of_place": {"time_us": {"median": 10.0, "min": 8.0, "max": 17.0}, "algbw_GBps": 0.0008,
                       "busbw_GBps": 0.0008, "wrong": 0},
      "in_place": {"time_us": {"median": 9.0, "min": 0, "max": 0}, "algbw_GBps": 0, "busbw_GBps": 0, "wrong": 0}}]})");
  for (const char *key : {"version", "commit", "time", "arguments", "environment", "hosts", "configuration"})
    CHECK(json[key] == expected[key]);
  CHECK(json["results"][0]["out_of_place"] == expected["results"][0]["out_of_place"]);
  const nlohmann::json paths = json.flatten(), expected_paths = expected.flatten();
  CHECK(paths.size() == expected_paths.size());
  for (const auto &[path, value] : expected_paths.items()) {
    INFO(path);
    CHECK(paths.contains(path));
  }
  const std::vector<Series> two{series, series};
  CHECK(nlohmann::json::parse(to_json(two, {}, {})).size() == 2);
}

TEST_CASE("perf report: CSV has as many fields in each row as in its head") {
  Series series = series_of(RONDO_FLOAT32, RONDO_SUM);
  series.rows[1].in_place.reset();
  series.rows[2].out_of_place->wrong.reset();
  std::istringstream text(to_csv({&series, 1}));
  std::string line;
  size_t lines = 0;
  for (; std::getline(text, line); ++lines) CHECK(std::count(line.begin(), line.end(), ',') == 27);
  CHECK(lines == series.rows.size() + 1);
}

TEST_CASE("perf report: the picture has two panels, a line for each placement and a point for each size") {
  const Series series = series_of(RONDO_FLOAT32, RONDO_SUM);
  const std::string svg = to_svg({&series, 1});
  if (const char *path = std::getenv("RONDO_TEST_SVG")) std::ofstream(path) << svg;
  CHECK(count_of(svg, "<polyline") == 4);
  CHECK(count_of(svg, "<polygon") == 2);
  CHECK(count_of(svg, "<circle") == 4 * series.rows.size());
  CHECK(count_of(svg, "nan") == 0);
  CHECK(count_of(svg, "inf") == 0);
  CHECK(count_of(svg, "hollow") + count_of(svg, "fill=\"#fff\" stroke") == 0);
  CHECK_THAT(svg, Contains(">128M<") && Contains("10 us") && Contains("bus bandwidth") && Contains("out of place"));
}

TEST_CASE("perf report: the picture has hollow dots where other programs disturbed a row") {
  Series series = series_of(RONDO_FLOAT32, RONDO_SUM);
  series.rows[1].disturbance = {0.4, 1.2, 0, true};
  const std::string large = to_svg({&series, 1});
  CHECK(count_of(large, "r=\"3\" fill=\"#fff\" stroke=\"#") == 4);
  CHECK_THAT(large, Contains("; hollow dots: other programs disturbed the row"));
  const std::vector<Series> many(9, series);
  const std::string small = to_svg(many);
  CHECK(count_of(small, "r=\"3\" fill=\"#fff\" stroke=\"#") == 2 * 9);
  CHECK_THAT(small, Contains("hollow dots"));
}

TEST_CASE("perf report: the picture of one size, of none, of one rank and of many series") {
  Series series{{RONDO_ALL_REDUCE, RONDO_FLOAT32, RONDO_SUM, 0, 1}, {row_of(1024, 3, 0)}};
  CHECK_THAT(to_svg({&series, 1}), Contains("algorithm bandwidth") && !Contains("nan"));
  series.rows = {row_of(0, 3, 0)};
  CHECK_THAT(to_svg({&series, 1}), Contains("no size above 0 bytes") && Contains("</svg>"));
  std::vector<Series> many;
  for (int type = 0; type < 12; ++type) many.push_back(series_of(static_cast<rondo_type_t>(type), RONDO_MAX));
  if (const char *path = std::getenv("RONDO_TEST_SVG_MANY")) std::ofstream(path) << to_svg(many);
  // Each of 12 types has a panel of times and one of bandwidths: its own line, and 11 grey lines of the others.
  CHECK(count_of(to_svg(many), "<polyline") == 2 * 12 * 12);
  CHECK(count_of(to_svg(many), "stroke=\"#ddd\"") == 2 * 12 * 11);
  CHECK(count_of(to_svg(many), ">float8_e4m3</text>") == 2);
  many.resize(8);
  CHECK(count_of(to_svg(many), "<polyline") == 2 * 8);
  CHECK_THAT(to_svg(many), Contains(">bfloat16 max</text>") && !Contains("#ddd"));
}

TEST_CASE("perf report: a picture of all types and operations has a panel a type, with a line for each operation") {
  std::vector<Series> all;
  for (int type = 0; type < 12; ++type)
    for (int op = 0; op < 5; ++op)
      all.push_back(series_of(static_cast<rondo_type_t>(type), static_cast<rondo_op_t>(op)));
  const std::string svg = to_svg(all);
  CHECK(count_of(svg, "class=\"panel\"") == 2 * 12);
  CHECK(count_of(svg, "stroke-width=\"2\"") == 2 * 12 * 5);
  for (const char *op : {"sum", "prod", "min", "max", "avg"}) CHECK(count_of(svg, std::string(">") + op + "<") == 1);
  CHECK(count_of(svg, "nan") + count_of(svg, "inf") == 0);
}
