// SPDX-License-Identifier: Apache-2.0
// This file declares the results of `rondo perf` and the forms of its report: a table, JSON, CSV and a picture.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/perf/cases.h"
#include "bench/perf/disturbance.h"
#include "bench/perf/facts.h"
#include "bench/perf/group.h"
#include "bench/perf/options.h"

namespace rondo::perf {

struct Spread {
  double median_us = 0, min_us = 0, max_us = 0;
};

/// The times of a collective and a matrix product, each alone and beside the other (beside.h).
struct BesideTimes {
  Spread call_alone, call_beside, product_alone, product_beside;
  /// The smallest share of the calls' time in which products ran, and of the products' time in which calls ran.
  double calls_covered = 0, products_covered = 0;

  /// Returns the slow-down. It is 0.03 if calls beside products take 3 % more time than alone.
  [[nodiscard]] double call_slowdown() const { return call_beside.median_us / call_alone.median_us - 1; }
  [[nodiscard]] double product_slowdown() const { return product_beside.median_us / product_alone.median_us - 1; }
};

/// The times of one call. A run's time is the slowest rank's. The times are the median, least and greatest over runs.
struct Times {
  double median_us = 0, min_us = 0, max_us = 0;
  std::optional<uint64_t> wrong;           ///< wrong elements of all ranks and checked runs; empty without a check
  std::optional<double> floor_us = {};     ///< the least possible time, on a device; see floor.h
  std::optional<double> host_us = {};      ///< median time until a call returns, on a device without a graph
  std::optional<BesideTimes> beside = {};  ///< for --beside-product
};

/// Summarises the times of runs.
/// @param run_times_ns  at least one
[[nodiscard]] Times summarise(std::span<const double> run_times_ns);
[[nodiscard]] Spread spread_of(std::span<const double> times_ns);

struct Row {
  size_t bytes = 0;
  size_t count = 0;
  const char *algorithm = "";
  const char *protocol = "";
  const char *kernel = "";
  uint32_t channels = 0;
  uint64_t chunk_bytes = 0;
  Disturbance disturbance = {};
  uint64_t hand_overs = 0;  ///< that a call needs one after another, if processes share a device; see turns.h
  std::optional<Times> out_of_place, in_place;
  std::optional<Times> other_out_of_place, other_in_place;  ///< for the library of --against
};

/// The matrix product of --beside-product.
struct ProductFacts {
  std::string library = {}, version = {};
  uint32_t size = 0;
  uint64_t wrong = 0;  ///< wrong elements among those checked
};

/// The ranks, and where each ran.
struct Machine {
  std::vector<Member> members;
  std::optional<rondo_comm_properties_t> properties = {};  ///< properties of rank 0's communicator
  /// The time to make the communicator: the shortest time of any rank, so that a rank's late start does not count.
  std::optional<double> setup_ms = {};
  std::vector<double> copy_GBps = {};  ///< bandwidth of each rank's device, as bytes read and written; empty on hosts
  std::vector<double> hand_over_us = {};  ///< hand-over time on each rank's device (0 or empty: none is shared)
};

/// The results of one collective, type and operation, for all sizes.
struct Series {
  Case what;
  std::vector<Row> rows;
  Machine machine = {};
  bool graph = false;                                  ///< calls were captured and replayed
  bool one_graph = false;                              ///< one graph for all ranks
  bool together = false;                               ///< all ranks' streams began at once
  std::string other_library = {}, other_version = {};  ///< for --against; otherwise empty
  std::optional<ProductFacts> product = {};
};

struct Bandwidth {
  double algorithm_GBps = 0;  ///< bytes / median time, in 10^9 bytes a second
  double bus_GBps = 0;
};

[[nodiscard]] Bandwidth bandwidth(const Case &what, size_t bytes, const Times &times);

/// Returns the number of wrong elements of products.
[[nodiscard]] uint64_t count_product_wrong(std::span<const Series> all);
/// Returns the number of wrong elements of the other library.
[[nodiscard]] uint64_t count_other_wrong(std::span<const Series> all);
/// Returns the number of all wrong elements. mean_bus_bandwidth() returns the mean over all rows, as nccl-tests does.
[[nodiscard]] uint64_t count_wrong(std::span<const Series> all);
[[nodiscard]] double mean_bus_bandwidth(std::span<const Series> all);

/// The columns of the table for which a terminal is wide enough.
struct TableColumns {
  bool choices = true;  ///< type, redop and root; otherwise a line of the head shows them
  bool count = true;
};
/// Returns the columns that fit into `terminal_columns`. If the table goes to no terminal, `terminal_columns` is 0.
[[nodiscard]] TableColumns table_columns(const Options &options, bool floors, size_t terminal_columns);

/// Returns the table's lines; each ends with a newline. `version` is the library's version.
[[nodiscard]] std::string table_head(const Options &options, const Machine &machine, const std::string &version,
                                     const TableColumns &columns = {});
[[nodiscard]] std::string table_row(const Case &what, const Row &row, const TableColumns &columns = {});
[[nodiscard]] std::string table_end(std::span<const Series> all);

/// Returns one object, or an array of such objects if there are several series.
[[nodiscard]] std::string to_json(std::span<const Series> all, const RunFacts &facts, const Options &options);
[[nodiscard]] std::string to_csv(std::span<const Series> all);
/// Returns a picture of time and bandwidth by size, as SVG.
[[nodiscard]] std::string to_svg(std::span<const Series> all);

}  // namespace rondo::perf
