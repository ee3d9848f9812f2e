// SPDX-License-Identifier: Apache-2.0
// This file passes on the ranks' input and output in the launcher: the output of --tag-output, and a terminal's input.
// No function waits: the supervisor polls, and each part then takes what is ready. If a sink is full, its pipes are not
// read. If the pipe to rank 0 is full, the terminal is not read.
#pragma once

#include <poll.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/unique_handle.h"
#include "src/cli/run/lines.h"

namespace rondo::cli {

/// Returns whether a read or write that failed with this errno value may succeed later.
[[nodiscard]] inline bool is_temporary(int error_number) { return error_number == EAGAIN || error_number == EINTR; }

/// Bytes for a descriptor with which the launcher was started. Other processes may share the descriptor, so it is not
/// made non-blocking. After poll() a pipe has room for PIPE_BUF bytes, so no write is larger than that.
class OutputSink {
 public:
  explicit OutputSink(int descriptor);

  void append(std::string_view bytes);
  void write_some();  ///< call it after POLLOUT
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool pending() const { return !failed() && written_ < bytes_.size(); }
  [[nodiscard]] bool full() const { return bytes_.size() - written_ >= full_bytes; }
  [[nodiscard]] bool failed() const { return error_number_ != 0; }
  [[nodiscard]] int error_number() const { return error_number_; }

 private:
  static constexpr size_t full_bytes = 256 * 1024;

  int descriptor_;
  size_t write_bytes_max_;
  std::string bytes_;
  size_t written_ = 0;
  int error_number_ = 0;
};

/// One rank's output or error stream. Its bytes are read from a pipe, tagged, and appended to a sink.
class OutputPipe {
 public:
  OutputPipe(FileDescriptor descriptor, uint32_t rank, OutputSink *sink);

  [[nodiscard]] pollfd interest() const;
  void ready(short events);
  void close();
  [[nodiscard]] bool open() const { return descriptor_.valid(); }

 private:
  FileDescriptor descriptor_;
  LineTagger tagger_;
  OutputSink *sink_;
};

/// Copies from a terminal to rank 0. Ranks are not in the terminal's foreground group, so they cannot read it
/// themselves. If standard input is no terminal, rank 0 has it as its own descriptor.
class InputPump {
 public:
  explicit InputPump(FileDescriptor to) : to_(std::move(to)) {}

  [[nodiscard]] pollfd read_interest() const;
  [[nodiscard]] pollfd write_interest() const;
  void read_ready(short events);
  void write_ready(short events);
  void resume() { paused_ = false; }  ///< this process may be in the foreground again

 private:
  void close_at_end();

  FileDescriptor to_;
  std::string bytes_;    // read, but not yet written; at most what one read returns
  bool paused_ = false;  // in the background, where the terminal must not be read
  bool ended_ = false;
};

/// The launcher's ends of the pipes, made before the guard is forked.
struct LauncherStreams {
  std::vector<FileDescriptor> output;  ///< by rank; empty if output is not tagged
  std::vector<FileDescriptor> error;
  FileDescriptor input;  ///< invalid if rank 0 has the launcher's standard input
};

class Streams {
 public:
  explicit Streams(LauncherStreams ends);

  void say(std::string_view message);  ///< prints a line of the launcher to standard error
  /// Appends bytes that ranks of other hosts have written.
  void pass_on(std::string_view bytes, bool is_error) { (is_error ? error_sink() : output_).append(bytes); }
  /// Says whether an output is full. More output would then only be queued here.
  [[nodiscard]] bool output_full() const { return output_.full() || error_sink().full(); }
  void add_interests(std::vector<pollfd> *events);
  [[nodiscard]] size_t interest_count() const { return 4 + pipes_.size(); }
  void ready(const pollfd *events);  ///< takes the results of poll() for the events of add_interests()
  void resume_input() { input_.resume(); }
  [[nodiscard]] bool output_pending() const { return output_.pending() || error_sink().pending(); }
  [[nodiscard]] bool pipes_open() const;
  /// Returns errno of a failed write once, then 0. It is no failure if the reader has closed its end.
  [[nodiscard]] int take_write_error();
  void finish_pipes();  ///< stops waiting for open pipes: passes on unfinished lines

 private:
  [[nodiscard]] OutputSink &error_sink() { return error_is_output_ ? output_ : error_; }
  [[nodiscard]] const OutputSink &error_sink() const { return error_is_output_ ? output_ : error_; }

  OutputSink output_;
  OutputSink error_;
  bool error_is_output_;  // output and error are the same file, so they share a queue, which keeps lines whole
  bool write_error_taken_ = false;
  std::vector<OutputPipe> pipes_;
  InputPump input_;
};

}  // namespace rondo::cli
