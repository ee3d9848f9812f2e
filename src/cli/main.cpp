// SPDX-License-Identifier: Apache-2.0
// This file is the `rondo` command: it finds the subcommand in one table and calls it. Subcommands do all other work.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "rondo/rondo.h"
#include "src/base/config.h"
#include "src/base/names.h"
#include "src/base/spelling.h"
#include "src/cli/commands.h"
#include "src/console/standard_streams.h"
#include "src/console/terminal.h"

namespace rondo::cli {
namespace {

struct Command {
  const char *name;
  const char *summary;
  int (*run)(Arguments args);
};

constexpr std::array commands{
    Command{"info", "show what this machine has, what is configured and what would be chosen", run_info},
    Command{"nccl", "print the path of the library that replaces NCCL's", run_nccl},
    Command{"perf", "time and verify a collective over message sizes", run_perf},
    Command{"run", "start the ranks of a job, and supervise them", run_run},
    Command{"schedule", "print what each rank does in a collective: text, JSON, Graphviz, SVG", run_schedule},
    Command{"sim", "simulate a collective among thousands of ranks on a described network", run_sim},
    Command{"status", "show what the ranks of running jobs do, and which are awaited", run_status},
    Command{"trace", "make one timeline of the ranks' operations, for Perfetto and Chrome", run_trace},
    Command{"train", "train a small model data-parallel, and measure how much communication hides", run_train},
    Command{"tune", "measure this machine and write the table that RONDO_TUNING_FILE loads", run_tune},
};

const Command *find_command(std::string_view name) {
  const auto *const found =
      std::find_if(commands.begin(), commands.end(), [name](const Command &command) { return name == command.name; });
  return found == commands.end() ? nullptr : found;
}

void print_usage(std::FILE *to) {
  std::string text = "Usage: rondo COMMAND [OPTIONS]\n"
                     "       rondo help COMMAND | rondo --help | rondo --version\n"
                     "\nCommands:\n";
  for (const Command &command : commands) {
    std::string name = command.name;
    name.resize(10, ' ');
    text += "  " + name + " " + command.summary + "\n";
  }
  text += "\nThe manual page rondo(1) describes them all.\n"
          "share/doc/rondo/docs/troubleshooting.md lists symptoms and remedies.\n";
  std::fputs(console::fitted(text, to).c_str(), to);
}

int refuse(std::string_view name) {
  std::string known;
  for (const Command &command : commands) known += (known.empty() ? "" : ", ") + std::string(command.name);
  const std::string end = known_are(name, known);
  std::fprintf(stderr, "rondo: unknown command '%.*s'%s%s See rondo --help.\n", static_cast<int>(name.size()),
               name.data(), end.c_str(), end.ends_with('?') ? "" : ".");
  return exit_usage;
}

int help(Arguments args) {
  if (args.empty()) {
    print_usage(stdout);
    return 0;
  }
  const Command *command = find_command(args[0]);
  if (command == nullptr) return refuse(args[0]);
  const std::array<const char *, 1> wanted{"--help"};
  return command->run(wanted);
}

/// Returns whether the command has ranks, or starts them.
bool has_ranks(std::string_view command) {
  return command == "run" || command == "perf" || command == "train" || command == "tune";
}

/// Checks variables before the subcommand runs. The library would report a bad value late, and a bad recorder folder
/// only after a failure.
Result<void> check_variables(std::string_view command) {
  RONDO_TRY_ASSIGN(const Config config, read_config());
  if (config.recorder_dir.empty() || !has_ranks(command)) return {};
  if (::access((config.recorder_dir + "/").c_str(), W_OK | X_OK) == 0) return {};
  return invalid_argument("RONDO_RECORDER_DIR: cannot write into '" + config.recorder_dir + "': " +
                          std::strerror(errno) + "; name a folder that exists and that you may write to");
}

int dispatch(Arguments args) {
  if (args.empty()) {
    print_usage(stderr);
    return exit_usage;
  }
  const std::string_view name = args[0];
  if (name == "--help" || name == "-h" || name == "help") return help(args.subspan(1));
  if (name == "--version" || name == "-V") {
    std::printf("rondo %s\n", version_text().c_str());
    return 0;
  }
  const Command *command = find_command(name);
  if (command == nullptr) return refuse(name);
  if (const auto ready = check_variables(name); !ready.ok()) {
    std::fprintf(stderr, "rondo %s: %s\n", command->name, ready.error().message.c_str());
    return exit_usage;
  }
  if (!has_ranks(name)) warn_of_unknown_variables();  // otherwise the library of rank 0 warns, which knows --env, too
  return command->run(args.subspan(1));
}

}  // namespace
}  // namespace rondo::cli

int main(int argc, char **argv) {
  rondo::console::begin_standard_streams();
  ::signal(SIGCHLD, SIG_DFL);  // if it were inherited as ignored, the ends of children would be lost
  const rondo::cli::Arguments all(argv, static_cast<size_t>(argc));
  const int status = rondo::cli::dispatch(all.empty() ? all : all.subspan(1));
  return rondo::console::end_standard_streams("rondo", status);
}
