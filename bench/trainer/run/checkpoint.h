// SPDX-License-Identifier: Apache-2.0
// A run in a file, from which it goes on as if it had not been interrupted, bit for bit.
//
// The file begins with 8 bytes that name the format, the length of a JSON header, and the header: settings, progress,
// losses so far. Parameters, first and second moments, what compression left out on each rank, and a checksum follow.
// It is written beside its place and renamed, so a whole file or none exists at any time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/trainer/figures/records.h"
#include "bench/trainer/options.h"
#include "bench/trainer/run/trainer.h"

namespace rondo::train {

/// A mark by which a resumed run recognises its corpus.
struct CorpusMark {
  uint64_t bytes = 0, checksum = 0;
};

class Checkpoint {
 public:
  Checkpoint(const Options &options, Trainer &trainer, const Group &all, const CorpusMark &corpus)
      : options_(options), trainer_(trainer), ranks_(all.size()), writes_(all.rank() == 0), corpus_(corpus) {}

  /// Checks before the run that the folder can be written to and has room.
  [[nodiscard]] Outcome check_place() const;

  /// Rank 0 writes options.checkpoint, to which all ranks contribute. An earlier file there stays complete until the
  /// new one is complete.
  [[nodiscard]] Outcome save(const Run &run) const;

  /// On rank 0: reads options.resume into the trainer, and the losses so far into `run`. Refuses what is damaged, or is
  /// of a run with other settings; the trainer is of no use then.
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
