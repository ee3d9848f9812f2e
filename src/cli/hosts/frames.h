// SPDX-License-Identifier: Apache-2.0
// The launcher and its agent on another host exchange frames over the standard input and output of ssh. If the two are
// different versions of the program, the launcher refuses to run the job.
//
// Frame   body_bytes u32 | kind u8 | body       numbers are little-endian, a frame has at most frame_bytes_max
// Before its first frame the agent sends agent_greeting. A login shell may print text before that; the launcher skips
// it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/bootstrap/bytes.h"
#include "src/cli/run/job.h"
#include "src/cli/run/options.h"

namespace rondo::cli {

inline constexpr std::string_view agent_greeting = "\nrondo agent\n";
inline constexpr size_t frame_bytes_max = size_t{4} << 20;
inline constexpr uint64_t alive_interval_ns = 2'000'000'000;

enum class FrameKind : uint8_t {
  // launcher to agent
  plan,    ///< HostPlan
  serve,   ///< run the job's store; the answer is `store`
  start,   ///< RONDO_STORE as text
  signal,  ///< number u32
  end,     ///< grace u64
  rest,    ///< the launcher will be stopped, so its silence means nothing
  // agent to launcher
  hello,      ///< version as text
  ready,      ///< the program was found
  failed,     ///< exit status u32 | text
  store,      ///< its address and port as text
  output,     ///< standard output, as whole tagged lines if requested
  error,      ///< standard error, as whole tagged lines if requested
  say,        ///< text for the launcher to print
  all_ended,  ///< number of processes that could not be killed, u32
  // both
  ended,  ///< RankEnd of an ended rank; the launcher sends it to the agent that runs the store, too
  alive
};

struct Frame {
  FrameKind kind = FrameKind::alive;
  Bytes body;
};

/// A host's part of the job, sent to its agent.
struct HostPlan {
  uint32_t first_rank = 0;
  uint32_t rank_count = 0;
  uint32_t job_rank_count = 0;
  bool tag_output = false;
  Bind bind = Bind::share;
  uint64_t grace_ns = 0;
  std::string folder;  ///< the working directory
  std::string secret;  ///< RONDO_SECRET
  std::vector<std::string> environment;
  std::vector<std::string> command;
};

[[nodiscard]] Bytes encode(const HostPlan &plan);
[[nodiscard]] std::optional<HostPlan> decode_plan(ByteView body);
[[nodiscard]] Bytes encode(const RankEnd &end);
[[nodiscard]] std::optional<RankEnd> decode_rank_end(ByteView body);

/// Returns the body of a `failed` frame.
[[nodiscard]] Bytes encode_failure(int exit_status, std::string_view message);

/// Frames that wait to be written to a non-blocking descriptor.
class FrameWriter {
 public:
  void greet() { append_bytes(bytes_, bytes_of(agent_greeting)); }
  void add(FrameKind kind, ByteView body = {});
  void add(FrameKind kind, std::string_view text) { add(kind, bytes_of(text)); }
  /// Writes as much as the descriptor takes. Returns false if the other end is gone.
  [[nodiscard]] bool write_some(int descriptor);
  [[nodiscard]] bool pending() const { return written_ < bytes_.size(); }
  [[nodiscard]] bool full() const { return bytes_.size() - written_ >= full_bytes; }

 private:
  static constexpr size_t full_bytes = 256 * 1024;
  Bytes bytes_;
  size_t written_ = 0;
};

/// Takes bytes, and returns frames.
class FrameReader {
 public:
  enum class Start { at_once, behind_greeting };
  explicit FrameReader(Start start) : greeted_(start == Start::at_once) {}

  /// Reads once. Returns false if the other end is gone, or sends an invalid frame.
  [[nodiscard]] bool read_some(int descriptor);
  [[nodiscard]] std::optional<Frame> next();
  [[nodiscard]] bool greeted() const { return greeted_; }

 private:
  static constexpr size_t noise_bytes_max = size_t{1} << 20;
  bool skip_noise();

  Bytes bytes_;
  size_t taken_ = 0;
  bool greeted_;
};

}  // namespace rondo::cli
