// SPDX-License-Identifier: Apache-2.0
#include "transports/net/control_memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <type_traits>

#include "src/base/clock.h"
#include "src/base/shared_file.h"
#include "src/proto/memory.h"

namespace rondo::net {
namespace {

static_assert(std::is_trivially_copyable_v<ControlHeader> && std::is_trivially_copyable_v<RemoteHost> &&
              std::is_trivially_copyable_v<RemoteRank>);  // so that zeros are their initial state

constexpr uint64_t lock_retry_ns = 20'000;

size_t memory_bytes(uint32_t host_count, uint32_t rank_count) {
  return sizeof(ControlHeader) + host_count * sizeof(RemoteHost) + rank_count * sizeof(RemoteRank);
}

}  // namespace

Result<FileDescriptor> ControlMemory::create(uint32_t host_count, uint32_t rank_count) {
  return make_shared_file(memory_bytes(host_count, rank_count), "rondo-control");
}

Result<ControlMemory> ControlMemory::map(int descriptor, uint32_t host_count, uint32_t rank_count) {
  const size_t bytes = memory_bytes(host_count, rank_count);
  void *const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return system_error("mmap of what is known of other hosts", errno);
  ControlMemory memory;
  memory.mapping_.reset({static_cast<std::byte *>(address), bytes});
  keep_from_children(memory.mapping_);
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
  while (!take(index, ended)) {  // ends after patience_ns
    if (now_ns() - begun_ns >= patience_ns) return;
    sleep_for_ns(lock_retry_ns);
  }
}

bool ControlLock::take(uint32_t index, const std::vector<bool> &ended) {
  const uint64_t seen = memory::load_acquire(header_.lock);  // pairs with the store in ~ControlLock
  const bool free = seen == 0 || (seen <= ended.size() && ended[seen - 1]);
  if (!free || !memory::exchange_if(header_.lock, seen, index + 1)) return false;
  word_ = index + 1;
  return true;
}

ControlLock::~ControlLock() {
  if (word_ != 0) memory::store_release(header_.lock, 0);  // pairs with take()
}

}  // namespace rondo::net
