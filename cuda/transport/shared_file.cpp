// SPDX-License-Identifier: Apache-2.0
#include "cuda/transport/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <utility>

namespace rondo::cuda {
namespace {

/// What rank 0 tells the others.
struct SharedFileInfo {
  FdTicket ticket;
};

Result<FileDescriptor> make_file(uint64_t bytes) {
  FileDescriptor file(::memfd_create("rondo-device", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return system_error("memfd_create", errno);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return system_error("ftruncate of a memfd", errno);
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("fcntl(F_ADD_SEALS) of a memfd", errno);
  return file;
}

}  // namespace

Result<FileDescriptor> share_file(const char *key, const char *what, uint64_t bytes, InfoExchange &info_exchange) {
  SharedFileInfo info;
  FileDescriptor file;
  if (info_exchange.rank() == 0) {
    RONDO_TRY_ASSIGN(file, make_file(bytes));
    FileDescriptor offered(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
    if (!offered.valid()) return system_error("fcntl(F_DUPFD_CLOEXEC) of " + std::string(what), errno);
    RONDO_TRY_ASSIGN(info.ticket, info_exchange.offer(std::move(offered)));
  }
  RONDO_TRY_ASSIGN(const auto infos, info_exchange.infos(key, info));
  if (info_exchange.rank() == 0) return file;
  auto taken = info_exchange.take(infos[0].ticket);
  if (!taken.ok()) return about_rank(0, "taking " + std::string(what), taken.error());
  return taken;
}

Result<Mapping> map_shared_file(const FileDescriptor &file, const char *what, uint64_t bytes) {
  void *const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return system_error("mmap of " + std::string(what), errno);
  return Mapping({static_cast<std::byte *>(address), bytes});
}

}  // namespace rondo::cuda
