// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/cases.h"

#include <bit>

namespace rondo::perf {
namespace {

bool is_timed(const Collective &traits) { return traits.has_data && is_collective(traits.id); }

}  // namespace

const char *name_of(rondo_collective_t collective) {
  if (collective == sendrecv) return "sendrecv";
  return collective == hypercube ? "hypercube" : rondo_collective_string(collective);
}

std::optional<rondo_collective_t> find_collective(std::string_view name) {
  for (const Collective &each : collective_table)
    if (is_timed(each) && name == each.name) return each.id;
  for (const rondo_collective_t pattern : {sendrecv, hypercube})
    if (name == name_of(pattern)) return pattern;
  return std::nullopt;
}

std::string known_collectives() {
  return collective_names(is_timed) + ", " + name_of(sendrecv) + ", " + name_of(hypercube);
}

bool has_plan(rondo_collective_t collective) { return collective != sendrecv && collective != hypercube; }

bool has_in_place(rondo_collective_t collective) { return collective != sendrecv; }

bool takes_ranks(rondo_collective_t collective, int ranks) {
  return collective != hypercube || std::has_single_bit(static_cast<unsigned>(ranks));
}

bool reads_send(const Case &what, int rank) {
  return has_source(traits_of(what.collective), static_cast<uint32_t>(rank), static_cast<uint32_t>(what.root));
}

bool writes_recv(const Case &what, int rank) {
  return has_target(traits_of(what.collective), static_cast<uint32_t>(rank), static_cast<uint32_t>(what.root));
}

Shape shape_of(const Case &what, int rank, size_t bytes) {
  const auto ranks = static_cast<size_t>(what.ranks);
  const size_t element_bytes = rondo_type_size(what.type);
  const Collective &traits = traits_of(like(what.collective));
  const bool blocks = in_blocks(traits.id);
  Shape shape;
  shape.count = bytes / element_bytes / (blocks ? ranks : 1);
  const Part all{0, shape.count * (blocks ? ranks : 1)};
  const Part own{static_cast<uint64_t>(rank) * shape.count, shape.count};
  shape.bytes = all.count * element_bytes;
  shape.send = traits.source == BufferLayout::own_block ? own : all;
  shape.recv = traits.target == BufferLayout::own_block ? own : all;
  shape.rank = rank;
  return shape;
}

double bus_factor(rondo_collective_t collective, int ranks) {
  const uint32_t shares = traits_of(like(collective)).shares;
  return shares == 0 ? 1 : shares * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
}

const char *op_name(const Case &what) {
  if (!traits_of(what.collective).reduces) return "none";
  return what.op == mulsum ? "mulsum" : rondo_op_string(what.op);
}

}  // namespace rondo::perf
