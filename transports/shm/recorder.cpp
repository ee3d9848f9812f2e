// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/recorder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "src/base/kernel_file.h"
#include "src/plan/collective.h"
#include "src/proto/memory.h"

namespace rondo::shm {
namespace {

bool same_file(const struct stat &a, const struct stat &b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

std::string process_path(uint64_t process, const std::string &rest = "") {
  return "/proc/" + std::to_string(process) + rest;
}

/// Returns the letter by which /proc shows the state of a process, or 0 if there is no such process.
char state_letter(uint64_t process) {
  const std::string text = read_kernel_file(process_path(process, "/stat"));
  const size_t name_end = text.rfind(')');  // "pid (name) state ..."; the name may hold anything
  return name_end == text.npos || text.size() < name_end + 3 ? '\0' : text[name_end + 2];
}

template <class Enum>
bool is_known(uint64_t value, const char *(*name)(Enum)) {
  for (unsigned known = 0; name(static_cast<Enum>(known)) != nullptr; ++known)
    if (known == value) return true;
  return false;
}

/// Says whether all enumerators of the record have names.
bool is_known(const TimedOperation &timed) {
  return timed.signature.collective < collective_table.size() &&
         is_collective(static_cast<rondo_collective_t>(timed.signature.collective)) &&
         is_known(timed.signature.type, rondo_type_string) &&
         (timed.signature.op == premul_sum_op || is_known(timed.signature.op, rondo_op_string)) &&
         is_known(timed.algorithm, rondo_algorithm_string) && is_known(timed.protocol, rondo_protocol_string) &&
         is_known(timed.kernel, rondo_kernel_string) &&
         timed.state <= OperationState::failed;
}

struct DirectoryCloser {
  void operator()(DIR *directory) const { ::closedir(directory); }
};

/// Says whether the link `path` leads to a memfd with the name that segments have.
bool is_segment_link(const std::string &path) {
  std::array<char, 128> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  if (length <= 0) return false;
  const std::string wanted = std::string("/memfd:") + segment_file_name;
  return std::string_view(target.data(), static_cast<size_t>(length)).starts_with(wanted);
}

void observe_descriptor(const std::string &path, Observed &observed) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    if (errno != ENOENT && errno != ESRCH) observed.refused.push_back(system_error("open of " + path, errno));
    return;  // otherwise the communicator has just ended
  }
  auto segment = Segment::observe(std::move(file));
  if (!segment.ok()) {
    Error error = std::move(segment).error();
    error.message = path + ": " + error.message;
    observed.refused.push_back(std::move(error));
    return;
  }
  Observed one;
  one.recordings.push_back(std::make_unique<SegmentRecording>(std::move(segment).value()));
  merge(observed, std::move(one));
}

}  // namespace

uint64_t process_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

SegmentRecording::SegmentRecording(std::shared_ptr<const Segment> segment)
    : segment_(std::move(segment)),
      source_(static_cast<TickSource>(memory::load_relaxed(segment_->header().tick_source))),
      made_({memory::load_relaxed(segment_->header().made_ticks), memory::load_relaxed(segment_->header().made_ns)}) {}

std::string SegmentRecording::communicator() const {
  const SegmentId &id = segment_->header().id;
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx",
                static_cast<unsigned long long>(memory::load_relaxed(id.high)),
                static_cast<unsigned long long>(memory::load_relaxed(id.low)));
  return text.data();
}

ProcessState SegmentRecording::look_at_process(const RankBoard &board) const {
  const uint64_t process = memory::load_acquire(board.process);
  const uint64_t counted_in = memory::load_acquire(board.process_namespace);
  // In another PID namespace, the number means nothing here, or names another process.
  const bool comparable = counted_in != 0 && counted_in == process_namespace() && proc_has_own_numbers();
  if (process == 0 || !comparable) return ProcessState::unknown;
  const char letter = state_letter(process);
  if (letter == '\0' || letter == 'Z' || letter == 'X') return ProcessState::gone;
  // A process number may be reused. The rank's process is the one that still holds the segment.
  const uint64_t descriptor = memory::load_acquire(board.segment_descriptor);
  struct stat own {};
  struct stat theirs {};
  const bool readable = ::stat(process_path(process, "/fd/" + std::to_string(descriptor)).c_str(), &theirs) == 0;
  if (!readable && errno != ENOENT) return ProcessState::unknown;
  if (!readable || ::fstat(segment_->descriptor(), &own) != 0 || !same_file(own, theirs)) return ProcessState::gone;
  return letter == 'T' || letter == 't' ? ProcessState::stopped : ProcessState::running;
}

RecordedRank SegmentRecording::rank(uint32_t rank) const {
  const RankBoard &board = segment_->board(rank);
  RecordedRank seen;
  const uint64_t state = memory::load_acquire(board.state);  // pairs with set_state()
  if (state <= static_cast<uint64_t>(RankState::aborted)) seen.state = static_cast<RankState>(state);
  const uint64_t group_rank = memory::load_acquire(board.counters.group_rank);  // pairs with set_group_rank()
  seen.group_rank = group_rank != 0 ? group_rank - 1 : rank;
  seen.process = memory::load_acquire(board.process);
  seen.completed = memory::load_acquire(board.completed);  // pairs with end(); read before `entered`, so never ahead
  seen.entered = memory::load_acquire(board.entered);      // pairs with enter()
  const MessageBoard &messages = segment_->message_board(rank);
  seen.batches.completed = memory::load_acquire(messages.batches_completed);  // read before `entered`, so never ahead
  seen.batches.entered = memory::load_acquire(messages.batches_entered);
  seen.messages = memory::load_acquire(messages.records);  // pairs with begin()
  seen.device = device_place(messages);
  seen.process_state = look_at_process(board);
  return seen;
}

std::optional<RecordedOperation> SegmentRecording::operation(uint32_t rank, uint64_t number) const {
  const auto timed = timed_operation(segment_->board(rank), number);
  if (!timed || !is_known(*timed)) return std::nullopt;
  const TickMark now = mark_ticks(source_);
  RecordedOperation seen;
  seen.number = number;
  seen.what = timed->what();
  seen.state = timed->state;
  seen.entered_ns = ticks_to_ns(timed->entered_ticks, made_, now);
  if (seen.state != OperationState::running) seen.ended_ns = ticks_to_ns(timed->ended_ticks, made_, now);
  return seen;
}

std::optional<RecordedMessage> SegmentRecording::message(uint32_t rank, uint64_t record) const {
  const auto timed = timed_message(segment_->message_board(rank), record);
  if (!timed || timed->state > OperationState::failed) return std::nullopt;
  if (rondo_type_string(static_cast<rondo_type_t>(timed->info.type)) == nullptr) return std::nullopt;
  const TickMark now = mark_ticks(source_);
  RecordedMessage seen;
  seen.what = timed->info;
  seen.batch = timed->batch;
  seen.state = timed->state;
  seen.begun_ns = ticks_to_ns(timed->begun_ticks, made_, now);
  if (seen.state != OperationState::running) seen.ended_ns = ticks_to_ns(timed->ended_ticks, made_, now);
  return seen;
}

/// Returns the statistics of a rank. An unknown process may have written any counters, so no time exceeds the
/// communicator's age.
RecordedStatistics SegmentRecording::statistics(uint32_t rank) const {
  const RankCounters &counters = segment_->board(rank).counters;
  const TickMark now = mark_ticks(source_);
  const uint64_t age_ns = now.at_ns > made_.at_ns ? now.at_ns - made_.at_ns : 0;
  const uint64_t age_ticks = now.ticks > made_.ticks ? now.ticks - made_.ticks : 0;
  const auto time_of = [&](const uint64_t &ticks) {
    const uint64_t span = std::min(memory::load_relaxed(ticks), age_ticks);  // relaxed: each counter stands alone
    return ticks_to_ns(made_.ticks + span, made_, now) - made_.at_ns;
  };
  RecordedStatistics seen;
  seen.waits_seen = memory::load_relaxed(counters.on_device) == 0;
  for (uint32_t each = 0; each < counted_collective_count; ++each) {
    const CollectiveCounters &from = counters.collectives[each];
    RecordedCounts &to = seen.collectives[each];
    to.operations = memory::load_relaxed(from.operations);
    to.bytes = memory::load_relaxed(from.bytes);
    const uint64_t in_call_ns = time_of(from.in_call_ticks);
    to.in_flight_ns = std::min(in_call_ns + time_of(from.behind_ticks), age_ns);
    const uint64_t waited_ns = std::min(memory::load_relaxed(from.waited_ns), age_ns);
    to.exposed_ns = std::min(to.in_flight_ns, in_call_ns + waited_ns);
  }
  return seen;
}

std::optional<ClockOffset> SegmentRecording::clock_offset() const {
  const SegmentHeader &header = segment_->header();
  if (memory::load_acquire(header.clock_measured) != 1) return std::nullopt;  // pairs with set_clock_offset()
  return ClockOffset{static_cast<int64_t>(memory::load_relaxed(header.clock_offset_ns)),
                     memory::load_relaxed(header.clock_uncertainty_ns)};
}

std::optional<Error> SegmentRecording::failure() const {
  if (!failed(segment_->failure())) return std::nullopt;
  if (auto known = read_failure(segment_->failure())) return known;
  return Error{RONDO_ERROR_REMOTE,
               "rank " + std::to_string(failure_writer(segment_->failure())) + " died while it reported a failure"};
}

bool SegmentRecording::dumped() const {
  // Pairs with store_release in end_dump().
  return memory::load_acquire(segment_->header().dump) == static_cast<uint64_t>(DumpState::finished);
}

std::unique_ptr<Recording> SegmentRecorder::recording() const { return std::make_unique<SegmentRecording>(segment_); }

/// Sets the communicator's id in the segment. All ranks of this host have mapped the segment by its old id; from now on
/// only readers compare the id.
void SegmentRecorder::set_communicator(const std::array<uint64_t, 2> &id) {
  SegmentId &shown = segment_->header().id;
  memory::store_relaxed(shown.high, id[0]);
  memory::store_relaxed(shown.low, id[1]);
}

void SegmentRecorder::set_group_rank(uint32_t rank, uint32_t group_rank) {
  memory::store_release(segment_->board(rank).counters.group_rank, uint64_t{group_rank} + 1);  // pairs with rank()
}

void SegmentRecorder::set_clock_offset(const ClockOffset &offset) {
  SegmentHeader &header = segment_->header();
  memory::store_relaxed(header.clock_offset_ns, static_cast<uint64_t>(offset.offset_ns));
  memory::store_relaxed(header.clock_uncertainty_ns, offset.uncertainty_ns);
  memory::store_release(header.clock_measured, 1);  // pairs with clock_offset()
}

bool SegmentRecorder::claim_dump() {
  return memory::exchange_if(segment_->header().dump, static_cast<uint64_t>(DumpState::none),
                             static_cast<uint64_t>(DumpState::claimed));
}

void SegmentRecorder::end_dump(bool finished) {
  const DumpState state = finished ? DumpState::finished : DumpState::none;
  memory::store_release(segment_->header().dump, static_cast<uint64_t>(state));  // pairs with dumped()
}

bool SegmentRecording::same_segment(const SegmentRecording &other) const {
  struct stat own {};
  struct stat theirs {};
  return ::fstat(segment_->descriptor(), &own) == 0 && ::fstat(other.segment_->descriptor(), &theirs) == 0 &&
         same_file(own, theirs);
}

void merge(Observed &all, Observed more) {
  uint64_t rank_count = 0;
  for (const auto &recording : all.recordings) rank_count += recording->rank_count();
  for (auto &recording : more.recordings) {
    const auto same = [&](const auto &known) { return known->same_segment(*recording); };
    if (std::any_of(all.recordings.begin(), all.recordings.end(), same)) continue;
    rank_count += recording->rank_count();
    if (rank_count <= observed_ranks_max) {
      all.recordings.push_back(std::move(recording));
    } else if (!all.cut_off) {
      all.cut_off = true;
      all.refused.push_back(invalid_argument("there are communicators of more than " +
                                             std::to_string(observed_ranks_max) +
                                             " ranks; not all are shown: name one process"));
    }
  }
  for (Error &error : more.refused) all.refused.push_back(std::move(error));
}

Result<Observed> observe_process(int process) {
  const std::string folder = process_path(static_cast<uint64_t>(process), "/fd");
  const std::unique_ptr<DIR, DirectoryCloser> directory(::opendir(folder.c_str()));
  if (directory == nullptr) {
    if (errno == ENOENT || errno == ESRCH) return invalid_argument("there is no process " + std::to_string(process));
    Error error = system_error("looking at process " + std::to_string(process), errno);
    if (errno == EACCES || errno == EPERM) error.message += "; run this as the user whose process it is, or as root";
    return error;
  }
  Observed observed;
  while (const dirent *entry = ::readdir(directory.get())) {  // ends with the directory
    const std::string path = folder + "/" + entry->d_name;
    if (is_segment_link(path)) observe_descriptor(path, observed);
  }
  return observed;
}

}  // namespace rondo::shm
