// SPDX-License-Identifier: Apache-2.0
// The client's side of a store connection. Bytes and the time in; bytes, replies and a deadline out; no I/O.
//
// State     hello sent --server proved itself / proof sent--> open;  any of them --> failed, for good
// Request   begin --reply--> answered
//           begin --deadline / cancel sent--> the server answers at once, with what it knows about who is missing
//                 --2 s later still no reply--> failed
#pragma once

#include "src/bootstrap/messages.h"
#include "src/bootstrap/store_session.h"

namespace rondo {

inline constexpr uint64_t cancel_grace_ns = 2'000'000'000;

class StoreClientSession {
 public:
  /// `challenge` is fresh and random; `name` says in errors where the store is.
  StoreClientSession(const Secret &secret, const wire::Challenge &challenge, std::string name);

  void receive(ByteView bytes);
  void peer_closed();

  [[nodiscard]] ByteView output() const { return ByteView(output_).subspan(sent_bytes_); }
  void sent(size_t bytes);

  /// The handshake is done.
  [[nodiscard]] bool open() const { return state_ == State::open; }
  [[nodiscard]] const std::optional<Error> &failure() const { return failure_; }

  /// Sends a request (its id is filled in); only when open() and no other is in flight.
  void begin(Request request, uint64_t deadline_ns);
  [[nodiscard]] bool in_flight() const { return in_flight_; }
  [[nodiscard]] std::optional<Reply> take_reply() { return std::exchange(reply_, std::nullopt); }

  [[nodiscard]] uint64_t deadline_ns() const { return in_flight_ ? deadline_ns_ : no_deadline; }
  void on_time(uint64_t now_ns);

 private:
  enum class State { hello, open, failed };

  void fail(rondo_status_t status, const std::string &what);
  void take_hello();
  void take_frames();

  Secret secret_;
  wire::Challenge challenge_;
  std::string name_;
  State state_ = State::hello;
  std::optional<Error> failure_;
  std::optional<wire::FrameOpener> opener_;
  std::optional<wire::FrameSealer> sealer_;
  Bytes input_;
  Bytes output_;
  size_t sent_bytes_ = 0;
  std::optional<Reply> reply_;
  std::string key_;  ///< of the request in flight
  uint64_t last_id_ = 0;
  uint64_t deadline_ns_ = no_deadline;
  bool in_flight_ = false;
  bool cancelled_ = false;
};

}  // namespace rondo
