// SPDX-License-Identifier: Apache-2.0
// This file is `rondo status`. It shows what the ranks of running jobs on this host do, from the memory that they
// share. It maps that memory for reading only and stops no process, so the job does not notice it.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "src/cli/commands.h"
#include "src/cli/status/processes.h"
#include "src/cli/status/status_report.h"
#include "src/cli/subcommand.h"
#include "src/console/command_line.h"
#include "src/console/output.h"
#include "src/console/terminal.h"
#include "transports/shm/recorder.h"

namespace rondo::cli {
namespace {

struct StatusOptions {
  pid_t process = 0;  ///< 0 if none is named
  bool job = false;
  pid_t launcher = 0;  ///< with `job`: the launcher, or 0 for all jobs of this user
  bool everybody = false;  ///< with `job` and without `launcher`: the jobs of all users
  std::string json;  ///< a file to write, "-" for standard output
  std::string dump;  ///< a file to write, "-" for standard output
};

constexpr console::Manual status_manual{
    "rondo status",
    "Shows what the ranks of running jobs on this host do, for how long, and which are awaited. It only reads "
    "the\nmemory that the ranks share. On each host of a job, it shows the ranks of that host.",
    "rondo status PID [OPTIONS]\n       rondo status --job [PID] [OPTIONS]",
    "  rondo status --job                        this user's jobs here: which ranks are awaited?\n"
    "  rondo status 4711 --json status.json      the communicators of one process, for scripts\n"
    "  rondo status --job 4711 --dump ops.jsonl  the last operations of each rank below a launcher\n"};

/// Says whether the word after --json is the process, and not the file.
bool is_number(std::string_view word) {
  const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  return !word.empty() && std::all_of(word.begin(), word.end(), is_digit);
}

Result<Parsed<StatusOptions>> parse_status_options(Arguments args) {
  constexpr pid_t pid_max = std::numeric_limits<pid_t>::max();
  StatusOptions options;
  console::CommandLine app(status_manual);
  auto *const process = app.add_option("process", options.process, "show the communicators of this process")
                            ->check(console::InRange(1, pid_max))
                            ->type_name("PID");
  auto *const job =
      app.add_option(
             "--job", options.launcher,
             "show the processes below PID, a launcher such as rondo run; without PID, all processes of this user")
          ->expected(0, 1)
          ->check(console::InRange(0, pid_max))
          ->type_name("[PID]")
          ->excludes(process);
  app.add_flag("--all-users", options.everybody,
               "with --job and no PID: show the processes of all users, which root may do");
  app.add_json(options.json, "write it", is_number);
  app.add_option("--dump", options.dump,
                 "write the flight recording, the last operations of each rank, to FILE (- is standard output), and "
                 "nothing else")
      ->type_name("FILE");
  if (auto answer = app.read(args)) {
    if (answer->is_help) return Parsed<StatusOptions>(std::move(answer->text));
    return invalid_argument(std::move(answer->text));
  }
  if (!options.json.empty() && !options.dump.empty())
    return invalid_argument("--json and --dump exclude each other; give one of them, see rondo status --help");
  for (const console::Complaint &complaint :
       {console::check_output(options.json), console::check_output(options.dump)})
    if (complaint) return invalid_argument(*complaint);
  options.job = job->count() != 0;
  if (options.everybody && (!options.job || options.launcher != 0))
    return invalid_argument("--all-users goes with --job without a PID; see rondo status --help");
  if (options.process == 0 && !options.job)
    return invalid_argument("name a process, or --job for all of this user's jobs; see rondo status --help");
  return Parsed<StatusOptions>(std::move(options));
}

Result<shm::Observed> observe(const StatusOptions &options) {
  if (!options.job) return shm::observe_process(options.process);
  shm::Observed all;
  if (options.launcher != 0) RONDO_TRY(shm::observe_process(options.launcher));  // fails if there is no such process
  for (const pid_t process :
       options.launcher != 0 ? processes_below(options.launcher) : processes_of_user(options.everybody)) {
    auto observed = shm::observe_process(process);
    if (observed.ok()) shm::merge(all, std::move(observed).value());
    // A process that has ended during the search is no failure. Processes that this user may not read are reported if
    // the user has named a launcher.
    if (!observed.ok() && options.launcher != 0 && observed.error().status == RONDO_ERROR_SYSTEM)
      all.refused.push_back(observed.error());
  }
  return all;
}

Error nothing_found(const StatusOptions &options) {
  if (!options.job)
    return invalid_argument("process " + std::to_string(options.process) +
                            " has no communicator: it has not made one yet, or has destroyed it. If it is a launcher, "
                            "use rondo status --job " +
                            std::to_string(options.process));
  if (options.launcher != 0)
    return invalid_argument("no process below " + std::to_string(options.launcher) + " has a communicator");
  return invalid_argument(options.everybody
                              ? "no process has a communicator that this user may read"
                              : "no process of this user has a communicator; --all-users shows those of all users");
}

Result<void> dump(const shm::Observed &observed, const std::string &path) {
  std::vector<const Recording *> recordings;
  for (const auto &recording : observed.recordings) recordings.push_back(recording.get());
  const console::OutputPlace place = console::output_place(path);
  if (path != "-" && place.can_be_replaced) return write_recordings(recordings, place.path);
  const auto print = [&recordings](std::FILE *to) {
    return std::all_of(recordings.begin(), recordings.end(), [to](const Recording *recording) {
      return print_recording(*recording, [to](std::string_view line) {
        return std::fwrite(line.data(), 1, line.size(), to) == line.size();
      });
    });
  };
  if (auto complaint = console::write_output(path, print)) return Error{RONDO_ERROR_SYSTEM, std::move(*complaint)};
  return {};
}

Result<void> show(const StatusOptions &options) {
  RONDO_TRY_ASSIGN(const auto observed, observe(options));
  for (const Error &error : observed.refused) std::fprintf(stderr, "rondo status: %s\n", error.message.c_str());
  if (observed.recordings.empty()) {
    if (!observed.refused.empty()) return Error{RONDO_ERROR_SYSTEM, "no communicator could be read"};
    return nothing_found(options);
  }
  if (!options.dump.empty()) return dump(observed, options.dump);
  std::vector<Look> looks;
  for (const auto &recording : observed.recordings) looks.push_back(look_at(*recording));
  if (options.json != "-") RONDO_TRY(write_text("-", console::fitted(status_text(looks), stdout)));
  return options.json.empty() ? Result<void>() : write_text(options.json, status_json(looks, observed.refused));
}

}  // namespace

int run_status(Arguments args) {
  const auto parsed = parse_status_options(args);
  if (!parsed.ok()) {
    std::fprintf(stderr, "rondo status: %s\n", parsed.error().message.c_str());
    return exit_usage;
  }
  if (const auto *help = std::get_if<std::string>(&parsed.value())) {
    std::fputs(help->c_str(), stdout);
    return 0;
  }
  const auto shown = show(std::get<StatusOptions>(parsed.value()));
  if (shown.ok()) return 0;
  std::fprintf(stderr, "rondo status: %s\n", shown.error().message.c_str());
  return exit_failed;
}

}  // namespace rondo::cli
