// SPDX-License-Identifier: Apache-2.0
// A corpus consists of the bytes of files, one after another. This file also divides it into samples. Files are read
// when samples are needed, not mapped: a mapped file that becomes shorter would cause a signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/failure.h"

namespace rondo::train {

class Corpus {
 public:
  Corpus() = default;
  ~Corpus();
  Corpus(const Corpus &) = delete;
  Corpus &operator=(const Corpus &) = delete;

  /// Finds the files of `paths`. A folder stands for all files below it, in the order of their names. Without paths it
  /// uses the default corpus: the licences of base-files and the modules of Python's standard library.
  [[nodiscard]] Outcome open(const std::vector<std::string> &paths);

  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] size_t file_count() const { return files_.size(); }

  /// Copies `count` bytes of the corpus from `offset` on, which may be in several files. Any thread may call it. Fails
  /// if a file has changed since the corpus was opened.
  [[nodiscard]] Outcome read(size_t offset, size_t count, uint8_t *to) const;

  /// Reads the whole corpus and returns its Checksum.
  [[nodiscard]] Outcome checksum(uint64_t &sum) const;

 private:
  struct File {
    std::string path;
    size_t offset, bytes;
    uint64_t device, inode;
    int descriptor;  ///< -1: the file is opened for each read
  };

  [[nodiscard]] Outcome add(const std::string &path);
  [[nodiscard]] static Outcome read_part(const File &file, size_t within, size_t count, uint8_t *to);

  std::vector<File> files_;
  size_t bytes_ = 0;
};

/// The samples of a corpus: windows of context + 1 bytes, side by side. The last byte of a window is only a target. Of
/// ten runs of neighbouring windows, nine are for training and one is for validation.
class Samples {
 public:
  Samples(size_t corpus_bytes, size_t context);

  [[nodiscard]] size_t window_bytes() const { return window_bytes_; }
  [[nodiscard]] size_t training_count() const { return training_count_; }
  [[nodiscard]] size_t validation_count() const { return validation_count_; }
  /// Returns the offset of a window in the corpus.
  [[nodiscard]] size_t training_offset(size_t index) const;
  [[nodiscard]] size_t validation_offset(size_t index) const;

 private:
  size_t window_bytes_, run_windows_ = 1, training_count_ = 0, validation_count_ = 0;
};

}  // namespace rondo::train
