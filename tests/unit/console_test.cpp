// SPDX-License-Identifier: Apache-2.0
// These tests cover the parts of subcommands that users see: sizes, the remaining time, help, --json, files.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "src/base/spelling.h"
#include "src/console/command_line.h"
#include "src/console/output.h"
#include "src/console/progress.h"
#include "src/console/svg.h"
#include "src/console/terminal.h"
#include "tests/catch.h"

using namespace rondo;
using namespace rondo::console;

namespace {

constexpr Manual manual{"rondo x", "Does x.", "rondo x [OPTIONS]", "  rondo x --size 4K\n"};

bool is_word(std::string_view word) { return word == "word"; }

struct Parsed {
  std::string json, word;
  uint32_t number = 0;
  std::optional<Answer> answer;
};

Parsed parse(std::initializer_list<const char *> args) {
  Parsed parsed;
  CommandLine app(manual);
  app.add_option("word", parsed.word, "a word")->type_name("WORD");
  app.begin_group("Numbers");
  app.add_option("-n,--number", parsed.number,
                 "a number whose description is so long that it does not fit into one line of the help, which has a "
                 "hundred columns, and which ends with --json here")
      ->check(InRange(1u, 9u))
      ->type_name("N");
  app.add_json(parsed.json, "write it", is_word);
  parsed.answer = app.read({args.begin(), args.size()});
  return parsed;
}

/// Returns the path of a folder that only this test uses.
std::filesystem::path folder() {
  static const std::filesystem::path path = [] {
    std::string name = std::filesystem::temp_directory_path() / "rondo-console-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    return name;
  }();
  return path;
}

}  // namespace

TEST_CASE("console: a size is shown with K, M or G, never with an exponent") {
  CHECK(show_bytes(0) == "0");
  CHECK(show_bytes(1023) == "1023");
  CHECK(show_bytes(64 * 1024) == "64K");
  CHECK(show_bytes(1536) == "1536");
  CHECK(show_bytes(uint64_t{5} << 40) == "5120G");
  CHECK(show_bytes_near(1020 * 1024) == "1020K");
  CHECK(show_bytes_near(1023.9) == "1024");
  CHECK(show_bytes_near(999) == "999");
  CHECK(show_bytes_near(1536) == "1.5K");
  CHECK(show_bytes_near(1.75 * 1024 * 1024 * 1024) == "1.75G");
  CHECK(show_bytes_near(0.25) == "0.25");
  CHECK(show_volume(999) == "999 B");
  CHECK(show_volume(1536) == "1.5 KiB");
  CHECK(show_volume(1.75 * 1024 * 1024 * 1024 * 1024) == "1.75 TiB");
  CHECK(show_duration(0.27) == "270 ns");
  CHECK(show_duration(1) == "1 us");
  CHECK(show_duration(999.8) == "1 ms");
  CHECK(show_duration(10'300) == "10.3 ms");
  CHECK(show_duration(75e6) == "75 s");
  CHECK(show_duration(4321e6) == "4321 s");
  CHECK(counted(0, "rank") == "0 ranks");
  CHECK(counted(1, "rank") == "1 rank");
  CHECK(counted(2, "process") == "2 processes");
  for (int power = 0; power < 50; ++power)
    CHECK(show_bytes_near(static_cast<double>(uint64_t{1} << power)) == show_bytes(uint64_t{1} << power));
}

TEST_CASE("console: progress tells its part, and the time left at the same pace") {
  CHECK(progress_text(0.25, 10) == "25 %, about 30 s left");
  CHECK(progress_text(0.5, 600) == "50 %, about 10 min left");
  CHECK(progress_text(0.5, 36000) == "50 %, about 10 h left");
  CHECK(progress_text(0.999, 3) == "99 %, about 1 s left");
  CHECK(progress_text(0.001, 3) == "0 %, 3 s so far");
  CHECK(progress_text(7, 3) == "100 %, about 1 s left");
}

TEST_CASE("console: the help has groups, names for values, examples, and no line that begins with another option") {
  const auto parsed = parse({"--help"});
  REQUIRE(parsed.answer);
  CHECK(parsed.answer->is_help);
  CHECK(parsed.answer->text ==
        "Does x.\n\nUsage: rondo x [OPTIONS]\n"
        "\nArguments:\n"
        "  WORD                        a word\n"
        "\nNumbers:\n"
        "  -n,--number N               a number whose description is so long that it does not fit into one\n"
        "                              line of the help, which has a hundred columns, and which ends\n"
        "                              with --json here\n"
        "  --json [FILE]               write it as JSON to FILE; without one, or with -: to standard output\n"
        "\nOther options:\n"
        "  -h,--help                   print this help\n"
        "\nDefaults stand in brackets. Sizes are bytes; K, M and G are powers of 1024.\n"
        "\nExamples:\n"
        "  rondo x --size 4K\n");
}

TEST_CASE("console: --json takes a file, or none, and leaves the command's arguments alone") {
  CHECK(parse({}).json.empty());
  CHECK(parse({"--json"}).json == "-");
  CHECK(parse({"--json", "-"}).json == "-");
  CHECK(parse({"--json", "file"}).json == "file");
  CHECK(parse({"--json=file", "word"}).json == "file");
  CHECK(parse({"--json", "-n", "3"}).json == "-");
  CHECK(parse({"--json", "-n", "3"}).number == 3);
  const auto before = parse({"--json", "word"});
  CHECK((before.json == "-" && before.word == "word"));
  const auto behind = parse({"word", "--json", "file"});
  CHECK((behind.json == "file" && behind.word == "word"));
}

TEST_CASE("console: lines are fitted to a terminal, words stay whole, and without one all stays") {
  const std::string text = "  name      a value of words\n# a comment of many words\nshort\n\n";
  CHECK(fit_lines(text, 0) == text);
  CHECK(fit_lines(text, 28) == text);
  CHECK(fit_lines(text, 20) == "  name      a value\n      of words\n# a comment of many\n#     words\nshort\n\n");
  CHECK(fit_lines("abcdefghij klm", 5) == "abcdefghij\n  klm");
  CHECK(fit_lines("", 20).empty());
}

TEST_CASE("console: a name is the same in any case") {
  CHECK(lower_case("Float8_E4M3") == "float8_e4m3");
  CHECK(lower_case("") == "");
}

TEST_CASE("console: what is refused is told with where to look") {
  const auto parsed = parse({"-n", "12"});
  REQUIRE(parsed.answer);
  CHECK(!parsed.answer->is_help);
  CHECK_THAT(parsed.answer->text, Contains("--number") && Contains("1 to 9") && Contains("; see rondo x --help"));
}

TEST_CASE("console: an option or a word that there is not is named alone") {
  CHECK(parse({"word", "--numbr", "12", "more"}).answer->text ==
        "unknown option '--numbr'; did you mean --number? See rondo x --help");
  CHECK(parse({"word", "--color"}).answer->text == "unknown option '--color'; see rondo x --help");
  CHECK(parse({"word", "-q", "-z"}).answer->text == "unknown option '-q'; see rondo x --help");
  CHECK(parse({"word", "another", "more"}).answer->text == "unexpected 'another'; see rondo x --help");
}

TEST_CASE("console: a file is tried before the work, and stays as it is") {
  const std::string fresh = folder() / "fresh.json", kept = folder() / "kept.json";
  std::ofstream(kept) << "as it was";
  CHECK(!check_output(""));
  CHECK(!check_output("-"));
  CHECK(!check_output(fresh));
  CHECK(!std::filesystem::exists(fresh));
  CHECK(!check_output(kept));
  std::ifstream file(kept);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == "as it was");
  const auto complaint = check_output(folder() / "none" / "x.json");
  REQUIRE(complaint);
  CHECK_THAT(*complaint, Contains("cannot write") && Contains("No such file") && Contains("name a file in a folder"));
  CHECK(!check_plot("x.svg"));
  CHECK_THAT(check_plot("x.png").value_or(""), Contains(".svg"));
  CHECK(!write_output(fresh, "text"));
  CHECK(std::filesystem::file_size(fresh) == 4);
  CHECK(write_output(folder() / "none" / "x", "text"));
  std::filesystem::remove_all(folder());
}

TEST_CASE("console: one of several outputs may be standard output") {
  const std::array one{Output{"--json", "-"}, Output{"--plot", "x.svg"}};
  CHECK(!check_shared(one));
  const std::array two{Output{"--json", "-"}, Output{"--plot", "-"}};
  CHECK(check_shared(two).value_or("") == "--json, --plot cannot share standard output; give files to all but one");
}

TEST_CASE("console: what XML would read as its own is escaped, and numbers have no more digits than they need") {
  CHECK(svg::text(1, 2.5, "a < b & c", "class=\"x\"") ==
        "<text x=\"1\" y=\"2.5\" class=\"x\">a &lt; b &amp; c</text>\n");
  CHECK(svg::number(-0.01) == "0");
  CHECK(svg::number(12.34) == "12.3");
}
