// SPDX-License-Identifier: Apache-2.0
#include "cuda/transport/flags.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "cuda/transport/shared_file.h"
#include "cuda/driver/shared_table.h"
#include "src/proto/connection.h"
#include "src/proto/memory.h"

namespace rondo::cuda {
namespace {

struct FlagMemory {
  PrimaryContext context;  ///< gone after the registration
  Mapping mapping;
  HostRegistration registration;
};

using MappedFiles = SharedTable<std::pair<dev_t, ino_t>, const FlagMemory>;

/// Returns the mappings of this process, by device and inode of the memory. All ranks of a process use one mapping, so
/// they have the same addresses.
MappedFiles &mapped() {
  static auto *const all = new MappedFiles;
  return *all;
}

Result<std::shared_ptr<const FlagMemory>> map_file(const PrimaryContext &context, const FileDescriptor &file,
                                                   uint64_t bytes) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error("fstat of the flags", errno);
  if (static_cast<uint64_t>(status.st_size) != bytes)
    return Error{RONDO_ERROR_INTERNAL,
                 "the flags have " + std::to_string(status.st_size) + " bytes instead of " + std::to_string(bytes)};
  return mapped().find_or_make({status.st_dev, status.st_ino}, [&]() -> Result<std::shared_ptr<const FlagMemory>> {
    auto made = std::make_shared<FlagMemory>();
    const CudaDriver &driver = *context.get().driver;
    RONDO_TRY_ASSIGN(made->context, retain_primary_context(driver, context.get().device));
    RONDO_TRY_ASSIGN(made->mapping, map_shared_file(file, "the flags", bytes));
    void *const address = made->mapping.get().address;
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
  RONDO_TRY_ASSIGN(const auto file, share_file(flags_key, "the flags", shape.bytes(), info_exchange));
  RONDO_TRY_ASSIGN(const auto memory, map_file(context, file, shape.bytes()));
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
    // This release pairs with the wait of this rank's stream.
    memory::store_release(*reinterpret_cast<uint64_t *>(base_ + offset), flags_released);
}

}  // namespace rondo::cuda
