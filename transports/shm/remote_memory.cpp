// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "src/memory/region.h"
#include "transports/shm/segment.h"

namespace rondo::shm {
namespace {

/// A buffer with an address in this process.
class AddressedMemory final : public RemoteMemory {
 public:
  AddressedMemory(std::byte *address, Mapping mapping) : address_(address), mapping_(std::move(mapping)) {}
  std::byte *address() const override { return address_; }
  int write(uint64_t offset, const std::byte *from, uint64_t bytes) const override {
    std::memmove(address_ + offset, from, bytes);  // a rank may copy within its own buffer
    return 0;
  }

 private:
  std::byte *const address_;
  const Mapping mapping_;  ///< empty if the rank is in this process
};

/// A buffer that is written by cross-memory attach.
class ForeignMemory final : public RemoteMemory {
 public:
  ForeignMemory(int process, uint64_t address) : process_(process), address_(address) {}
  std::byte *address() const override { return nullptr; }
  int write(uint64_t offset, const std::byte *from, uint64_t bytes) const override {
    for (uint64_t done = 0; done < bytes;) {  // each round writes at least a byte
      const iovec local{const_cast<std::byte *>(from) + done, bytes - done};
      const iovec remote{reinterpret_cast<void *>(address_ + offset + done), bytes - done};
      const ssize_t put = ::process_vm_writev(process_, &local, 1, &remote, 1, 0);
      if (put <= 0) return put < 0 ? errno : EFAULT;
      done += static_cast<uint64_t>(put);
    }
    return 0;
  }

 private:
  const int process_;
  const uint64_t address_;
};

Result<Mapping> map_region(const MemoryOwner &owner, const MemoryPlace &place) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/fd/%d", owner.process, place.descriptor);
  const FileDescriptor file(::open(path.data(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) return system_error(std::string("open of ") + path.data(), errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || static_cast<uint64_t>(status.st_size) < place.region_bytes ||
      FileIdentity{status.st_dev, status.st_ino} != FileIdentity{owner.device, place.inode})
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "the program has closed the descriptor of that memory, or has given its number to another file"};
  return map_shared(file.get(), place.region_bytes);
}

}  // namespace

Result<std::shared_ptr<const RemoteMemory>> open_remote_memory(const MemoryOwner &owner, const MemoryPlace &place) {
  using Opened = std::shared_ptr<const RemoteMemory>;
  if (owner.same_process)
    return Opened(std::make_shared<AddressedMemory>(reinterpret_cast<std::byte *>(place.address), Mapping()));
  const bool attaches = (owner.kinds & kind_bit(PayloadKind::process)) != 0;
  if (place.kind == PayloadKind::mapped && (owner.kinds & kind_bit(PayloadKind::mapped)) != 0) {
    if (place.bytes > place.region_bytes || place.region_offset > place.region_bytes - place.bytes)
      return Error{RONDO_ERROR_INTERNAL, "the buffer of a window does not lie in its region"};
    auto mapping = map_region(owner, place);
    if (mapping.ok()) {
      std::byte *const address = mapping.value().get().address + place.region_offset;
      return Opened(std::make_shared<AddressedMemory>(address, std::move(mapping).value()));
    }
    if (!attaches) return mapping.error();
  }
  if (attaches) return Opened(std::make_shared<ForeignMemory>(owner.process, place.address));
  if (place.kind == PayloadKind::mapped)
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "this process can neither map memory of that process nor use cross-memory attach; start both as the "
                 "same user with the same privileges, and do not disable mapping and cross-memory attach"};
  return Error{RONDO_ERROR_UNSUPPORTED,
               "the buffer is not memory that this process can map, and the system does not allow cross-memory "
               "attach; take memory of rondo_mem_alloc() for the window"};
}

}  // namespace rondo::shm
