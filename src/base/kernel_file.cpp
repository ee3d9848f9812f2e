// SPDX-License-Identifier: Apache-2.0
#include "src/base/kernel_file.h"

#include <fcntl.h>

#include <limits>

#include "src/base/unique_handle.h"
#include "src/base/user_file.h"

namespace rondo {

std::string read_kernel_file(const std::string &path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!file.valid() || read_open_file(file.get(), std::numeric_limits<size_t>::max() - 1, text)) text.clear();
  return text;
}

std::string read_kernel_line(const std::string &path) {
  std::string text = read_kernel_file(path);
  if (const size_t end = text.find('\n'); end != text.npos) text.resize(end);
  return text;
}

}  // namespace rondo
