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
#include "transports/hosts/mesh_parts.h"

namespace rondo::hosts {
namespace {

constexpr int listen_backlog = 1024;
constexpr uint64_t connect_patience_ns = 16'000'000'000;  // lost first packets come again after 1, 3, 7 and 15 s
constexpr uint64_t patience_per_host_ns = 100'000'000;    // a rank connects to ranks one by one, and cores may be few
constexpr uint64_t acceptor_more_ns = 2'000'000'000;       // so that the connecting end, which knows more, fails first

wire::Challenge challenge_of(uint32_t rank, uint32_t purpose) {
  wire::Challenge challenge = wire::random_challenge();
  Bytes claim;
  append_number(claim, rank);
  append_number(claim, purpose);
  std::copy(claim.begin(), claim.end(), challenge.begin() + claim_offset);
  return challenge;
}

/// The limits of a wait for a peer: a deadline, and the store, which may know that the group cannot be complete.
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
    const int on = 1;  // the system then chooses the port in connect(), and connections to many ends can share it
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

struct Connection {
  FileDescriptor socket;
  net::FrameKeys keys;
};

/// Connects, and proves to the peer that this rank knows the secret. With several rails, binds the rail's address.
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
    // If strangers have filled the listener's queue, it refuses or cuts connections. So retry while there is time.
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

/// Connects to all lower ranks, from the next one down. So in each step, every rank accepts a connection from another
/// rank, and no listener's queue grows.
Result<void> connect_lower(const MeshRequest &request, Mesh &mesh, Store &store) {
  for (uint32_t peer = request.rank; peer-- > 0;)
    for (uint32_t purpose = 0; purpose < purpose_count(request); ++purpose) {
      if (!request.has(peer, purpose)) continue;
      RONDO_TRY_ASSIGN(Connection connection, connect_peer(request, mesh, peer, purpose, store));
      add_socket(request, mesh, peer, purpose, std::move(connection.socket), connection.keys);
    }
  return {};
}

}  // namespace

int poll_timeout_ms(uint64_t until_ns) {
  constexpr uint64_t look_ms = 100;
  const uint64_t now = now_ns();
  return until_ns <= now ? 0 : static_cast<int>(std::min<uint64_t>((until_ns - now) / 1'000'000 + 1, look_ms));
}

net::FrameKeys frame_keys(const MeshRequest &request, wire::Role own, const wire::Challenge &client,
                          const wire::Challenge &server) {
  const wire::Role other = own == wire::Role::client ? wire::Role::server : wire::Role::client;
  return {wire::frame_key(request.secret, own, client, server), wire::frame_key(request.secret, other, client, server)};
}

void add_socket(const MeshRequest &request, Mesh &mesh, uint32_t peer, uint32_t purpose, FileDescriptor socket,
                const net::FrameKeys &keys) {
  request.congestion.settle(socket.get());
  std::string name = name_of(request, peer, purpose);
  if (purpose == control_purpose) return mesh.control.push_back({peer, std::move(socket), std::move(name), 0});
  mesh.data.push_back({peer, std::move(socket), std::move(name), purpose - 1, rail_of(request, purpose) != 0});
  if (request.settings.frame_tags) mesh.data.back().frame_keys = keys;
}

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
  const uint64_t patience_ns = connect_patience_ns + request.group.node_count() * patience_per_host_ns;
  soon.deadline_ns = std::min(request.deadline_ns, now_ns() + patience_ns);
  MeshRequest later = soon;
  later.deadline_ns = std::min(request.deadline_ns, soon.deadline_ns + acceptor_more_ns);
  Acceptor acceptor(later, std::move(listeners), mesh);
  RONDO_TRY(acceptor.start());
  RONDO_TRY(connect_lower(soon, mesh, store));
  RONDO_TRY(acceptor.finish(mesh, store));
  return mesh;
}

}  // namespace rondo::hosts
