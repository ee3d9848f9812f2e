// SPDX-License-Identifier: Apache-2.0
#include "src/base/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "src/base/signals_absorbed.h"
#include "src/base/spelling.h"

namespace rondo {
namespace {

Error not_made(int error_number) {
  Error error = system_error("memfd_create", error_number);
  if (error_number == EMFILE || error_number == ENFILE)
    error.message += "; each allocation needs a descriptor: fewer and larger ones need fewer";
  if (error_number == EPERM || error_number == EACCES || error_number == ENOSYS)
    error.message += "; shared memory needs this call: permit it in the container's seccomp profile";
  return error;
}

Error not_sized(size_t bytes, int error_number) {
  const std::string what = "shared memory of " + show_bytes(bytes) + " bytes";
  if (error_number != EFBIG) {
    Error error = system_error("ftruncate of " + what, error_number);
    if (error_number == ENOSPC) error.status = RONDO_ERROR_OUT_OF_RESOURCES;
    return error;
  }
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return {RONDO_ERROR_OUT_OF_RESOURCES,
          what + " is refused: the system counts it as a file, and a file of this process may have " +
              (limited ? show_bytes(limit.rlim_cur) : "fewer") + " bytes; raise the limit on file sizes (ulimit -f)"};
}

}  // namespace

Result<FileDescriptor> make_shared_file(size_t bytes, const char *name) {
  FileDescriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return not_made(errno);
  {
    const SignalsAbsorbed absorbed;
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return not_sized(bytes, errno);
  }
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("fcntl(F_ADD_SEALS) of a memfd", errno);
  return file;
}

}  // namespace rondo
