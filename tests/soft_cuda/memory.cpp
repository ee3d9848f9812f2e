// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_cuda/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

namespace soft_cuda {
namespace {

constexpr const char *name_prefix = "soft-cuda-device-";

}  // namespace

Physical::~Physical() {
  if (descriptor >= 0) ::close(descriptor);
  // Relaxed, because the count orders nothing. The last owner may be the thread that passes descriptors on.
  if (account != nullptr) account->fetch_sub(bytes, std::memory_order_relaxed);
}

Range *Memory::find(uint64_t address, size_t bytes) {
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return nullptr;
  Range &range = std::prev(after)->second;
  const uint64_t offset = address - range.base;
  return offset < range.bytes && bytes <= range.bytes - offset ? &range : nullptr;
}

Range &Memory::add(Range range) {
  range.id = ++next_id;
  const uint64_t base = range.base;
  return ranges.insert_or_assign(base, std::move(range)).first->second;
}

size_t Memory::count(RangeKind kind) const {
  size_t found = 0;
  for (const auto &[base, range] : ranges)
    if (range.kind == kind) ++found;
  return found;
}

std::shared_ptr<Physical> make_physical(size_t bytes, int device, std::atomic<uint64_t> *account, CuStatus &status) {
  const std::string name = name_prefix + std::to_string(device);
  auto made = std::make_shared<Physical>();
  made->descriptor = ::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  status = CuStatus::out_of_memory;
  if (made->descriptor < 0 || ::ftruncate(made->descriptor, static_cast<off_t>(bytes)) != 0) return nullptr;
  // A shrinking file could kill its reader, so the size is sealed.
  if (::fcntl(made->descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return nullptr;
  made->bytes = bytes;
  made->device = device;
  made->account = account;
  if (account != nullptr) account->fetch_add(bytes, std::memory_order_relaxed);  // the count orders nothing
  status = CuStatus::success;
  return made;
}

void *map_physical(const Physical &physical, size_t bytes) {
  void *const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, physical.descriptor, 0);
  return address == MAP_FAILED ? nullptr : address;
}

void unmap(uint64_t address, size_t bytes) { ::munmap(reinterpret_cast<void *>(address), bytes); }

int device_of_descriptor(int descriptor) {
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  std::array<char, 256> target{};
  if (::readlink(link.c_str(), target.data(), target.size() - 1) <= 0) return -1;
  const std::string prefix = std::string("/memfd:") + name_prefix;
  if (std::strncmp(target.data(), prefix.c_str(), prefix.size()) != 0) return -1;
  return std::atoi(target.data() + prefix.size());
}

}  // namespace soft_cuda
