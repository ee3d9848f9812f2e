// SPDX-License-Identifier: Apache-2.0
// `rondo run`: starts the ranks and waits for them.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "src/cli/commands.h"
#include "src/cli/run_options.h"

namespace rondo::cli {
namespace {

[[noreturn]] void become_rank(const RunOptions &options, uint32_t rank) {
  ::setenv("RONDO_RANK", std::to_string(rank).c_str(), 1);
  ::setenv("RONDO_LOCAL_RANK", std::to_string(rank).c_str(), 1);
  ::setenv("RONDO_SIZE", std::to_string(options.rank_count).c_str(), 1);
  std::vector<char *> arguments;
  for (const std::string &argument : options.command) arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  std::fprintf(stderr, "rondo run: cannot start %s: %s\n", arguments[0], std::strerror(errno));
  ::_exit(errno == ENOENT ? 127 : 126);
}

int start_and_wait(const RunOptions &options) {
  for (uint32_t rank = 0; rank < options.rank_count; ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) return exit_failed;
    if (pid == 0) become_rank(options, rank);
  }
  int status = 0;
  int exit_status = 0;
  while (::wait(&status) > 0)
    if (status != 0 && exit_status == 0)
      exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return exit_status;
}

}  // namespace

int run_run(Arguments args) {
  const auto parsed = parse_run_options(args);
  if (!parsed.ok()) {
    std::fprintf(stderr, "rondo run: %s\n", parsed.error().message.c_str());
    return exit_usage;
  }
  if (const auto *help = std::get_if<HelpText>(&parsed.value())) {
    std::fputs(help->text.c_str(), stdout);
    return 0;
  }
  return start_and_wait(std::get<RunOptions>(parsed.value()));
}

}  // namespace rondo::cli
