// SPDX-License-Identifier: Apache-2.0
// `rondo run --hosts`: the launcher's loop for ranks on several hosts. Nothing is started before every host has said
// that it can start its ranks; the first host's agent runs the store at which all ranks meet.
#pragma once

#include "src/cli/run/options.h"

namespace rondo::cli {

/// Runs the job and returns the exit status. Says what went wrong on standard error.
[[nodiscard]] int run_on_hosts(const RunOptions &options);

}  // namespace rondo::cli
