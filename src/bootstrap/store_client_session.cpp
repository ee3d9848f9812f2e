// SPDX-License-Identifier: Apache-2.0
// The client's side of a store connection.
#include "src/bootstrap/store_client_session.h"

#include <algorithm>
#include <cassert>

namespace rondo {

using wire::Role;

StoreClientSession::StoreClientSession(const Secret &secret, const wire::Challenge &challenge, std::string name)
    : secret_(secret), challenge_(challenge), name_(std::move(name)) {
  append_bytes(output_, wire::magic_of(Role::client));
  append_bytes(output_, challenge_);
}

void StoreClientSession::fail(rondo_status_t status, const std::string &what) {
  if (state_ == State::failed) return;  // the first failure stays
  state_ = State::failed;
  failure_ = Error{status, "store at " + name_ + ": " + what};
  in_flight_ = false;
  input_ = {};
  output_ = {};
  sent_bytes_ = 0;
}

void StoreClientSession::receive(ByteView bytes) {
  if (state_ == State::failed) return;
  append_bytes(input_, bytes);
  if (state_ == State::hello) take_hello();
  if (state_ == State::open) take_frames();
}

void StoreClientSession::take_hello() {
  using wire::MagicMatch;
  const MagicMatch match = wire::match_magic(input_, Role::server);
  if (match == MagicMatch::garbage)
    return fail(RONDO_ERROR_AUTHENTICATION, "what answers there is not a Rondo store; check address and port");
  if (match == MagicMatch::other_version)
    return fail(RONDO_ERROR_MISMATCH, "it speaks protocol version " + std::to_string(std::to_integer<int>(input_[5])) +
                                          ", this library version " + std::to_string(wire::protocol_version) +
                                          "; use the same library on all ranks");
  if (input_.size() < wire::server_hello_bytes) return;
  wire::Challenge server;
  std::ranges::copy(ByteView(input_).subspan(wire::magic_bytes, wire::challenge_bytes), server.begin());
  const ByteView proof = ByteView(input_).subspan(wire::magic_bytes + wire::challenge_bytes, wire::proof_bytes);
  if (!wire::equal_proof(wire::prove(secret_, Role::server, challenge_, server), proof))
    return fail(RONDO_ERROR_AUTHENTICATION,
                "it does not know this group's secret; all ranks need the same unique id or RONDO_SECRET");
  input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(wire::server_hello_bytes));
  append_bytes(output_, wire::prove(secret_, Role::client, challenge_, server));
  sealer_.emplace(wire::frame_key(secret_, Role::client, challenge_, server));
  opener_.emplace(wire::frame_key(secret_, Role::server, challenge_, server));
  state_ = State::open;
}

void StoreClientSession::take_frames() {
  using Opened = wire::FrameOpener::Opened;
  size_t taken_bytes = 0;
  while (true) {  // ends: a frame takes at least its header, or bytes are missing
    const Opened opened = opener_->open(ByteView(input_).subspan(taken_bytes));
    if (opened.state == Opened::State::need_more) break;
    if (opened.state == Opened::State::forged)
      return fail(RONDO_ERROR_AUTHENTICATION, "a reply is not authentic; something between here and there changed it");
    taken_bytes += opened.frame_bytes;
    auto reply = decode_reply(opened.body);
    if (!reply || !in_flight_ || reply->id != last_id_)
      return fail(RONDO_ERROR_INTERNAL, "it sent a reply that this library does not understand");
    in_flight_ = false;
    if (reply->kind == Reply::Kind::failure) reply->error.message = "store at " + name_ + ": " + reply->error.message;
    reply_ = std::move(*reply);
  }
  input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(taken_bytes));
}

void StoreClientSession::peer_closed() {
  fail(RONDO_ERROR_REMOTE,
       state_ == State::hello ? "it closed the connection before it had proved that it knows the secret"
                              : "it closed the connection; the process that runs it (rank 0 or `rondo run`) has ended");
}

void StoreClientSession::sent(size_t bytes) {
  sent_bytes_ += std::min(bytes, output().size());
  if (!output().empty()) return;
  output_.clear();
  sent_bytes_ = 0;
}

void StoreClientSession::begin(Request request, uint64_t deadline_ns) {
  assert(state_ == State::open);
  assert(!in_flight_);
  request.id = ++last_id_;
  key_ = request.key;
  deadline_ns_ = deadline_ns;
  in_flight_ = true;
  cancelled_ = false;
  reply_.reset();
  sealer_->seal(encode(request), output_);
}

void StoreClientSession::on_time(uint64_t now_ns) {
  if (!in_flight_ || now_ns < deadline_ns_) return;
  if (cancelled_)
    return fail(RONDO_ERROR_TIMEOUT, "no answer about '" + key_ + "', not even to the question who is missing; the "
                                     "process that runs the store is stopped or unreachable");
  cancelled_ = true;
  deadline_ns_ = now_ns + cancel_grace_ns;
  Request cancel;
  cancel.kind = Request::Kind::cancel;
  cancel.id = last_id_;
  sealer_->seal(encode(cancel), output_);
}

}  // namespace rondo
