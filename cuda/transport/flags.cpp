// SPDX-License-Identifier: Apache-2.0
#include "cuda/transport/flags.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cuda/transport/shared_table.h"
#include "src/proto/connection.h"
#include "src/proto/memory.h"

namespace rondo::cuda {
namespace {

/// What rank 0 tells the others.
struct FlagsInfo {
  FdTicket ticket;
};

struct FlagMemory {
  PrimaryContext context;  ///< gone after the registration
  Mapping mapping;
  HostRegistration registration;
};

using MappedFiles = SharedTable<std::pair<dev_t, ino_t>, const FlagMemory>;

/// The mappings of this process, by device and inode of the memory behind them: all ranks of a process use one, so that
/// its threads meet at the same addresses.
MappedFiles &mapped() {
  static auto *const all = new MappedFiles;
  return *all;
}

Result<FileDescriptor> make_file(uint64_t bytes) {
  FileDescriptor file(::memfd_create("rondo-flags", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return system_error("memfd_create", errno);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return system_error("ftruncate of a memfd", errno);
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("fcntl(F_ADD_SEALS) of a memfd", errno);
  return file;
}

Result<std::shared_ptr<const FlagMemory>> map_file(const PrimaryContext &context, int file, uint64_t bytes) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return system_error("fstat of the flags", errno);
  if (static_cast<uint64_t>(status.st_size) != bytes)
    return Error{RONDO_ERROR_INTERNAL,
                 "the flags have " + std::to_string(status.st_size) + " bytes instead of " + std::to_string(bytes)};
  return mapped().find_or_make({status.st_dev, status.st_ino}, [&]() -> Result<std::shared_ptr<const FlagMemory>> {
    auto made = std::make_shared<FlagMemory>();
    const CudaDriver &driver = *context.get().driver;
    RONDO_TRY_ASSIGN(made->context, retain_primary_context(driver, context.get().device));
    void *const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (address == MAP_FAILED) return system_error("mmap of the flags", errno);
    made->mapping = Mapping({static_cast<std::byte *>(address), bytes});
    const ContextGuard guard(driver, context.get().context);
    RONDO_TRY(guard.status());
    RONDO_TRY(cuda_check(driver,
                         driver.mem_host_register(address, bytes, host_register_portable | host_register_device_map),
                         "cuMemHostRegister of the flags"));
    made->registration = HostRegistration({&driver, context.get().context, address});
    return std::shared_ptr<const FlagMemory>(std::move(made));
  });
}

}  // namespace

uint64_t FlagShape::place_bytes() const {
  const uint64_t bytes = (static_cast<uint64_t>(FlagWord::count) + 2 * uint64_t{slot_count}) * sizeof(uint64_t);
  return (bytes + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes;
}
uint64_t FlagShape::place_offset(uint32_t rank, uint32_t channel, uint32_t peer) const {
  return ((uint64_t{rank} * channel_count + channel) * rank_count + peer) * place_bytes();
}
uint64_t FlagShape::bytes() const {
  constexpr uint64_t page_bytes = 4096;
  return (place_offset(rank_count, 0, 0) + page_bytes - 1) / page_bytes * page_bytes;
}

Result<Flags> Flags::connect(const PrimaryContext &context, const FlagShape &shape, InfoExchange &info_exchange) {
  Flags flags;
  flags.shape_ = shape;
  flags.rank_ = info_exchange.rank();
  std::shared_ptr<const FlagMemory> memory;
  FlagsInfo info;
  if (flags.rank_ == 0) {
    RONDO_TRY_ASSIGN(auto file, make_file(shape.bytes()));
    RONDO_TRY_ASSIGN(memory, map_file(context, file.get(), shape.bytes()));
    RONDO_TRY_ASSIGN(info.ticket, info_exchange.offer(std::move(file)));
  }
  RONDO_TRY_ASSIGN(const auto infos, info_exchange.infos(flags_key, info));
  if (flags.rank_ != 0) {
    const auto file = info_exchange.take(infos[0].ticket);
    if (!file.ok()) return about_rank(0, "taking the flags", file.error());
    RONDO_TRY_ASSIGN(memory, map_file(context, file.value().get(), shape.bytes()));
  }
  flags.base_ = memory->mapping.get().address;
  flags.memory_ = memory;
  const CudaDriver &driver = *context.get().driver;
  const ContextGuard guard(driver, context.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY(cuda_check(driver, driver.mem_host_get_device_pointer(&flags.address_, flags.base_, 0),
                       "cuMemHostGetDevicePointer of the flags"));
  return flags;
}

void Flags::release() const {
  const uint64_t begin = shape_.place_offset(rank_, 0, 0), end = shape_.place_offset(rank_ + 1, 0, 0);
  for (uint64_t offset = begin; offset < end; offset += sizeof(uint64_t))
    // release; pairs with the wait of this rank's stream
    memory::store_release(*reinterpret_cast<uint64_t *>(base_ + offset), flags_released);
}

}  // namespace rondo::cuda
