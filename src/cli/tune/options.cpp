// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include <algorithm>
#include <set>

#include "src/base/names.h"
#include "src/base/parse.h"
#include "src/cli/tune/tune.h"

namespace rondo::cli::tune {
namespace {

constexpr uint32_t rank_count_max = 64;
constexpr uint32_t round_count_max = 1000;
constexpr uint64_t bytes_max = uint64_t{1} << 30;
constexpr size_t size_count_max = 64;

struct Raw {
  std::string ranks = "2,4,8", collectives = "all_reduce", sizes;
  bool quick = false;
};

/// A list, or as here from, to and the factor between; the last one is always among them.
constexpr const char *default_sizes = "8-64M/4";
constexpr const char *quick_sizes = "8-1M/32";

std::vector<std::string> split(const std::string &text) {
  std::vector<std::string> parts(1);
  for (const char character : text)
    if (character == ',') parts.emplace_back();
    else parts.back() += character;
  return parts;
}

template <class Value, class Parse>
Result<std::vector<Value>> list_of(const std::string &text, const char *option, Parse parse) {
  std::set<Value> values;
  for (const std::string &part : split(text)) {
    auto value = parse(part);
    if (!value.ok()) return invalid_argument(std::string(option) + ": " + value.error().message);
    values.insert(static_cast<Value>(value.value()));
  }
  return std::vector<Value>(values.begin(), values.end());
}

Result<std::vector<uint64_t>> sizes_of(const std::string &text) {
  const auto size = [](const std::string &part) { return parse_bytes(part, 4, bytes_max); };
  const size_t dash = text.find('-'), slash = text.find('/');
  if (dash == std::string::npos) return list_of<uint64_t>(text, "--sizes", size);
  const auto parse = [&]() -> Result<std::vector<uint64_t>> {
    RONDO_TRY_ASSIGN(const uint64_t from, size(text.substr(0, dash)));
    RONDO_TRY_ASSIGN(const uint64_t to,
                     size(text.substr(dash + 1, slash == std::string::npos ? slash : slash - dash - 1)));
    uint64_t factor = 4;
    if (slash != std::string::npos) {
      RONDO_TRY_ASSIGN(factor, parse_number(text.substr(slash + 1), 2, 1024));
    }
    std::vector<uint64_t> sizes;
    for (uint64_t bytes = from; bytes <= to; bytes *= factor) sizes.push_back(bytes);
    if (sizes.empty()) return invalid_argument("the first size is above the last");
    if (sizes.back() != to) sizes.push_back(to);
    return sizes;
  };
  auto sizes = parse();
  if (!sizes.ok()) return invalid_argument("--sizes: " + sizes.error().message);
  return sizes;
}

Result<Options> finish(const Raw &raw, Options options) {
  RONDO_TRY_ASSIGN(options.rank_counts, list_of<uint32_t>(raw.ranks, "--ranks", [](const std::string &part) {
                     return parse_number(part, 2, rank_count_max);
                   }));
  RONDO_TRY_ASSIGN(options.collectives,
                   list_of<rondo_collective_t>(raw.collectives, "--collectives", [](const std::string &part) {
                     return parse_name(part, rondo_collective_string, "collective");
                   }));
  if (std::find(options.collectives.begin(), options.collectives.end(), RONDO_BARRIER) != options.collectives.end())
    return invalid_argument("--collectives: a barrier has no plan of its own; it is planned as an all_reduce");
  const std::string sizes = !raw.sizes.empty() ? raw.sizes : raw.quick ? quick_sizes : default_sizes;
  RONDO_TRY_ASSIGN(options.sizes, sizes_of(sizes));
  if (options.sizes.size() > size_count_max)
    return invalid_argument("--sizes: more than " + std::to_string(size_count_max));
  if (options.output.empty()) return invalid_argument("-o: wants the name of a file");
  return options;
}

}  // namespace

Result<std::variant<Options, std::string>> parse_options(Arguments args) {
  using Parsed = std::variant<Options, std::string>;
  Options options;
  Raw raw;
  CLI::App app("Measures the algorithms on this machine and writes the table that RONDO_TUNING_FILE loads.\n"
               "Exit status: 0; 1 if a choice is over 10 % slower than the best, or measuring failed; 2: used wrongly.",
               "rondo tune");
  app.add_option("--ranks", raw.ranks, "Numbers of ranks, 2 to 64 (default 2,4,8)")->type_name("N,...");
  app.add_option("--collectives", raw.collectives, "Default all_reduce")->type_name("NAME,...");
  app.add_option("--sizes", raw.sizes, "A list of bytes, or FROM-TO/FACTOR, both ends included (default 8-64M/4)")
      ->type_name("SIZES");
  app.add_flag("--quick", raw.quick, "Fewer sizes (8-1M/32), two rounds, short samples: a first impression");
  auto *const rounds =
      app.add_option("--rounds", options.round_count, "Times that every candidate's turn comes at a size (default 5)")
          ->check(CLI::Range(1u, round_count_max))
          ->type_name("N");
  app.add_option("-o,--output", options.output, "The file to write (default rondo-tuning.json)")->type_name("FILE");
  app.add_flag("--hosts", options.hosts,
               "As a rank of a launcher on several hosts: measure links inside and between them, choose by simulation");
  app.add_option("--job", options.job_path)->group("");  // how it starts its own ranks
  app.add_option("--result", options.result_path)->group("");
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // CLI11 wants the last argument first
  } catch (const CLI::CallForHelp &) {
    return Parsed(app.help());
  } catch (const CLI::Error &error) {
    return invalid_argument(error.what());
  }
  if (raw.quick) {
    if (rounds->count() == 0) options.round_count = 2;
    options.sample_ns = 3'000'000;
  }
  RONDO_TRY_ASSIGN(options, finish(raw, std::move(options)));
  return Parsed(std::move(options));
}

}  // namespace rondo::cli::tune
