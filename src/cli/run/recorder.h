// SPDX-License-Identifier: Apache-2.0
// Writes the flight recordings of a job's communicators before the launcher ends the job. A rank that was killed cannot
// write its own, and the others will be ended.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace rondo::cli {

/// Returns RONDO_RECORDER_DIR as the ranks see it, or an empty text. `environment` has what --env set, as NAME=VALUE.
[[nodiscard]] std::string recorder_folder(const std::vector<std::string> &environment);

/// Writes a file into `folder` for each communicator of a process below this one, unless one of its ranks has written
/// it. `say` gets a message for each.
void record_job(const std::string &folder, const std::function<void(const std::string &)> &say);

}  // namespace rondo::cli
