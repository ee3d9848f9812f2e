// SPDX-License-Identifier: Apache-2.0
// This class is the server's side of one connection, without I/O. It takes bytes and the time, and returns requests,
// bytes and a deadline.
//
// State      hello --40 good bytes / server hello sent--> proof --right proof--> open;  any of them --> cut.
// Cut        A session is cut at the first byte that cannot belong to a hello, at a wrong proof or tag, at a malformed
//            message, at a request while another one waits, or at a deadline. The handshake has 5 s from the start. A
//            frame that has begun has 30 s, and so has output that the client does not take. A cut session sends
//            nothing more and takes no bytes.
#pragma once

#include "src/bootstrap/messages.h"

namespace rondo {

inline constexpr uint64_t no_deadline = ~uint64_t{0};
inline constexpr uint64_t handshake_timeout_ns = 5'000'000'000;
inline constexpr uint64_t stall_timeout_ns = 30'000'000'000;

class StoreSession {
 public:
  /// Begins a session. `secret` must outlive it; `challenge` is new and random.
  StoreSession(const Secret &secret, const wire::Challenge &challenge, uint64_t now_ns);

  /// Takes bytes of the client, and appends the requests in them to `requests`. The caller must reply() to each of them
  /// except a cancel. A cancel has no reply of its own: the earlier request that it ends gets a reply.
  void receive(ByteView bytes, uint64_t now_ns, std::vector<Request> &requests);
  void reply(const Reply &reply, uint64_t now_ns);  ///< also sends a notice, at any time

  /// Returns the bytes to send. sent() removes the first of them.
  [[nodiscard]] ByteView output() const { return ByteView(output_).subspan(sent_bytes_); }
  void sent(size_t bytes, uint64_t now_ns);

  /// Returns when on_time() must be called, or no_deadline.
  [[nodiscard]] uint64_t deadline_ns() const;
  void on_time(uint64_t now_ns);

  [[nodiscard]] bool greeted() const { return state_ == State::proof; }  ///< the client has sent a hello, but no proof
  [[nodiscard]] bool authenticated() const { return state_ == State::open; }
  [[nodiscard]] bool cut() const { return state_ == State::cut; }
  [[nodiscard]] bool other_secret() const { return other_secret_; }  ///< it was cut, as the client has another secret
  [[nodiscard]] const char *cut_reason() const { return cut_reason_; }  ///< for the log; "" if it was not cut
  [[nodiscard]] size_t buffered_bytes() const { return input_.size(); }

 private:
  enum class State { hello, proof, open, cut };

  void cut(const char *reason);
  void take_hello(ByteView &bytes, uint64_t now_ns);
  void take_proof(ByteView &bytes);
  void take_frames(ByteView bytes, uint64_t now_ns, std::vector<Request> &requests);
  void take_request(ByteView body, std::vector<Request> &requests);
  void queue_output(ByteView bytes, uint64_t now_ns);

  const Secret *secret_;
  wire::Challenge challenge_;
  wire::Challenge client_challenge_{};
  State state_ = State::hello;
  const char *cut_reason_ = "";
  std::optional<wire::FrameOpener> opener_;
  std::optional<wire::FrameSealer> sealer_;
  Bytes input_;   ///< before `open` at most a hello, then at most a frame
  Bytes output_;  ///< at most a server hello, two notices and one reply, as the client has one request at a time
  size_t sent_bytes_ = 0;
  uint64_t handshake_deadline_ns_;
  uint64_t frame_deadline_ns_ = no_deadline;
  uint64_t output_deadline_ns_ = no_deadline;
  uint64_t last_id_ = 0;
  bool busy_ = false;       ///< true: request last_id_ is not answered yet
  bool cancelled_ = false;  ///< true: a cancel of that request has arrived
  bool other_secret_ = false;
};

}  // namespace rondo
