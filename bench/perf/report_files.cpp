// SPDX-License-Identifier: Apache-2.0
// The results as JSON, in the form that scripts rely on, and as CSV.
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/perf/report.h"

namespace rondo::perf {
namespace {

using Json = nlohmann::ordered_json;

Json times_object(const Case &what, const Row &row, const std::optional<Times> &times) {
  if (!times) return nullptr;  // a placement that was left out
  const Bandwidth rate = bandwidth(what, row.bytes, *times);
  return {{"time_us", {{"median", times->median_us}, {"min", times->min_us}, {"max", times->max_us}}},
          {"algbw_GBps", rate.algorithm_GBps},
          {"busbw_GBps", rate.bus_GBps},
          {"wrong", times->wrong ? Json(*times->wrong) : Json(nullptr)}};
}

Json series_object(const Series &series) {
  Json results = Json::array();
  for (const Row &row : series.rows) {
    results.push_back({{"bytes", row.bytes},
                       {"count", row.count},
                       {"algorithm", row.algorithm},
                       {"protocol", row.protocol},
                       {"channels", row.channels},
                       {"out_of_place", times_object(series.what, row, row.out_of_place)},
                       {"in_place", times_object(series.what, row, row.in_place)}});
  }
  return {{"collective", rondo_collective_string(series.what.collective)},
          {"ranks", series.what.ranks},
          {"type", rondo_type_string(series.what.type)},
          {"op", op_name(series.what)},
          {"device", "host"},
          {"results", std::move(results)}};
}

void add_times(std::ostringstream &out, const Case &what, const Row &row, const std::optional<Times> &times) {
  if (!times) {
    out << ",,,,,,";
    return;
  }
  const Bandwidth rate = bandwidth(what, row.bytes, *times);
  out << ',' << times->median_us << ',' << times->min_us << ',' << times->max_us << ',' << rate.algorithm_GBps << ','
      << rate.bus_GBps << ',';
  if (times->wrong) out << *times->wrong;
}

}  // namespace

std::string to_json(std::span<const Series> all) {
  if (all.size() == 1) return series_object(all.front()).dump(2) + "\n";
  Json list = Json::array();
  for (const Series &series : all) list.push_back(series_object(series));
  return list.dump(2) + "\n";
}

std::string to_csv(std::span<const Series> all) {
  std::ostringstream out;
  out << "collective,ranks,type,op,root,device,bytes,count,algorithm,protocol,channels";
  for (const char *placement : {"out_of_place", "in_place"})
    for (const char *column : {"time_us_median", "time_us_min", "time_us_max", "algbw_GBps", "busbw_GBps", "wrong"})
      out << ',' << placement << '_' << column;
  out << '\n';
  for (const Series &series : all) {
    const Case &what = series.what;
    for (const Row &row : series.rows) {
      out << rondo_collective_string(what.collective) << ',' << what.ranks << ',' << rondo_type_string(what.type) << ','
          << op_name(what) << ',' << (has_root(what.collective) ? what.root : -1) << ",host," << row.bytes << ','
          << row.count << ',' << row.algorithm << ',' << row.protocol << ',' << row.channels;
      add_times(out, what, row, row.out_of_place);
      add_times(out, what, row, row.in_place);
      out << '\n';
    }
  }
  return out.str();
}

}  // namespace rondo::perf
