// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "src/base/names.h"
#include "src/base/parse.h"
#include "src/cli/tune/tune.h"
#include "src/console/command_line.h"
#include "src/console/output.h"
#include "src/plan/collective.h"

namespace rondo::cli::tune {
namespace {

constexpr uint32_t rank_count_max = 64;
constexpr uint32_t round_count_max = 1000;
constexpr uint64_t bytes_max = uint64_t{1} << 30;
constexpr size_t size_count_max = 64;

struct Raw {
  std::string ranks = "2,4,8", collectives = "all_reduce", sizes, json;
  bool quick = false;
};

/// The default sizes as "first-last/factor". Each size is the factor times the one before, up to the last.
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

const char *tuned_collective_string(rondo_collective_t collective) {
  return collective == RONDO_BARRIER ? nullptr : scheduled_collective_string(collective);
}

Result<rondo_collective_t> tuned_collective(const std::string &part) {
  const auto planned = parse_collective(part);
  if (planned.ok() && planned.value() == RONDO_BARRIER)
    return invalid_argument("a barrier has no plan of its own; it is planned as an all_reduce");
  if (const std::string name = collective_spelling(part); std::ranges::any_of(
          collective_table, [&](const Collective &each) { return exchanges_blocks(each.id) && each.name == name; }))
    return invalid_argument("there is nothing to choose for " + name +
                            ", because its blocks go directly from rank to rank");
  return parse_name(collective_spelling(part), tuned_collective_string, "collective");
}

Result<Options> finish(const Raw &raw, Options options) {
  RONDO_TRY_ASSIGN(options.rank_counts, list_of<uint32_t>(raw.ranks, "--ranks", [](const std::string &part) {
                     return parse_number(part, 2, rank_count_max);
                   }));
  RONDO_TRY_ASSIGN(options.collectives,
                   list_of<rondo_collective_t>(raw.collectives, "--collectives", tuned_collective));
  const std::string sizes = !raw.sizes.empty() ? raw.sizes : raw.quick ? quick_sizes : default_sizes;
  RONDO_TRY_ASSIGN(options.sizes, sizes_of(sizes));
  if (options.sizes.size() > size_count_max)
    return invalid_argument("--sizes: more than " + std::to_string(size_count_max));
  if (options.output.empty()) return invalid_argument("-o takes the name of a file");
  if (!options.hosts.empty() && !options.device.empty())
    return invalid_argument("--device measures devices of this host, --hosts ranks on several hosts; give one of them");
  if (options.hosts.empty()) return options;
  RONDO_TRY_ASSIGN(options.host_shares, parse_hosts(options.hosts));
  if (options.host_shares.size() < 2)
    return invalid_argument("--hosts: '" + options.hosts + "' is one host; name several");
  return options;
}

constexpr console::Manual manual{
    "rondo tune",
    "Measures the algorithms by runs of rondo perf, and writes the table that RONDO_TUNING_FILE loads. Its status: 0;\n"
    "1 if a choice is over 10 % slower than the best, a size is left out because other programs disturbed every run,\n"
    "or measuring failed; 2: used wrongly.",
    "rondo tune [OPTIONS]",
    "  rondo tune -o here.json                     2, 4 and 8 ranks, all_reduce, 8 to 64M: some minutes\n"
    "  rondo tune --quick --ranks 2 -o here.json   a first impression: seconds\n"
    "  RONDO_TUNING_FILE=here.json rondo run -n 4 ./train\n"
    "  rondo tune --device cuda -o devices.json    buffers on CUDA devices; --quick: fewer runs\n"
    "  rondo tune --hosts a:4,b:4 -o hosts.json    ranks on these hosts, which rondo run starts by ssh\n"};

void add_options(console::CommandLine &app, Options &options, Raw &raw) {
  app.begin_group("What is measured");
  app.add_option("--ranks", raw.ranks, "numbers of ranks, 2 to 64 [2,4,8]")->type_name("N,...");
  app.add_option("--collectives", raw.collectives,
                 collective_names([](const Collective &each) { return each.has_data && has_schedule(each.id); }) +
                     " [all_reduce]")
      ->type_name("NAME,...");
  app.add_option("--sizes", raw.sizes, "a list, or FROM-TO/FACTOR, both ends included [8-64M/4]")->type_name("SIZES");
  app.add_flag("--keep-disturbed", options.keep_disturbed,
               "write sizes, too, in whose every run other programs used the processors");
  app.add_flag("--quick", raw.quick, "fewer sizes (8-1M/32), two rounds, short samples: a first impression");
  app.add_option("--rounds", options.round_count, "times that every candidate's turn comes at a size, 1 to 1000 [5]")
      ->check(console::InRange(1u, round_count_max))
      ->type_name("N");
  app.add_option("--hosts", options.hosts, "ranks on these hosts, in place of --ranks, as with rondo run: a:4,b:4")
      ->type_name("LIST");
  app.add_option("--device", options.device,
                 "buffers on CUDA devices, as with rondo perf: cuda, cuda:0, ...; ranks as processes and as threads")
      ->type_name("NAME");
  app.begin_group("Output");
  app.add_option("-o,--output", options.output, "the table, which is JSON; - is standard output [rondo-tuning.json]")
      ->type_name("FILE");
  app.add_json(raw.json, "as --output: write the table");
}

}  // namespace

Result<std::variant<Options, std::string>> parse_options(Arguments args) {
  using Parsed = std::variant<Options, std::string>;
  Options options;
  Raw raw;
  console::CommandLine app(manual);
  add_options(app, options, raw);
  for (size_t at = 0; at < args.size(); ++at)
    if (args[at] == std::string_view("--hosts") && (at + 1 == args.size() || args[at + 1][0] == '-'))
      return invalid_argument(
          "--hosts takes the hosts and the ranks on each, such as --hosts a:4,b:4; start rondo tune once, not as ranks "
          "of a job");
  if (auto answer = app.read(args)) {
    if (answer->is_help) return Parsed(std::move(answer->text));
    return invalid_argument(std::move(answer->text));
  }
  if (!raw.json.empty() && app.count("--output") != 0)
    return invalid_argument("--json and --output name the same file; give one of them");
  if (!raw.json.empty()) options.output = raw.json;
  options.quick = raw.quick;
  if (raw.quick) {
    if (app.count("--rounds") == 0) options.round_count = 2;
  }
  RONDO_TRY_ASSIGN(options, finish(raw, std::move(options)));
  if (auto complaint = console::check_output(options.output)) return invalid_argument(std::move(*complaint));
  return Parsed(std::move(options));
}

}  // namespace rondo::cli::tune
