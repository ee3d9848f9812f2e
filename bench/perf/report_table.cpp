// SPDX-License-Identifier: Apache-2.0
// This file prints the table, which has the columns of nccl-tests. It also computes the figures of all report forms.
#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "bench/perf/floor.h"
#include "bench/perf/perf_report.h"

namespace rondo::perf {
namespace {

/// Prints into a string. Lines must be short.
[[gnu::format(printf, 1, 2)]] std::string format(const char *pattern, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, pattern);
  (void)std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

/// Returns at most six characters, with as many digits as fit: 0.42, 13.07, 1234.5, 123456.
std::string short_number(double value) {
  if (value < 999.995) return format("%.2f", value);
  if (value < 99'999.5) return format("%.1f", value);
  return format("%.0f", value);
}

std::string times_columns(const Case &what, size_t bytes, const std::optional<Times> &times, bool floors) {
  if (!times) return format("  %8s %7s %7s", "-", "-", "-") + (floors ? format(" %8s", "-") : "") + format(" %6s", "-");
  const Bandwidth rate = bandwidth(what, bytes, *times);
  const std::string wrong = times->wrong ? std::to_string(*times->wrong) : "N/A";
  const std::string floor = times->floor_us ? format(" %8s", short_number(*times->floor_us).c_str()) : "";
  return format("  %8s %7s %7s", short_number(times->median_us).c_str(), short_number(rate.algorithm_GBps).c_str(),
                short_number(rate.bus_GBps).c_str()) +
         floor + format(" %6s", wrong.c_str());
}

/// Returns text such as "+1.3 %".
std::string percent(double share) { return format("%+.1f %%", 100 * share); }

/// Returns a comment on how much a collective and the product beside it slow each other down.
std::string beside_line(const Case &what, const char *placement, const std::optional<Times> &times) {
  if (!times || !times->beside) return "";
  const BesideTimes &beside = *times->beside;
  return format("# beside, %s: product %s us alone, %s beside (%s, %.0f %% covered); ", placement,
                short_number(beside.product_alone.median_us).c_str(),
                short_number(beside.product_beside.median_us).c_str(), percent(beside.product_slowdown()).c_str(),
                100 * beside.products_covered) +
         format("%s %s us alone, %s beside (%s, %.0f %% covered)\n", name_of(what.collective),
                short_number(beside.call_alone.median_us).c_str(), short_number(beside.call_beside.median_us).c_str(),
                percent(beside.call_slowdown()).c_str(), 100 * beside.calls_covered);
}

/// Returns a line of the head, without the spaces at its end.
std::string head_line(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

/// Returns text such as "host" or "cuda:0 (NVIDIA H100)".
std::string device_text(const DeviceName &device) {
  if (device.ordinal == RONDO_DEVICE_HOST) return "host";
  return "cuda:" + std::to_string(device.ordinal) + " (" + device.name + ")";
}

std::string count_or_auto(const std::optional<uint32_t> &count) { return count ? std::to_string(*count) : "auto"; }

bool was_checked(std::span<const Series> all) {
  for (const Series &series : all)
    for (const Row &row : series.rows)
      for (const auto *times : {&row.out_of_place, &row.in_place})
        if (*times && (*times)->wrong) return true;
  return all.empty();
}

/// Returns lines about marked rows, and what to do; "" if there are none.
std::string disturbed_lines(std::span<const Series> all) {
  size_t rows = 0, marked = 0;
  Disturbance worst;
  for (const Series &series : all) {
    for (const Row &row : series.rows) {
      ++rows;
      if (!row.disturbance.marked) continue;
      ++marked;
      worst.waited = std::max(worst.waited, row.disturbance.waited);
      worst.others = std::max(worst.others, row.disturbance.others);
      worst.stolen = std::max(worst.stolen, row.disturbance.stolen);
    }
  }
  if (marked == 0) return "";
  return format("# Disturbed rows (!)   : %zu of %zu; a rank waited up to %.0f %% of the time,\n", marked, rows,
                100 * worst.waited) +
         format("#   other programs used up to %.1f processors, other guests up to %.0f %%\n", worst.others,
                100 * worst.stolen) +
         "#   These times say little. End other programs, and bind processes to cores: rondo run --bind core\n";
}

/// Returns the line of the head with the choices that all rows share.
std::string choices_line(const Options &options, int ranks) {
  const Case what{options.collective, options.types.front(), options.ops.front(), options.root, ranks};
  return format("# type: %s redop: %s root: %d\n#\n", rondo_type_string(what.type), op_name(what),
                has_root(what.collective) ? what.root : -1);
}

}  // namespace

Times summarise(std::span<const double> run_times_ns) {
  const Spread spread = spread_of(run_times_ns);
  return {spread.median_us, spread.min_us, spread.max_us, std::nullopt};
}

Spread spread_of(std::span<const double> times_ns) {
  std::vector<double> sorted(times_ns.begin(), times_ns.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  const double median = sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return {median / 1e3, sorted.front() / 1e3, sorted.back() / 1e3};
}

Bandwidth bandwidth(const Case &what, size_t bytes, const Times &times) {
  if (times.median_us <= 0) return {};
  const double algorithm = static_cast<double>(bytes) / times.median_us / 1e3;
  return {algorithm, algorithm * bus_factor(what.collective, what.ranks)};
}

uint64_t count_wrong(std::span<const Series> all) {
  uint64_t wrong = 0;
  for (const Series &series : all)
    for (const Row &row : series.rows)
      for (const auto *times : {&row.out_of_place, &row.in_place})
        if (*times) wrong += (*times)->wrong.value_or(0);
  return wrong;
}

uint64_t count_product_wrong(std::span<const Series> all) {
  uint64_t wrong = 0;
  for (const Series &series : all) wrong += series.product ? series.product->wrong : 0;
  return wrong;
}

uint64_t count_other_wrong(std::span<const Series> all) {
  uint64_t wrong = 0;
  for (const Series &series : all)
    for (const Row &row : series.rows)
      for (const auto *times : {&row.other_out_of_place, &row.other_in_place})
        if (*times) wrong += (*times)->wrong.value_or(0);
  return wrong;
}

double mean_bus_bandwidth(std::span<const Series> all) {
  double sum = 0;
  size_t count = 0;
  for (const Series &series : all) {
    for (const Row &row : series.rows) {
      for (const auto *times : {&row.out_of_place, &row.in_place}) {
        if (!*times) continue;
        sum += bandwidth(series.what, row.bytes, **times).bus_GBps;
        ++count;
      }
    }
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

TableColumns table_columns(const Options &options, bool floors, size_t terminal_columns) {
  constexpr size_t all = 125, without_choices = 96, of_floors = 18;  // widths, with the mark of disturbed rows
  const size_t room = terminal_columns - std::min(terminal_columns, floors ? of_floors : size_t{0});
  const bool constant = options.types.size() * options.ops.size() == 1 && !options.all_roots;
  if (terminal_columns == 0 || room >= all || !constant) return {};
  return {false, room >= without_choices};
}

std::string table_head(const Options &options, const Machine &machine, const std::string &version,
                       const TableColumns &shown) {
  const auto &members = machine.members;
  std::string text =
      format("# rondo %s  %s  %zu rank%s%s\n", version.c_str(), name_of(options.collective),
             members.size(), members.size() == 1 ? "" : "s", options.ranks != 0 ? " (threads)" : "");
  const std::string step = options.step_bytes != 0 ? std::to_string(options.step_bytes) + "(bytes)"
                                                   : std::to_string(options.step_factor) + "(factor)";
  text += format("# minBytes %zu maxBytes %zu step: %s warmup iters: %s iters: %s agg iters: %u validation: %u%s\n#\n",
                 options.min_bytes, options.max_bytes, step.c_str(), count_or_auto(options.warmup_count).c_str(),
                 count_or_auto(options.iteration_count).c_str(), options.aggregate_count, options.check_count,
                 options.graph ? " graph: 1" : "");
  text += "# Using devices\n";
  for (size_t rank = 0; rank < members.size(); ++rank)
    text += format("#  Rank %2zu Pid %6lld on %s device %s\n", rank, static_cast<long long>(members[rank].process),
                   members[rank].host, device_text(members[rank].device).c_str());
  if (members.size() == 1 && options.ranks == 0)
    text += "# One rank exchanges no data: add --ranks N, or start N ranks with rondo run -n N\n";
  if (machine.setup_ms) text += format("# Communicator made in %.1f ms\n", *machine.setup_ms);
  for (size_t rank = 0; rank < machine.copy_GBps.size(); ++rank)
    if (first_on_device(members, rank) == rank)
      text += format("# Copies on device %s: %.1f GB/s, read and written\n", device_text(members[rank].device).c_str(),
                     machine.copy_GBps[rank]);
  for (size_t rank = 0; rank < machine.hand_over_us.size(); ++rank)
    if (first_on_device(members, rank) == rank && machine.hand_over_us[rank] > 0)
      text += format("# Processes hand device %s over in %s us\n", device_text(members[rank].device).c_str(),
                     short_number(machine.hand_over_us[rank]).c_str());
  text += shown.choices ? "#\n" : choices_line(options, static_cast<int>(members.size()));
  const bool floors = !machine.copy_GBps.empty();
  const auto head = [&](const char *time, const char *algorithm, const char *bus, const char *floor,
                        const char *wrong) {
    return format("  %8s %7s %7s", time, algorithm, bus) + (floors ? format(" %8s", floor) : "") +
           format(" %6s", wrong);
  };
  const std::string times = head("time", "algbw", "busbw", "floor", "#wrong");
  const std::string units = head("(us)", "(GB/s)", "(GB/s)", "(us)", "");
  const auto columns = [&](const char *a, const char *b, const char *c, const char *d, const char *e) {
    std::string line = shown.count ? format("# %12s %13s", a, b) : format("# %10s", a);
    if (shown.choices) line += format(" %12s %7s %7s", c, d, e);
    return line;
  };
  std::string places = columns("", "", "", "", "");
  places += format("  %21s%*s  %21s", "out-of-place", floors ? 19 : 10, "", "in-place");
  text += head_line(std::move(places));
  text += head_line(columns("size", "count", "type", "redop", "root") + times + times);
  text += head_line(columns("(B)", "(elements)", "", "", "") + units + units);
  return text;
}

std::string table_row(const Case &what, const Row &row, const TableColumns &shown) {
  const auto has_floor = [](const std::optional<Times> &times) { return times && times->floor_us; };
  const bool floors = has_floor(row.out_of_place) || has_floor(row.in_place);
  std::string other;
  if (row.other_out_of_place || row.other_in_place)
    other = (shown.choices ? format("  %12s %13s %12s %7s %7s", "", "", "", "against", "")
                           : format("  %*s", shown.count ? 26 : 10, "against")) +
            times_columns(what, row.bytes, row.other_out_of_place, floors) +
            times_columns(what, row.bytes, row.other_in_place, floors) + "\n";
  std::string line = shown.count ? format("  %12zu %13zu", row.bytes, row.count) : format("  %10zu", row.bytes);
  if (shown.choices)
    line += format(" %12s %7s %7d", rondo_type_string(what.type), op_name(what),
                   has_root(what.collective) ? what.root : -1);
  return line +
         times_columns(what, row.bytes, row.out_of_place, floors) +
         times_columns(what, row.bytes, row.in_place, floors) + (row.disturbance.marked ? " !" : "") + "\n" + other +
         beside_line(what, "out of place", row.out_of_place) + beside_line(what, "in place", row.in_place);
}

std::string table_end(std::span<const Series> all) {
  const uint64_t wrong = count_wrong(all);
  std::string other;
  if (!all.empty() && !all.front().other_library.empty())
    other = format("# Of the other library : %llu\n", static_cast<unsigned long long>(count_other_wrong(all)));
  if (!all.empty() && all.front().product)
    other += format("# Of the products      : %llu\n", static_cast<unsigned long long>(count_product_wrong(all)));
  const std::string checked = was_checked(all) ? format("%llu %s", static_cast<unsigned long long>(wrong),
                                                        wrong == 0 ? "OK" : "FAILED")
                                               : "not checked";
  return "# Out of bounds values : " + checked + "\n" + other + disturbed_lines(all) +
           format("# Avg bus bandwidth    : %.4f\n#\n", mean_bus_bandwidth(all));
}

}  // namespace rondo::perf
