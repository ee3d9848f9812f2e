// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/run/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/trainer/data/checksum.h"
#include "src/base/spelling.h"
#include "src/base/user_file.h"
#include "src/console/output.h"

namespace rondo::train {
namespace {

using nlohmann::json;
using File = std::unique_ptr<std::FILE, int (*)(std::FILE *)>;

constexpr std::array<char, 8> magic{'R', 'O', 'N', 'D', 'O', 'T', 'R', '3'};
constexpr uint64_t header_bytes_max = uint64_t{1} << 30;

std::string folder_of(const std::string &path) {
  const auto folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.native();
}

Failure save_failure(const std::string &path, const std::string &why) {
  return {Exit::usage,
          "cannot save the checkpoint " + path + ": " + why + "; an earlier checkpoint there is unchanged"};
}

Failure load_failure(const std::string &path, const std::string &why) {
  return {Exit::usage, "cannot resume from " + path + ": " + why};
}

/// Returns the settings that must be equal when a run continues. The number of ranks may change, and so may the number
/// of passes, if their product stays the same. Neither may change if ranks keep values that compression left out, or if
/// ranks make separate steps.
json settings_of(const Options &options, size_t ranks, const CorpusMark &corpus) {
  json settings{{"width", options.shape.width},
                {"layers", options.shape.layers},
                {"heads", options.shape.heads},
                {"context", options.shape.context},
                {"experts", options.shape.experts},
                {"batch", options.batch},
                {"ranks x accumulate", ranks / options.ranks_a_model() * options.accumulate},
                {"seed", options.seed},
                {"mode", name_of(options.mode)},
                {"compress", name_of(options.compression)},
                {"learning-rate", options.learning_rate},
                {"warmup", options.warmup},
                {"weight-decay", options.weight_decay},
                {"clip", options.clip},
                {"bytes of the corpus", corpus.bytes},
                {"checksum of the corpus", corpus.checksum}};
  if (options.compression.feeds_back()) {
    settings["ranks"] = ranks;
    settings["tensor-parallel"] = options.parts.slices;
    settings["bucket-mb"] = options.bucket_mb;
  }
  if (options.mode == Mode::local_sgd) {
    settings["ranks"] = ranks;
    settings["local-steps"] = options.local_steps;
  }
  return settings;
}

json losses_of(const Run &run) {
  json losses = json::array();
  for (const auto &[step, loss] : run.earlier_losses) losses.push_back({step, loss});
  for (const StepRecord &record : run.steps) losses.push_back({record.step, record.loss});
  return losses;
}

/// A file that is read or written, and the checksum of the bytes so far.
class Stream {
 public:
  explicit Stream(std::FILE *file)
      : file_(file, [](std::FILE *open) { return open == nullptr ? 0 : std::fclose(open); }) {}

  [[nodiscard]] std::FILE *file() const { return file_.get(); }
  [[nodiscard]] uint64_t checksum() const { return sum_.value(); }

  bool write(const void *data, size_t bytes) {
    sum_.add(data, bytes);
    return file_ != nullptr && std::fwrite(data, 1, bytes, file_.get()) == bytes;
  }
  bool read(void *data, size_t bytes) {
    if (file_ == nullptr || std::fread(data, 1, bytes, file_.get()) != bytes) return false;
    sum_.add(data, bytes);
    return true;
  }
  /// Writes to the disk, and not only to the system's cache.
  bool finish() { return std::fflush(file_.get()) == 0 && ::fsync(::fileno(file_.get())) == 0; }

 private:
  File file_;
  Checksum sum_;
};

/// Makes a rename survive a crash, if the file system supports that.
void sync_folder(const std::string &folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)::fsync(descriptor);
  (void)::close(descriptor);
}

}  // namespace

Outcome Checkpoint::check_place() const {
  const console::OutputPlace place = console::output_place(options_.checkpoint);
  const std::string folder = folder_of(place.path);
  struct stat there {};
  if (!place.can_be_replaced && ::stat(place.path.c_str(), &there) == 0)
    return save_failure(options_.checkpoint,
                        "there is " + std::string(special_kind(there.st_mode)) + ", which no checkpoint can replace");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return save_failure(options_.checkpoint, "folder " + folder + ": " + std::strerror(errno));
  struct statvfs about {};
  const uint64_t needed = trainer_.state().whole_count() * sizeof(float) + (uint64_t{1} << 20);
  if (::statvfs(folder.c_str(), &about) != 0) return std::nullopt;  // the first save will report it
  const uint64_t room = uint64_t{about.f_bavail} * about.f_frsize;
  if (room >= needed) return std::nullopt;
  return save_failure(options_.checkpoint, "it takes " + show_volume(static_cast<double>(needed)) + ", and " +
                                               folder + " has " + show_volume(static_cast<double>(room)) + " left");
}

std::string Checkpoint::header_of(const Run &run) const {
  const Progress &progress = trainer_.progress();
  json validations = json::array();
  for (const Validation &point : run.validations) validations.push_back({point.step, point.loss});
  return json{{"settings", settings_of(options_, ranks_, corpus_)},
              {"step", progress.step},
              {"updates", progress.updates},
              {"scale", progress.scale.scale},
              {"good_steps", progress.scale.good_steps},
              {"losses", losses_of(run)},
              {"validations", std::move(validations)}}
      .dump();
}

Outcome Checkpoint::save(const Run &run) const {
  if (!writes_) return trainer_.state().write([](const float *, size_t) {});
  const std::string place = console::output_place(options_.checkpoint).path;
  const std::string header = header_of(run), partial = place + ".partial";
  bool written = false;
  int error = 0;
  {
    Stream stream(std::fopen(partial.c_str(), "wbe"));
    const uint64_t header_bytes = header.size();
    written = stream.write(magic.data(), magic.size()) && stream.write(&header_bytes, sizeof header_bytes) &&
              stream.write(header.data(), header.size());
    error = errno;
    auto failure = trainer_.state().write([&](const float *values, size_t count) {
      if (!written) return;  // after an error, the ranks still send their parts
      written = stream.write(values, count * sizeof(float));
      error = errno;
    });
    if (failure) return failure;
    const uint64_t sum = stream.checksum();
    if (written) {
      written = stream.write(&sum, sizeof sum) && stream.finish();
      error = errno;
    }
  }
  if (written && std::rename(partial.c_str(), place.c_str()) == 0) {
    sync_folder(folder_of(place));
    return std::nullopt;
  }
  if (written) error = errno;
  (void)::unlink(partial.c_str());
  return save_failure(options_.checkpoint, std::strerror(error));
}

Outcome Checkpoint::load(Run &run) const {
  const std::string &path = options_.resume;
  const UserFile opened = open_user_file(path);
  if (opened.descriptor < 0) return load_failure(path, opened.problem);
  Stream stream(::fdopen(opened.descriptor, "rb"));
  if (stream.file() == nullptr) return load_failure(path, std::strerror(errno));
  std::array<char, magic.size()> begin{};
  if (!stream.read(begin.data(), begin.size()) || begin != magic)
    return load_failure(path, "it is no checkpoint of this version of rondo train; name one that --checkpoint wrote");
  const Failure truncated = load_failure(path, "it is truncated; take an earlier checkpoint");
  const Failure damaged = load_failure(path, "its checksum is wrong, so it is damaged; take an earlier checkpoint");
  uint64_t header_bytes = 0;
  if (!stream.read(&header_bytes, sizeof header_bytes)) return truncated;
  if (header_bytes > header_bytes_max) return damaged;
  if (header_bytes > opened.bytes) return truncated;
  std::string text(header_bytes, '\0');
  if (!stream.read(text.data(), text.size())) return truncated;
  const json header = json::parse(text, nullptr, false);
  if (!header.is_object() || !header.contains("settings") || !header["settings"].is_object()) return damaged;
  const json wanted = settings_of(options_, ranks_, corpus_), &found = header["settings"];
  for (const auto &[name, value] : wanted.items())
    if (!found.contains(name) || found[name] != value)
      return load_failure(path, "it belongs to another run: " + name + " is " + found.value(name, json()).dump() +
                                    " there and " + value.dump() + " here; give the same options");
  std::vector<float> state(trainer_.state().whole_count());
  if (!stream.read(state.data(), state.size() * sizeof(float))) return truncated;
  const uint64_t sum = stream.checksum();
  uint64_t kept = 0;
  if (!stream.read(&kept, sizeof kept)) return truncated;
  if (kept != sum || std::fgetc(stream.file()) != EOF) return damaged;
  Progress &progress = trainer_.progress();
  progress = {header["step"], header["updates"], {header["scale"], header["good_steps"]}};
  trainer_.state().fill(std::move(state));
  for (const json &point : header["losses"]) run.earlier_losses.emplace_back(point[0], point[1]);
  for (const json &point : header["validations"]) run.validations.push_back({point[0], point[1]});
  if (progress.step < options_.steps) return std::nullopt;
  return load_failure(path, "it is of step " + std::to_string(progress.step) + ", and --steps is " +
                                std::to_string(options_.steps) + "; give more steps");
}

}  // namespace rondo::train
