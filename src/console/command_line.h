// SPDX-License-Identifier: Apache-2.0
// The command line of a subcommand: CLI11's parser, with one form of help and one form of --json for all of them.
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

/// The parts of a command's help beside its options.
struct Manual {
  const char *name;      ///< "rondo sim"
  const char *summary;   ///< what it does, and what one must know before
  const char *usage;     ///< "rondo sim [OPTIONS]"
  const char *examples;  ///< command lines, and what they do
};

/// Text to print: the help, or what is wrong with the arguments.
struct Answer {
  bool is_help = false;
  std::string text;
};

/// Names of values are read whatever their case (of ASCII).
[[nodiscard]] std::string lower_case(std::string_view word);
/// Parses "cuda", "cuda:1" or "cuda:0,1". Returns the ordinals of devices, empty for all devices, or nothing for other
/// text.
[[nodiscard]] std::optional<std::vector<int>> parse_cuda_devices(std::string_view text);

/// Returns whether `text` is read as NaN, which would pass every comparison with a bound.
[[nodiscard]] bool is_not_a_number(const std::string &text);

/// CLI::Range, whose refusals every version of CLI11 words in another way: "Value 12 not in range 1 to 9". Unlike that
/// it refuses NaN, and a negative number where T is unsigned, which would be read as a huge one.
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

/// Options are added as to any CLI::App. Each names its value by type_name(), without a colon in it.
class CommandLine : public CLI::App {
 public:
  explicit CommandLine(const Manual &manual);

  /// Puts the options that are added from here on under this heading.
  void begin_group(const char *heading) { option_defaults()->group(heading); }

  /// Adds --json [FILE], which takes the file for JSON. Without FILE it is "-", standard output. If `is_argument` is
  /// true for the next word, that word is an argument of the command, not the FILE.
  void add_json(std::string &path, const char *what, bool (*is_argument)(std::string_view) = nullptr);

  /// Reads the arguments. If it returns nothing, the options have their values.
  [[nodiscard]] std::optional<Answer> read(std::span<const char *const> args);

 private:
  [[nodiscard]] std::vector<std::string> words_of(std::span<const char *const> args) const;
  [[nodiscard]] std::string name_unexpected() const;

  const char *name_;
  std::string *json_path_ = nullptr;
  bool (*is_argument_)(std::string_view) = nullptr;
};

}  // namespace rondo::console
