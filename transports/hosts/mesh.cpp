// SPDX-License-Identifier: Apache-2.0
#include "transports/hosts/mesh.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "src/base/clock.h"
#include "src/bootstrap/bytes.h"
#include "src/bootstrap/endpoint.h"
#include "src/bootstrap/wire.h"

namespace rondo::hosts {
namespace {

constexpr uint32_t control_purpose = 0;  // 1 + i: socket i of data
uint32_t purpose_count(const MeshRequest &request) { return 1 + request.data_sockets(); }
uint32_t rail_of(const MeshRequest &request, uint32_t purpose) {
  return purpose == control_purpose ? 0 : (purpose - 1) % request.rail_count();
}

constexpr std::string_view mesh_magic = "RONDO\x02tm";
constexpr size_t hello_bytes = wire::magic_bytes + wire::challenge_bytes;
constexpr size_t answer_bytes = wire::challenge_bytes + wire::proof_bytes;
constexpr size_t claim_offset = wire::challenge_bytes - 8;  // rank u32 | purpose u32
constexpr uint64_t stranger_patience_ns = 5'000'000'000;
constexpr size_t strangers_max = 256;
constexpr int listen_backlog = 1024;
constexpr uint64_t retry_ns = 20'000'000;
constexpr uint64_t exchange_ns = 500'000'000;  // time for a visitor to prove itself, if no descriptor is left
constexpr uint64_t look_ms = 100;
constexpr uint64_t connect_patience_ns = 16'000'000'000;  // lost first packets come again after 1, 3, 7 and 15 s
constexpr uint64_t acceptor_more_ns = 2'000'000'000;       // so that the connecting end, which knows more, fails first

wire::Challenge challenge_of(uint32_t rank, uint32_t purpose) {
  wire::Challenge challenge = wire::random_challenge();
  Bytes claim;
  append_number(claim, rank);
  append_number(claim, purpose);
  std::copy(claim.begin(), claim.end(), challenge.begin() + claim_offset);
  return challenge;
}

int poll_timeout_ms(uint64_t until_ns) {
  const uint64_t now = now_ns();
  return until_ns <= now ? 0 : static_cast<int>(std::min<uint64_t>((until_ns - now) / 1'000'000 + 1, look_ms));
}

/// A wait for a peer ends at the deadline. It ends earlier if the store knows why the group cannot become complete.
struct Patience {
  uint64_t deadline_ns;
  Store &store;

  [[nodiscard]] Result<void> check() const {
    RONDO_TRY(store.check());
    if (now_ns() >= deadline_ns) return Error{RONDO_ERROR_TIMEOUT, "it did not answer in time"};
    return {};
  }
};

/// Sends or receives all bytes on a non-blocking socket.
template <class Transfer>
Result<void> transfer_all(int socket, short event, size_t bytes, const Patience &patience, const Transfer &transfer) {
  for (size_t done = 0; done < bytes;) {
    pollfd ready{socket, event, 0};
    ::poll(&ready, 1, poll_timeout_ms(patience.deadline_ns));
    const ssize_t moved = transfer(done);
    if (moved == 0) return Error{RONDO_ERROR_REMOTE, "it closed the connection"};
    if (moved > 0) done += static_cast<size_t>(moved);
    else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
      return Error{RONDO_ERROR_REMOTE, std::strerror(errno)};
    else RONDO_TRY(patience.check());
  }
  return {};
}

Result<void> send_all(int socket, ByteView bytes, const Patience &patience) {
  return transfer_all(socket, POLLOUT, bytes.size(), patience, [&](size_t done) {
    return ::send(socket, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
  });
}

Result<void> receive_all(int socket, std::span<std::byte> bytes, const Patience &patience) {
  return transfer_all(socket, POLLIN, bytes.size(), patience, [&](size_t done) {
    return ::recv(socket, bytes.data() + done, bytes.size() - done, 0);
  });
}

/// Connects to `address` from this host's address `from`. If `from` is empty, the system chooses it.
Result<FileDescriptor> connect_once(const SocketAddress &address, const std::string &from,
                                    const Congestion &congestion, const Patience &patience) {
  FileDescriptor socket(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return system_error("socket", errno);
  congestion.begin(socket.get());
  if (!from.empty()) {
    RONDO_TRY_ASSIGN(const SocketAddress own, socket_address({from, 0}));
    const int on = 1;  // a port is chosen with the other end's address, of which there are more than of ports
    static_cast<void>(::setsockopt(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on));
    if (::bind(socket.get(), own.get(), own.bytes) != 0) return system_error("bind to " + from, errno);
  }
  if (::connect(socket.get(), address.get(), address.bytes) == 0) return socket;
  if (errno != EINPROGRESS) return Error{RONDO_ERROR_REMOTE, std::strerror(errno)};
  pollfd ready{socket.get(), POLLOUT, 0};
  while (::poll(&ready, 1, poll_timeout_ms(patience.deadline_ns)) <= 0) RONDO_TRY(patience.check());
  int error = 0;
  socklen_t bytes = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  if (error != 0) return Error{RONDO_ERROR_REMOTE, std::strerror(error)};
  return socket;
}

/// Sets the interface of a link-local address to this host's interface, because its name differs between hosts.
Endpoint seen_from(const std::string &own, Endpoint endpoint) {
  const size_t own_scope = own.find('%'), scope = endpoint.host.find('%');
  if (own_scope != std::string::npos && scope != std::string::npos)
    endpoint.host.replace(scope, std::string::npos, own, own_scope);
  return endpoint;
}

/// Returns the keys for both directions of a connection. This rank is the `own` end of the handshake.
net::FrameKeys frame_keys(const MeshRequest &request, wire::Role own, const wire::Challenge &client,
                          const wire::Challenge &server) {
  const wire::Role other = own == wire::Role::client ? wire::Role::server : wire::Role::client;
  return {wire::frame_key(request.secret, own, client, server), wire::frame_key(request.secret, other, client, server)};
}

struct Connection {
  FileDescriptor socket;
  net::FrameKeys keys;
};

/// Connects and proves itself. With several rails, each socket binds its rail's address, so that routes differ.
Result<Connection> introduce(const MeshRequest &request, const Endpoint &endpoint, uint32_t purpose, Store &store) {
  const Patience patience{request.deadline_ns, store};
  const std::string &own_address = request.own_address(rail_of(request, purpose));
  RONDO_TRY_ASSIGN(const SocketAddress address, socket_address(seen_from(own_address, endpoint)));
  RONDO_TRY_ASSIGN(FileDescriptor socket, connect_once(address, request.rail_count() == 1 ? "" : own_address,
                                                       request.congestion, patience));
  const wire::Challenge own = challenge_of(request.rank, purpose);
  Bytes hello;
  append_bytes(hello, bytes_of(mesh_magic));
  append_bytes(hello, own);
  RONDO_TRY(send_all(socket.get(), hello, patience));
  std::array<std::byte, answer_bytes> answer;
  RONDO_TRY(receive_all(socket.get(), answer, patience));
  wire::Challenge theirs;
  std::copy_n(answer.begin(), theirs.size(), theirs.begin());
  if (!wire::equal_proof(wire::prove(request.secret, wire::Role::server, own, theirs),
                         ByteView(answer).subspan(theirs.size())))
    return Error{RONDO_ERROR_AUTHENTICATION, "what listens there does not know the job's secret"};
  RONDO_TRY(send_all(socket.get(), wire::prove(request.secret, wire::Role::client, own, theirs), patience));
  return Connection{std::move(socket), frame_keys(request, wire::Role::client, own, theirs)};
}

/// A connection that has not proved itself yet.
struct Visitor {
  FileDescriptor socket;
  uint64_t came_ns = 0;
  Bytes input;
  wire::Challenge own;
  wire::Challenge theirs;
  bool answered = false;
};

enum class VisitOutcome { pending, stranger, member };

/// Takes what has arrived. `input` never holds more bytes than a handshake has.
VisitOutcome advance(Visitor &visitor, const MeshRequest &request) {
  const size_t wanted = visitor.answered ? wire::proof_bytes : hello_bytes;
  std::array<std::byte, hello_bytes> buffer;
  const ssize_t got = ::recv(visitor.socket.get(), buffer.data(), wanted - visitor.input.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return VisitOutcome::pending;
  if (got <= 0) return VisitOutcome::stranger;
  append_bytes(visitor.input, ByteView(buffer).first(static_cast<size_t>(got)));
  if (visitor.input.size() < wanted) return VisitOutcome::pending;
  if (visitor.answered) {
    const auto proof = wire::prove(request.secret, wire::Role::client, visitor.theirs, visitor.own);
    return wire::equal_proof(proof, visitor.input) ? VisitOutcome::member : VisitOutcome::stranger;
  }
  if (text_of(ByteView(visitor.input).first(wire::magic_bytes)) != mesh_magic) return VisitOutcome::stranger;
  std::copy_n(visitor.input.begin() + wire::magic_bytes, visitor.theirs.size(), visitor.theirs.begin());
  visitor.own = wire::random_challenge();
  Bytes answer;
  append_bytes(answer, visitor.own);
  append_bytes(answer, wire::prove(request.secret, wire::Role::server, visitor.theirs, visitor.own));
  const ssize_t sent = ::send(visitor.socket.get(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  visitor.answered = true;
  visitor.input.clear();
  return sent == static_cast<ssize_t>(answer.size()) ? VisitOutcome::pending : VisitOutcome::stranger;
}

Result<FileDescriptor> listen_on(const std::string &host, const Congestion &congestion, Endpoint &bound) {
  RONDO_TRY_ASSIGN(SocketAddress address, socket_address({host, 0}));
  FileDescriptor listener(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return system_error("socket", errno);
  congestion.begin(listener.get());
  if (::bind(listener.get(), address.get(), address.bytes) != 0 || ::listen(listener.get(), listen_backlog) != 0)
    return system_error("listening on " + host + " for ranks of other hosts (RONDO_INTERFACE chooses)", errno);
  address.bytes = sizeof address.storage;
  if (::getsockname(listener.get(), address.get(), &address.bytes) != 0) return system_error("getsockname", errno);
  bound = endpoint_of(address);
  return listener;
}

/// Returns "rank 2 (host b, process 17)". With several rails the name includes the rail.
std::string name_of(const MeshRequest &request, uint32_t rank, uint32_t purpose) {
  const uint32_t rail = rail_of(request, purpose);
  const RankInfo &info = request.group.infos[rank];
  if (request.rail_count() == 1 || purpose == control_purpose) return info.describe(rank);
  return info.describe(rank) + " by rail " + std::to_string(rail) + ", from " + request.own_address(rail) + " to " +
         info.interfaces[rail].address;
}

void add_socket(const MeshRequest &request, Mesh &mesh, uint32_t peer, uint32_t purpose, FileDescriptor socket,
                const net::FrameKeys &keys) {
  request.congestion.settle(socket.get());
  std::string name = name_of(request, peer, purpose);
  if (purpose == control_purpose) return mesh.control.push_back({peer, std::move(socket), std::move(name), 0});
  mesh.data.push_back({peer, std::move(socket), std::move(name), purpose - 1, rail_of(request, purpose) != 0});
  if (request.settings.frame_tags) mesh.data.back().frame_keys = keys;
}

class Acceptor {
 public:
  Acceptor(const MeshRequest &request, std::vector<FileDescriptor> listeners, Store &store)
      : request_(request),
        listeners_(std::move(listeners)),
        store_(store),
        purpose_count_(purpose_count(request)) {}

  /// Accepts until every remote rank with a higher number has connected for each purpose.
  Result<void> run(Mesh &mesh) {
    size_t missing = 0;
    for (uint32_t peer = request_.rank + 1; peer < request_.rank_count; ++peer)
      for (uint32_t purpose = 0; purpose < purpose_count_; ++purpose) missing += request_.has(peer, purpose) ? 1 : 0;
    came_.resize(size_t{request_.rank_count} * purpose_count_);
    while (missing != 0) {
      RONDO_TRY(store_.check());
      if (now_ns() >= request_.deadline_ns) return name_missing(mesh);
      wait();
      for (const FileDescriptor &listener : listeners_) RONDO_TRY(accept_all(listener));
      for (Visitor &visitor : visitors_) {
        const VisitOutcome outcome = now_ns() - visitor.came_ns > stranger_patience_ns ? VisitOutcome::stranger
                                                                                       : advance(visitor, request_);
        if (outcome == VisitOutcome::member && admit(visitor, mesh)) --missing;
        if (outcome != VisitOutcome::pending) visitor.socket.reset();
      }
      std::erase_if(visitors_, [](const Visitor &visitor) { return !visitor.socket.valid(); });
    }
    return {};
  }

 private:
  void wait() {
    std::vector<pollfd> descriptors;
    const bool paused = now_ns() < accept_again_ns_;
    for (const FileDescriptor &listener : listeners_) descriptors.push_back({paused ? -1 : listener.get(), POLLIN, 0});
    for (const Visitor &visitor : visitors_) descriptors.push_back({visitor.socket.get(), POLLIN, 0});
    ::poll(descriptors.data(), descriptors.size(), poll_timeout_ms(paused ? accept_again_ns_ : request_.deadline_ns));
  }

  /// Accepts visitors. If descriptors run out, it closes the oldest visitors. Without any, no rank can join.
  Result<void> accept_all(const FileDescriptor &listener) {
    for (size_t count = 0; count < strangers_max; ++count) {
      FileDescriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      const int why = socket.valid() ? 0 : errno;
      pollfd waiting{listener.get(), POLLIN, 0};  // without a free descriptor accept() fails even if nobody waits
      if (why != 0 && (!ran_out(why) || ::poll(&waiting, 1, 0) <= 0)) return {};
      if (why != 0 && visitors_.empty()) return system_error("accept of a rank of another host", why);
      const bool waits = why != 0 && now_ns() - visitors_.front().came_ns < exchange_ns;
      if (waits) accept_again_ns_ = now_ns() + retry_ns;
      if (waits) return {};
      if (why != 0 || visitors_.size() >= strangers_max) visitors_.erase(visitors_.begin());
      if (why != 0) continue;
      visitors_.emplace_back();
      visitors_.back().socket = std::move(socket);
      visitors_.back().came_ns = now_ns();
    }
    return {};
  }

  /// Adds the visitor to the mesh. Returns false if its rank does not exist, or is connected already.
  bool admit(Visitor &visitor, Mesh &mesh) {
    const auto rank = number_at<uint32_t>(visitor.theirs.data() + claim_offset);
    const auto purpose = number_at<uint32_t>(visitor.theirs.data() + claim_offset + 4);
    if (rank <= request_.rank || rank >= request_.rank_count || !request_.has(rank, purpose)) return false;
    if (came_[size_t{rank} * purpose_count_ + purpose]) return false;
    came_[size_t{rank} * purpose_count_ + purpose] = true;
    add_socket(request_, mesh, rank, purpose, std::move(visitor.socket),
               frame_keys(request_, wire::Role::server, visitor.theirs, visitor.own));
    return true;
  }

  Error name_missing(const Mesh &mesh) const {
    Error error{RONDO_ERROR_TIMEOUT, ""};
    std::string here;
    for (uint32_t peer = request_.rank + 1; peer < request_.rank_count; ++peer) {
      uint32_t purpose = 0;
      const auto came = [&] { return came_[size_t{peer} * purpose_count_ + purpose]; };
      while (purpose < purpose_count_ && (!request_.has(peer, purpose) || came())) ++purpose;
      if (purpose == purpose_count_) continue;
      if (error.peer < 0) {
        error.peer = static_cast<int32_t>(peer);
        here = format_endpoint(mesh.endpoints[request_.rank][rail_of(request_, purpose)]);
      }
      error.message += (error.message.empty() ? "" : ", ") + request_.group.infos[peer].describe(peer);
    }
    error.message = "no connection arrived in time at " + here + " from " + error.message +
                    "; check the firewalls between the hosts, or choose the network with RONDO_INTERFACE";
    return error;
  }

  const MeshRequest &request_;
  const std::vector<FileDescriptor> listeners_;  ///< by rail
  Store &store_;
  const uint32_t purpose_count_;
  uint64_t accept_again_ns_ = 0;
  std::vector<Visitor> visitors_;
  std::vector<bool> came_;  ///< has it connected? [rank * purpose_count_ + purpose]
};

/// Exchanges the ports that the system has chosen. Returns the endpoints by rank and rail.
Result<std::vector<std::vector<Endpoint>>> exchange_ports(const MeshRequest &request, const std::vector<Endpoint> &own,
                                                          Store &store) {
  Bytes bytes;
  for (const Endpoint &endpoint : own) append_number(bytes, endpoint.port);
  RONDO_TRY_ASSIGN(const auto parts, store.gather(request.key_prefix + "/ports", request.rank, request.rank_count,
                                                  bytes, request.deadline_ns));
  std::vector<std::vector<Endpoint>> endpoints;
  for (uint32_t rank = 0; rank < request.rank_count; ++rank) {
    ByteReader reader(parts[rank]);
    std::vector<Endpoint> &of_rank = endpoints.emplace_back();
    for (const NetworkInterface &each : request.group.infos[rank].interfaces)
      of_rank.push_back({each.address, reader.number<uint16_t>()});
    if (!reader.complete() || of_rank.size() != own.size())
      return Error{RONDO_ERROR_MISMATCH, "ranks run different versions of Rondo"};
  }
  return endpoints;
}

Result<Connection> connect_peer(const MeshRequest &request, const Mesh &mesh, uint32_t peer, uint32_t purpose,
                                Store &store) {
  const uint32_t rail = rail_of(request, purpose);
  const Endpoint &theirs = mesh.endpoints[peer][rail];
  for (;;) {
    auto connection = introduce(request, theirs, purpose, store);
    if (connection.ok()) return connection;
    RONDO_TRY(store.check());  // the reason why the group fails is reported before its consequences
    Error error = std::move(connection).error();
    // If strangers have filled the listener's queue, it refuses or cuts connections. Then retry while there is time.
    if (error.status == RONDO_ERROR_REMOTE && now_ns() + retry_ns < request.deadline_ns) {
      sleep_for_ns(retry_ns);
      continue;
    }
    if (error.status == RONDO_ERROR_OUT_OF_RESOURCES) return error;  // concerns this rank, and not the peer
    error.peer = static_cast<int32_t>(peer);
    error.message = request.group.infos[request.rank].describe(request.rank) + " at " + request.own_address(rail) +
                    " cannot connect to " + request.group.infos[peer].describe(peer) + " at " +
                    format_endpoint(theirs) + ": " + error.message +
                    "; check the firewalls between the hosts, or choose the network with RONDO_INTERFACE";
    return error;
  }
}

}  // namespace

Result<Mesh> connect_mesh(const MeshRequest &request, Store &store) {
  Mesh mesh;
  std::vector<FileDescriptor> listeners;
  std::vector<Endpoint> own(request.rail_count());
  for (size_t rail = 0; rail < own.size(); ++rail) {
    const std::string &address = request.own_address(static_cast<uint32_t>(rail));
    RONDO_TRY_ASSIGN(FileDescriptor listener, listen_on(address, request.congestion, own[rail]));
    listeners.push_back(std::move(listener));
  }
  RONDO_TRY_ASSIGN(mesh.endpoints, exchange_ports(request, own, store));
  // All ranks listen by now, so a connection that does not succeed soon never succeeds.
  MeshRequest soon = request;
  soon.deadline_ns = std::min(request.deadline_ns, now_ns() + connect_patience_ns);
  // Until a rank has connected to all lower ranks, it waits for lower ranks only, so there is no circle.
  for (uint32_t peer = 0; peer < request.rank; ++peer) {
    for (uint32_t purpose = 0; purpose < purpose_count(request); ++purpose) {
      if (!request.has(peer, purpose)) continue;
      RONDO_TRY_ASSIGN(Connection connection, connect_peer(soon, mesh, peer, purpose, store));
      add_socket(request, mesh, peer, purpose, std::move(connection.socket), connection.keys);
    }
  }
  soon.deadline_ns = std::min(request.deadline_ns, soon.deadline_ns + acceptor_more_ns);
  RONDO_TRY(Acceptor(soon, std::move(listeners), store).run(mesh));
  return mesh;
}

}  // namespace rondo::hosts
