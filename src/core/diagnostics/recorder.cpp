// SPDX-License-Identifier: Apache-2.0
#include "src/core/diagnostics/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>

#include "src/base/clock.h"
#include "src/base/signals_absorbed.h"
#include "src/base/unique_handle.h"
#include "src/topo/host.h"

namespace rondo {
namespace {

struct FileCloser {
  void operator()(std::FILE *file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

/// A file that gets its name only when it is complete, so that no partial file remains if the process is killed. If the
/// file system cannot make unnamed files, the incomplete file has a temporary name.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const std::string &path)
      : path_(path), other_path_(path + "." + std::to_string(::getpid()) + ".unfinished") {}
  ~UnfinishedFile() {
    if (named_) ::unlink(other_path_.c_str());
  }
  UnfinishedFile(const UnfinishedFile &) = delete;
  UnfinishedFile &operator=(const UnfinishedFile &) = delete;

  Result<void> open() {
    const size_t slash = path_.rfind('/');
    const std::string folder = slash == path_.npos ? "." : path_.substr(0, slash + 1);
    FileDescriptor descriptor(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
    if (!descriptor.valid()) {
      descriptor.reset(::open(other_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
      named_ = descriptor.valid();
    }
    if (descriptor.valid()) file_.reset(::fdopen(descriptor.get(), "w"));
    if (file_ == nullptr) return system_error("cannot make " + path_, errno);
    static_cast<void>(descriptor.release());
    return {};
  }
  [[nodiscard]] std::FILE *file() const { return file_.get(); }

  Result<void> finish() {
    bool done = std::fflush(file_.get()) == 0;
    if (done && !named_) {
      const std::string opened = "/proc/self/fd/" + std::to_string(::fileno(file_.get()));
      done = named_ = ::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, other_path_.c_str(), AT_SYMLINK_FOLLOW) == 0;
    }
    if (!done || ::rename(other_path_.c_str(), path_.c_str()) != 0) return system_error("cannot write " + path_, errno);
    named_ = false;
    return {};
  }

 private:
  std::string path_;
  std::string other_path_;
  File file_;
  bool named_ = false;  ///< true if a file with the name other_path_ exists
};

Activity activity_of(const RankNow &now) {
  const RecordedRank &rank = now.rank;
  if (has_left(rank.state)) return Activity::left;
  if (rank.state == RankState::finalized) return Activity::finalized;
  if (rank.process_state == ProcessState::gone) return Activity::dead;
  if (rank.state == RankState::absent) return Activity::joining;
  if (now.in_batch())
    return now.message && now.message->state == OperationState::failed ? Activity::failed : Activity::in_call;
  if (rank.entered <= rank.completed) return Activity::between_calls;
  return now.latest && now.latest->state == OperationState::failed ? Activity::failed : Activity::in_call;
}

/// Returns the message that the rank's device waits for, or the oldest incomplete one of the batch that the rank is in.
std::optional<RecordedMessage> waiting_message(const Recording &recording, uint32_t rank, const RankNow &now) {
  const uint64_t latest = now.rank.messages;
  std::optional<RecordedMessage> oldest;
  if (now.device_runs(DevicePlace::Kind::messages)) oldest = recording.message(rank, now.rank.device.number);
  if (oldest && oldest->state != OperationState::completed) return oldest;
  oldest.reset();
  for (uint64_t back = 0; back < std::min(latest, recorded_message_count); ++back) {
    const auto message = recording.message(rank, latest - back);
    if (message && message->state != OperationState::completed) oldest = message;
  }
  return oldest;
}

RankNow look_at_rank(const Recording &recording, uint32_t rank) {
  constexpr int attempt_count = 3;  // the rank may enter its next operations while it is read
  RankNow now;
  for (int attempt = 0; attempt < attempt_count && !now.latest; ++attempt) {
    now.rank = recording.rank(rank);
    if (now.rank.entered == 0) break;
    const bool on_device = now.device_runs(DevicePlace::Kind::collective);
    now.latest = recording.operation(rank, on_device ? now.rank.device.number : now.rank.entered);
  }
  // The operation may have ended after `completed` was read.
  if (now.latest && now.latest->state == OperationState::completed)
    now.rank.completed = std::max(now.rank.completed, now.latest->number);
  if (now.in_batch()) now.message = waiting_message(recording, rank, now);
  now.activity = activity_of(now);
  now.statistics = recording.statistics(rank);
  return now;
}

/// The time at which the last rank entered each recorded operation.
class Arrivals {
 public:
  explicit Arrivals(const Recording &recording)
      : rank_count_(recording.rank_count()), arrivals_(recorded_operation_count) {
    for (uint32_t rank = 0; rank < rank_count_; ++rank) {
      const uint64_t latest = recording.rank(rank).entered;
      for (uint64_t back = 0; back < std::min(latest, recorded_operation_count); ++back)
        if (const auto operation = recording.operation(rank, latest - back)) add(*operation);
    }
  }

  /// Returns the time for operation `number`, or 0 if not all ranks have entered it, or if a record was overwritten.
  [[nodiscard]] uint64_t of(uint64_t number) const {
    const Arrival &arrival = arrivals_[number % recorded_operation_count];
    return arrival.number == number && arrival.rank_count == rank_count_ ? arrival.last_ns : 0;
  }

 private:
  struct Arrival {
    uint64_t number = 0;
    uint32_t rank_count = 0;
    uint64_t last_ns = 0;
  };

  void add(const RecordedOperation &operation) {
    Arrival &arrival = arrivals_[operation.number % recorded_operation_count];
    if (arrival.number > operation.number) return;  // another rank's later operation uses this entry
    if (arrival.number < operation.number) arrival = {operation.number, 0, 0};
    ++arrival.rank_count;
    arrival.last_ns = std::max(arrival.last_ns, operation.entered_ns);
  }

  uint32_t rank_count_;
  std::vector<Arrival> arrivals_;
};

/// Returns whether the rank is in a collective. Batches of messages do not count, because only some ranks take part in
/// them. Operations that a device has not begun do not count either.
bool waits(const RankNow &now) {
  const bool in_operation = !now.in_batch() && now.begun() > now.rank.completed;
  return in_operation && (now.activity == Activity::in_call || now.activity == Activity::failed);
}

WaitNow wait_in(const std::vector<RankNow> &ranks, uint64_t operation) {
  WaitNow wait{operation, {}, {}};
  std::vector<uint32_t> halted;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const RankNow &now = ranks[rank];
    if (now.begun() < operation) wait.waited_for.push_back(rank);
    if (now.begun() != operation || now.rank.completed >= operation) continue;
    if (waits(now)) wait.waiting.push_back(rank);
    if (now.activity == Activity::dead || now.rank.process_state == ProcessState::stopped) halted.push_back(rank);
  }
  if (wait.waited_for.empty()) wait.waited_for = std::move(halted);
  return wait;
}

}  // namespace

std::vector<RankNow> look_at_ranks(const Recording &recording) {
  std::vector<RankNow> ranks;
  for (uint32_t rank = 0; rank < recording.rank_count(); ++rank) ranks.push_back(look_at_rank(recording, rank));
  return ranks;
}

std::optional<WaitNow> find_wait(const std::vector<RankNow> &ranks) {
  std::set<uint64_t> operations;
  for (const RankNow &now : ranks)
    if (waits(now)) operations.insert(now.begun());
  if (operations.empty()) return std::nullopt;
  for (const uint64_t operation : operations)
    if (WaitNow wait = wait_in(ranks, operation); !wait.waited_for.empty()) return wait;
  return wait_in(ranks, *operations.begin());
}

bool print_recording(const Recording &recording, const std::function<bool(std::string_view)> &sink) {
  const auto ranks = look_at_ranks(recording);
  const uint64_t look_ns = now_ns();
  if (!sink(communicator_line(recording, ranks, look_ns) + "\n")) return false;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank)
    if (!sink(rank_line(ranks[rank], rank, look_ns) + "\n")) return false;
  const Arrivals arrivals(recording);
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const uint64_t latest = ranks[rank].rank.entered;
    for (uint64_t back = std::min(latest, recorded_operation_count); back > 0; --back) {
      const uint64_t number = latest - back + 1;
      const auto operation = recording.operation(rank, number);
      if (!operation) continue;
      if (!sink(operation_line(*operation, rank, recording.made_ns(), arrivals.of(number)) + "\n")) return false;
    }
    const uint64_t messages = ranks[rank].rank.messages;
    for (uint64_t back = std::min(messages, recorded_message_count); back > 0; --back)
      if (const auto message = recording.message(rank, messages - back + 1))
        if (!sink(message_line(*message, rank, recording.made_ns()) + "\n")) return false;
  }
  return true;
}

Result<void> write_recordings(const std::vector<const Recording *> &recordings, const std::string &path) {
  const SignalsAbsorbed absorbed;
  UnfinishedFile unfinished(path);
  RONDO_TRY(unfinished.open());
  const auto sink = [&](std::string_view line) {
    return std::fwrite(line.data(), 1, line.size(), unfinished.file()) == line.size();
  };
  for (const Recording *recording : recordings)
    if (!print_recording(*recording, sink)) return system_error("cannot write " + path, errno);
  return unfinished.finish();
}

std::string recording_path(const Recording &recording, const std::string &folder) {
  std::string path = folder + "/rondo-" + host_name() + "-" + recording.communicator().substr(0, 16);
  // Containers of one machine are different hosts, but may have one name.
  const uint64_t first_rank = recording.rank(0).group_rank;
  if (first_rank != 0) path += "-rank" + std::to_string(first_rank);
  return path + ".jsonl";
}

}  // namespace rondo
