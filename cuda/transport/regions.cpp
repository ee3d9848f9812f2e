// SPDX-License-Identifier: Apache-2.0
#include "cuda/transport/regions.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cuda/transport/shared_file.h"
#include "cuda/transport/shared_memory.h"
#include "src/base/log.h"
#include "src/proto/memory.h"

namespace rondo::cuda {
namespace {

constexpr uint32_t region_count_max = device::region_count_max;

constexpr uint64_t unknown_change = UINT64_MAX;  // of changes_seen_: look() must follow all entries of the rank

constexpr bool is_announced(uint64_t generation) { return generation % 2 != 0; }

uint64_t file_bytes(uint32_t rank_count) {
  constexpr uint64_t page_bytes = 4096;
  const uint64_t bytes = rank_count * (cache_line_bytes + region_count_max * sizeof(RegionEntry));
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace

Result<std::unique_ptr<Regions>> Regions::connect(const PrimaryContext &context, CuStream stream, DevicePointer table,
                                                  InfoExchange &info_exchange) {
  constexpr char what[] = "the table of regions";
  const uint64_t bytes = file_bytes(info_exchange.rank_count());
  RONDO_TRY_ASSIGN(const auto file, share_file(regions_key, what, bytes, 0, info_exchange));
  RONDO_TRY_ASSIGN(auto memory, map_shared_file(file, what, bytes));
  return std::make_unique<Regions>(context, stream, table, std::move(memory), info_exchange.rank(),
                                   info_exchange.rank_count());
}

Regions::Regions(const PrimaryContext &context, CuStream stream, DevicePointer table, Mapping memory, uint32_t rank,
                 uint32_t rank_count)
    : context_(context), stream_(stream), table_(table), memory_(std::move(memory)), rank_(rank),
      rank_count_(rank_count), opened_(size_t{rank_count} * region_count_max), changes_seen_(rank_count) {}

uint64_t &Regions::changes(uint32_t rank) const {
  return reinterpret_cast<PaddedCounter *>(memory_.get().address)[rank].value;
}

RegionEntry &Regions::entry(uint32_t rank, uint32_t region) const {
  auto *const entries = reinterpret_cast<RegionEntry *>(memory_.get().address + rank_count_ * cache_line_bytes);
  return entries[size_t{rank} * region_count_max + region];
}

/// Says whether all ranks have seen the present state of the entry (N4).
bool Regions::all_have_seen(uint32_t region) const {
  const RegionEntry &own = entry(rank_, region);
  return std::all_of(own.seen, own.seen + rank_count_,
                     [&](const uint64_t &seen) { return memory::load_acquire(seen) == own.generation; });
}

/// Does the second half of N1. own_mutex_ must be held.
void Regions::change(uint32_t region) {
  RegionEntry &own = entry(rank_, region);
  memory::store_release(own.generation, own.generation + 1);  // pairs with N2
  uint64_t &count = changes(rank_);
  memory::store_release(count, count + 1);  // pairs with N2
}

Result<void> Regions::announce(const void *first, uint64_t bytes) {
  const CudaDriver &driver = *context_.get().driver;
  const ContextGuard guard(driver, context_.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY_ASSIGN(const PointerInfo info, pointer_info(driver, first));
  if (!info.legacy_ipc_capable)
    return Error{RONDO_ERROR_UNSUPPORTED, "it is not memory of cudaMalloc, and only such memory can be shared"};
  IpcMemoryHandle handle{};
  RONDO_TRY(cuda_check(driver, driver.ipc_get_mem_handle(&handle, info.range_start), "cuIpcGetMemHandle"));
  const std::lock_guard lock(own_mutex_);
  const auto free =
      std::find_if(own_.begin(), own_.end(), [](const Own &own) { return own.bytes == 0 && !own.captured; });
  if (free == own_.end())
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, std::to_string(region_count_max) +
                                                  " buffers are registered already, or were when graphs captured them"};
  *free = {static_cast<const std::byte *>(first), bytes, info.range_start, false, false};
  const auto region = static_cast<uint32_t>(free - own_.begin());
  RegionEntry &it = entry(rank_, region);
  it.device = static_cast<uint64_t>(context_.get().device);
  it.base = info.range_start;
  it.process = own_process();
  it.handle = handle;
  change(region);
  return {};
}

std::optional<uint64_t> Regions::posted(const void *pointer, uint64_t bytes, bool captured) {
  const auto *const first = static_cast<const std::byte *>(pointer);
  const std::lock_guard lock(own_mutex_);
  for (uint32_t region = 0; region < region_count_max; ++region) {
    Own &own = own_[region];
    if (own.bytes < bytes || first < own.first || first > own.first + (own.bytes - bytes)) continue;
    if (!is_announced(entry(rank_, region).generation)) continue;
    own.readable = own.readable || all_have_seen(region);
    if (!own.readable) return {};
    own.captured = own.captured || captured;
    return device::region_address(region, reinterpret_cast<uint64_t>(first) - own.base);
  }
  return {};
}

bool Regions::withdraw(const void *first) {
  const std::lock_guard lock(own_mutex_);
  for (uint32_t region = 0; region < region_count_max; ++region) {
    if (own_[region].bytes == 0 || own_[region].first != first) continue;
    own_[region].readable = false;
    if (is_announced(entry(rank_, region).generation)) change(region);
    return true;
  }
  return false;
}

void Regions::withdraw_all() {
  const std::lock_guard lock(own_mutex_);
  for (uint32_t region = 0; region < region_count_max; ++region) {
    own_[region].readable = false;
    if (is_announced(entry(rank_, region).generation)) change(region);
  }
}

/// Returns a live rank that has not seen the entry's latest announcement or withdrawal. own_mutex_ must be held.
std::optional<uint32_t> Regions::holder(uint32_t region, const std::vector<uint32_t> &dead) const {
  const RegionEntry &own = entry(rank_, region);
  for (uint32_t peer = 0; peer < rank_count_; ++peer) {
    const uint64_t seen = memory::load_acquire(own.seen[peer]);  // N4
    if (seen != own.generation && seen != region_left && std::find(dead.begin(), dead.end(), peer) == dead.end())
      return peer;
  }
  return {};
}

std::optional<uint32_t> Regions::find_holder(const void *first, const std::vector<uint32_t> &dead) {
  const std::lock_guard lock(own_mutex_);
  for (uint32_t region = 0; region < region_count_max; ++region) {
    if (own_[region].bytes == 0 || own_[region].first != first) continue;
    if (const auto found = holder(region, dead)) return found;
    own_[region] = {nullptr, 0, 0, false, own_[region].captured};
  }
  return {};
}

std::optional<uint32_t> Regions::find_other_holder(std::vector<uint32_t> dead) {
  dead.push_back(rank_);
  const std::lock_guard lock(own_mutex_);
  for (uint32_t region = 0; region < region_count_max; ++region)
    if (own_[region].bytes != 0)
      if (const auto found = holder(region, dead)) return found;
  return {};
}

bool Regions::has_news() const {
  for (uint32_t rank = 0; rank < rank_count_ && !left_; ++rank)
    if (memory::load_acquire(changes(rank)) != memory::load_relaxed(changes_seen_[rank])) return true;  // N2
  return false;
}

void Regions::look() {
  const std::lock_guard lock(peers_mutex_);
  if (left_) return;
  for (uint32_t rank = 0; rank < rank_count_; ++rank) {
    const uint64_t now = memory::load_acquire(changes(rank));  // N2, pairs with N1
    if (now == changes_seen_[rank]) continue;
    for (uint32_t region = 0; region < region_count_max; ++region) follow(rank, region);
    memory::store_relaxed(changes_seen_[rank], now);
  }
}

void Regions::close_withdrawn() {
  const std::lock_guard lock(peers_mutex_);
  if (left_) return;
  for (uint32_t rank = 0; rank < rank_count_; ++rank) {
    const uint64_t now = memory::load_acquire(changes(rank));  // N2, pairs with N1
    if (now == changes_seen_[rank]) continue;
    for (uint32_t region = 0; region < region_count_max; ++region) {
      RegionEntry &theirs = entry(rank, region);
      Opened &mine = opened_[size_t{rank} * region_count_max + region];
      const uint64_t generation = memory::load_acquire(theirs.generation);  // N2, pairs with N1
      if (generation == mine.generation || is_announced(generation)) continue;
      mine.generation = generation;
      mine.memory.reset();
      memory::store_release(theirs.seen[rank_], generation);  // N3, pairs with N4
    }
    memory::store_relaxed(changes_seen_[rank], now);
  }
  is_behind_ = true;
}

Result<void> Regions::catch_up() {
  const std::lock_guard lock(peers_mutex_);
  if (left_ || !std::exchange(is_behind_, false)) return {};
  for (uint32_t rank = 0; rank < rank_count_; ++rank) {
    for (uint32_t region = 0; region < region_count_max; ++region) {
      Opened &mine = opened_[size_t{rank} * region_count_max + region];
      if (is_announced(mine.generation) || !mine.in_table) continue;
      RONDO_TRY(write_base(rank, region, 0));
      mine.in_table = false;
    }
    memory::store_relaxed(changes_seen_[rank], unknown_change);
  }
  return {};
}

/// Does N2 and N3 (regions.h) for one entry. If the memory cannot be opened, logs that once and never marks the entry
/// as seen. So the owner does not post the memory.
void Regions::follow(uint32_t rank, uint32_t region) {
  RegionEntry &theirs = entry(rank, region);
  Opened &mine = opened_[size_t{rank} * region_count_max + region];
  const uint64_t generation = memory::load_acquire(theirs.generation);  // N2, pairs with N1
  if (generation == mine.generation) return;
  mine.generation = generation;
  Result<void> done = write_base(rank, region, 0);  // first: a replay that begins now must not find closed memory
  mine.memory.reset();
  mine.in_table = !done.ok();
  if (done.ok() && is_announced(generation)) {
    const auto opened = open(theirs, mine.memory);
    mine.in_table = opened.ok();
    done = opened.ok() ? write_base(rank, region, opened.value()) : Result<void>(opened.error());
  }
  if (done.ok()) return memory::store_release(theirs.seen[rank_], generation);  // N3, pairs with N4
  log::info({log::Subsystem::memory, rank_},
            about_rank(rank, "a buffer is not shared: opening that", done.error()).message);
  mine.memory.reset();
  if (!is_announced(generation)) memory::store_release(theirs.seen[rank_], generation);  // it is closed all the same
}

Result<DevicePointer> Regions::open(const RegionEntry &theirs, IpcMemory &memory) {
  if (!(theirs.process == own_process())) {
    RONDO_TRY_ASSIGN(auto opened, open_ipc(context_, theirs.handle));
    memory = std::move(opened.ipc);
    return opened.address;
  }
  const auto device = static_cast<CuDevice>(theirs.device);
  const auto is_there = [&](const PrimaryContext &known) { return known.get().device == device; };
  if (!is_there(context_) && std::none_of(peer_contexts_.begin(), peer_contexts_.end(), is_there)) {
    RONDO_TRY_ASSIGN(auto reached, open_peer_device(context_, device));
    peer_contexts_.push_back(std::move(reached));
  }
  return theirs.base;
}

Result<void> Regions::write_base(uint32_t rank, uint32_t region, DevicePointer base) {
  const CudaDriver &driver = *context_.get().driver;
  const ContextGuard guard(driver, context_.get().context);
  RONDO_TRY(guard.status());
  const DevicePointer at = table_ + (uint64_t{rank} * region_count_max + region) * sizeof base;
  RONDO_TRY(cuda_check(driver, driver.memcpy_htod_async(at, &base, sizeof base, stream_), "cuMemcpyHtoDAsync"));
  return cuda_check(driver, driver.stream_synchronize(stream_), "copying the base of a region");
}

void Regions::leave() {
  const std::lock_guard lock(peers_mutex_);
  if (left_.exchange(true)) return;
  for (Opened &each : opened_) each.memory.reset();
  for (uint32_t rank = 0; rank < rank_count_; ++rank)
    for (uint32_t region = 0; region < region_count_max; ++region)
      memory::store_release(entry(rank, region).seen[rank_], region_left);  // N3, pairs with N4
}

}  // namespace rondo::cuda
