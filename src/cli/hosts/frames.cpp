// SPDX-License-Identifier: Apache-2.0
#include "src/cli/hosts/frames.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "rondo/rondo.h"
#include "src/cli/run/streams.h"

namespace rondo::cli {
namespace {

constexpr size_t header_bytes = 5;
constexpr size_t frame_read_bytes = 64 * 1024;

void append_text(Bytes &out, std::string_view text) {
  append_number(out, static_cast<uint32_t>(text.size()));
  append_bytes(out, bytes_of(text));
}

void append_texts(Bytes &out, const std::vector<std::string> &texts) {
  append_number(out, static_cast<uint32_t>(texts.size()));
  for (const std::string &text : texts) append_text(out, text);
}

std::string text_in(ByteReader &reader) { return text_of(reader.bytes(reader.number<uint32_t>())); }

std::vector<std::string> texts_in(ByteReader &reader) {
  std::vector<std::string> texts;
  for (uint32_t left = reader.number<uint32_t>(); left != 0 && !reader.failed(); --left)
    texts.push_back(text_in(reader));
  return texts;
}

}  // namespace

Bytes encode(const HostPlan &plan) {
  Bytes out;
  for (const uint32_t number : {plan.first_rank, plan.rank_count, plan.job_rank_count, uint32_t{plan.tag_output},
                                static_cast<uint32_t>(plan.bind)})
    append_number(out, number);
  append_number(out, plan.grace_ns);
  append_text(out, plan.folder);
  append_text(out, plan.secret);
  append_texts(out, plan.environment);
  append_texts(out, plan.command);
  return out;
}

std::optional<HostPlan> decode_plan(ByteView body) {
  ByteReader reader(body);
  HostPlan plan;
  plan.first_rank = reader.number<uint32_t>();
  plan.rank_count = reader.number<uint32_t>();
  plan.job_rank_count = reader.number<uint32_t>();
  plan.tag_output = reader.number<uint32_t>() != 0;
  const uint32_t bind = reader.number<uint32_t>();
  plan.grace_ns = reader.number<uint64_t>();
  plan.folder = text_in(reader);
  plan.secret = text_in(reader);
  plan.environment = texts_in(reader);
  plan.command = texts_in(reader);
  if (!reader.complete() || plan.command.empty() || plan.rank_count == 0 || bind > static_cast<uint32_t>(Bind::share))
    return std::nullopt;
  plan.bind = static_cast<Bind>(bind);
  return plan;
}

Bytes encode(const RankEnd &end) {
  Bytes out;
  for (const int32_t number : {static_cast<int32_t>(end.rank), end.pid, end.wait_status,
                               static_cast<int32_t>(end.start_failure), end.start_errno})
    append_number(out, static_cast<uint32_t>(number));
  return out;
}

std::optional<RankEnd> decode_rank_end(ByteView body) {
  ByteReader reader(body);
  RankEnd end;
  end.rank = reader.number<uint32_t>();
  end.pid = static_cast<pid_t>(reader.number<uint32_t>());
  end.wait_status = static_cast<int32_t>(reader.number<uint32_t>());
  end.start_failure = static_cast<StartFailure>(reader.number<uint32_t>());
  end.start_errno = static_cast<int32_t>(reader.number<uint32_t>());
  if (!reader.complete()) return std::nullopt;
  return end;
}

Bytes encode_failure(int exit_status, std::string_view message) {
  Bytes out;
  out.reserve(sizeof(uint32_t) + message.size());
  append_number(out, static_cast<uint32_t>(exit_status));
  append_bytes(out, bytes_of(message));
  return out;
}

void FrameWriter::add(FrameKind kind, ByteView body) {
  append_number(bytes_, static_cast<uint32_t>(body.size()));
  append_number(bytes_, static_cast<uint8_t>(kind));
  append_bytes(bytes_, body);
}

bool FrameWriter::write_some(int descriptor) {
  while (pending()) {  // bounded by what is queued
    const ssize_t done_bytes = ::write(descriptor, bytes_.data() + written_, bytes_.size() - written_);
    if (done_bytes < 0) return is_temporary(errno);
    written_ += static_cast<size_t>(done_bytes);
    if (written_ < full_bytes && pending()) continue;
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(written_));
    written_ = 0;
  }
  return true;
}

bool FrameReader::read_some(int descriptor) {
  std::array<std::byte, frame_read_bytes> buffer;
  const ssize_t got_bytes = ::read(descriptor, buffer.data(), buffer.size());
  if (got_bytes < 0) return is_temporary(errno);
  if (got_bytes == 0) return false;
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
  append_bytes(bytes_, ByteView(buffer).first(static_cast<size_t>(got_bytes)));
  if (!greeted_ && !skip_noise()) return false;
  return !greeted_ || bytes_.size() < header_bytes || number_at<uint32_t>(bytes_.data()) <= frame_bytes_max;
}

/// Skips the output of a login shell. Returns false if there is more than any login shell prints.
bool FrameReader::skip_noise() {
  const ByteView greeting = bytes_of(agent_greeting);
  const auto found = std::search(bytes_.begin(), bytes_.end(), greeting.begin(), greeting.end());
  if (found == bytes_.end()) return bytes_.size() < noise_bytes_max;
  bytes_.erase(bytes_.begin(), found + static_cast<std::ptrdiff_t>(greeting.size()));
  greeted_ = true;
  return true;
}

std::optional<Frame> FrameReader::next() {
  if (!greeted_ || bytes_.size() - taken_ < header_bytes) return std::nullopt;
  const std::byte *const header = bytes_.data() + taken_;
  const size_t body_bytes = number_at<uint32_t>(header);
  if (body_bytes > frame_bytes_max || bytes_.size() - taken_ - header_bytes < body_bytes) return std::nullopt;
  Frame frame{static_cast<FrameKind>(number_at<uint8_t>(header + 4)), {}};
  append_bytes(frame.body, ByteView(header + header_bytes, body_bytes));
  taken_ += header_bytes + body_bytes;
  return frame;
}

}  // namespace rondo::cli
