// SPDX-License-Identifier: Apache-2.0
// The launcher's part in the ranks' input and output: what --tag-output passes on, and a terminal's input. Nothing
// here waits: the supervisor polls, and each part takes what is ready. Backpressure is passed on: a full sink stops the
// reading of its pipes, a full pipe to rank 0 stops the reading of the terminal.
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/unique_handle.h"
#include "src/cli/run/lines.h"

namespace rondo::cli {

/// Bytes on their way to a descriptor that the launcher was started with. Others may share the descriptor, so it is not
/// made non-blocking. poll() promises room for PIPE_BUF bytes in a pipe, so never more is written at a time.
class OutputSink {
 public:
  explicit OutputSink(int descriptor);

  void append(std::string_view bytes);
  void write_some();  ///< after poll() has said POLLOUT
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

/// One rank's output or error stream, read from a pipe, tagged, into a sink.
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

/// Copies from the terminal to rank 0. Only a terminal needs it, because the ranks are not in its foreground group and
/// could not read it. Any other standard input is rank 0's own descriptor.
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
  std::string bytes_;    // read, not yet written; at most one read's worth
  bool paused_ = false;  // in the background: the terminal is not ours to read
  bool ended_ = false;
};

/// The launcher's ends of the pipes, made before the guard is forked.
struct LauncherStreams {
  std::vector<FileDescriptor> output;  ///< by rank; empty if output is not tagged
  std::vector<FileDescriptor> error;
  FileDescriptor input;  ///< invalid: rank 0 has the launcher's own standard input
};

class Streams {
 public:
  explicit Streams(LauncherStreams ends);

  void say(std::string_view message);  ///< a line of the launcher's own, to standard error
  /// Appends bytes that ranks of other hosts have written.
  void pass_on(std::string_view bytes, bool is_error) { (is_error ? error_sink() : output_).append(bytes); }
  /// Returns whether more output would only wait here.
  [[nodiscard]] bool output_full() const { return output_.full() || error_sink().full(); }
  void add_interests(std::vector<pollfd> *events);
  [[nodiscard]] size_t interest_count() const { return 4 + pipes_.size(); }
  void ready(const pollfd *events);  ///< what add_interests() added, after poll()
  void resume_input() { input_.resume(); }
  [[nodiscard]] bool output_pending() const { return output_.pending() || error_sink().pending(); }
  [[nodiscard]] bool pipes_open() const;
  /// Returns errno of a failed write once, then 0. A reader that left is no failure.
  [[nodiscard]] int take_write_error();
  void finish_pipes();  ///< gives up on what is still open: passes on unfinished lines

 private:
  [[nodiscard]] OutputSink &error_sink() { return error_is_output_ ? output_ : error_; }
  [[nodiscard]] const OutputSink &error_sink() const { return error_is_output_ ? output_ : error_; }

  OutputSink output_;
  OutputSink error_;
  bool error_is_output_;  // both lead to the same file: one queue, or lines of the two would be mixed
  bool write_error_taken_ = false;
  std::vector<OutputPipe> pipes_;
  InputPump input_;
};

}  // namespace rondo::cli
