// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run/streams.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace rondo::cli {
namespace {

constexpr size_t stream_read_bytes = 64 * 1024;
constexpr uint32_t writes_per_turn = 16;  // then signals and other streams are handled

bool is_regular_file(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

bool same_file(int first, int second) {
  struct stat a {};
  struct stat b {};
  return ::fstat(first, &a) == 0 && ::fstat(second, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

std::string tag_of(uint32_t rank) { return "[" + std::to_string(rank) + "] "; }

}  // namespace

OutputSink::OutputSink(int descriptor)
    : descriptor_(descriptor), write_bytes_max_(is_regular_file(descriptor) ? size_t{1} << 20 : PIPE_BUF) {}

void OutputSink::append(std::string_view bytes) {
  if (!failed()) bytes_.append(bytes);
}

void OutputSink::write_some() {
  for (uint32_t turn = 0; pending() && turn < writes_per_turn; ++turn) {
    pollfd room{descriptor_, POLLOUT, 0};
    if (turn != 0 && (::poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0)) break;
    const size_t wanted_bytes = std::min(bytes_.size() - written_, write_bytes_max_);
    const ssize_t done_bytes = ::write(descriptor_, bytes_.data() + written_, wanted_bytes);
    if (done_bytes < 0) {
      if (!is_temporary(errno)) error_number_ = errno;
      break;
    }
    written_ += static_cast<size_t>(done_bytes);
  }
  if (!pending()) {
    bytes_.clear();
    written_ = 0;
  } else if (written_ > full_bytes) {
    bytes_.erase(0, written_);
    written_ = 0;
  }
}

OutputPipe::OutputPipe(FileDescriptor descriptor, uint32_t rank, OutputSink *sink)
    : descriptor_(std::move(descriptor)), tagger_(tag_of(rank)), sink_(sink) {}

pollfd OutputPipe::interest() const { return {sink_->full() ? -1 : descriptor_.get(), POLLIN, 0}; }

void OutputPipe::ready(short events) {
  if (sink_->failed()) return descriptor_.reset();  // the rank notices by SIGPIPE, as without a launcher
  if (events == 0) return;
  std::array<char, stream_read_bytes> buffer;
  const ssize_t count_bytes = ::read(descriptor_.get(), buffer.data(), buffer.size());
  if (count_bytes < 0 && is_temporary(errno)) return;
  if (count_bytes <= 0) return close();
  std::string lines;
  tagger_.take({buffer.data(), static_cast<size_t>(count_bytes)}, &lines);
  sink_->append(lines);
}

void OutputPipe::close() {
  if (!open()) return;
  descriptor_.reset();
  std::string lines;
  tagger_.finish(&lines);
  sink_->append(lines);
}

pollfd InputPump::read_interest() const {
  const bool wanted = to_.valid() && bytes_.empty() && !paused_ && !ended_;
  return {wanted ? STDIN_FILENO : -1, POLLIN, 0};
}

pollfd InputPump::write_interest() const {
  return {to_.get(), static_cast<short>(bytes_.empty() ? 0 : POLLOUT), 0};  // even 0 reports that the reader left
}

void InputPump::read_ready(short events) {
  if (events == 0) return;
  std::array<char, stream_read_bytes> buffer;
  const ssize_t count_bytes = ::read(STDIN_FILENO, buffer.data(), buffer.size());
  if (count_bytes > 0)
    bytes_.assign(buffer.data(), static_cast<size_t>(count_bytes));
  else if (count_bytes < 0 && errno == EIO)
    paused_ = true;  // SIGTTIN is blocked, so the terminal returns this error in the background; SIGCONT resumes
  else if (count_bytes == 0 || !is_temporary(errno))
    ended_ = true;
  close_at_end();
}

void InputPump::write_ready(short events) {
  if ((events & (POLLERR | POLLNVAL)) != 0) return to_.reset();  // rank 0 has closed its input
  if ((events & POLLOUT) == 0) return;
  const ssize_t done_bytes = ::write(to_.get(), bytes_.data(), bytes_.size());
  if (done_bytes >= 0)
    bytes_.erase(0, static_cast<size_t>(done_bytes));
  else if (!is_temporary(errno))
    to_.reset();
  close_at_end();
}

void InputPump::close_at_end() {
  if (ended_ && bytes_.empty()) to_.reset();
}

Streams::Streams(LauncherStreams ends)
    : output_(STDOUT_FILENO),
      error_(STDERR_FILENO),
      error_is_output_(same_file(STDOUT_FILENO, STDERR_FILENO)),
      input_(std::move(ends.input)) {
  pipes_.reserve(ends.output.size() + ends.error.size());
  for (uint32_t rank = 0; rank < ends.output.size(); ++rank) {
    pipes_.emplace_back(std::move(ends.output[rank]), rank, &output_);
    pipes_.emplace_back(std::move(ends.error[rank]), rank, &error_sink());
  }
}

void Streams::say(std::string_view message) {
  error_sink().append("rondo run: " + std::string(message) + "\n");
}

void Streams::add_interests(std::vector<pollfd> *events) {
  for (const OutputSink *sink : {&output_, &error_})
    events->push_back({sink->pending() ? sink->descriptor() : -1, POLLOUT, 0});
  events->push_back(input_.read_interest());
  events->push_back(input_.write_interest());
  for (const OutputPipe &pipe : pipes_) events->push_back(pipe.interest());
}

void Streams::ready(const pollfd *events) {
  if (events[0].revents != 0) output_.write_some();
  if (events[1].revents != 0) error_.write_some();
  input_.read_ready(events[2].revents);
  input_.write_ready(events[3].revents);
  for (size_t index = 0; index < pipes_.size(); ++index)
    if (pipes_[index].open()) pipes_[index].ready(events[4 + index].revents);
}

bool Streams::pipes_open() const {
  return std::any_of(pipes_.begin(), pipes_.end(), [](const OutputPipe &pipe) { return pipe.open(); });
}

int Streams::take_write_error() {
  if (write_error_taken_) return 0;
  const int error_number = output_.failed() ? output_.error_number() : error_.error_number();
  write_error_taken_ = error_number != 0;
  return error_number == EPIPE ? 0 : error_number;
}

void Streams::finish_pipes() {
  for (OutputPipe &pipe : pipes_) pipe.close();
}

}  // namespace rondo::cli
