// SPDX-License-Identifier: Apache-2.0
#include "src/plan/tuning_table.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "src/base/config.h"
#include "src/plan/schedule.h"
#include "src/plan/tuner.h"

namespace rondo {
namespace {

auto group_of(const TuningRow &row) {
  return std::tuple(row.collective, row.buffers, row.several_hosts, row.oversubscribed, row.rank_count);
}

bool is_before(const TuningRow &row, const TuningRow &next) {
  return std::tuple(group_of(row), row.bytes_max) < std::tuple(group_of(next), next.bytes_max);
}

Result<void> check_sizes(const TuningRow &row) {
  const auto refuse = [](const char *name, uint64_t value, const std::string &wanted) {
    return invalid_argument(std::string(name) + " is " + std::to_string(value) + "; it takes " + wanted);
  };
  if (row.rank_count < 2 || row.rank_count > TuningTable::rank_count_max)
    return refuse("ranks", row.rank_count, "2 to " + std::to_string(TuningTable::rank_count_max));
  if (row.bytes_max == 0) return refuse("bytes_max", 0, "1 or more");
  const uint32_t channel_count_max = row.buffers == BufferPlace::host                  ? channels_max
                                     : row.choice.kernel == RONDO_KERNEL_LOAD_STORE ? max_ctas_max
                                                                                    : device_channels_max;
  if (row.choice.channels < 1 || row.choice.channels > channel_count_max)
    return refuse("channels", row.choice.channels, "1 to " + std::to_string(channel_count_max));
  const uint64_t chunk_bytes = row.choice.chunk_bytes;
  if (chunk_bytes < chunk_bytes_min || chunk_bytes > chunk_bytes_max || chunk_bytes % chunk_bytes_min != 0)
    return refuse("chunk_bytes", chunk_bytes, "a multiple of 64 up to " + std::to_string(chunk_bytes_max));
  return {};
}

Result<void> check_row(const TuningRow &row) {
  RONDO_TRY(check_sizes(row));
  const PlanChoice &choice = row.choice;
  if (!traits_of(row.collective).has_data)
    return invalid_argument("a barrier has no rows: it is planned as an all_reduce");
  if (!has_schedule(row.collective))
    return invalid_argument(std::string(rondo_collective_string(row.collective)) +
                            " has no rows: nothing is chosen for it");
  const Algorithm *const algorithm = find_algorithm(choice.algorithm);
  const bool interpreted = choice.kernel == RONDO_KERNEL_INTERPRETER;
  if (algorithm == nullptr || choice.kernel == RONDO_KERNEL_AUTO ||
      (interpreted && choice.protocol == RONDO_PROTOCOL_AUTO))
    return invalid_argument("a row names one algorithm, one kernel and a protocol of the interpreter, not 'auto'");
  if (!interpreted && choice.protocol != RONDO_PROTOCOL_AUTO)
    return invalid_argument("the kernel 'load_store' has no protocol; leave it 'auto'");
  const std::string name = rondo_algorithm_string(choice.algorithm);
  if (!algorithm->supports(row.collective))
    return invalid_argument("the algorithm '" + name + "' cannot do " + rondo_collective_string(row.collective));
  if (row.rank_count > algorithm->rank_count_max)
    return invalid_argument("the algorithm '" + name + "' can do " + std::to_string(algorithm->rank_count_max) +
                            " ranks at most, not " + std::to_string(row.rank_count));
  if (choice.kernel != RONDO_KERNEL_LOAD_STORE) return {};
  const bool shot = choice.algorithm == RONDO_ALGORITHM_ONE_SHOT || choice.algorithm == RONDO_ALGORITHM_TWO_SHOT;
  const bool on_host = row.buffers == BufferPlace::host;
  const bool possible = on_host ? (shot || choice.algorithm == RONDO_ALGORITHM_RING) && choice.channels == 1 : shot;
  const bool all_reduce = row.collective == RONDO_ALL_REDUCE;
  if (all_reduce && possible) return {};
  if (!all_reduce && !on_host && choice.algorithm == load_store_algorithm(row.collective)) return {};
  const char *const what = on_host ? "on hosts by one_shot, two_shot or ring, on one channel"
                                   : "on devices by one_shot or two_shot; and there reduce_scatter and all_gather by "
                                     "one_shot, broadcast and reduce by two_shot";
  return invalid_argument(std::string("the kernel 'load_store' does all_reduce, ") + what);
}

uint64_t hash_of(std::span<const TuningRow> rows) {
  if (rows.empty()) return 0;
  std::vector<uint64_t> numbers;  // numbers, not bytes: structs have padding and an order of bytes
  for (const TuningRow &row : rows)
    for (const uint64_t number :
         {uint64_t{row.collective}, uint64_t{row.rank_count}, uint64_t{row.oversubscribed},
          uint64_t{row.several_hosts}, static_cast<uint64_t>(row.buffers), row.bytes_max,
          uint64_t{row.choice.algorithm}, uint64_t{row.choice.protocol}, uint64_t{row.choice.channels},
          row.choice.chunk_bytes, uint64_t{row.choice.kernel}})
      numbers.push_back(number);
  const auto bytes = std::as_bytes(std::span(numbers));
  unsigned char digest[crypto_generichash_BYTES];
  crypto_generichash(digest, sizeof digest, reinterpret_cast<const unsigned char *>(bytes.data()), bytes.size(),
                     nullptr, 0);
  uint64_t hash = 0;
  std::memcpy(&hash, digest, sizeof hash);
  return std::max<uint64_t>(hash, 1);
}

}  // namespace

const char *buffer_place_string(BufferPlace place) {
  switch (place) {
    case BufferPlace::host: return "host";
    case BufferPlace::device: return "device";
    case BufferPlace::shared_device: return "shared_device";
    case BufferPlace::peer_devices: return "peer_devices";
    case BufferPlace::registered: break;
  }
  return nullptr;
}

Result<TuningTable> TuningTable::make(std::vector<TuningRow> rows) {
  const auto at = [](size_t index) { return "rows[" + std::to_string(index) + "]: "; };
  if (rows.empty()) return invalid_argument("rows: there are none");
  if (rows.size() > row_count_max)
    return invalid_argument("rows: there are " + std::to_string(rows.size()) + ", more than " +
                            std::to_string(row_count_max));
  for (size_t index = 0; index < rows.size(); ++index) {
    if (auto checked = check_row(rows[index]); !checked.ok())
      return invalid_argument(at(index) + checked.error().message);
    if (index > 0 && !is_before(rows[index - 1], rows[index]))
      return invalid_argument(at(index) +
                              "out of order: rows ascend by collective, buffers, several_hosts, oversubscribed, "
                              "ranks and bytes_max");
  }
  TuningTable table;
  table.rows_ = std::move(rows);
  table.hash_ = hash_of(table.rows_);
  return table;
}

std::span<const TuningRow> TuningTable::rows_for(rondo_collective_t collective, uint32_t rank_count,
                                                 bool oversubscribed, bool several_hosts, BufferPlace buffers) const {
  uint64_t below = 0, above = 0;  // nearest measured numbers of ranks
  for (const TuningRow &row : rows_) {
    if (row.collective != collective || row.oversubscribed != oversubscribed || row.several_hosts != several_hosts ||
        row.buffers != buffers)
      continue;
    if (row.rank_count <= rank_count) below = row.rank_count;  // rows ascend
    if (row.rank_count >= rank_count && above == 0) above = row.rank_count;
  }
  if (below == 0 || above == 0) return {};
  const bool nearer_below = uint64_t{rank_count} * rank_count < below * above;
  TuningRow first;
  first.collective = collective;
  first.oversubscribed = oversubscribed;
  first.several_hosts = several_hosts;
  first.buffers = buffers;
  first.rank_count = static_cast<uint32_t>(nearer_below ? below : above);
  const auto range = std::equal_range(rows_.begin(), rows_.end(), first,
                                      [](const TuningRow &a, const TuningRow &b) { return group_of(a) < group_of(b); });
  return {range.first, range.second};
}

bool TuningTable::wants_load_store(uint32_t rank_count, BufferPlace buffers) const {
  const auto by_it = [](const TuningRow &row) { return row.choice.kernel == RONDO_KERNEL_LOAD_STORE; };
  for (const Collective &each : collective_table) {
    const auto rows = rows_for(each.id, rank_count, false, false, buffers);
    if (std::any_of(rows.begin(), rows.end(), by_it)) return true;
  }
  return false;
}

}  // namespace rondo
