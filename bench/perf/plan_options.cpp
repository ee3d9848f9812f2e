// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/plan_options.h"

#include <array>

#include "bench/perf/cases.h"

namespace rondo::perf {
namespace {

constexpr unsigned channel_count_max = 128, cta_count_max = 1'024;

/// The options about properties of a schedule, besides algorithm and protocol.
constexpr std::array schedule_options{"--kernel", "--channels", "--max-ctas", "--chunk-bytes"};

/// Returns a failure for options that have no effect if a collective exchanges blocks. Only two choices have an effect:
/// one_shot connects more than 64 ranks of several hosts, and `simple` prevents small blocks from using ll.
Outcome check_block_options(const CLI::App &app, const Options &options) {
  const std::string name = name_of(options.collective);
  const rondo_algorithm_t algorithm = options.config.algorithm;
  if (algorithm != RONDO_ALGORITHM_AUTO && algorithm != RONDO_ALGORITHM_ONE_SHOT)
    return Failure{Exit::usage, name + " sends each block straight to its rank, which is one_shot; leave out " +
                                    "--algorithm " + rondo_algorithm_string(algorithm)};
  const rondo_protocol_t protocol = options.config.protocol;
  if (protocol != RONDO_PROTOCOL_AUTO && protocol != RONDO_PROTOCOL_SIMPLE)
    return Failure{Exit::usage, name + " chooses its protocol by the size of a block; give --protocol simple, or " +
                                    "leave out --protocol " + rondo_protocol_string(protocol)};
  for (const char *option : schedule_options)
    if (app.count(option) != 0)
      return Failure{Exit::usage, name + " has no schedule; leave out " + std::string(option)};
  return std::nullopt;
}

}  // namespace

void add_plan_options(console::CommandLine &app, Options &options, PlanWords &words) {
  app.begin_group("The plan");
  app.add_option("--algorithm", words.algorithm,
                 "auto, ring, tree, halving_doubling, one_shot, two_shot, hierarchical or hierarchical_tree; auto is "
                 "the tuner's choice [auto]")
      ->type_name("NAME");
  app.add_option("--protocol", words.protocol, "auto, simple or ll [auto]")->type_name("NAME");
  app.add_option("--kernel", words.kernel, "what runs the plan: auto, interpreter or load_store [auto]")
      ->type_name("NAME");
  app.add_option("--channels", options.config.channels,
                 "parallel lanes, 1 to 8, on a device 1 to 128; 0: the tuner's choice [0]")
      ->check(console::InRange(0u, channel_count_max))
      ->type_name("N");
  app.add_option("--max-ctas", options.config.max_ctas,
                 "blocks of a collective on a device, at most, 1 to 1024; 0: no limit [0]")
      ->check(console::InRange(0u, cta_count_max))
      ->type_name("N");
  app.add_option("--chunk-bytes", words.chunk_bytes, "the schedule's unit, 64 to 1G; 0: the tuner's choice [0]")
      ->type_name("SIZE");
}

Outcome check_plan_options(const CLI::App &app, const Options &options) {
  if (exchanges_blocks(options.collective)) return check_block_options(app, options);
  if (has_plan(options.collective)) return std::nullopt;
  for (const char *option : {"--algorithm", "--protocol", "--kernel", "--channels", "--max-ctas", "--chunk-bytes"})
    if (app.count(option) != 0)
      return Failure{Exit::usage, std::string(name_of(options.collective)) + " has no plan; leave out " + option};
  return std::nullopt;
}

}  // namespace rondo::perf
