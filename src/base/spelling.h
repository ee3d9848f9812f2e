// SPDX-License-Identifier: Apache-2.0
// These functions suggest the name that a user may have meant.
#pragma once

#include <string>
#include <string_view>

namespace rondo {

/// Returns the name of `list` ("ring, tree") that is nearest to `text`. The case of letters does not matter. Returns ""
/// if more than `letters_max` letters must be inserted, removed or changed.
[[nodiscard]] std::string nearest_name(std::string_view text, std::string_view list, size_t letters_max);

/// Returns a hint such as "; did you mean ring?", or "" if no name of `list` is near. One letter may be wrong; in a
/// long text, a third of the letters.
[[nodiscard]] std::string did_you_mean(std::string_view text, std::string_view list);

/// Returns the end of a message about an unknown name: the names of `list`, and did_you_mean().
[[nodiscard]] std::string known_are(std::string_view text, std::string_view list);

/// Returns the letters of `text` in lower case, without '-' and '_'.
[[nodiscard]] std::string letters_of(std::string_view text);

}  // namespace rondo
