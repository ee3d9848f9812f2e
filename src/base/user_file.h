// SPDX-License-Identifier: Apache-2.0
// These functions read a file that a user named. They open only regular files, so they never wait for a FIFO or device.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

namespace rondo {

/// Returns a name such as "a FIFO" or "a device", or null for a regular file.
inline const char *special_kind(mode_t mode) {
  if (S_ISREG(mode)) return nullptr;
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO or pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

/// A descriptor for reading, or the reason for having none, such as "it is a FIFO or pipe, no regular file".
struct UserFile {
  int descriptor = -1;  ///< the caller closes it
  size_t bytes = 0;
  std::string problem;
};

/// Opens a regular file for reading. The caller owns the descriptor.
[[nodiscard]] inline UserFile open_user_file(const std::string &path) {
  UserFile file;
  const auto refuse = [&file](const std::string &why) {
    file.problem = why;
    if (file.descriptor >= 0) ::close(file.descriptor);
    file.descriptor = -1;
    return file;
  };
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return refuse(std::strerror(errno));
  // Opening a device may have an effect, so the type of the file is checked first. It is checked again after the file
  // is open, since another file may have replaced the first one.
  for (int look = 0; look < 2; ++look) {
    if (const char *kind = special_kind(about.st_mode))
      return refuse("it is " + std::string(kind) + ", no regular file");
    if (look == 1) break;
    file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file.descriptor < 0 || ::fstat(file.descriptor, &about) != 0) return refuse(std::strerror(errno));
  }
  file.bytes = static_cast<size_t>(about.st_size);
  return file;
}

/// Reads up to `bytes_max` + 1 bytes of an open file. The additional byte shows the caller that the file is longer than
/// `bytes_max`. Returns the reason of a failure, or nothing.
[[nodiscard]] inline std::optional<std::string> read_open_file(int descriptor, size_t bytes_max, std::string &text) {
  constexpr size_t piece_bytes = 64 * 1024;
  text.clear();
  for (size_t wanted = bytes_max + 1; wanted > 0;) {  // ends with the file, or after bytes_max + 1 bytes
    const size_t before = text.size(), piece = wanted < piece_bytes ? wanted : piece_bytes;
    text.resize(before + piece);
    const ssize_t got = ::read(descriptor, text.data() + before, piece);
    const int error = errno;
    text.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got == 0) break;
    if (got < 0 && error != EINTR) return std::strerror(error);
    wanted -= got > 0 ? static_cast<size_t>(got) : 0;
  }
  return std::nullopt;
}

/// Reads a file that a user named, as read_open_file() does.
[[nodiscard]] inline std::optional<std::string> read_user_file(const std::string &path, size_t bytes_max,
                                                               std::string &text) {
  const UserFile file = open_user_file(path);
  if (file.descriptor < 0) return file.problem;
  auto problem = read_open_file(file.descriptor, bytes_max, text);
  ::close(file.descriptor);
  return problem;
}

}  // namespace rondo
