// SPDX-License-Identifier: Apache-2.0
#include "cuda/transport/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>

#include "cuda/driver/shared_table.h"
#include "src/base/shared_file.h"

namespace rondo::cuda {
namespace {

/// The info that the maker sends to the others.
struct SharedFileInfo {
  FdTicket ticket;
};

using RegisteredFiles = SharedTable<std::pair<dev_t, ino_t>, const RegisteredFile>;

/// Returns the files that this process has registered, by device and inode.
RegisteredFiles &registered() {
  static auto *const all = new RegisteredFiles;
  return *all;
}

/// Returns the parts of files that this process has registered, by the file's device and inode.
RegisteredFiles &registered_parts() {
  static auto *const all = new RegisteredFiles;
  return *all;
}

Result<Mapping> map_part(int descriptor, uint64_t offset, uint64_t bytes, const char *what) {
  void *const address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, static_cast<off_t>(offset));
  if (address == MAP_FAILED) return system_error("mmap of " + std::string(what), errno);
  Mapping mapping({static_cast<std::byte *>(address), bytes});
  keep_from_children(mapping);
  return mapping;
}

Result<std::shared_ptr<const RegisteredFile>> map_and_register(const PrimaryContext &context, int descriptor,
                                                               uint64_t offset, const std::string &what,
                                                               uint64_t bytes) {
  auto made = std::make_shared<RegisteredFile>();
  const CudaDriver &driver = *context.get().driver;
  RONDO_TRY_ASSIGN(made->context, retain_primary_context(driver, context.get().device));
  RONDO_TRY_ASSIGN(made->mapping, map_part(descriptor, offset, bytes, what.c_str()));
  void *const address = made->mapping.get().address;
  const ContextGuard guard(driver, context.get().context);
  RONDO_TRY(guard.status());
  const CuStatus done = driver.mem_host_register(address, bytes, host_register_portable | host_register_device_map);
  if (done != CuStatus::success)
    return cuda_error(driver, done, "cuMemHostRegister of " + std::to_string(bytes) + " bytes of " + what);
  made->registration = HostRegistration({&driver, context.get().context, address});
  return std::shared_ptr<const RegisteredFile>(std::move(made));
}

}  // namespace

Result<FileDescriptor> share_file(const char *key, const char *what, uint64_t bytes, uint32_t maker,
                                  InfoExchange &info_exchange) {
  SharedFileInfo info;
  FileDescriptor file;
  const bool makes = info_exchange.rank() == maker;
  if (makes && bytes != 0) {
    RONDO_TRY_ASSIGN(file, make_shared_file(bytes, "rondo-device"));
    FileDescriptor offered(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
    if (!offered.valid()) return system_error("fcntl(F_DUPFD_CLOEXEC) of " + std::string(what), errno);
    RONDO_TRY_ASSIGN(info.ticket, info_exchange.offer(std::move(offered)));
  }
  RONDO_TRY_ASSIGN(const auto infos, info_exchange.infos(key, info));
  if (makes || bytes == 0) return file;
  auto taken = info_exchange.take(infos[maker].ticket);
  if (!taken.ok()) return about_rank(maker, "taking " + std::string(what), taken.error());
  return taken;
}

Result<Mapping> map_shared_file(const FileDescriptor &file, const char *what, uint64_t bytes) {
  return map_part(file.get(), 0, bytes, what);
}

Result<std::shared_ptr<const RegisteredFile>> register_shared_file(const PrimaryContext &context,
                                                                   const FileDescriptor &file, const std::string &what,
                                                                   uint64_t bytes) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error("fstat of " + what, errno);
  if (static_cast<uint64_t>(status.st_size) != bytes)
    return Error{RONDO_ERROR_INTERNAL, what + " have " + std::to_string(status.st_size) + " bytes instead of " +
                                           std::to_string(bytes)};
  return registered().find_or_make({status.st_dev, status.st_ino},
                                   [&] { return map_and_register(context, file.get(), 0, what, bytes); });
}

Result<std::shared_ptr<const RegisteredFile>> register_part(const PrimaryContext &context, int descriptor,
                                                            uint64_t offset, uint64_t bytes, const std::string &what) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return system_error("fstat of " + what, errno);
  return registered_parts().find_or_make({status.st_dev, status.st_ino},
                                         [&] { return map_and_register(context, descriptor, offset, what, bytes); });
}

Result<DevicePointer> device_address(const PrimaryContext &context, const RegisteredFile &file,
                                     const std::string &what) {
  const CudaDriver &driver = *context.get().driver;
  const ContextGuard guard(driver, context.get().context);
  RONDO_TRY(guard.status());
  DevicePointer address = 0;
  const CuStatus done = driver.mem_host_get_device_pointer(&address, file.mapping.get().address, 0);
  if (done != CuStatus::success) return cuda_error(driver, done, "cuMemHostGetDevicePointer of " + what);
  return address;
}

}  // namespace rondo::cuda
