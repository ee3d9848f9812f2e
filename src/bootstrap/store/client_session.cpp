// SPDX-License-Identifier: Apache-2.0
// This file implements the client's side of a store connection.
#include "src/bootstrap/store/client_session.h"

#include <algorithm>
#include <cassert>

namespace rondo {

using wire::Role;

StoreClientSession::StoreClientSession(const Secret &secret, const wire::Challenge &challenge, std::string name,
                                       std::optional<Membership> member, StoreHost host)
    : secret_(secret),
      challenge_(challenge),
      name_(std::move(name)),
      member_(std::move(member)),
      host_(std::move(host)) {
  append_bytes(output_, wire::magic_of(Role::client));
  append_bytes(output_, challenge_);
}

void StoreClientSession::fail(rondo_status_t status, const std::string &what, int32_t peer) {
  if (state_ == State::failed) return;  // the first failure stays
  state_ = State::failed;
  failure_ = Error{status, "store at " + name_ + ": " + what, -1, peer};
  in_flight_ = false;
  input_ = {};
  output_ = {};
  sent_bytes_ = 0;
}

void StoreClientSession::receive(ByteView bytes) {
  if (state_ == State::failed) return;
  append_bytes(input_, bytes);
  if (state_ == State::hello) take_hello();
  if (state_ == State::entering || state_ == State::open) take_frames();
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
  if (!wire::equal_proof(wire::prove(secret_, Role::server, challenge_, server), proof)) {
    const std::string source = host_.secret_source.empty() ? "" : "; here it is from " + host_.secret_source;
    other_secret_ = true;
    return fail(RONDO_ERROR_AUTHENTICATION, "it does not know this group's secret" + source +
                                                "; all ranks need the same unique id or RONDO_SECRET");
  }
  input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(wire::server_hello_bytes));
  append_bytes(output_, wire::prove(secret_, Role::client, challenge_, server));
  sealer_.emplace(wire::frame_key(secret_, Role::client, challenge_, server));
  opener_.emplace(wire::frame_key(secret_, Role::server, challenge_, server));
  state_ = member_ ? State::entering : State::open;
  if (!member_) return;
  Request enter;  // sent with the proof: if the client dies after that, the server knows which rank died
  enter.kind = Request::Kind::enter;
  enter.key = member_->group;
  enter.rank = member_->rank;
  enter.count = member_->count;
  enter.generation = member_->generation;
  send(std::move(enter));
}

void StoreClientSession::take_notice(Error error) {
  if (error.status == RONDO_OK) {
    host_.rank = error.peer;
  } else if (!notice_) {
    error.message = "store at " + name_ + ": " + error.message;
    notice_ = std::move(error);
  }
}

void StoreClientSession::take_answer(Reply reply) {
  in_flight_ = false;
  if (reply.kind == Reply::Kind::failure) reply.error.message = "store at " + name_ + ": " + reply.error.message;
  if (state_ == State::open) {
    reply_ = std::move(reply);
  } else if (reply.kind == Reply::Kind::later) {
    later_ = true;
    fail(RONDO_ERROR_REMOTE,
         "this rank has already joined there. Either an earlier program of this job still runs, or another job uses "
         "this port; give each job its own MASTER_PORT");
  } else if (reply.kind == Reply::Kind::failure) {
    state_ = State::failed;
    failure_ = std::move(reply.error);
    refused_ = true;
  } else {
    state_ = State::open;
  }
}

void StoreClientSession::take_frames() {
  using Opened = wire::FrameOpener::Opened;
  size_t taken_bytes = 0;
  while (state_ != State::failed) {  // ends: each frame takes at least a header, or bytes are missing
    const Opened opened = opener_->open(ByteView(input_).subspan(taken_bytes));
    if (opened.state == Opened::State::need_more) break;
    if (opened.state == Opened::State::forged)
      return fail(RONDO_ERROR_AUTHENTICATION, "a reply is not authentic; something between here and there changed it");
    taken_bytes += opened.frame_bytes;
    auto reply = decode_reply(opened.body);
    const bool notice = reply && reply->kind == Reply::Kind::notice;
    if (!reply || (!notice && (!in_flight_ || reply->id != last_id_)))
      return fail(RONDO_ERROR_INTERNAL, "it sent a reply that this library does not understand");
    notice ? take_notice(std::move(reply->error)) : take_answer(std::move(*reply));
  }
  if (state_ == State::failed) return;
  input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(taken_bytes));
}

void StoreClientSession::peer_closed() {
  if (state_ == State::hello)
    return fail(RONDO_ERROR_REMOTE, "it closed the connection before it had proved that it knows the secret");
  const std::string rank = host_.rank < 0 ? "" : " (rank " + std::to_string(host_.rank) + ")";
  fail(RONDO_ERROR_REMOTE, "it closed the connection; " + host_.name + rank + " has ended, or given up", host_.rank);
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
  deadline_ns_ = deadline_ns;
  reply_.reset();
  send(std::move(request));
}

void StoreClientSession::send(Request request) {
  request.id = ++last_id_;
  key_ = request.key;
  in_flight_ = true;
  cancelled_ = false;
  sealer_->seal(encode(request), output_);
}

void StoreClientSession::wait_behind(const std::string &key, uint64_t deadline_ns) {
  if (!in_flight_ || cancelled_) return;
  key_ = key;
  deadline_ns_ = deadline_ns;
}

void StoreClientSession::expire(uint64_t now_ns) {
  if (in_flight_ && !cancelled_) deadline_ns_ = now_ns;
}

void StoreClientSession::on_time(uint64_t now_ns) {
  if (!in_flight_ || now_ns < deadline_ns_) return;
  if (cancelled_)
    return fail(RONDO_ERROR_TIMEOUT, "no answer about the step " + step_of(key_) +
                                         ", not even which ranks are missing; "
                                         "the process that runs the store is stopped or unreachable");
  cancelled_ = true;
  deadline_ns_ = now_ns + cancel_grace_ns;
  Request cancel;
  cancel.kind = Request::Kind::cancel;
  cancel.id = last_id_;
  sealer_->seal(encode(cancel), output_);
}

}  // namespace rondo
