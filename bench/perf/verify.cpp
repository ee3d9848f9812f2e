// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/verify.h"

namespace rondo::perf {
namespace {

/// Returns which elements of a region are in a chunk of its bytes.
Part part_of(const Part &whole, size_t offset, size_t bytes, size_t element_bytes) {
  return {whole.first + offset / element_bytes, bytes / element_bytes};
}

}  // namespace

Outcome Arenas::allocate(const Options &options, int ranks, rondo_comm_t comm, Device *device) {
  const ArenaSizes sizes = arena_sizes(options, ranks);
  if (auto failure = send.allocate(sizes.send_bytes, options.buffers, comm, device)) return failure;
  return recv.allocate(sizes.recv_bytes, options.buffers, comm, device);
}

Workspace::Workspace(const Case &what, int rank, uint64_t seed, Arenas &arenas)
    : case_(what), rank_(rank), data_(make_data(what, rank, seed)), send_(arenas.send), recv_(arenas.recv) {}

void Workspace::select(const Shape &shape, Placement placement) {
  regions_.clear();
  const Collective &traits = traits_of(like(case_.collective));
  if (traits.source == BufferLayout::blocks && traits.target == BufferLayout::blocks) {
    add_all_to_all(shape, placement);
  } else if (placement == Placement::out_of_place) {
    add_out_of_place(shape);
  } else {
    add_in_place(shape);
  }
}

void Workspace::add_out_of_place(const Shape &shape) {
  const size_t element_bytes = rondo_type_size(case_.type);
  send_bytes_ = shape.send.count * element_bytes;
  recv_bytes_ = shape.recv.count * element_bytes;
  send_used_ = recv_used_ = true;
  pointers_ = {send_.data(), recv_.data()};
  regions_.push_back({&send_, send_.data(), shape.send, Contents::input, Contents::input});
  regions_.push_back({&recv_, recv_.data(), shape.recv, Contents::poison,
                      writes_recv(case_, rank_) ? Contents::output : Contents::poison});
}

void Workspace::add_in_place(const Shape &shape) {
  const Collective &traits = traits_of(like(case_.collective));
  const bool gathers = traits.source == BufferLayout::own_block, scatters = traits.target == BufferLayout::own_block;
  const bool sends = reads_send(case_, rank_), receives = writes_recv(case_, rank_);
  send_used_ = scatters;  // `send` is the larger buffer then
  recv_used_ = !scatters;
  const size_t element_bytes = rondo_type_size(case_.type);
  Arena &arena = scatters ? send_ : recv_;
  std::byte *const base = arena.data();
  (scatters ? send_bytes_ : recv_bytes_) = shape.bytes;
  pointers_ = {gathers ? base + shape.send.first * element_bytes : base,
               scatters ? base + shape.recv.first * element_bytes : base};
  if (scatters)
    return add_blocks_in_place(arena, shape, Contents::input, Contents::input,
                               sends ? Contents::input : Contents::poison);
  if (gathers)
    return add_blocks_in_place(arena, shape, Contents::poison, receives ? Contents::output : Contents::poison,
                               Contents::input);
  regions_.push_back({&arena, base, shape.recv, sends ? Contents::input : Contents::poison,
                      receives ? Contents::output : Contents::input});
}

/// Adds the regions of an all-to-all. The send buffers of all ranks form one vector: block b of rank r begins at
/// element (r * ranks + b) * count.
void Workspace::add_all_to_all(const Shape &shape, Placement placement) {
  const size_t block_bytes = shape.count * rondo_type_size(case_.type);
  const bool in_place = placement == Placement::in_place;
  send_used_ = !in_place;
  recv_used_ = true;
  send_bytes_ = recv_bytes_ = shape.bytes;
  pointers_ = {in_place ? recv_.data() : send_.data(), recv_.data()};
  const auto ranks = static_cast<uint64_t>(case_.ranks), rank = static_cast<uint64_t>(rank_);
  for (uint64_t peer = 0; peer < ranks; ++peer) {
    const size_t offset = peer * block_bytes;
    const uint64_t sent = (rank * ranks + peer) * shape.count, received = (peer * ranks + rank) * shape.count;
    const Part block{sent, shape.count};
    if (!in_place) regions_.push_back({&send_, send_.data() + offset, block, Contents::input, Contents::input});
    regions_.push_back({&recv_, recv_.data() + offset, block, in_place ? Contents::input : Contents::poison,
                        Contents::output, received});
  }
}

void Workspace::add_blocks_in_place(Arena &arena, const Shape &shape, Contents others_before, Contents others_after,
                                    Contents own_before) {
  std::byte *const base = arena.data();
  const size_t element_bytes = rondo_type_size(case_.type);
  const auto own_first = static_cast<uint64_t>(rank_) * shape.count;
  const uint64_t own_end = own_first + shape.count;
  const uint64_t all_count = static_cast<uint64_t>(case_.ranks) * shape.count;
  const auto at = [&](uint64_t element) { return base + element * element_bytes; };
  regions_.push_back({&arena, base, {0, own_first}, others_before, others_after});
  regions_.push_back({&arena, at(own_first), {own_first, shape.count}, own_before, Contents::output});
  regions_.push_back({&arena, at(own_end), {own_end, all_count - own_end}, others_before, others_after});
}

Sequence Workspace::contents(Contents which) const {
  if (which == Contents::input) return data_.input.with_seed(run_seed_);
  const Sequence output = data_.output.with_seed(run_seed_);
  return which == Contents::output ? output : output.inverted();
}

/// Writes the contents that a region has before a run.
Outcome Workspace::write(const Region &region) const {
  const size_t element_bytes = rondo_type_size(case_.type);
  const Sequence sequence = contents(region.before);
  Part part = region.part;
  if (region.before == Contents::poison) part.first = region.first_after;  // the inverse of the expected result
  return region.arena->fill(region.at, part.count * element_bytes, [&](std::byte *chunk, size_t offset, size_t bytes) {
    sequence.write(chunk, part_of(part, offset, bytes, element_bytes));
  });
}

Outcome Workspace::prepare(uint64_t run_seed) {
  run_seed_ = run_seed;
  for (const Region &region : regions_)
    if (auto failure = write(region)) return failure;
  if (send_used_)
    if (auto failure = send_.write_guards(send_bytes_)) return failure;
  return recv_used_ ? recv_.write_guards(recv_bytes_) : std::nullopt;
}

Outcome Workspace::rewrite(uint64_t run_seed) {
  run_seed_ = run_seed;
  for (const Region &region : regions_)
    if (region.before == Contents::input)
      if (auto failure = write(region)) return failure;
  return std::nullopt;
}

Outcome Workspace::count_wrong(uint64_t &wrong) const {
  const size_t element_bytes = rondo_type_size(case_.type);
  for (const Region &region : regions_) {
    const Sequence sequence = contents(region.after);
    const Part part{region.first_after, region.part.count};
    const auto count = [&](const std::byte *chunk, size_t offset, size_t bytes) {
      wrong += sequence.count_wrong(chunk, part_of(part, offset, bytes, element_bytes));
    };
    if (auto failure = region.arena->look(region.at, region.part.count * element_bytes, count)) return failure;
  }
  if (send_used_)
    if (auto failure = send_.count_changed_guards(send_bytes_, wrong)) return failure;
  return recv_used_ ? recv_.count_changed_guards(recv_bytes_, wrong) : std::nullopt;
}

}  // namespace rondo::perf
