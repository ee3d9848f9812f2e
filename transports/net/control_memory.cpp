// SPDX-License-Identifier: Apache-2.0
#include "transports/net/control_memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <type_traits>

#include "src/base/clock.h"
#include "src/proto/memory.h"

namespace rondo::net {
namespace {

static_assert(std::is_trivially_copyable_v<ControlHeader> && std::is_trivially_copyable_v<RemoteHost> &&
              std::is_trivially_copyable_v<RemoteRank>);  // zeros are what they begin with

constexpr uint64_t holder_bits = 16;       // of the lock: 1 + the number on the host; above them the time of taking it
constexpr uint64_t lock_unit_ns = 65'536;  // of that time: 48 bits are enough for half a million years
constexpr uint64_t lock_retry_ns = 20'000;

size_t memory_bytes(uint32_t host_count, uint32_t rank_count) {
  return sizeof(ControlHeader) + host_count * sizeof(RemoteHost) + rank_count * sizeof(RemoteRank);
}

}  // namespace

Result<FileDescriptor> ControlMemory::create(uint32_t host_count, uint32_t rank_count) {
  FileDescriptor file(::memfd_create("rondo-control", MFD_CLOEXEC));
  if (!file.valid()) return system_error("memfd_create", errno);
  const size_t bytes = memory_bytes(host_count, rank_count);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    return system_error("ftruncate to " + std::to_string(bytes) + " bytes for what is known of other hosts", errno);
  return file;
}

Result<ControlMemory> ControlMemory::map(int descriptor, uint32_t host_count, uint32_t rank_count) {
  const size_t bytes = memory_bytes(host_count, rank_count);
  void *const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return system_error("mmap of what is known of other hosts", errno);
  ControlMemory memory;
  memory.mapping_.reset({static_cast<std::byte *>(address), bytes});
  memory.host_count_ = host_count;
  return memory;
}

RemoteHost &ControlMemory::host(uint32_t host) const {
  return reinterpret_cast<RemoteHost *>(mapping_.get().address + sizeof(ControlHeader))[host];
}

RemoteRank &ControlMemory::rank(uint32_t rank) const {
  std::byte *const ranks = mapping_.get().address + sizeof(ControlHeader) + host_count_ * sizeof(RemoteHost);
  return reinterpret_cast<RemoteRank *>(ranks)[rank];
}

ControlLock::ControlLock(ControlHeader &header, uint32_t index, uint64_t patience_ns, const std::vector<bool> &ended)
    : header_(header) {
  const uint64_t begun_ns = now_ns();
  while (!take(index, ended)) {  // ends with the patience
    if (now_ns() - begun_ns >= patience_ns) return;
    sleep_for_ns(lock_retry_ns);
  }
}

bool ControlLock::take(uint32_t index, const std::vector<bool> &ended) {
  const uint64_t seen = memory::load_acquire(header_.lock);  // pairs with the exchange in ~ControlLock
  // Read behind the word: a lock taken between the two would have a time after `now`.
  const uint64_t now = now_ns() / lock_unit_ns;
  const uint64_t held_for = now - std::min(now, seen >> holder_bits);
  const uint64_t holder = (seen & ((1u << holder_bits) - 1)) - 1;
  const bool has_ended = seen != 0 && holder < ended.size() && ended[holder];
  if (seen != 0 && !has_ended && held_for < lock_patience_ns / lock_unit_ns) return false;
  const uint64_t word = now << holder_bits | (index + 1);
  if (!memory::exchange_if(header_.lock, seen, word)) return false;
  word_ = word;
  return true;
}

ControlLock::~ControlLock() {
  if (word_ != 0) static_cast<void>(memory::exchange_if(header_.lock, word_, 0));  // else somebody took it over
}

}  // namespace rondo::net
