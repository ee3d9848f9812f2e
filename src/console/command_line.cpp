// SPDX-License-Identifier: Apache-2.0
#include "src/console/command_line.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <vector>

#include "src/base/spelling.h"
#include "src/console/terminal.h"

namespace rondo::console {
namespace {

constexpr size_t name_columns = 30, line_columns_max = 100;

/// Returns text such as "-n,--ranks N". CLI11 would add ranges and words such as UINT.
std::string name_of(const CLI::Option &option) {
  std::string name;
  const auto add = [&name](const std::string &part) { name += (name.empty() ? "" : ",") + part; };
  for (const std::string &letter : option.get_snames()) add("-" + letter);
  for (const std::string &word : option.get_lnames()) add("--" + word);
  const std::string full = option.get_type_name();
  const std::string type = full.substr(0, full.find(':'));
  if (option.get_positional()) return type;
  if (option.get_type_size() == 0 || type.empty()) return name;
  return name + " " + type;
}

/// Splits `text` into words. A word that begins with a dash stays on the line of the word before it. So only a line
/// that describes an option begins with a dash. Completion in shells relies on that.
std::vector<std::string> words_of_text(const std::string &text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    if (word.front() == '-' && !words.empty()) words.back() += " " + word;
    else words.push_back(word);
  }
  return words;
}

/// Returns `text` in lines of `columns`, each indented to the column `indent`.
std::string wrapped(const std::string &text, size_t indent, size_t columns) {
  std::string lines;
  size_t column = indent;
  for (const std::string &word : words_of_text(text)) {
    if (!lines.empty() && column + 1 + word.size() > columns) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!lines.empty()) {
      lines += " ";
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines;
}

std::string entry(const CLI::Option &option, size_t columns) {
  std::string text = "  " + name_of(option);
  const bool fits = text.size() + 2 <= name_columns;
  text += fits ? std::string(name_columns - text.size(), ' ') : "\n" + std::string(name_columns, ' ');
  return text + wrapped(option.get_description(), name_columns, columns) + "\n";
}

class Formatter : public CLI::FormatterBase {
 public:
  explicit Formatter(const Manual &manual) : manual_(manual) {}

  [[nodiscard]] std::string make_help(const CLI::App *app, std::string /*name*/,
                                      CLI::AppFormatMode /*mode*/) const override {
    const size_t shown = terminal_columns(stdout);
    const size_t columns = shown == 0 ? line_columns_max : std::min(shown, line_columns_max);
    const std::string summary = manual_.summary;
    const bool fits = fit_lines(summary, shown) == summary;
    std::string text = (fits ? summary : wrapped(summary, 0, columns)) + "\n\n" +
                       fit_lines(std::string("Usage: ") + manual_.usage + "\n", shown);
    std::vector<std::string> groups = app->get_groups();
    std::rotate(groups.begin(), groups.begin() + 1, groups.end());  // puts CLI11's own group, with --help, last
    add_group(*app, columns, "Arguments", [](const CLI::Option &option) { return option.get_positional(); }, &text);
    for (const std::string &group : groups) {
      if (group.empty()) continue;  // options without a group are not shown
      const bool last = group == groups.back();
      add_group(*app, columns, last && groups.size() > 1 ? "Other options" : group, [&](const CLI::Option &option) {
        return !option.get_positional() && option.get_group() == group;
      }, &text);
    }
    return text + "\nDefaults stand in brackets. Sizes are bytes; K, M and G are powers of 1024.\n\nExamples:\n" +
           fit_lines(manual_.examples, shown);
  }

 private:
  template <class Which>
  static void add_group(const CLI::App &app, size_t columns, const std::string &heading, const Which &which,
                        std::string *text) {
    std::string entries;
    for (const CLI::Option *option : app.get_options())
      if (which(*option)) entries += entry(*option, columns);
    if (!entries.empty()) *text += "\n" + heading + ":\n" + entries;
  }

  Manual manual_;
};

}  // namespace

std::string lower_case(std::string_view word) {
  std::string lower(word);
  for (char &letter : lower)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return lower;
}

bool is_not_a_number(const std::string &text) { return std::isnan(std::strtod(text.c_str(), nullptr)); }

std::optional<std::vector<int>> parse_cuda_devices(std::string_view text) {
  constexpr std::string_view family = "cuda";
  if (!text.starts_with(family)) return {};
  text.remove_prefix(family.size());
  std::vector<int> ordinals;
  while (!text.empty()) {
    int ordinal = -1;
    const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), ordinal);
    if (text[0] != (ordinals.empty() ? ':' : ',') || error != std::errc{} || ordinal < 0) return {};
    ordinals.push_back(ordinal);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  return ordinals;
}

CommandLine::CommandLine(const Manual &manual) : CLI::App(manual.summary, manual.name), name_(manual.name) {
  formatter(std::make_shared<Formatter>(manual));
  get_help_ptr()->description("print this help");
}

void CommandLine::add_json(std::string &path, const char *what, bool (*is_argument)(std::string_view)) {
  json_path_ = &path;
  is_argument_ = is_argument;
  add_option("--json", path, std::string(what) + " as JSON to FILE; without one, or with -: to standard output")
      ->expected(0, 1)
      ->type_name("[FILE]");
}

/// Returns the words for CLI11. CLI11 alone would take any word after --json for its file.
std::vector<std::string> CommandLine::words_of(std::span<const char *const> args) const {
  std::vector<std::string> words(args.begin(), args.end());
  for (size_t at = 0; at < words.size() && words[at] != "--"; ++at) {
    if (words[at] != "--json") continue;
    const bool alone = at + 1 == words.size() || (words[at + 1].starts_with('-') && words[at + 1] != "-");
    if (alone || (is_argument_ != nullptr && is_argument_(words[at + 1]))) words[at] = "--json=-";
  }
  return words;
}

/// Returns the first unexpected option, otherwise the first unexpected word. CLI11's own text lists the words in
/// reverse.
std::string CommandLine::name_unexpected() const {
  const std::vector<std::string> left = remaining();
  const auto is_option = [](const std::string &word) { return word.size() > 1 && word.front() == '-'; };
  const auto option = std::find_if(left.begin(), left.end(), is_option);
  if (option == left.end()) return "unexpected '" + (left.empty() ? std::string() : left.front()) + "'";
  const std::string name = option->substr(0, option->find('='));
  std::string known;
  for (const CLI::Option *each : get_options())
    for (const std::string &word : each->get_lnames())
      if (!each->get_group().empty()) known += (known.empty() ? "--" : ", --") + word;
  return "unknown option '" + *option + "'" + (name.starts_with("--") ? did_you_mean(name, known) : "");
}

std::optional<Answer> CommandLine::read(std::span<const char *const> args) {
  std::vector<std::string> words = json_path_ != nullptr ? words_of(args)
                                                         : std::vector<std::string>(args.begin(), args.end());
  std::reverse(words.begin(), words.end());  // CLI11 wants the last argument first
  try {
    parse(std::move(words));
  } catch (const CLI::CallForHelp &) {
    return Answer{true, help()};
  } catch (const CLI::ExtrasError &) {
    const std::string what = name_unexpected();
    return Answer{false, what + (what.ends_with('?') ? " See " : "; see ") + name_ + " --help"};
  } catch (const CLI::Error &error) {
    return Answer{false, std::string(error.what()) + "; see " + name_ + " --help"};
  }
  return std::nullopt;
}

}  // namespace rondo::console
