// SPDX-License-Identifier: Apache-2.0
#include "src/console/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace rondo::console {
namespace {

std::string cannot_write(const std::string &path, int error) {
  return "cannot write " + path + ": " + std::strerror(error) +
         "; name a file in a folder that exists and that you may write to";
}

}  // namespace

Complaint check_output(const std::string &path) {
  if (path.empty() || path == "-") return std::nullopt;
  const bool was_there = ::access(path.c_str(), F_OK) == 0;
  std::FILE *file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) return cannot_write(path, errno);
  (void)std::fclose(file);
  if (!was_there) (void)::unlink(path.c_str());
  return std::nullopt;
}

Complaint check_plot(const std::string &path) {
  if (path.empty() || path == "-" || path.ends_with(".svg")) return std::nullopt;
  return "--plot: '" + path + "' does not end in .svg, which is what is drawn; name a file FILE.svg";
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

Complaint write_output(const std::string &path, std::string_view text) {
  if (path == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
      return std::nullopt;
    return "cannot write standard output: " + std::string(std::strerror(errno));
  }
  std::FILE *file = std::fopen(path.c_str(), "we");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int error = errno;
  if (file != nullptr && std::fclose(file) != 0 && written) {
    written = false;
    error = errno;
  }
  if (written) return std::nullopt;
  return cannot_write(path, error);
}

}  // namespace rondo::console
