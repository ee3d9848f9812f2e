// SPDX-License-Identifier: Apache-2.0
// This file reads the configuration of a single collective, ncclCollConfig_t.
#pragma once

#include <string>

#include "rondo/rondo.h"
#include "src/compat/communicator.h"

namespace rondo::compat {

/// The parts of an ncclCollConfig_t that have an effect. Its numbers of blocks are hints that Rondo ignores.
struct CallConfig {
  std::string algorithms;       ///< names, of which one must be the algorithm; if empty, all are allowed
  cudaEvent_t event = nullptr;  ///< recorded on the stream when the collective is about to start, or null
};

/// Reads `config`. `function` begins the message of an error.
ncclResult_t read_call_config(const ncclCollConfig_t *config, const char *function, CallConfig *taken);

/// Checks that Rondo would use one of the algorithms for this collective of a ready communicator. `averages` is true if
/// the operation is ncclAvg.
ncclResult_t check_algorithm(const CallConfig &config, const char *function, const ncclComm *comm,
                             rondo_collective_t kind, size_t count, rondo_type_t type, bool averages);

}  // namespace rondo::compat
