// SPDX-License-Identifier: Apache-2.0
// This file implements the socket and the polling of a store's client. The StoreClientSession inside makes all
// decisions.
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "src/base/clock.h"
#include "src/base/unique_handle.h"
#include "src/bootstrap/messages.h"
#include "src/bootstrap/resolver.h"
#include "src/bootstrap/store/client_session.h"

namespace rondo {
namespace {

constexpr uint64_t retry_first_ns = 5'000'000;
constexpr uint64_t retry_max_ns = 100'000'000;
// A busy listener drops the first packet of a connection, and the kernel repeats it only after 1 s, 3 s and 7 s. So the
// client gives up early and connects anew. Later attempts take longer, because slow networks need the time.
constexpr uint64_t attempt_first_ns = 500'000'000;
constexpr uint64_t attempt_max_ns = 8'000'000'000;
constexpr uint64_t refusal_patience_ns = 1'000'000'000;  // if refusals last this long, a store that ran has ended
constexpr uint64_t question_interval_ns = 500'000'000;  // long, because many ranks may ask one store
constexpr size_t read_bytes = 64u << 10;

Error aborted() { return {RONDO_ERROR_ABORTED, "it was aborted here before the communicator was made"}; }

class Client final : public RequestStore {
 public:
  Client(FileDescriptor socket, const Secret &secret, std::string name, const std::optional<Membership> &member,
         const StoreHost &host, const Cancel *cancel)
      : socket_(std::move(socket)),
        cancel_(cancel),
        session_(secret, wire::random_challenge(), std::move(name), member, host) {}

  /// Sends and receives until `done()` is true or the session fails. Returns false if the deadline passes first. If the
  /// client is cancelled, the request in flight ends as at its deadline. A handshake then ends at once, unless this
  /// side has proved itself. After the proof it continues, so that this rank enters the group and the store can report
  /// the rank's end.
  template <class Done>
  bool pump(const Done &done, uint64_t deadline_ns) {
    while (!done() && !session_.failure()) {  // ends at the deadline
      const uint64_t now = now_ns();
      if (now >= deadline_ns) return false;
      const bool ends = cancelled();
      if (ends && !session_.proved()) return false;
      if (ends && session_.open()) session_.expire(now);
      if (ends && !session_.open()) deadline_ns = std::min(deadline_ns, now + cancel_grace_ns);  // later rounds keep it
      session_.on_time(now);
      if (!send_some() || done()) continue;
      const short events = static_cast<short>(session_.output().empty() ? POLLIN : POLLIN | POLLOUT);
      uint64_t until_ns = std::min(deadline_ns, session_.deadline_ns());
      if (idle_work_) {
        idle_work_();
        until_ns = std::min(until_ns, now_ns() + IdleWork::interval_ns);
      }
      if (wait_for(socket_.get(), events, until_ns, ends || parting_ ? nullptr : cancel_)) (void)receive_some();
    }
    return true;
  }

  [[nodiscard]] Result<void> check() override {
    while (!session_.failure() && receive_some()) {  // ends when the socket is empty or closed
    }
    if (cancelled()) return aborted();
    if (session_.notice()) return *session_.notice();
    if (session_.failure()) return *session_.failure();
    return {};
  }

  [[nodiscard]] std::string own_address() const override {
    const auto here = own_end(socket_.get());
    return here ? here->host : "";
  }

  [[nodiscard]] bool is_on_this_host() const override { return stays_on_host(socket_.get()); }

  std::function<void()> set_idle_work(std::function<void()> work) override {
    return std::exchange(idle_work_, std::move(work));
  }

  [[nodiscard]] bool gone() const override { return session_.failure() && !session_.notice() && !cancelled(); }

  [[nodiscard]] const StoreClientSession &session() const { return session_; }

  /// Reports to a store that its secret is another one. The report has no other information.
  void report_other_secret() const {
    if (!session_.other_secret()) return;
    static_cast<void>(::send(socket_.get(), wire::other_secret.data(), wire::other_secret.size(), MSG_NOSIGNAL) < 0);
  }

  /// Sends the rest of the handshake.
  void finish_handshake(uint64_t deadline_ns) {
    (void)pump([this] { return session_.output().empty(); }, deadline_ns);
  }

 private:
  /// Receives once. Returns false if nothing has arrived, or the connection has ended and the session has noted it.
  bool receive_some() {
    const ssize_t count = ::recv(socket_.get(), buffer_.data(), buffer_.size(), 0);
    if (count > 0) {
      session_.receive(ByteView(buffer_).first(static_cast<size_t>(count)));
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      session_.peer_closed();
    }
    return count > 0;
  }

  /// Sends the output. Returns false if the connection is broken; then the session has recorded the failure.
  bool send_some() {
    while (!session_.output().empty()) {  // ends: the output shrinks, or the socket is full
      const ByteView output = session_.output();
      const ssize_t count = ::send(socket_.get(), output.data(), output.size(), MSG_NOSIGNAL);
      if (count >= 0) {
        session_.sent(static_cast<size_t>(count));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return true;
      } else if (errno != EINTR) {
        while (!session_.failure() && receive_some()) {  // the last bytes of the other side give the reason
        }
        session_.peer_closed();
        return false;
      }
    }
    return true;
  }

  Result<Reply> carry(Request request, uint64_t deadline_ns) override {
    if (session_.failure()) return broken();
    parting_ = request.kind == Request::Kind::leave;
    if (cancelled()) return aborted();
    end_question(request.key, deadline_ns);
    if (cancelled()) return aborted();
    if (session_.failure()) return broken();
    session_.begin(std::move(request), deadline_ns);
    (void)pump([this] { return !session_.in_flight(); }, no_deadline);  // the session checks the deadline
    if (cancelled()) return aborted();
    if (session_.failure()) return broken();
    auto reply = session_.take_reply();
    if (!reply) return Error{RONDO_ERROR_INTERNAL, "the store's session ended without a reply"};
    return std::move(*reply);
  }

  Result<std::optional<Reply>> ask(Request request) override {
    RONDO_TRY(check());  // also receives
    std::optional<Reply> reply = session_.take_reply();
    keep_value(reply);
    if (asked_ == request.key) {
      if (answer_) return answer_;
      if (reply && reply->kind == Reply::Kind::failure) return reply;
    }
    if (!session_.in_flight() && now_ns() >= next_question_ns_) {
      next_question_ns_ = now_ns() + question_interval_ns;
      asked_ = request.key;
      answer_.reset();
      session_.begin(std::move(request), no_deadline);
    }
    (void)send_some();
    return std::optional<Reply>();
  }

  /// Keeps the reply if it is a value, because values never change. A reply without a value is not kept.
  void keep_value(const std::optional<Reply> &reply) {
    if (reply && reply->kind == Reply::Kind::value) answer_ = reply;
  }

  /// Waits for the reply to the question in flight, before the caller sends a request about `key`: a client has one
  /// request at a time. If the client is cancelled, the function returns although the question is in flight.
  void end_question(const std::string &key, uint64_t deadline_ns) {
    while (session_.in_flight() && receive_some()) {  // ends when the socket is empty or closed
    }
    session_.wait_behind(key, deadline_ns);
    (void)pump([this] { return !session_.in_flight() || cancelled(); }, no_deadline);  // see wait_behind()
    keep_value(session_.take_reply());
  }

  void post(Request request) override {
    if (!session_.member() || session_.failure()) return;
    parting_ = true;
    end_question(request.key, now_ns() + farewell_ns);
    if (session_.failure()) return;
    session_.begin(std::move(request), no_deadline);
    (void)send_some();
  }

  /// Says whether the client was cancelled. A goodbye ignores that, so that it is still sent.
  [[nodiscard]] bool cancelled() const { return requested(cancel_) && !parting_; }

  /// Returns the group's failure if it has one, otherwise the session's. The group's failure comes first: the store
  /// closes the connection because of it.
  [[nodiscard]] Error broken() const { return session_.notice() ? *session_.notice() : *session_.failure(); }

  FileDescriptor socket_;
  const Cancel *cancel_;
  bool parting_ = false;         ///< leave() was called
  std::string asked_;            ///< the key of the latest question
  std::optional<Reply> answer_;  ///< the value of that key, if it has arrived
  uint64_t next_question_ns_ = 0;
  std::function<void()> idle_work_;
  StoreClientSession session_;
  std::array<std::byte, read_bytes> buffer_;
};

/// Connects to one store.
class Connector {
 public:
  Connector(const Endpoint &endpoint, const Secret &secret, const std::optional<Membership> &member,
            const StoreHost &host, const Cancel *cancel)
      : resolver_(endpoint),
        name_(format_endpoint(endpoint)),
        secret_(secret),
        member_(member),
        host_(host),
        cancel_(cancel) {}

  Result<std::unique_ptr<Store>> connect(uint64_t deadline_ns) {
    uint64_t attempt_ns = attempt_first_ns;
    const uint64_t end_ns = std::min(deadline_ns, host_.attempts_end_ns);
    // The loop ends at end_ns. Once a store has accepted this rank, it may answer until the deadline.
    for (uint64_t pause_ns = retry_first_ns;; pause_ns = std::min(2 * pause_ns, retry_max_ns)) {
      if (requested(cancel_)) return aborted();
      const uint64_t begun_ns = now_ns();
      Attempt attempt = attempt_at_next_address(std::min(end_ns, begun_ns + attempt_ns));
      note_refusal(attempt, begun_ns);
      note_absence(attempt);
      if (attempt.socket.valid()) {
        auto client = shake_hands(attempt, std::min(end_ns, begun_ns + attempt_ns), deadline_ns);
        if (client != nullptr) return std::unique_ptr<Store>(std::move(client));
      }
      if (!attempt.again) return requested(cancel_) ? aborted() : attempt.error;
      if (gone_) return store_gone();
      if (stranger_ && foreign_count_ >= resolver_.address_count()) return *stranger_;
      last_ = attempt.error.message;
      const uint64_t now = now_ns();
      if (now + pause_ns >= end_ns) return timed_out();
      if (now >= begun_ns + attempt_ns) attempt_ns = std::min(2 * attempt_ns, attempt_max_ns);
      sleep_for_ns(pause_ns);
    }
  }

  /// Says whether a store was found whose group has failed.
  [[nodiscard]] bool was_refused() const { return was_refused_; }

 private:
  /// Tries the next address. Once the store was found at an address, that address is kept.
  Attempt attempt_at_next_address(uint64_t deadline_ns) {
    if (!was_there_) {
      const auto next = resolver_.next(now_ns());
      if (!next.ok()) return {{}, resolver_.is_name(), false, next.error()};
      address_ = next.value();
    }
    return attempt_connect(address_, name_, deadline_ns, cancel_);
  }

  /// Makes the handshake. If the result is null, `attempt` says why, and whether to try again.
  std::unique_ptr<Client> shake_hands(Attempt &attempt, uint64_t attempt_deadline_ns, uint64_t deadline_ns) {
    auto client = std::make_unique<Client>(std::move(attempt.socket), secret_, name_, member_, host_, cancel_);
    const StoreClientSession &session = client->session();
    // Once this side has proved itself, the store treats the end of the connection as the rank's death. So from then on
    // the client waits until the deadline.
    bool open = client->pump([&] { return session.proved(); }, std::min(deadline_ns, attempt_deadline_ns));
    if (open) open = client->pump([&] { return session.open(); }, deadline_ns);
    awaits_later_ = awaits_later_ || session.later();
    was_there_ = !awaits_later_ && (was_there_ || session.proved());
    if (open) client->finish_handshake(deadline_ns);
    const auto &failure = client->session().failure();
    client->report_other_secret();
    was_refused_ = session.refused();
    if (open && !failure) return client;
    attempt.error = failure ? *failure : Error{RONDO_ERROR_TIMEOUT, "it takes connections, but does not answer"};
    // Try again if a busy or ending server closed the connection, but not if it has reported the group's failure.
    attempt.again = !failure || (failure->status == RONDO_ERROR_REMOTE && !client->session().refused());
    // Another host may have one of the addresses of the store's host.
    if (failure && failure->status == RONDO_ERROR_AUTHENTICATION) {
      stranger_ = *failure;
      gone_ = host_.has_secret && !session.proved();
      attempt.again = gone_ || ++foreign_count_ < resolver_.address_count();
    }
    return nullptr;
  }

  /// Counts addresses without a listening process. Other failures may mean a busy store, so they restart the count.
  void note_absence(const Attempt &attempt) {
    if (attempt.socket.valid()) return;
    if (attempt.refused) {
      ++foreign_count_;
    } else {
      foreign_count_ = 0;
      stranger_.reset();
    }
  }

  void note_refusal(const Attempt &attempt, uint64_t at_ns) {
    if (!attempt.refused) {
      refused_since_ns_ = no_deadline;
      return;
    }
    refused_since_ns_ = std::min(refused_since_ns_, at_ns);
    gone_ = (was_there_ || host_.runs_already) && at_ns - refused_since_ns_ >= refusal_patience_ns;
  }

  /// Returns a name for the process that runs the store.
  [[nodiscard]] std::string host_text() const {
    return host_.name + (host_.rank < 0 ? "" : " (rank " + std::to_string(host_.rank) + ")");
  }

  [[nodiscard]] Error store_gone() const {
    const std::string listens = stranger_ ? "another program listens at " : "no process listens at ";
    return {RONDO_ERROR_REMOTE,
            listens + name_ + ", where the store was: " + host_text() + " has ended, or given up" +
                (was_there_ || is_loopback(address_)
                     ? ""
                     : "; if this host has the same address, such as docker0's, set RONDO_INTERFACE on both"),
            -1, host_.rank};
  }

  [[nodiscard]] Error timed_out() const {
    const std::string why = last_.empty() ? "" : " (" + last_ + ")";
    return {RONDO_ERROR_TIMEOUT,
            "no store at " + name_ + " within the deadline" + why + "; does " + host_text() +
                " run, is the address reachable from here, and do firewalls allow the port?" +
                (host_.runs_already ? " RONDO_INTERFACE chooses the address, on the host of the store" : ""),
            -1, host_.rank};
  }

  Resolver resolver_;
  SocketAddress address_;
  std::string name_;
  const Secret &secret_;
  const std::optional<Membership> &member_;
  const StoreHost &host_;
  const Cancel *cancel_;
  std::string last_;
  uint64_t refused_since_ns_ = no_deadline;
  bool was_there_ = false;
  bool awaits_later_ = false;  ///< an ending program's store refused this rank; the next store may start late
  bool was_refused_ = false;
  size_t foreign_count_ = 0;       ///< attempts in a row that found no process, or a process without the secret
  std::optional<Error> stranger_;  ///< the latest error of a store that does not know the secret
  bool gone_ = false;
};

}  // namespace

Result<std::unique_ptr<Store>> connect_store(const Endpoint &endpoint, const Secret &secret, uint64_t deadline_ns,
                                             const std::optional<Membership> &member, const StoreHost &host,
                                             const Cancel *cancel, bool *absent) {
  Connector connector(endpoint, secret, member, host, cancel);
  auto store = connector.connect(deadline_ns);
  if (absent != nullptr) *absent = !store.ok() && !connector.was_refused() && !requested(cancel);
  return store;
}

}  // namespace rondo
