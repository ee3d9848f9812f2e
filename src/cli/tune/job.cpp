// SPDX-License-Identifier: Apache-2.0
// This file starts a job's ranks.
#include "src/cli/tune/child.h"
#include "src/cli/tune/tune.h"

namespace rondo::cli::tune {

Result<Measured> run_job(const Job &job) {
  const Folder folder;
  RONDO_TRY(folder.made());
  RONDO_TRY_ASSIGN(const std::string program, own_program());
  const std::string job_path = folder.path() + "/job.json", result_path = folder.path() + "/result.json";
  RONDO_TRY(write_file(job_path, job_text(job)));
  constexpr uint64_t patience = 20, seconds_min = 120;  // a busy machine is slower than was estimated, not this much
  const auto timeout_seconds = patience * static_cast<uint64_t>(estimate_seconds(job)) + seconds_min;
  RONDO_TRY_ASSIGN(const int status,
                   execute({program, "run", "-n", std::to_string(job.group.rank_count), "--timeout",
                            std::to_string(timeout_seconds), "--", program, "tune", "--job", job_path, "--result",
                            result_path}));
  if (status != 0)
    return Error{RONDO_ERROR_REMOTE, "measuring " + std::string(rondo_collective_string(job.group.collective)) +
                                         " among " + std::to_string(job.group.rank_count) +
                                         " ranks failed: rondo run ended with status " + std::to_string(status) +
                                         "; its output above says why"};
  return read_measured(result_path);
}

}  // namespace rondo::cli::tune
