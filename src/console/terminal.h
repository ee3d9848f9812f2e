// SPDX-License-Identifier: Apache-2.0
// This file fits text for people to the width of their terminal. Text for a file or a pipe stays unchanged.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace rondo::console {

/// Returns the columns of the terminal to which `stream` writes. COLUMNS takes precedence over the terminal's own
/// number. Returns 0 if the stream is no terminal, or its width is unknown.
[[nodiscard]] size_t terminal_columns(std::FILE *stream);

/// Breaks lines of more than `columns` at spaces, but not within words. A continued line is indented by four more
/// spaces. If a line begins with '#', its continued lines do, too. With 0 columns the text stays unchanged.
[[nodiscard]] std::string fit_lines(std::string_view text, size_t columns);

/// Returns fit_lines() for the terminal of `stream`.
[[nodiscard]] std::string fitted(std::string_view text, std::FILE *stream);

}  // namespace rondo::console
