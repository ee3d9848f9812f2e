// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/buffers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "src/base/spelling.h"

namespace rondo::perf {
namespace {

constexpr auto guard_mark = std::byte{0xb7};

std::string read_file(const char *path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns the number in a file of a control group, or `otherwise` if it has none ("max", or no such file).
uint64_t read_number(const char *path, uint64_t otherwise) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : otherwise;
}

std::string near_bytes(uint64_t bytes) { return show_volume(static_cast<double>(bytes)); }

}  // namespace

Failure communication_failure(rondo_comm_t comm, const char *what, rondo_status_t status) {
  rondo_error_t error = RONDO_ERROR_INIT;
  std::string message = std::string(what) + ": " + rondo_status_string(status);
  if (rondo_comm_last_error(comm, &error) == RONDO_OK && error.status != RONDO_OK)
    message += std::string(": ") + error.message;
  return {Exit::communication, message};
}

Arena::~Arena() {
  if (registration_ != nullptr) (void)rondo_comm_deregister(comm_, registration_);
  if (device_ != nullptr) return;
  if (of_rondo_) {
    (void)rondo_mem_free(base_);
  } else {
    std::free(base_);
  }
}

Outcome Arena::allocate(size_t bytes, Buffers kind, rondo_comm_t comm, Device *device) {
  const size_t data_bytes = (bytes + guard_bytes - 1) / guard_bytes * guard_bytes;
  const size_t all_bytes = data_bytes + 2 * guard_bytes;
  if (device != nullptr) {
    device_ = device;
    if (auto failure = device->allocate(all_bytes, base_)) return failure;
    return register_if(kind, all_bytes, comm);
  }
  if (kind == Buffers::alloc) {
    void *pointer = nullptr;
    const rondo_status_t status = rondo_mem_alloc(&pointer, all_bytes);
    if (status != RONDO_OK) return communication_failure(nullptr, "rondo_mem_alloc", status);
    base_ = static_cast<std::byte *>(pointer);
    of_rondo_ = true;
    return std::nullopt;
  }
  base_ = static_cast<std::byte *>(std::aligned_alloc(guard_bytes, all_bytes));
  if (base_ == nullptr)
    return Failure{Exit::usage, "no memory for a buffer of " + near_bytes(all_bytes) + "; lower --maxbytes"};
  std::memset(base_, 0, all_bytes);
  return register_if(kind, all_bytes, comm);
}

Outcome Arena::register_if(Buffers kind, size_t bytes, rondo_comm_t comm) {
  if (kind != Buffers::registered && kind != Buffers::moved) return std::nullopt;
  const unsigned flags = kind == Buffers::moved ? unsigned{RONDO_REGISTER_MOVE_PAGES} : 0u;
  const rondo_status_t status = rondo_comm_register(comm, base_, bytes, flags, &registration_);
  if (status != RONDO_OK) return communication_failure(comm, "rondo_comm_register", status);
  comm_ = comm;
  return std::nullopt;
}

Outcome Arena::fill(std::byte *at, size_t bytes, const MakeChunk &make) const {
  if (device_ != nullptr) return device_->fill(at, bytes, make);
  make(at, 0, bytes);
  return std::nullopt;
}

Outcome Arena::look(const std::byte *at, size_t bytes, const SeeChunk &see) const {
  if (device_ != nullptr) return device_->look(at, bytes, see);
  see(at, 0, bytes);
  return std::nullopt;
}

Outcome Arena::write_guards(size_t bytes) const {
  const auto mark = [](std::byte *chunk, size_t, size_t of) { std::memset(chunk, static_cast<int>(guard_mark), of); };
  if (auto failure = fill(base_, guard_bytes, mark)) return failure;
  return fill(data() + bytes, guard_bytes, mark);
}

Outcome Arena::count_changed_guards(size_t bytes, uint64_t &changed) const {
  const auto count = [&](const std::byte *chunk, size_t, size_t of) {
    changed += static_cast<uint64_t>(of) - static_cast<uint64_t>(std::count(chunk, chunk + of, guard_mark));
  };
  if (auto failure = look(base_, guard_bytes, count)) return failure;
  return look(data() + bytes, guard_bytes, count);
}

ArenaSizes arena_sizes(const Options &options, int ranks) {
  ArenaSizes sizes;
  const size_t block_bytes = options.max_bytes / static_cast<size_t>(ranks);
  const Collective &traits = traits_of(like(options.collective));
  const bool gathers = traits.source == BufferLayout::own_block, scatters = traits.target == BufferLayout::own_block;
  if (options.out_of_place || scatters) sizes.send_bytes = gathers ? block_bytes : options.max_bytes;
  if (options.out_of_place || !scatters) sizes.recv_bytes = scatters ? block_bytes : options.max_bytes;
  return sizes;
}

Outcome check_memory(const ArenaSizes &sizes, int local_ranks, uint64_t available_bytes) {
  const uint64_t rank_bytes = uint64_t{sizes.send_bytes} + sizes.recv_bytes + 4 * guard_bytes;
  const auto ranks = static_cast<uint64_t>(local_ranks);
  if (rank_bytes <= available_bytes / ranks) return std::nullopt;
  return Failure{Exit::usage, "the buffers of " + counted(ranks, "rank") + " need " +
                                  near_bytes(rank_bytes) + " each, but only " + near_bytes(available_bytes) +
                                  " of memory are available; lower --maxbytes or the number of ranks"};
}

uint64_t parse_meminfo(const std::string &text) {
  constexpr std::string_view key = "MemAvailable:";
  const size_t at = text.find(key);
  if (at == std::string::npos) return 0;
  return std::strtoull(text.c_str() + at + key.size(), nullptr, 10) * 1024;
}

uint64_t available_memory_bytes() {
  constexpr uint64_t unlimited = std::numeric_limits<uint64_t>::max();
  uint64_t available = parse_meminfo(read_file("/proc/meminfo"));
  if (available == 0) available = unlimited;
  const uint64_t limit = read_number("/sys/fs/cgroup/memory.max", unlimited);
  if (limit == unlimited) return available;
  const uint64_t used = read_number("/sys/fs/cgroup/memory.current", 0);
  return std::min(available, limit > used ? limit - used : 0);
}

}  // namespace rondo::perf
