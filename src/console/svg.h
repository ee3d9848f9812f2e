// SPDX-License-Identifier: Apache-2.0
// This file writes the SVG elements of the command's pictures: schedules (src/plan/print/svg.cpp) and charts.
#pragma once

#include <string>
#include <string_view>

namespace rondo::svg {

/// Formats a number with at most one decimal place, such as "12" and "12.5".
[[nodiscard]] std::string number(double value);

/// Returns the beginning of a picture with a white page. `attributes` are the picture's. end() closes the picture.
[[nodiscard]] std::string begin(double width, double height, std::string_view attributes = "");
inline constexpr std::string_view end = "</svg>\n";

/// Returns a text element. Characters of `content` that have a meaning in XML (<, >, &) are escaped.
[[nodiscard]] std::string text(double x, double y, std::string_view content, std::string_view attributes = "");
[[nodiscard]] std::string line(double x1, double y1, double x2, double y2, std::string_view attributes);
[[nodiscard]] std::string rectangle(double x, double y, double width, double height, std::string_view attributes);
[[nodiscard]] std::string circle(double x, double y, double radius, std::string_view attributes);
[[nodiscard]] std::string path(std::string_view data, std::string_view attributes);
/// Returns a line through `points`, which have the form "x,y x,y ...".
[[nodiscard]] std::string polyline(std::string_view points, std::string_view attributes);
[[nodiscard]] std::string polygon(std::string_view points, std::string_view attributes);

}  // namespace rondo::svg
