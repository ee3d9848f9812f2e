// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run/rank.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace rondo::cli {
namespace {

bool place(int descriptor, int as) { return descriptor < 0 || ::dup2(descriptor, as) == as; }

bool place_streams(const LaunchPlan &plan, uint32_t rank) {
  const int input = rank == 0 ? plan.input.get() : plan.null_input.get();
  return place(input, STDIN_FILENO) && place(plan.streams[rank].output.get(), STDOUT_FILENO) &&
         place(plan.streams[rank].error.get(), STDERR_FILENO);
}

bool set_environment(const LaunchPlan &plan, const Order &start, uint32_t rank) {
  // CUDA reads this variable when a context is made. Ranks that are threads of one process need one hardware queue
  // each, and the application's streams need some, too. 32 is the maximum.
  if (::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0) != 0) return false;
  for (const std::string &entry : plan.options.environment) {
    const size_t name_size = entry.find('=');
    if (::setenv(entry.substr(0, name_size).c_str(), entry.c_str() + name_size + 1, 1) != 0) return false;
  }
  const std::string rank_text = std::to_string(plan.first_rank + rank);
  const std::string local_text = std::to_string(rank);
  const uint32_t size = plan.job_rank_count != 0 ? plan.job_rank_count : plan.options.rank_count;
  const std::string size_text = std::to_string(size);
  return ::setenv("RONDO_RANK", rank_text.c_str(), 1) == 0 &&
         ::setenv("RONDO_LOCAL_RANK", local_text.c_str(), 1) == 0 &&
         ::setenv("RONDO_SIZE", size_text.c_str(), 1) == 0 && ::setenv("RONDO_STORE", start.store.data(), 1) == 0 &&
         ::setenv("RONDO_SECRET", start.secret.data(), 1) == 0;
}

[[noreturn]] void give_up(uint32_t rank, StartFailure failure, int failures) {
  const StartFailureRecord record{rank, failure, errno};
  [[maybe_unused]] const ssize_t written = ::write(failures, &record, sizeof record);
  ::_exit(run_exit_not_executable);
}

[[noreturn]] void execute(const LaunchPlan &plan, uint32_t rank, int failures) {
  std::vector<char *> arguments;
  for (const std::string &argument : plan.options.command) arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  ::sigprocmask(SIG_SETMASK, &plan.signal_mask, nullptr);  // signals that this rank got since the fork arrive now
  ::execv(plan.program_path.c_str(), arguments.data());
  give_up(rank, StartFailure::execute, failures);
}

}  // namespace

Result<void> divide_processors(LaunchPlan &plan) {
  if (plan.options.bind == Bind::share) plan.processors = allowed_shares(plan.options.rank_count);
  if (plan.options.bind != Bind::core) return {};
  auto cores = allowed_cores();
  if (!cores.ok()) return Error{cores.error().status, "--bind core: " + cores.error().message};
  plan.processors = std::move(cores).value();
  return {};
}

void become_rank(const LaunchPlan &plan, const Order &start, uint32_t rank, pid_t guard, int failures) {
  // This ends the rank if guard and launcher are killed at once. getppid() detects a guard that died before this call.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != guard) ::_exit(run_exit_not_executable);
  ::setpgid(0, 0);  // the guard does this, too; the first call counts
  if (!place_streams(plan, rank) || !set_environment(plan, start, rank)) give_up(rank, StartFailure::set_up, failures);
  // Unless the user has requested --bind core, a rank that the kernel does not bind to its share runs on any core.
  if (!plan.processors.empty() && !bind_to(plan.processors[rank % plan.processors.size()]) &&
      plan.options.bind == Bind::core)
    give_up(rank, StartFailure::bind, failures);
  ::setrlimit(RLIMIT_NOFILE, &plan.descriptor_limit);
  execute(plan, rank, failures);
}

}  // namespace rondo::cli
