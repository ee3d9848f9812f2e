// SPDX-License-Identifier: Apache-2.0
// This file saves a run to a file, from which the run continues as if it had not been interrupted, bit for bit.
//
// The file begins with 8 bytes that name the format, and with the length of a JSON header. The header has settings,
// progress and losses so far. Parameters, both moments, what compression left out on each rank, and a checksum follow.
// The file is written under another name and renamed, so there is always a whole file or none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/trainer/figures/records.h"
#include "bench/trainer/options.h"
#include "bench/trainer/run/trainer.h"

namespace rondo::train {

/// A mark by which a resumed run checks that its corpus is the same.
struct CorpusMark {
  uint64_t bytes = 0, checksum = 0;
};

class Checkpoint {
 public:
  Checkpoint(const Options &options, Trainer &trainer, const Group &all, const CorpusMark &corpus)
      : options_(options), trainer_(trainer), ranks_(all.size()), writes_(all.rank() == 0), corpus_(corpus) {}

  /// Checks before the run that the folder is writable and has room.
  [[nodiscard]] Outcome check_place() const;

  /// Writes options.checkpoint on rank 0; all ranks contribute to it. An earlier file stays intact until the new one is
  /// complete.
  [[nodiscard]] Outcome save(const Run &run) const;

  /// Reads options.resume on rank 0 into the trainer, and the losses so far into `run`. Fails if the file is damaged,
  /// or is from a run with other settings. The trainer is unusable after a failure.
  [[nodiscard]] Outcome load(Run &run) const;

 private:
  [[nodiscard]] std::string header_of(const Run &run) const;

  const Options &options_;
  Trainer &trainer_;
  const size_t ranks_;
  const bool writes_;
  const CorpusMark corpus_;
};

}  // namespace rondo::train
