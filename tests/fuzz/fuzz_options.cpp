// SPDX-License-Identifier: Apache-2.0
// Fuzzes the command lines of `rondo run` and `rondo perf`. The first byte picks the command, and each line is an
// argument. Accepted options are within the ranges on which the program relies. A refusal says why.
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "bench/perf/options.h"
#include "src/cli/run/options.h"
#include "tests/fuzz/fuzz.h"

using namespace rondo;

namespace {

constexpr size_t argument_count_max = 40;

std::vector<std::string> split_lines(const uint8_t *data, size_t size) {
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < size && lines.size() <= argument_count_max; ++i) {
    if (data[i] == '\n') lines.emplace_back();
    else if (data[i] != 0) lines.back().push_back(static_cast<char>(data[i]));  // an argument has no NUL
  }
  return lines;
}

void check_run(const std::vector<const char *> &args) {
  const auto parsed = cli::parse_run_options(args);
  if (!parsed.ok()) {
    FUZZ_CHECK(!parsed.error().message.empty());
  } else if (const auto *options = std::get_if<cli::RunOptions>(&parsed.value())) {
    if (options->agent) return;  // an agent has no other options
    FUZZ_CHECK(options->rank_count >= 1 && options->rank_count <= cli::run_rank_count_max);
    FUZZ_CHECK(!options->command.empty());
    FUZZ_CHECK(static_cast<double>(options->timeout_ns) <= cli::run_seconds_max * 1e9);
  }
}

void check_perf(const std::vector<const char *> &args) {
  const auto parsed = perf::parse_options(args);
  const auto *options = std::get_if<perf::Options>(&parsed);
  if (options == nullptr) return;
  FUZZ_CHECK(options->min_bytes <= options->max_bytes);
  FUZZ_CHECK(!options->types.empty() && !options->ops.empty());
  FUZZ_CHECK(options->out_of_place || options->in_place);
  const std::vector<size_t> sizes = perf::sizes_of(*options);
  FUZZ_CHECK(!sizes.empty() && sizes.size() <= 10'000);
  for (size_t i = 1; i < sizes.size(); ++i) FUZZ_CHECK(sizes[i - 1] < sizes[i]);
  FUZZ_CHECK(sizes.front() == options->min_bytes && sizes.back() <= options->max_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  const std::vector<std::string> lines = split_lines(data + 1, size - 1);
  std::vector<const char *> args;
  for (const std::string &line : lines) args.push_back(line.c_str());
  if (data[0] % 2 == 0) check_run(args);
  else check_perf(args);
  return 0;
}
