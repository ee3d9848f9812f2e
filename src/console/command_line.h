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

/// What a command's help has beside its options.
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
/// "cuda", "cuda:1", "cuda:0,1": the ordinals of devices, empty where all are meant; nothing for another text.
[[nodiscard]] std::optional<std::vector<int>> parse_cuda_devices(std::string_view text);

/// Whether `text` is read as a number that is none: it would pass every comparison with a bound.
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

  /// Options that are added from here on stand under this heading.
  void begin_group(const char *heading) { option_defaults()->group(heading); }

  /// --json [FILE]: where JSON goes; "-", which is standard output, where no FILE is given. A word behind it for which
  /// `is_argument` is true is an argument of the command, not the FILE.
  void add_json(std::string &path, const char *what, bool (*is_argument)(std::string_view) = nullptr);

  /// Nothing: the options have their values.
  [[nodiscard]] std::optional<Answer> read(std::span<const char *const> args);

 private:
  [[nodiscard]] std::vector<std::string> words_of(std::span<const char *const> args) const;
  [[nodiscard]] std::string name_unexpected() const;

  const char *name_;
  std::string *json_path_ = nullptr;
  bool (*is_argument_)(std::string_view) = nullptr;
};

}  // namespace rondo::console
