// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/network.h"

#include <algorithm>

#include "src/bootstrap/messages.h"
#include "src/bootstrap/store/client_session.h"
#include "src/bootstrap/store/hub.h"

namespace rondo::sim {
namespace {

constexpr uint64_t look_ns = 20 * ms;  // an end checks its deadlines at least this often
constexpr uint64_t farewell_ns = 1 * second;
constexpr uint64_t retry_ns = 20 * ms;

}  // namespace

/// A client. It uses its session like src/bootstrap/store/client.cpp, but without sockets.
class SimStore final : public RequestStore {
 public:
  SimStore(Network &network, std::shared_ptr<Network::Connection> connection, const Secret &secret,
           const wire::Challenge &challenge, const Membership &member)
      : network_(network),
        connection_(std::move(connection)),
        session_(secret, challenge, "the simulated store", member, StoreHost{.rank = 0}) {}
  ~SimStore() override { network_.close(connection_, true); }

  template <class Done>
  bool pump(const Done &done, uint64_t deadline_ns) {
    while (!done() && !session_.failure()) {  // ends at the deadline
      const uint64_t now = network_.scheduler_.now_ns();
      const uint32_t bell = connection_->bell;
      if (now >= deadline_ns) return false;
      session_.on_time(now);
      flush();
      if (done()) break;
      if (!receive_some()) network_.scheduler_.await(connection_->bell, bell, look_ns);
    }
    flush();
    return true;
  }
  [[nodiscard]] const StoreClientSession &session() const { return session_; }

  Result<void> check() override {
    while (!session_.failure() && receive_some()) {  // ends when no data is in flight, or the end has arrived
    }
    if (session_.notice()) return *session_.notice();
    if (session_.failure()) return *session_.failure();
    return {};
  }

 private:
  /// Receives data that has arrived. Returns false if none has.
  bool receive_some() {
    bool closed = false;
    const Bytes bytes = network_.receive(connection_->down, closed);
    if (!bytes.empty()) session_.receive(bytes);
    if (bytes.empty() && closed) session_.peer_closed();
    return !bytes.empty() || closed;
  }

  void flush() {
    const ByteView output = session_.output();
    if (output.empty()) return;
    network_.send(connection_, true, output);
    session_.sent(output.size());
  }

  Result<Reply> carry(Request request, uint64_t deadline_ns) override {
    if (session_.failure()) return broken();
    session_.begin(std::move(request), deadline_ns);
    (void)pump([this] { return !session_.in_flight(); }, never_ns);  // the session has the deadline
    if (session_.failure()) return broken();
    auto reply = session_.take_reply();
    if (!reply) return Error{RONDO_ERROR_INTERNAL, "the store's session ended without a reply"};
    return std::move(*reply);
  }

  /// Waits for the answer, since a simulated rank has nothing else to do.
  Result<std::optional<Reply>> ask(Request request) override {
    RONDO_TRY_ASSIGN(Reply reply, carry(std::move(request), network_.scheduler_.now_ns() + 1 * second));
    return std::optional<Reply>(std::move(reply));
  }

  void post(Request request) override {
    if (session_.failure() || session_.in_flight()) return;
    session_.begin(std::move(request), never_ns);
    flush();
  }

  [[nodiscard]] Error broken() const { return session_.notice() ? *session_.notice() : *session_.failure(); }

  Network &network_;
  std::shared_ptr<Network::Connection> connection_;
  StoreClientSession session_;
};

Network::Network(Scheduler &scheduler, Random random) : scheduler_(scheduler), random_(random) {
  for (std::byte &byte : secret_.bytes) byte = static_cast<std::byte>(random_.next());
}

void Network::cut(std::set<uint32_t> ranks, uint64_t until_ns) {
  cut_ = std::move(ranks);
  cut_until_ns_ = until_ns;
}

uint64_t Network::latency_ns() {
  return random_.chance(95) ? random_.between(5 * us, 300 * us) : random_.between(1 * ms, 60 * ms);
}

uint64_t Network::arrival_ns(const Connection &connection, const Pipe &pipe) {
  uint64_t arrives_ns = scheduler_.now_ns() + latency_ns();
  const bool severed = cut_.contains(connection.rank) != cut_.contains(0) && scheduler_.now_ns() < cut_until_ns_;
  if (severed) arrives_ns = cut_until_ns_ == never_ns ? never_ns : cut_until_ns_ + latency_ns();
  return std::max(arrives_ns, pipe.last_ns);
}

void Network::ring_at(uint64_t when_ns, const std::shared_ptr<Connection> &connection, bool up) {
  if (when_ns == never_ns) return;
  scheduler_.at(when_ns, [this, connection, up] {
    uint32_t &bell = up ? bell_ : connection->bell;
    ++bell;
    scheduler_.rouse(bell);
  });
}

void Network::send(const std::shared_ptr<Connection> &connection, bool up, ByteView bytes) {
  Pipe &pipe = up ? connection->up : connection->down;
  while (!bytes.empty()) {  // in pieces of any size, each with its own delay
    const auto piece = bytes.first(random_.chance(70) ? bytes.size() : random_.between(1, bytes.size()));
    pipe.last_ns = arrival_ns(*connection, pipe);
    ring_at(pipe.last_ns, connection, up);
    pipe.flying.emplace_back(pipe.last_ns, Bytes(piece.begin(), piece.end()));
    bytes = bytes.subspan(piece.size());
  }
}

void Network::close(const std::shared_ptr<Connection> &connection, bool up) {
  Pipe &pipe = up ? connection->up : connection->down;
  if (pipe.closed) return;
  pipe.closed = true;
  pipe.closed_ns = arrival_ns(*connection, pipe);
  ring_at(pipe.closed_ns, connection, up);
}

Bytes Network::receive(Pipe &pipe, bool &closed) {
  Bytes bytes;
  while (!pipe.flying.empty() && pipe.flying.front().first <= scheduler_.now_ns()) {
    bytes.insert(bytes.end(), pipe.flying.front().second.begin(), pipe.flying.front().second.end());
    pipe.flying.pop_front();
  }
  closed = pipe.closed && pipe.flying.empty() && scheduler_.now_ns() >= pipe.closed_ns;
  return bytes;
}

wire::Challenge Network::challenge() {
  wire::Challenge challenge;
  for (std::byte &byte : challenge) byte = static_cast<std::byte>(random_.next());
  return challenge;
}

void Network::serve_once(StoreHub &hub) {
  for (const auto &connection : connections_) {
    if (connection->over || connection->arrives_ns > scheduler_.now_ns()) continue;
    if (connection->number == 0) {
      if (!hub.can_accept()) continue;
      connection->number = hub.accept(challenge(), scheduler_.now_ns());
    }
    bool closed = false;
    const Bytes bytes = receive(connection->up, closed);
    if (!bytes.empty()) hub.receive(connection->number, bytes, scheduler_.now_ns());
    if (bytes.empty() && closed) {
      hub.closed(connection->number, scheduler_.now_ns());
      connection->over = true;
    }
  }
  hub.on_time(scheduler_.now_ns());
  static_cast<void>(hub.take_ready());
  for (const auto &connection : connections_) {
    if (connection->number == 0 || connection->over) continue;
    const ByteView output = hub.output(connection->number);
    if (output.empty()) continue;
    send(connection, false, output);
    hub.sent(connection->number, output.size(), scheduler_.now_ns());
  }
  for (const StoreHub::Cut &cut : hub.take_cut())
    for (const auto &connection : connections_)
      if (connection->number == cut.connection) {
        close(connection, false);
        connection->over = true;
      }
}

void Network::serve() {
  StoreHub hub(secret_);
  hub.hosted_by(0, scheduler_.now_ns());
  listening_ = was_there_ = true;
  while (!stopping_) {  // bounded by the life
    const uint32_t bell = bell_;
    serve_once(hub);
    scheduler_.await(bell_, bell, look_ns);
  }
  hub.end(scheduler_.now_ns());
  const uint64_t stop_ns = scheduler_.now_ns() + farewell_ns;
  do {  // bounded by the farewell
    const uint32_t bell = bell_;
    serve_once(hub);
    scheduler_.await(bell_, bell, hub.has_output() ? us : ms);
  } while ((hub.has_output() || hub.core().expects_ranks()) && scheduler_.now_ns() < stop_ns);
  server_died();
}

void Network::stop_server() {
  stopping_ = true;
  ++bell_;
  scheduler_.rouse(bell_);
}

void Network::server_died() {
  listening_ = false;
  stopping_ = true;
  for (const auto &connection : connections_) close(connection, false);
}

void Network::client_died(uint32_t rank) {
  for (const auto &connection : connections_)
    if (connection->rank == rank) close(connection, true);
}

Result<std::unique_ptr<Store>> Network::connect(uint32_t rank, uint32_t rank_count, uint64_t deadline_ns) {
  while (true) {  // ends at the deadline
    const bool severed = cut_.contains(rank) != cut_.contains(0) && scheduler_.now_ns() < cut_until_ns_;
    if (listening_ && !severed) {
      auto connection = std::make_shared<Connection>();
      connection->rank = rank;
      connection->arrives_ns = scheduler_.now_ns() + latency_ns();
      connections_.push_back(connection);
      ring_at(connection->arrives_ns, connection, true);
      auto store = std::make_unique<SimStore>(*this, connection, secret_, challenge(),
                                              Membership{"life", rank, rank_count});
      if (!store->pump([&] { return store->session().open(); }, deadline_ns))
        return Error{RONDO_ERROR_TIMEOUT, "the simulated store takes connections, but does not answer"};
      const auto &failure = store->session().failure();
      if (!failure) return std::unique_ptr<Store>(std::move(store));
      if (failure->status != RONDO_ERROR_REMOTE || store->session().refused()) return *failure;
    }
    if (was_there_ && !listening_)
      return Error{RONDO_ERROR_REMOTE, "nobody listens where the simulated store was: rank 0 has ended", -1, 0};
    if (scheduler_.now_ns() + retry_ns >= deadline_ns)
      return Error{RONDO_ERROR_TIMEOUT, "no simulated store within the deadline"};
    scheduler_.pause(retry_ns);
  }
}

}  // namespace rondo::sim
