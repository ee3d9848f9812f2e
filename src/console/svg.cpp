// SPDX-License-Identifier: Apache-2.0
#include "src/console/svg.h"

#include <array>
#include <cstdio>

namespace rondo::svg {
namespace {

std::string attribute(const char *name, double value) { return std::string(" ") + name + "=\"" + number(value) + "\""; }

std::string escaped(std::string_view content) {
  std::string text;
  for (const char letter : content) {
    if (letter == '<') text += "&lt;";
    else if (letter == '>') text += "&gt;";
    else if (letter == '&') text += "&amp;";
    else text += letter;
  }
  return text;
}

std::string with_space(std::string_view attributes) {
  return attributes.empty() ? std::string() : " " + std::string(attributes);
}

std::string of_points(const char *element, std::string_view points, std::string_view attributes) {
  return std::string("<") + element + " points=\"" + std::string(points) + "\"" + with_space(attributes) + "/>\n";
}

}  // namespace

std::string number(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  std::string shown = text.data();
  if (shown.ends_with(".0")) shown.resize(shown.size() - 2);
  return shown == "-0" ? "0" : shown;
}

std::string begin(double width, double height, std::string_view attributes) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " + number(height) + "\"" +
         attribute("width", width) + attribute("height", height) + with_space(attributes) +
         ">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
}

std::string text(double x, double y, std::string_view content, std::string_view attributes) {
  return "<text" + attribute("x", x) + attribute("y", y) + with_space(attributes) + ">" + escaped(content) +
         "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, std::string_view attributes) {
  return "<line" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) + attribute("y2", y2) +
         with_space(attributes) + "/>\n";
}

std::string rectangle(double x, double y, double width, double height, std::string_view attributes) {
  return "<rect" + attribute("x", x) + attribute("y", y) + attribute("width", width) + attribute("height", height) +
         with_space(attributes) + "/>\n";
}

std::string circle(double x, double y, double radius, std::string_view attributes) {
  return "<circle" + attribute("cx", x) + attribute("cy", y) + attribute("r", radius) + with_space(attributes) +
         "/>\n";
}

std::string path(std::string_view data, std::string_view attributes) {
  return "<path d=\"" + std::string(data) + "\"" + with_space(attributes) + "/>\n";
}

std::string polyline(std::string_view points, std::string_view attributes) {
  return of_points("polyline", points, attributes);
}

std::string polygon(std::string_view points, std::string_view attributes) {
  return of_points("polygon", points, attributes);
}

}  // namespace rondo::svg
