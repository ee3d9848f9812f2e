// SPDX-License-Identifier: Apache-2.0
#include "cuda/transport/flags.h"

#include <algorithm>

#include "cuda/transport/shared_file.h"
#include "src/proto/connection.h"
#include "src/proto/memory.h"

namespace rondo::cuda {

uint64_t FlagShape::place_bytes() const {
  const uint64_t words = static_cast<uint64_t>(FlagWord::count) + 2 * uint64_t{geometry.slot_count};
  return (words * sizeof(uint64_t) + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes;
}
uint64_t FlagShape::place_offset(uint32_t rank, uint32_t channel, uint32_t peer) const {
  return ((uint64_t{rank} * channel_count + channel) * rank_count + peer) * place_bytes();
}
uint64_t FlagShape::fifo_offset(uint32_t receiver, uint32_t channel, uint32_t sender) const {
  const uint64_t index = (uint64_t{receiver} * fifo_channels + channel) * rank_count + sender;
  const uint64_t bytes = std::max(message_geometry.slots_offset(), geometry.slots_offset());  // whole cache lines
  return place_offset(rank_count, 0, 0) + index * bytes;
}
uint64_t FlagShape::bytes() const {
  constexpr uint64_t page_bytes = 4096;
  return (fifo_offset(rank_count, 0, 0) + page_bytes - 1) / page_bytes * page_bytes;
}

Result<Flags> Flags::connect(const PrimaryContext &context, const FlagShape &shape, uint32_t maker,
                             InfoExchange &info_exchange) {
  Flags flags;
  flags.shape_ = shape;
  flags.rank_ = info_exchange.rank();
  RONDO_TRY_ASSIGN(const auto file, share_file(flags_key, "the flags", shape.bytes(), maker, info_exchange));
  RONDO_TRY_ASSIGN(const auto memory, register_shared_file(context, file, "the flags", shape.bytes()));
  flags.base_ = memory->mapping.get().address;
  flags.memory_ = memory;
  RONDO_TRY_ASSIGN(flags.address_, device_address(context, *memory, "the flags"));
  return flags;
}

void Flags::release() const {
  const uint64_t begin = shape_.place_offset(rank_, 0, 0), end = shape_.place_offset(rank_ + 1, 0, 0);
  for (uint64_t offset = begin; offset < end; offset += sizeof(uint64_t))
    // This release pairs with the wait of this rank's stream.
    memory::store_release(*reinterpret_cast<uint64_t *>(base_ + offset), flags_released);
}

}  // namespace rondo::cuda
