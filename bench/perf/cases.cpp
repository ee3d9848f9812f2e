// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/cases.h"

#include <array>

namespace rondo::perf {
namespace {

constexpr std::array timed{RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER, RONDO_BROADCAST, RONDO_REDUCE,
                           RONDO_ALL_TO_ALL, RONDO_GATHER,         RONDO_SCATTER,    sendrecv};

}  // namespace

const char *name_of(rondo_collective_t collective) {
  return collective == sendrecv ? "sendrecv" : rondo_collective_string(collective);
}

std::optional<rondo_collective_t> find_collective(std::string_view name) {
  for (const rondo_collective_t collective : timed)
    if (name == name_of(collective)) return collective;
  return std::nullopt;
}

std::string known_collectives() {
  std::string list;
  for (const rondo_collective_t collective : timed)
    list += (list.empty() ? "" : ", ") + std::string(name_of(collective));
  return list;
}

bool reduces(rondo_collective_t collective) {
  return collective == RONDO_ALL_REDUCE || collective == RONDO_REDUCE_SCATTER || collective == RONDO_REDUCE;
}

bool has_root(rondo_collective_t collective) {
  return collective == RONDO_BROADCAST || collective == RONDO_REDUCE || collective == RONDO_GATHER ||
         collective == RONDO_SCATTER;
}

bool has_plan(rondo_collective_t collective) { return collective != sendrecv; }

bool exchanges_blocks(rondo_collective_t collective) {
  return collective == RONDO_ALL_TO_ALL || collective == RONDO_GATHER || collective == RONDO_SCATTER;
}

bool writes_recv(const Case &what, int rank) {
  return (what.collective != RONDO_REDUCE && what.collective != RONDO_GATHER) || rank == what.root;
}

Shape shape_of(const Case &what, int rank, size_t bytes) {
  const auto ranks = static_cast<size_t>(what.ranks);
  const size_t element_bytes = rondo_type_size(what.type);
  const bool gathers = what.collective == RONDO_ALL_GATHER || what.collective == RONDO_GATHER;
  const bool scatters = what.collective == RONDO_REDUCE_SCATTER || what.collective == RONDO_SCATTER;
  const bool blocks = gathers || scatters || what.collective == RONDO_ALL_TO_ALL;
  Shape shape;
  shape.count = bytes / element_bytes / (blocks ? ranks : 1);
  const Part all{0, shape.count * (blocks ? ranks : 1)};
  const Part own{static_cast<uint64_t>(rank) * shape.count, shape.count};
  shape.bytes = all.count * element_bytes;
  shape.send = gathers ? own : all;
  shape.recv = scatters ? own : all;
  shape.next = (rank + 1) % what.ranks;
  shape.previous = (rank + what.ranks - 1) % what.ranks;
  return shape;
}

double bus_factor(rondo_collective_t collective, int ranks) {
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (collective) {
    case RONDO_ALL_REDUCE: return 2 * others;
    case RONDO_REDUCE_SCATTER:
    case RONDO_ALL_GATHER:
    case RONDO_ALL_TO_ALL:
    case RONDO_GATHER:
    case RONDO_SCATTER: return others;
    default: return 1;
  }
}

const char *op_name(const Case &what) { return reduces(what.collective) ? rondo_op_string(what.op) : "none"; }

}  // namespace rondo::perf
