// SPDX-License-Identifier: Apache-2.0
// This file implements the server's side of one connection.
#include "src/bootstrap/store/session.h"

#include <algorithm>

namespace rondo {

StoreSession::StoreSession(const Secret &secret, const wire::Challenge &challenge, uint64_t now_ns)
    : secret_(&secret), challenge_(challenge), handshake_deadline_ns_(now_ns + handshake_timeout_ns) {}

void StoreSession::cut(const char *reason) {
  state_ = State::cut;
  cut_reason_ = reason;
  input_ = {};
  output_ = {};
  sent_bytes_ = 0;
}

void StoreSession::receive(ByteView bytes, uint64_t now_ns, std::vector<Request> &requests) {
  on_time(now_ns);  // bytes after the deadline do not save the connection
  if (state_ == State::hello) take_hello(bytes, now_ns);
  if (state_ == State::proof) take_proof(bytes);
  if (state_ == State::open) take_frames(bytes, now_ns, requests);
}

/// Moves bytes to `input` until it has `wanted` bytes.
static void fill(Bytes &input, ByteView &bytes, size_t wanted) {
  const size_t count = std::min(bytes.size(), wanted - input.size());
  append_bytes(input, bytes.first(count));
  bytes = bytes.subspan(count);
}

void StoreSession::take_hello(ByteView &bytes, uint64_t now_ns) {
  using wire::MagicMatch;
  using wire::Role;
  fill(input_, bytes, wire::client_hello_bytes);
  const MagicMatch match = wire::match_magic(input_, Role::client);
  if (match == MagicMatch::garbage) return cut("what came is not the store's protocol");
  if (input_.size() < wire::client_hello_bytes) return;
  std::ranges::copy(ByteView(input_).subspan(wire::magic_bytes), client_challenge_.begin());
  input_.clear();
  Bytes hello;  // also sent to a client of another version, which then knows the reason
  append_bytes(hello, wire::magic_of(Role::server));
  append_bytes(hello, challenge_);
  append_bytes(hello, wire::prove(*secret_, Role::server, client_challenge_, challenge_));
  queue_output(hello, now_ns);
  state_ = State::proof;  // a client of another version closes, or sends a wrong proof
}

void StoreSession::take_proof(ByteView &bytes) {
  using wire::Role;
  fill(input_, bytes, wire::proof_bytes);
  if (input_.size() < wire::proof_bytes) return;
  if (!wire::equal_proof(wire::prove(*secret_, Role::client, client_challenge_, challenge_), input_)) {
    other_secret_ = true;
    return cut("the client does not know the secret");
  }
  input_.clear();
  opener_.emplace(wire::frame_key(*secret_, Role::client, client_challenge_, challenge_));
  sealer_.emplace(wire::frame_key(*secret_, Role::server, client_challenge_, challenge_));
  state_ = State::open;
}

void StoreSession::take_frames(ByteView bytes, uint64_t now_ns, std::vector<Request> &requests) {
  using Opened = wire::FrameOpener::Opened;
  const bool whole_before = input_.empty();
  append_bytes(input_, bytes);
  size_t taken_bytes = 0;
  while (state_ == State::open) {  // ends: each frame takes at least a header, or bytes are missing
    const Opened opened = opener_->open(ByteView(input_).subspan(taken_bytes));
    if (opened.state == Opened::State::need_more) break;
    if (opened.state == Opened::State::forged) return cut("a frame is not authentic");
    taken_bytes += opened.frame_bytes;
    take_request(opened.body, requests);
  }
  if (state_ != State::open) return;
  input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(taken_bytes));
  if (input_.empty()) {
    frame_deadline_ns_ = no_deadline;
  } else if (whole_before || taken_bytes > 0) {
    frame_deadline_ns_ = now_ns + stall_timeout_ns;
  }
}

void StoreSession::take_request(ByteView body, std::vector<Request> &requests) {
  auto request = decode_request(body);
  if (!request) return cut("a message is malformed");
  if (request->kind == Request::Kind::cancel) {
    if (request->id != last_id_ || last_id_ == 0 || cancelled_) return cut("a cancel without a request");
    cancelled_ = true;
    if (!busy_) return;  // the reply was sent before the cancel arrived
  } else {
    if (busy_ || request->id != last_id_ + 1) return cut("a request out of turn");
    last_id_ = request->id;
    busy_ = true;
    cancelled_ = false;
  }
  requests.push_back(std::move(*request));
}

void StoreSession::reply(const Reply &reply, uint64_t now_ns) {
  if (state_ != State::open) return;
  if (reply.kind != Reply::Kind::notice) {
    if (!busy_ || reply.id != last_id_) return;
    busy_ = false;
  }
  Bytes frame;
  sealer_->seal(encode(reply), frame);
  queue_output(frame, now_ns);
}

void StoreSession::queue_output(ByteView bytes, uint64_t now_ns) {
  if (output().empty()) output_deadline_ns_ = now_ns + stall_timeout_ns;
  append_bytes(output_, bytes);
}

void StoreSession::sent(size_t bytes, uint64_t now_ns) {
  sent_bytes_ += std::min(bytes, output().size());
  if (output().empty()) {
    output_ = {};
    sent_bytes_ = 0;
    output_deadline_ns_ = no_deadline;
  } else if (bytes > 0) {
    output_deadline_ns_ = now_ns + stall_timeout_ns;
  }
}

uint64_t StoreSession::deadline_ns() const {
  if (state_ == State::cut) return no_deadline;
  const uint64_t stalled_ns = std::min(frame_deadline_ns_, output_deadline_ns_);
  return state_ == State::open ? stalled_ns : std::min(handshake_deadline_ns_, stalled_ns);
}

void StoreSession::on_time(uint64_t now_ns) {
  if (state_ == State::cut || now_ns < deadline_ns()) return;
  if (state_ == State::open) return cut(now_ns >= frame_deadline_ns_ ? "a frame was begun and not finished in time"
                                                                     : "the client does not take its reply");
  cut("the handshake was not finished in time");
}

}  // namespace rondo
