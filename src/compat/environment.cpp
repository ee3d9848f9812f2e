// SPDX-License-Identifier: Apache-2.0
// This file translates NCCL's variables about messages to Rondo's, which librondo.so reads at its first message.
#include "src/compat/environment.h"

#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "src/compat/settings.h"

namespace rondo::compat {
namespace {

/// Returns the value of RONDO_LOG for a level of NCCL_DEBUG, or null if it asks for no more than Rondo's default.
const char *log_level(const char *debug) {
  constexpr struct {
    const char *debug, *level;
  } levels[] = {{"WARN", "warning,failure=info"}, {"INFO", "info"}, {"ABORT", "debug"}, {"TRACE", "debug"}};
  for (const auto &each : levels)
    if (::strcasecmp(debug, each.debug) == 0) return each.level;
  return nullptr;
}

/// Returns the value of RONDO_LOG_FILE for NCCL_DEBUG_FILE, or an empty text for standard error. Rondo refuses unknown
/// sequences that begin with %, and NCCL keeps them.
std::string log_file(std::string_view pattern) {
  if (pattern == "stderr") return {};
  if (pattern == "stdout") return "/dev/stdout";
  std::string file;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const bool known = at + 1 < pattern.size() && (pattern[at + 1] == 'h' || pattern[at + 1] == 'p');
    file += pattern[at];
    if (pattern[at] == '%' && !known) file += '%';
    if (pattern.substr(at).starts_with("%%")) ++at;
  }
  return file;
}

/// Returns whether the messages can go to the file, as far as its folder says.
bool is_writable(const std::string &file) {
  if (file == "/dev/stdout") {  // it may be a socket
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    return descriptor >= 0 && ::close(descriptor) == 0;
  }
  const size_t end = file.rfind('/');
  const std::string folder = end == std::string::npos ? "." : file.substr(0, end + 1);
  return ::access(folder.c_str(), W_OK | X_OK) == 0;
}

/// Lists the variables of NCCL that are set and have no effect.
std::string ignored_variables() {
  std::vector<std::string> names;
  for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (name.starts_with("NCCL_") && !is_parameter(name.c_str())) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  std::string list;
  for (const std::string &name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

void warn(const std::string &text) { std::fprintf(stderr, "rondo: warning: %s\n", text.c_str()); }

}  // namespace

void adopt_environment() {
  static const bool adopted = [] {
    const char *const debug = variable("NCCL_DEBUG");
    const char *const level = debug != nullptr ? log_level(debug) : nullptr;
    if (level == nullptr || variable("RONDO_LOG") != nullptr) return true;
    static_cast<void>(::setenv("RONDO_LOG", level, 1));
    const char *const pattern = variable("NCCL_DEBUG_FILE");
    const std::string file = pattern != nullptr ? log_file(pattern) : "";
    if (!file.empty() && variable("RONDO_LOG_FILE") == nullptr) {
      if (is_writable(file))
        static_cast<void>(::setenv("RONDO_LOG_FILE", file.c_str(), 1));
      else
        warn("NCCL_DEBUG_FILE: cannot write " + file + ", so messages go to standard error");
    }
    const std::string ignored = ignored_variables();
    if (!ignored.empty()) warn("these variables of NCCL have no effect: " + ignored);
    return true;
  }();
  static_cast<void>(adopted);
}

}  // namespace rondo::compat
