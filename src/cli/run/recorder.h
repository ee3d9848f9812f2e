// SPDX-License-Identifier: Apache-2.0
// This file writes the flight recordings of a job's communicators before the launcher ends the job. A killed rank
// cannot write its recording, and the launcher ends the other ranks before they would write theirs.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace rondo::cli {

/// Returns RONDO_RECORDER_DIR as the ranks see it, or an empty text. `environment` has the entries of --env, as
/// NAME=VALUE.
[[nodiscard]] std::string recorder_folder(const std::vector<std::string> &environment);

/// Writes a recording into `folder` for each communicator of the processes below this one, unless one of its ranks has
/// written it already. Calls `say` with a message about each recording.
void record_job(const std::string &folder, const std::function<void(const std::string &)> &say);

}  // namespace rondo::cli
