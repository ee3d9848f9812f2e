// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/data/corpus.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "bench/trainer/data/checksum.h"
#include "src/base/user_file.h"

namespace rondo::train {
namespace {

namespace fs = std::filesystem;

constexpr size_t file_count_max = 1'000'000;
constexpr size_t kept_open_max = 128;  ///< files that stay open; a process may usually have 1,024 descriptors
constexpr size_t runs_of_training = 9;  ///< runs of windows for each run that goes to validation

Failure corpus_failure(const std::string &why) { return {Exit::usage, "corpus: " + why}; }

Failure path_failure(const std::string &path, const std::string &why) {
  return corpus_failure("cannot read " + path + ": " + why + "; give a readable file or folder by --corpus");
}

/// Lists the regular files of a folder that end in `suffix`, in the order of their names. If `deep`, includes
/// subfolders.
Outcome list_folder(const fs::path &folder, bool deep, std::string_view suffix, std::vector<std::string> &files) {
  std::error_code error;
  const size_t before = files.size();
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!deep) at.disable_recursion_pending();
    std::error_code unknown;
    if (at->is_regular_file(unknown) && !at->is_symlink(unknown) && at->path().native().ends_with(suffix))
      files.push_back(at->path().native());
    if (files.size() > file_count_max)
      return corpus_failure("more than 1,000,000 files; name smaller folders by --corpus");
  }
  if (error) return path_failure(folder.native(), error.message());
  std::sort(files.begin() + static_cast<ptrdiff_t>(before), files.end());
  return std::nullopt;
}

/// Returns the folders of Python's standard library, such as /usr/lib/python3.11.
std::vector<fs::path> python_folders() {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator at("/usr/lib", error), end; !error && at != end; at.increment(error))
    if (at->path().filename().native().starts_with("python3.")) folders.push_back(at->path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

Outcome list_default(std::vector<std::string> &files) {
  const fs::path licences = "/usr/share/common-licenses";
  std::error_code error;
  if (fs::is_directory(licences, error))
    if (auto failure = list_folder(licences, true, "", files)) return failure;
  for (const fs::path &folder : python_folders())
    if (auto failure = list_folder(folder, false, ".py", files)) return failure;
  if (files.empty())
    return corpus_failure("there is neither " + licences.native() + " nor /usr/lib/python3.*; name a file or folder "
                          "by --corpus");
  return std::nullopt;
}

Outcome list_files(const std::vector<std::string> &paths, std::vector<std::string> &files) {
  if (paths.empty()) return list_default(files);
  for (const std::string &path : paths) {
    std::error_code error;
    const auto kind = fs::status(path, error).type();
    if (kind == fs::file_type::directory) {
      if (auto failure = list_folder(path, true, "", files)) return failure;
    } else if (kind == fs::file_type::regular) {
      files.push_back(path);
    } else {
      return path_failure(path, error ? error.message() : "neither a file nor a folder");
    }
  }
  return std::nullopt;
}

}  // namespace

Corpus::~Corpus() {
  for (const File &file : files_)
    if (file.descriptor >= 0) (void)::close(file.descriptor);
}

Outcome Corpus::open(const std::vector<std::string> &paths) {
  std::vector<std::string> files;
  if (auto failure = list_files(paths, files)) return failure;
  for (const std::string &path : files)
    if (auto failure = add(path)) return failure;
  if (bytes_ == 0) return corpus_failure("all its files are empty; give some text by --corpus");
  return std::nullopt;
}

Outcome Corpus::add(const std::string &path) {
  const UserFile opened = open_user_file(path);
  if (opened.descriptor < 0) return path_failure(path, opened.problem);
  struct stat about {};
  if (::fstat(opened.descriptor, &about) != 0 || opened.bytes == 0) {
    (void)::close(opened.descriptor);
    return std::nullopt;
  }
  const bool keeps = files_.size() < kept_open_max;
  if (!keeps) (void)::close(opened.descriptor);
  files_.push_back({path, bytes_, opened.bytes, about.st_dev, about.st_ino, keeps ? opened.descriptor : -1});
  bytes_ += opened.bytes;
  return std::nullopt;
}

Outcome Corpus::read_part(const File &file, size_t within, size_t count, uint8_t *to) {
  int descriptor = file.descriptor;
  if (descriptor < 0) {
    const UserFile opened = open_user_file(file.path);
    struct stat about {};
    if (opened.descriptor < 0) return path_failure(file.path, opened.problem);
    descriptor = opened.descriptor;
    if (::fstat(descriptor, &about) != 0 || about.st_dev != file.device || about.st_ino != file.inode) {
      (void)::close(descriptor);
      return corpus_failure(file.path + " was replaced by another file since the training began; start it again");
    }
  }
  Outcome failure;
  for (size_t done = 0; done < count && !failure;) {  // each round reads something, or ends
    const ssize_t got = ::pread(descriptor, to + done, count - done, static_cast<off_t>(within + done));
    if (got > 0) done += static_cast<size_t>(got);
    if (got < 0 && errno != EINTR) failure = path_failure(file.path, std::strerror(errno));
    if (got == 0)
      failure = corpus_failure(file.path + " became shorter than the " + std::to_string(file.bytes) +
                               " bytes that it had when the training began; start it again");
  }
  if (file.descriptor < 0) (void)::close(descriptor);
  return failure;
}

Outcome Corpus::read(size_t offset, size_t count, uint8_t *to) const {
  auto file = std::upper_bound(files_.begin(), files_.end(), offset,
                               [](size_t at, const File &candidate) { return at < candidate.offset; });
  for (--file; count > 0; ++file) {
    const size_t within = offset - file->offset, part = std::min(count, file->bytes - within);
    if (auto failure = read_part(*file, within, part, to)) return failure;
    to += part;
    offset += part;
    count -= part;
  }
  return std::nullopt;
}

Outcome Corpus::checksum(uint64_t &sum) const {
  constexpr size_t piece_bytes = size_t{1} << 20;
  std::vector<uint8_t> piece(std::min(bytes_, piece_bytes));
  Checksum all;
  for (size_t at = 0; at < bytes_;) {
    const size_t part = std::min(piece.size(), bytes_ - at);
    if (auto failure = read(at, part, piece.data())) return failure;
    all.add(piece.data(), part);
    at += part;
  }
  sum = all.value();
  return std::nullopt;
}

Samples::Samples(size_t corpus_bytes, size_t context) : window_bytes_(context + 1) {
  const size_t windows = corpus_bytes / window_bytes_;
  constexpr size_t run_max = 32, runs_wanted = 100;
  run_windows_ = std::clamp<size_t>(windows / runs_wanted, 1, run_max);
  const size_t group = run_windows_ * (runs_of_training + 1), rest = windows % group;
  const size_t training_run = run_windows_ * runs_of_training;
  training_count_ = windows / group * training_run + std::min(rest, training_run);
  validation_count_ = windows - training_count_;
}

size_t Samples::training_offset(size_t index) const {
  const size_t run = run_windows_ * runs_of_training;
  return (index / run * (run + run_windows_) + index % run) * window_bytes_;
}

size_t Samples::validation_offset(size_t index) const {
  const size_t group = run_windows_ * (runs_of_training + 1);
  return (index / run_windows_ * group + run_windows_ * runs_of_training + index % run_windows_) * window_bytes_;
}

}  // namespace rondo::train
