// SPDX-License-Identifier: Apache-2.0
#include "cuda/transport/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <utility>

#include "src/base/shared_file.h"

namespace rondo::cuda {
namespace {

/// The info that rank 0 sends to the others.
struct SharedFileInfo {
  FdTicket ticket;
};

}  // namespace

Result<FileDescriptor> share_file(const char *key, const char *what, uint64_t bytes, InfoExchange &info_exchange) {
  SharedFileInfo info;
  FileDescriptor file;
  if (info_exchange.rank() == 0) {
    RONDO_TRY_ASSIGN(file, make_shared_file(bytes, "rondo-device"));
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
  Mapping mapping({static_cast<std::byte *>(address), bytes});
  keep_from_children(mapping);
  return mapping;
}

}  // namespace rondo::cuda
