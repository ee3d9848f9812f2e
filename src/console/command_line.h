// SPDX-License-Identifier: Apache-2.0
// This file declares the command line of a subcommand. It extends CLI11's parser: help and --json have the same form
// for all subcommands.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace rondo::console {

/// The parts of a command's help besides its options.
struct Manual {
  const char *name;      ///< "rondo sim"
  const char *summary;   ///< what the command does, and what users must know beforehand
  const char *usage;     ///< "rondo sim [OPTIONS]"
  const char *examples;  ///< command lines with explanations
};

/// Text to print: the help, or an error in the arguments.
struct Answer {
  bool is_help = false;
  std::string text;
};

/// Returns the word with ASCII letters in lower case. Names of values may be written in any case.
[[nodiscard]] std::string lower_case(std::string_view word);
/// Parses "cuda", "cuda:1" or "cuda:0,1". Returns the ordinals of devices, where an empty list means all devices.
/// Returns nothing for any other text.
[[nodiscard]] std::optional<std::vector<int>> parse_cuda_devices(std::string_view text);

/// Says whether `text` would be parsed as NaN, which passes every comparison with a bound.
[[nodiscard]] bool is_not_a_number(const std::string &text);

/// CLI::Range with the same error in every version of CLI11: "Value 12 not in range 1 to 9". It also refuses NaN. If T
/// is unsigned, it refuses negative numbers, which would be parsed as huge numbers.
class InRange : public CLI::Range {
 public:
  template <class T>
  InRange(T min, T max) : CLI::Range(min, max) {
    std::ostringstream wanted;
    wanted << " not in range " << min << " to " << max;
    func_ = [is_in = func_, words = wanted.str()](std::string &text) {
      const bool wraps = std::is_unsigned_v<T> && text.starts_with('-');
      return is_in(text).empty() && !is_not_a_number(text) && !wraps ? std::string() : "Value " + text + words;
    };
  }
};

/// A command line. Options are added to it as to any CLI::App. Each option names its value by type_name(), without a
/// colon.
class CommandLine : public CLI::App {
 public:
  explicit CommandLine(const Manual &manual);

  /// Puts all options that are added later under `heading` in the help.
  void begin_group(const char *heading) { option_defaults()->group(heading); }

  /// Adds --json [FILE], which sets the file for JSON. Without FILE it is "-", standard output. If `is_argument` is
  /// true for the next word, that word is an argument of the command, and not the FILE.
  void add_json(std::string &path, const char *what, bool (*is_argument)(std::string_view) = nullptr);

  /// Parses the arguments. If it returns nothing, the options have their values.
  [[nodiscard]] std::optional<Answer> read(std::span<const char *const> args);

 private:
  [[nodiscard]] std::vector<std::string> words_of(std::span<const char *const> args) const;
  [[nodiscard]] std::string name_unexpected() const;

  const char *name_;
  std::string *json_path_ = nullptr;
  bool (*is_argument_)(std::string_view) = nullptr;
};

}  // namespace rondo::console
