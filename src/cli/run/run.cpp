// SPDX-License-Identifier: Apache-2.0
// This file is `rondo run`. It checks options, program and cores first, so a mistake is reported before any process is
// started.
//
//   launcher (run_supervisor)   store, terminal, output, signals, decisions (run_job); subreaper
//     `- guard (run_guard)      starts the ranks, reports, ends what is left; subreaper
//          |- rank 0 ...        the program, each in a process group of its own
//          `- rank N-1
// If launcher or guard is killed, the other one ends everything below; see docs/launching.md. With --hosts, the
// launcher (hosts/launcher) has an agent (hosts/agent) on each host, and each agent has a guard.
#include <cstdio>
#include <cstdlib>

#include "src/base/user_file.h"
#include "src/cli/hosts/agent.h"
#include "src/cli/hosts/launcher.h"
#include "src/cli/nccl/library.h"
#include "src/cli/run/launch.h"
#include "src/cli/run/options.h"
#include "src/cli/run/program.h"
#include "src/cli/run/supervisor.h"

namespace rondo::cli {
namespace {

Result<std::string> read_hosts(const std::string &path) {
  constexpr size_t bytes_max = size_t{1} << 20;
  std::string text;
  if (const auto problem = read_user_file(path, bytes_max, text))
    return invalid_argument("cannot be read: " + *problem);
  if (text.size() > bytes_max) return invalid_argument("has more than 1M bytes");
  return text;
}

int start(RunOptions options) {
  const char *search_path = std::getenv("PATH");
  ProgramLookup program = find_program(options.command.front(), search_path != nullptr ? search_path : "/bin:/usr/bin");
  if (program.path.empty()) return refuse_run(program.message, program.exit_status);
  LaunchPlan plan;
  plan.options = std::move(options);
  if (const auto divided = divide_processors(plan); !divided.ok())
    return refuse_run(divided.error().message, exit_failed);
  plan.program_path = std::move(program.path);
  return supervise(std::move(plan));
}

}  // namespace

int run_run(Arguments args) {
  auto parsed = parse_run_options(args, {read_hosts, [](const char *name) { return std::getenv(name); }});
  if (!parsed.ok()) {
    const std::string &message = parsed.error().message;
    const bool has_hint = message.find("--help") != std::string::npos;
    return refuse_run(message + (has_hint ? "" : "; see rondo run --help"), exit_usage);
  }
  if (const auto *help = std::get_if<HelpText>(&parsed.value())) {
    std::fputs(help->text.c_str(), stdout);
    return 0;
  }
  auto options = std::get<RunOptions>(std::move(parsed).value());
  if (options.agent) return run_agent();
  if (options.nccl)
    if (const auto preloaded = preload_nccl(options.environment); !preloaded.ok())
      return refuse_run(preloaded.error().message, exit_failed);
  return options.hosts.empty() ? start(std::move(options)) : run_on_hosts(options);
}

}  // namespace rondo::cli
