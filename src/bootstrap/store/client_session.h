// SPDX-License-Identifier: Apache-2.0
// This class is the client's side of a store connection, without I/O. It takes bytes and the time, and returns bytes,
// replies and a deadline.
//
// State     hello sent --server proved itself / proof and enter sent--> entering --reply--> open
//           any of these --> failed, for good. If there is no group to enter, `entering` is skipped.
// Request   begin --reply--> answered
//           begin --deadline / cancel sent--> the server answers at once, with what it knows about the missing ranks
//                 --2 s later still no reply--> failed
//           There is one request at a time. A request without a deadline gets the deadline of the first call that waits
//           for its end.
// Notice    The group has failed. The session stores the failure. From then on the server answers each request with it.
#pragma once

#include "src/bootstrap/messages.h"
#include "src/bootstrap/store/session.h"

namespace rondo {

inline constexpr uint64_t cancel_grace_ns = 2'000'000'000;

class StoreClientSession {
 public:
  /// Begins a session. `challenge` must be new and random. `name` is the store's name in errors.
  StoreClientSession(const Secret &secret, const wire::Challenge &challenge, std::string name,
                     std::optional<Membership> member = std::nullopt, StoreHost host = {});

  void receive(ByteView bytes);
  void peer_closed();

  [[nodiscard]] ByteView output() const { return ByteView(output_).subspan(sent_bytes_); }
  void sent(size_t bytes);

  /// Says whether the handshake is done and the group is entered.
  [[nodiscard]] bool open() const { return state_ == State::open; }
  [[nodiscard]] const std::optional<Error> &failure() const { return failure_; }
  /// Returns the failure of the group.
  [[nodiscard]] const std::optional<Error> &notice() const { return notice_; }
  [[nodiscard]] bool member() const { return member_.has_value(); }
  [[nodiscard]] bool refused() const { return refused_; }  ///< the group has failed, so this rank could not enter
  /// Says whether the store knows another secret.
  [[nodiscard]] bool other_secret() const { return other_secret_; }
  /// Says whether this store belongs to an earlier program. If so, the group meets at a later store of this
  /// address.
  [[nodiscard]] bool later() const { return later_; }
  /// Says whether the other side has proved that it is the store.
  [[nodiscard]] bool proved() const { return sealer_.has_value(); }

  /// Sends a request, and sets its id. Call it only if open() and no request is in flight.
  void begin(Request request, uint64_t deadline_ns);
  [[nodiscard]] bool in_flight() const { return in_flight_; }
  [[nodiscard]] std::optional<Reply> take_reply() { return std::exchange(reply_, std::nullopt); }

  [[nodiscard]] uint64_t deadline_ns() const { return in_flight_ ? deadline_ns_ : no_deadline; }
  void on_time(uint64_t now_ns);
  /// Records that a call about `key` waits for the request in flight, if there is one. From now on, that call's
  /// deadline applies to the request, and errors name `key`.
  void wait_behind(const std::string &key, uint64_t deadline_ns);
  /// Ends the request in flight as if its deadline had passed.
  void expire(uint64_t now_ns);

 private:
  enum class State { hello, entering, open, failed };

  void fail(rondo_status_t status, const std::string &what, int32_t peer = -1);
  void take_hello();
  void take_frames();
  void take_notice(Error error);
  void take_answer(Reply reply);
  void send(Request request);

  Secret secret_;
  wire::Challenge challenge_;
  std::string name_;
  std::optional<Membership> member_;
  StoreHost host_;
  State state_ = State::hello;
  std::optional<Error> failure_;
  std::optional<Error> notice_;
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
  bool refused_ = false;
  bool later_ = false;
  bool other_secret_ = false;
  bool cancelled_ = false;
};

}  // namespace rondo
