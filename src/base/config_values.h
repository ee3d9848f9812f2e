// SPDX-License-Identifier: Apache-2.0
// These functions convert the text of an environment variable to a value of Config, and a value to text. Only the table
// of variables in config.cpp uses them. The error of a setter describes the text; parse_config() adds the variable.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/config.h"
#include "src/base/log.h"
#include "src/base/names.h"
#include "src/base/parse.h"

namespace rondo::config_values {

inline constexpr uint32_t slot_count_max = 64;
inline constexpr uint64_t slot_bytes_max = uint64_t{64} << 20;
inline constexpr size_t text_bytes_max = 4096;
inline constexpr uint64_t gid_index_max = 255;

/// Assigns the value of a Result to `target`. The parser has checked that the value fits.
template <class Target, class Value>
Result<void> set(Target &target, Result<Value> value) {
  if (!value.ok()) return std::move(value).error();
  target = static_cast<Target>(std::move(value).value());
  return {};
}

/// Sets a number. "auto" gives 0, which means that Rondo chooses.
template <class Target>
Result<void> set_choice(Target &target, std::string_view text, Result<uint64_t> value) {
  if (equal_in_any_case(text, "auto")) value = uint64_t{0};
  return set(target, std::move(value));
}

template <class Enum>
Result<void> set_name(Enum &target, std::string_view text, const char *(*name)(Enum), const char *what) {
  auto value = parse_name(text, name, what);
  if (value.ok()) return set(target, std::move(value));
  return invalid_argument(in_quotes(text) + " is not a known " + what + known_are(text, known_names(name)));
}

/// Sets a switch: to true if `text` equals `on`, and to false if `text` is "off".
inline Result<void> set_switch(bool &target, std::string_view text, const std::string &on = "auto") {
  target = equal_in_any_case(text, on);
  if (!target && !equal_in_any_case(text, "off"))
    return invalid_argument(in_quotes(text) + " is unknown; known are: " + on + ", off");
  return {};
}

inline Result<void> set_text(std::string &target, std::string_view text) {
  if (text.size() > text_bytes_max) return invalid_argument(in_quotes(text) + " is longer than 4096 bytes");
  for (const char character : text)
    if (static_cast<unsigned char>(character) < ' ' || character == 0x7F)
      return invalid_argument(in_quotes(text) + " has a control character in it");
  target = text;
  return {};
}

inline Result<void> set_slot_count(uint32_t &target, std::string_view text) {
  auto value = parse_number(text, 2, slot_count_max);
  if (equal_in_any_case(text, "auto") || (value.ok() && std::has_single_bit(value.value())))
    return set_choice(target, text, std::move(value));
  return invalid_argument(in_quotes(text) + " is unknown; known are: auto, 2, 4, 8, 16, 32, 64");
}

inline Result<void> set_slot_bytes(uint64_t &target, std::string_view text) {
  auto value = parse_bytes(text, chunk_bytes_min, slot_bytes_max);
  if (value.ok() && value.value() % chunk_bytes_min != 0)
    return invalid_argument(in_quotes(text) + " is not a multiple of 64 bytes");
  return set_choice(target, text, std::move(value));
}

inline Result<void> set_gid_index(int32_t &target, std::string_view text) {
  if (!equal_in_any_case(text, "auto")) return set(target, parse_number(text, 0, gid_index_max));
  target = -1;
  return {};
}

/// Sets the timeout between hosts. It is at least a second, so that it exceeds several heartbeats, and at most 600 s.
inline Result<void> set_network_timeout(uint64_t &target, std::string_view text) {
  constexpr uint64_t second_ns = 1'000'000'000, least = 1, most = 600;
  const auto value = parse_seconds(text);
  if (value.ok() && value.value() >= least * second_ns && value.value() <= most * second_ns) return set(target, value);
  return invalid_argument(in_quotes(text) + " is not a time from 1 to 600 seconds, as in 30 or 2.5");
}

inline Result<void> set_protocol(std::string_view text, Config &config) {
  return set_name(config.protocol, text, rondo_protocol_string, "protocol");
}

inline Result<void> set_log(std::string &target, std::string_view text) {
  if (auto known = log::parse_filter(text); !known.ok()) return std::move(known).error();
  return set_text(target, text);
}

inline Result<void> set_log_file(std::string &target, std::string_view text) {
  if (auto path = log::file_path(text, "", 0); !path.ok()) return std::move(path).error();
  return set_text(target, text);
}

/// Shows a number. 0 means that Rondo chooses.
inline std::string show_choice(uint64_t value, std::string (*show)(uint64_t)) {
  return value == 0 ? "auto" : show(value);
}
inline std::string show_number(uint64_t value) { return std::to_string(value); }
inline std::string show_name(const char *name) { return name != nullptr ? name : "unknown"; }
inline std::string show_switch(bool is_on, const char *on = "auto") { return is_on ? on : "off"; }

}  // namespace rondo::config_values
