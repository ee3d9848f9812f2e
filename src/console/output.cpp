// SPDX-License-Identifier: Apache-2.0
#include "src/console/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "src/base/signals_absorbed.h"

namespace rondo::console {
namespace {

std::string cannot_write(const std::string &path, int error) {
  if (error == ENXIO) return "cannot write " + path + ": no program reads this FIFO or device; start its reader first";
  if (error == EFBIG)
    return "cannot write " + path + ": it would pass the limit on file sizes; raise that (ulimit -f)";
  return "cannot write " + path + ": " + std::strerror(error) +
         "; name a file in a folder that exists and that you may write to";
}

/// Opens a file for writing. Returns the descriptor, or -1 with errno. Waits neither for the reader of a FIFO nor for a
/// device.
int open_for_writing(const std::string &path, int flags) {
  return ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0666);
}

}  // namespace

OutputPlace output_place(const std::string &path) {
  constexpr int links_max = 40;  // the kernel's limit
  OutputPlace place{path, true};
  for (int links = 0; links < links_max; ++links) {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlink(place.path.c_str(), target.data(), target.size());
    if (length <= 0 || static_cast<size_t>(length) >= target.size()) break;
    const std::string_view text(target.data(), static_cast<size_t>(length));
    const size_t slash = place.path.rfind('/');
    const bool relative = text.front() != '/' && slash != std::string::npos;
    place.path = (relative ? place.path.substr(0, slash + 1) : "") + std::string(text);
  }
  struct stat about {};
  // This checks the path as given, because a link such as /proc/PID/fd/1 may lead to a file without a name.
  if (::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode)) place = {path, false};
  return place;
}

Complaint check_output(const std::string &path) {
  if (path.empty() || path == "-") return std::nullopt;
  const OutputPlace place = output_place(path);
  struct stat about {};
  const bool was_there = ::stat(place.path.c_str(), &about) == 0;
  // A FIFO is not opened here, because closing it would end the file for its reader.
  if (was_there && S_ISFIFO(about.st_mode)) {
    if (::access(place.path.c_str(), W_OK) == 0) return std::nullopt;
    return cannot_write(path, errno);
  }
  const int file = open_for_writing(place.path, was_there ? O_APPEND : O_CREAT);
  if (file < 0) return cannot_write(path, errno);
  (void)::close(file);
  if (!was_there) (void)::unlink(place.path.c_str());
  return std::nullopt;
}

Complaint check_plot(const std::string &path) {
  if (path.empty() || path == "-" || path.ends_with(".svg")) return std::nullopt;
  return "--plot: '" + path + "' does not end in .svg; name a file FILE.svg";
}

Complaint check_shared(std::span<const Output> outputs) {
  std::string names;
  int count = 0;
  for (const Output &output : outputs) {
    names += (names.empty() ? "" : ", ") + std::string(output.option);
    count += output.path == "-" ? 1 : 0;
  }
  if (count <= 1) return std::nullopt;
  return names + " cannot share standard output; give files to all but one";
}

Complaint write_output(const std::string &path, const Print &print) {
  const SignalsAbsorbed absorbed;
  std::FILE *file = stdout;
  if (path != "-") {
    const int descriptor = open_for_writing(path, O_CREAT | O_TRUNC);
    if (descriptor < 0) return cannot_write(path, errno);
    (void)::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);  // from now on, writes may wait
    file = ::fdopen(descriptor, "w");
    if (file == nullptr) return cannot_write(path, errno);
  }
  const bool printed = print(file) && std::fflush(file) == 0;
  const int error = errno;
  const bool closed = file == stdout || std::fclose(file) == 0;
  if (printed && closed) return std::nullopt;
  const int reason = printed ? errno : error;
  return path == "-" ? "cannot write standard output: " + std::string(std::strerror(reason))
                     : cannot_write(path, reason);
}

Complaint write_output(const std::string &path, std::string_view text) {
  return write_output(path, [text](std::FILE *file) {
    return std::fwrite(text.data(), 1, text.size(), file) == text.size();
  });
}

}  // namespace rondo::console
