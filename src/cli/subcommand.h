// SPDX-License-Identifier: Apache-2.0
// The subcommands share these parts: what their arguments are parsed to, and how they write results and errors.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "src/base/result.h"
#include "src/cli/commands.h"
#include "src/console/output.h"

namespace rondo::cli {

/// The parsed arguments: the options, or the text of the help.
template <class Options>
using Parsed = std::variant<Options, std::string>;

/// Writes the text to a file, or to standard output if `path` is "-".
[[nodiscard]] inline Result<void> write_text(const std::string &path, const std::string &text) {
  if (auto complaint = console::write_output(path, text)) return Error{RONDO_ERROR_SYSTEM, std::move(*complaint)};
  return {};
}

}  // namespace rondo::cli
