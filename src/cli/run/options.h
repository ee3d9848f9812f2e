// SPDX-License-Identifier: Apache-2.0
// This file declares the options of `rondo run` as values. The parser reads files and variables only through functions
// of its caller.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/base/result.h"
#include "src/cli/hosts/host_list.h"

namespace rondo::cli {

constexpr uint32_t run_rank_count_max = 1024;
constexpr double run_seconds_max = 1e7;  // about four months; keeps nanoseconds far from overflow

/// The processors of a rank.
enum class Bind : uint32_t {
  none,  ///< any core; the kernel places the ranks
  core,  ///< one core for each rank, in turn
  share  ///< an equal share of the cores, if there are as many cores as ranks
};

struct RunOptions {
  uint32_t rank_count = 0;
  bool tag_output = false;
  uint64_t timeout_ns = 0;  ///< 0: none
  uint64_t grace_ns = 2'000'000'000;
  bool keep_going = false;  ///< a failed rank does not end the others
  Bind bind = Bind::share;
  bool nccl = false;                     ///< Rondo's libnccl.so.2 is preloaded into the ranks
  std::vector<std::string> environment;  ///< "NAME=value", in the order given
  std::vector<std::string> command;      ///< program and arguments; never empty
  std::vector<HostShare> hosts;          ///< empty: this machine
  std::vector<std::string> ssh;          ///< with hosts: program and arguments that start a command on a host
  std::string remote_rondo;              ///< with hosts: this program's path on them
  bool agent = false;                    ///< this process is the launcher's agent on a host; other options are ignored
};

/// The text of --help, for standard output.
struct HelpText {
  std::string text;
};

/// Returns whether "NAME=value" is one of the launcher's own variables that ranks on other hosts get, too.
[[nodiscard]] bool is_setting_for_ranks(std::string_view entry);

/// Functions that read the files and variables that options name. An empty function means that none exist.
struct RunInputs {
  std::function<Result<std::string>(const std::string &path)> read_file;  ///< the text of --hostfile
  std::function<const char *(const char *name)> variable;                 ///< null if it is not set
};

[[nodiscard]] Result<std::variant<RunOptions, HelpText>> parse_run_options(std::span<const char *const> args,
                                                                          const RunInputs &inputs = {});

}  // namespace rondo::cli
