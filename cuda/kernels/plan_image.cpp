// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/plan_image.h"

#include <algorithm>
#include <cstring>

#include "src/plan/schedule.h"

namespace rondo::device {
namespace {

constexpr size_t align(size_t bytes) { return (bytes + 15) / 16 * 16; }

/// The offsets at which the parts of an image begin.
struct Layout {
  explicit Layout(const Plan &plan) {
    size_t link_count = 0, step_count = 0;
    for (const Schedule &schedule : plan.schedules) link_count += schedule.peers.size();
    for (const PlannedLane &lane : plan.lanes) step_count += lane.program.step_count;
    lanes = align(plan.schedules.size() * sizeof(DeviceChannel));
    links = lanes + align(plan.lanes.size() * sizeof(LaneProgram));
    blocks = links + align(link_count * sizeof(DeviceLinkEnds *));
    steps = blocks + align(plan.key.blocks.size() * sizeof(Range));
    bytes = steps + align(step_count * sizeof(Step));
  }
  size_t lanes, links, blocks, steps, bytes;
};

/// Returns a device's address as a pointer, in code that the host compiles.
template <class T>
T *device_pointer(uint64_t address) {
  return reinterpret_cast<T *>(address);
}

class Writer {
 public:
  Writer(std::vector<std::byte> &bytes, uint64_t address) : bytes_(bytes), address_(address) {}

  /// Stores `count` values at `offset`, and advances `offset`. Returns the address of the values on the device.
  template <class T>
  T *put(size_t &offset, const T *values, size_t count) {
    T *const there = device_pointer<T>(address_ + offset);
    if (count != 0) std::memcpy(bytes_.data() + offset, values, count * sizeof(T));
    offset += count * sizeof(T);
    return there;
  }

 private:
  std::vector<std::byte> &bytes_;
  uint64_t address_;
};

void add_type_names(std::vector<std::string> &names, const std::string &stem) {
  for (int type = 0; rondo_type_string(static_cast<rondo_type_t>(type)) != nullptr; ++type)
    names.push_back(stem + rondo_type_string(static_cast<rondo_type_t>(type)));
}

void add_reducing_names(std::vector<std::string> &names, const std::string &stem) {
  for (int type = 0; rondo_type_string(static_cast<rondo_type_t>(type)) != nullptr; ++type)
    for (const rondo_op_t op : {RONDO_SUM, RONDO_PROD, RONDO_MIN, RONDO_MAX})
      names.push_back(stem + rondo_type_string(static_cast<rondo_type_t>(type)) + "_" + rondo_op_string(op));
}

std::string stem_of(rondo_protocol_t protocol) {
  return std::string("rondo_run_") + rondo_protocol_string(protocol) + "_";
}

constexpr char load_store_stem[] = "rondo_run_load_store_", one_shot_stem[] = "rondo_run_one_shot_";
constexpr char joint_stem[] = "rondo_run_joint_", reduce_stem[] = "rondo_reduce_";

bool only_moves(const Plan &plan) {
  return rondo::only_moves(static_cast<rondo_collective_t>(plan.key.signature.collective));
}

LoadStoreCollective load_store_collective(rondo_collective_t collective) {
  using enum LoadStoreCollective;
  const Collective &traits = traits_of(collective);
  if (traits.target == BufferLayout::own_block) return reduce_scatter;
  if (traits.source == BufferLayout::own_block) return all_gather;
  if (traits.root == RootRole::sends) return broadcast;
  if (traits.root == RootRole::receives) return reduce;
  return all_reduce;
}

/// Says whether a load_store plan runs as a one_shot on devices. Only an all-reduce does, even if the algorithm
/// one_shot was chosen for another collective.
bool is_one_shot(const Plan &plan) {
  return load_store_collective(static_cast<rondo_collective_t>(plan.key.signature.collective)) ==
             LoadStoreCollective::all_reduce &&
         plan.choice.algorithm == RONDO_ALGORITHM_ONE_SHOT;
}

std::string type_name(const Plan &plan) {
  return rondo_type_string(static_cast<rondo_type_t>(plan.key.signature.type));
}

/// Returns the bytes of a channel's chunk, or of each block's part of a chunk.
uint64_t place_chunk_bytes(const Plan &plan, const LoadStoreGeometry &geometry) {
  const uint64_t chunk_bytes = std::min<uint64_t>(plan.choice.chunk_bytes, geometry.chunk_bytes);
  if (!uses_blocks(static_cast<rondo_collective_t>(plan.key.signature.collective))) return chunk_bytes;
  const uint64_t part_bytes = chunk_bytes / geometry.rank_count / cache_line_bytes * cache_line_bytes;
  return std::max<uint64_t>(part_bytes, cache_line_bytes);  // an area has room for one line of each rank
}

}  // namespace

ReduceOp reduce_op(const Plan &plan) {
  static_assert(static_cast<int>(ReduceOp::sum) == RONDO_SUM && static_cast<int>(ReduceOp::prod) == RONDO_PROD);
  static_assert(static_cast<int>(ReduceOp::min) == RONDO_MIN && static_cast<int>(ReduceOp::max) == RONDO_MAX);
  const auto op = static_cast<rondo_op_t>(plan.key.signature.op);
  return static_cast<ReduceOp>(op == RONDO_AVG ? RONDO_SUM : op);
}

size_t plan_image_bytes(const Plan &plan) { return Layout(plan).bytes; }

Result<PlanImage> make_plan_image(const Plan &plan, uint64_t address,
                                  const std::function<uint64_t(uint32_t, uint32_t)> &ends_of) {
  const Layout layout(plan);
  PlanImage image;
  image.bytes.resize(layout.bytes);
  image.channel_count = static_cast<uint32_t>(plan.schedules.size());
  image.lane_count = static_cast<uint32_t>(plan.lanes.size());
  Writer writer(image.bytes, address);
  size_t channels = 0, lanes = layout.lanes, links = layout.links, blocks = layout.blocks, steps = layout.steps;
  const Range *const device_blocks = writer.put(blocks, plan.key.blocks.data(), plan.key.blocks.size());
  for (uint32_t channel = 0; channel < image.channel_count; ++channel) {
    const Schedule &schedule = plan.schedules[channel];
    DeviceChannel entry;
    entry.link_count = static_cast<uint32_t>(schedule.peers.size());
    entry.lanes = device_pointer<const LaneProgram>(address + lanes);
    entry.links = device_pointer<DeviceLinkEnds *const>(address + links);
    for (const uint32_t peer : schedule.peers) {
      DeviceLinkEnds *const ends = device_pointer<DeviceLinkEnds>(ends_of(channel, peer));
      writer.put(links, &ends, 1);
    }
    for (const PlannedLane &lane : plan.lanes) {
      if (lane.channel != channel) continue;
      LaneProgram program = lane.program;
      program.steps = writer.put(steps, lane.program.steps, lane.program.step_count);
      if (program.partition.blocks != nullptr) program.partition.blocks = device_blocks;
      writer.put(lanes, &program, 1);
      ++entry.lane_count;
    }
    if (entry.lane_count > lanes_per_channel_max)
      return Error{RONDO_ERROR_UNSUPPORTED, "a channel has " + std::to_string(entry.lane_count) +
                                                " lanes; a kernel runs at most " +
                                                std::to_string(lanes_per_channel_max)};
    image.lanes_per_channel = std::max(image.lanes_per_channel, entry.lane_count);
    writer.put(channels, &entry, 1);
  }
  return image;
}

std::vector<std::string> kernel_names(rondo_protocol_t protocol) {
  std::vector<std::string> names{stem_of(protocol) + "copy"};
  add_type_names(names, stem_of(protocol));
  return names;
}

std::vector<std::string> load_store_kernel_names() {
  std::vector<std::string> names{std::string(load_store_stem) + "copy"};
  add_reducing_names(names, load_store_stem);
  add_type_names(names, one_shot_stem);
  return names;
}

uint32_t load_store_element_bytes(const Plan &plan) {
  return only_moves(plan) ? 1 : plan.lanes.front().program.element_bytes;
}

std::vector<std::string> joint_kernel_names() {
  std::vector<std::string> names{std::string(joint_stem) + "copy"};
  add_type_names(names, joint_stem);
  return names;
}

std::string joint_kernel_name(const Plan &plan) {
  return std::string(joint_stem) + (only_moves(plan) ? "copy" : type_name(plan));
}

std::string kernel_name(const Plan &plan) {
  const std::string name = only_moves(plan) ? "copy" : type_name(plan);
  if (plan.choice.kernel != RONDO_KERNEL_LOAD_STORE) return stem_of(plan.choice.protocol) + name;
  if (is_one_shot(plan)) return one_shot_stem + name;
  if (only_moves(plan)) return load_store_stem + name;
  return load_store_stem + name + "_" + rondo_op_string(static_cast<rondo_op_t>(reduce_op(plan)));
}

ShortPost short_post(const LoadStoreOperation &operation, uint32_t element_bytes) {
  const uint64_t bytes = operation.count * element_bytes;
  const uint32_t ranks = operation.rank_count();
  const bool is_short = operation.mode == LoadStoreMode::one_shot && (ranks == 2 || ranks == 4 || ranks == 8) &&
                        bytes % word_bytes == 0;
  if (!is_short) return {};
  return {operation.units(0, operation.rank, operation.rank),
          static_cast<uint32_t>(operation.geometry.area_bytes() / sizeof(uint64_t)),
          static_cast<uint32_t>(bytes / word_bytes)};
}

void describe_load_store(const Plan &plan, BufferPlace place, uint64_t shared_chunk_bytes,
                         LoadStoreOperation &operation) {
  const uint32_t element_bytes = load_store_element_bytes(plan);
  const Signature &signature = plan.key.signature;
  operation.collective = load_store_collective(static_cast<rondo_collective_t>(signature.collective));
  operation.root = signature.root;
  operation.mode = is_one_shot(plan)             ? LoadStoreMode::one_shot
                   : place != BufferPlace::device ? LoadStoreMode::shared
                                                  : LoadStoreMode::two_shot;
  operation.count = signature.count * plan.lanes.front().program.element_bytes / element_bytes;
  operation.chunk_elements = place_chunk_bytes(plan, operation.geometry) / element_bytes;
  operation.shared_chunk_elements = shared_chunk_bytes / element_bytes;
  if (operation.mode != LoadStoreMode::one_shot) return;
  const uint64_t words = std::max<uint64_t>((operation.count * element_bytes + word_bytes - 1) / word_bytes, 1);
  operation.post_words = static_cast<uint32_t>((words + plan.choice.channels - 1) / plan.choice.channels);
  operation.short_post = short_post(operation, element_bytes);
}

void fit_to_buffers(LoadStoreOperation &operation) {
  const auto address = [](const std::byte *at) { return reinterpret_cast<uintptr_t>(at); };
  const Buffers &buffers = operation.base.buffers;
  if ((address(buffers.send.data) | address(buffers.recv.data)) % word_bytes != 0) operation.short_post = {};
}

std::vector<std::string> reduce_kernel_names() {
  std::vector<std::string> names;
  add_type_names(names, reduce_stem);
  return names;
}

std::string reduce_kernel_name(const Plan &plan) {
  const bool has_data = traits_of(static_cast<rondo_collective_t>(plan.key.signature.collective)).has_data;
  return !has_data || only_moves(plan) ? std::string() : reduce_stem + type_name(plan);
}

}  // namespace rondo::device
