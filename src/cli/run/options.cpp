// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run/options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "src/console/command_line.h"

namespace rondo::cli {
namespace {

/// The launcher sets these variables itself. It refuses them in --env: a value there would be lost, or break the job.
constexpr std::array own_variables{"RONDO_RANK", "RONDO_SIZE", "RONDO_LOCAL_RANK", "RONDO_STORE", "RONDO_SECRET"};

uint64_t to_ns(double seconds) { return static_cast<uint64_t>(seconds * 1e9); }

/// Completes an entry without a value with the variable's value in this process.
Result<void> complete_environment(const RunInputs &inputs, std::vector<std::string> &environment) {
  for (std::string &entry : environment) {
    const std::string name = entry.substr(0, entry.find('='));
    if (name.empty())
      return invalid_argument("--env wants NAME=VALUE, or NAME for its value here, not '" + entry + "'");
    if (std::find(own_variables.begin(), own_variables.end(), name) != own_variables.end())
      return invalid_argument("--env cannot set " + name + ": rondo run sets it for each rank");
    if (name.size() != entry.size()) continue;
    const char *const value = inputs.variable ? inputs.variable(name.c_str()) : nullptr;
    if (value == nullptr)
      return invalid_argument("--env " + name + ": the variable is not set here; set it, or give NAME=VALUE");
    entry += std::string("=") + value;
  }
  return {};
}

/// Takes the program and its arguments, which follow the launcher's options and an optional "--".
Result<void> take_command(std::vector<std::string> rest, RunOptions *options) {
  if (!rest.empty() && rest.front() == "--")
    rest.erase(rest.begin());
  else if (!rest.empty() && rest.front().starts_with('-'))
    return invalid_argument("unknown option '" + rest.front() + "'; a program of that name goes after --");
  if (rest.empty()) return invalid_argument("no program given: rondo run -n N [OPTIONS] [--] PROGRAM [ARGUMENTS]");
  options->command = std::move(rest);
  return {};
}

/// The values that CLI11 sets, from which `finish` makes RunOptions.
struct Raw {
  double timeout_seconds = 0;
  double grace_seconds = 2;
  std::string bind = "share";
  std::string hosts, hostfile;
  std::string ssh;
};

constexpr console::Manual manual{
    "rondo run",
    "Starts N ranks of PROGRAM on this machine, or ranks on several hosts, and supervises them until all have "
    "ended.\nIf one fails, it ends the others. Options end at the first word that is not an option, or at --.",
    "rondo run -n N | --hosts LIST | --hostfile FILE [OPTIONS] [--] PROGRAM [ARGUMENTS]",
    "  rondo run -n 4 ./train --epochs 3\n"
    "  rondo run -n 4 --tag-output --timeout 600 --bind core -- rondo perf all_reduce\n"
    "  rondo run -n 2 --env RONDO_LOG=debug ./train    with debug messages\n"
    "  rondo run --hosts a:2,b:2 ./train               two ranks on each of two hosts\n"};

void add_options(console::CommandLine &app, RunOptions *options, Raw *raw) {
  app.prefix_command();
  app.begin_group("The job");
  app.add_option("-n,--ranks,--np", options->rank_count,
                 "ranks to start, 1 to 1024 (-np, too); this or --hosts must be given")
      ->check(console::InRange(1u, run_rank_count_max))
      ->type_name("N");
  app.add_option("--bind", raw->bind,
                 "share: each rank has an equal share of the cores, if there are as many cores as ranks; "
                 "core: rank i has the i-th core, counted round; none: any [share]")
      ->transform(CLI::IsMember({"share", "core", "none"}, CLI::ignore_case))
      ->type_name("share|core|none");
  app.add_option("--env", options->environment, "set a variable for the ranks, or copy NAME from here; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME[=VALUE]");
  app.add_flag("--nccl", options->nccl, "let the ranks use Rondo in place of NCCL: preload its libnccl.so.2");
  app.add_flag("--tag-output", options->tag_output,
               "pass the ranks' output on line by line, each line begun with its rank: [3] text");
  app.begin_group("Several hosts");
  app.add_option("--hosts", raw->hosts,
                 "start the ranks on these hosts, by ssh, in that order: a:2,b:2, or node[01-04]:8 (a: one rank)")
      ->type_name("LIST");
  app.add_option("--hostfile", raw->hostfile, "in place of --hosts: read them from lines such as \"a slots=2\", a:2")
      ->type_name("FILE");
  app.add_option("--ssh", raw->ssh, "what runs a command on a host [ssh]")->type_name("COMMAND");
  app.add_option("--remote-rondo", options->remote_rondo, "path of rondo on the hosts [as here]")->type_name("PATH");
  app.add_flag("--agent", options->agent, "")->group("");  // for the launcher, which starts agents on hosts
  app.begin_group("Its end");
  app.add_option("--timeout", raw->timeout_seconds, "end the job after S seconds, with status 124 [never]")
      ->check(console::InRange(0.001, run_seconds_max))
      ->type_name("S");
  app.add_flag("--keep-going", options->keep_going,
               "let the others go on when a rank fails; the job's status is 0 if any rank's is");
  app.add_option("--grace", raw->grace_seconds, "seconds from SIGTERM to SIGKILL when a job is ended [2]")
      ->check(console::InRange(0.0, run_seconds_max))
      ->type_name("S");
}

/// Replaces mpirun's -np, which would be parsed as -n with the value p. It does so only among the launcher's options,
/// and not in the program's arguments.
std::vector<std::string> with_long_np(std::span<const char *const> args) {
  static constexpr std::array<std::string_view, 11> with_value{"-n",      "--np",   "--ranks", "--timeout",
                                                              "--grace", "--bind", "--env",   "--hosts",
                                                              "--ssh",   "--remote-rondo", "--hostfile"};
  std::vector<std::string> words(args.begin(), args.end());
  for (size_t at = 0; at < words.size() && words[at].starts_with('-') && words[at] != "--"; ++at) {
    if (words[at].starts_with("-np")) {
      const std::string value = words[at].substr(std::string_view("-np").size());
      words[at] = value.empty() ? "--np" : "--np=" + value;
    }
    if (std::find(with_value.begin(), with_value.end(), words[at]) != with_value.end()) ++at;
  }
  return words;
}

/// Returns the words that start ssh. If the program is ssh itself, adds options that prevent questions and long
/// waits.
std::vector<std::string> ssh_words(const std::string &text) {
  std::istringstream stream(text.empty() ? "ssh" : text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  const std::string &program = words.empty() ? text : words.front();
  if (program.substr(program.rfind('/') + 1) == "ssh")
    words.insert(words.end(), {"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"});
  return words;
}

Result<std::vector<HostShare>> hosts_of(const Raw &raw, const RunInputs &inputs) {
  if (raw.hostfile.empty()) return parse_hosts(raw.hosts);
  if (!raw.hosts.empty()) return invalid_argument("--hosts and --hostfile exclude each other; give one of them");
  const auto text = inputs.read_file ? inputs.read_file(raw.hostfile) : invalid_argument("there are no files");
  auto hosts = text.ok() ? parse_hostfile(text.value()) : text.error();
  if (!hosts.ok()) return invalid_argument("--hostfile " + raw.hostfile + ": " + hosts.error().message);
  return hosts;
}

Result<void> take_hosts(const Raw &raw, const RunInputs &inputs, RunOptions *options) {
  if (raw.hosts.empty() && raw.hostfile.empty()) {
    if (options->rank_count == 0) return invalid_argument("--ranks is required (-n N), or --hosts or --hostfile");
    if (!raw.ssh.empty() || !options->remote_rondo.empty())
      return invalid_argument("--ssh and --remote-rondo are for --hosts, which is not given");
    return {};
  }
  RONDO_TRY_ASSIGN(options->hosts, hosts_of(raw, inputs));
  const std::string source = raw.hostfile.empty() ? "--hosts" : "--hostfile";
  uint32_t sum = 0;
  for (const HostShare &share : options->hosts) sum += share.rank_count;
  if (options->rank_count != 0 && options->rank_count != sum)
    return invalid_argument("-n " + std::to_string(options->rank_count) + ", but " + source + " has " +
                            std::to_string(sum) + " ranks together; leave -n out");
  if (sum > run_rank_count_max)
    return invalid_argument(source + " has " + std::to_string(sum) + " ranks together; there may be " +
                            std::to_string(run_rank_count_max));
  options->rank_count = sum;
  options->ssh = ssh_words(raw.ssh);
  if (options->ssh.empty()) return invalid_argument("--ssh takes a command");
  if (!options->remote_rondo.empty()) return {};
  std::error_code failure;
  options->remote_rondo = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) return invalid_argument("the path of this command cannot be read; give --remote-rondo PATH");
  return {};
}

Result<RunOptions> finish(std::vector<std::string> rest, const Raw &raw, const RunInputs &inputs, RunOptions options) {
  if (std::isnan(raw.timeout_seconds) || std::isnan(raw.grace_seconds))  // NaN passes the check of the range
    return invalid_argument("--timeout and --grace take a number of seconds");
  if (options.agent) return options;
  RONDO_TRY(complete_environment(inputs, options.environment));
  RONDO_TRY(take_hosts(raw, inputs, &options));
  RONDO_TRY(take_command(std::move(rest), &options));
  options.timeout_ns = to_ns(raw.timeout_seconds);
  options.grace_ns = to_ns(raw.grace_seconds);
  options.bind = raw.bind == "share" ? Bind::share : raw.bind == "core" ? Bind::core : Bind::none;
  return options;
}

}  // namespace

bool is_setting_for_ranks(std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  return name.starts_with("RONDO_") && name.size() != entry.size() &&
         std::find(own_variables.begin(), own_variables.end(), name) == own_variables.end();
}

Result<std::variant<RunOptions, HelpText>> parse_run_options(std::span<const char *const> args,
                                                              const RunInputs &inputs) {
  using Parsed = std::variant<RunOptions, HelpText>;
  RunOptions options;
  Raw raw;
  console::CommandLine app(manual);
  add_options(app, &options, &raw);
  const std::vector<std::string> words = with_long_np(args);
  std::vector<const char *> pointers;
  for (const std::string &word : words) pointers.push_back(word.c_str());
  if (auto answer = app.read(pointers)) {
    if (answer->is_help) return Parsed(HelpText{std::move(answer->text)});
    return invalid_argument(std::move(answer->text));
  }
  RONDO_TRY_ASSIGN(options, finish(app.remaining(), raw, inputs, std::move(options)));
  return Parsed(std::move(options));
}

}  // namespace rondo::cli
