// SPDX-License-Identifier: Apache-2.0
#include "tests/net/host_ring.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "src/base/clock.h"
#include "tests/catch.h"

namespace rondo::net_test {
namespace {

constexpr size_t under_way_max = 20;  // of cells each way of a connection
constexpr uint64_t silence_ns = 1'000'000'000, silence_more_ns = 400'000'000;

std::array<FileDescriptor, 2> socket_pair() {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  // More than a host that says nothing is sent, so that it is not the socket that stops it.
  const int bytes = 400'000;
  for (const int end : ends) REQUIRE(::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

net::CellKind kind_of(const Bytes &cell) {
  ByteReader reader(cell);
  static_cast<void>(reader.number<uint32_t>());
  return static_cast<net::CellKind>(reader.number<uint32_t>());
}

}  // namespace

std::vector<uint32_t> ranks_of(const std::vector<bool> &part, bool which, uint32_t per_host) {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < part.size() * per_host; ++rank)
    if (part[rank / per_host] == which) ranks.push_back(rank);
  return ranks;
}

HostRing::HostRing(const Plan &plan)
    : plan_(plan),
      overlay_(plan.hosts, plan.mesh_max),
      random_(plan.seed),
      hosts_(plan.hosts),
      clocks_(plan.hosts),
      now_ns_(now_ns()) {
  const uint32_t rank_count = plan.hosts * plan.per_host;
  std::vector<std::vector<FileDescriptor>> sockets(plan.hosts);  // by host and host
  for (auto &of_host : sockets) of_host.resize(plan.hosts);
  for (uint32_t one = 0; one < plan.hosts; ++one)
    for (const uint32_t other : overlay_.neighbours(one)) {
      if (other < one) continue;
      auto [one_end, switch_one] = socket_pair();
      auto [other_end, switch_other] = socket_pair();
      sockets[one][other] = std::move(one_end);
      sockets[other][one] = std::move(other_end);
      Line &line = lines_.emplace_back();
      line.host = {one, other};
      line.ends = {std::move(switch_one), std::move(switch_other)};
    }
  for (uint32_t host = 0; host < plan.hosts; ++host) {
    hosts_[host].ranks = std::make_unique<SceneRanks>(plan.per_host);
    const FileDescriptor file = net::ControlMemory::create(plan.hosts, rank_count).value();
    const FileDescriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    for (uint32_t index = 0; index < plan.per_host; ++index) {
      net::Control::Parts parts;
      parts.rank = host * plan.per_host + index;
      for (uint32_t rank = 0; rank < rank_count; ++rank) parts.host_of.push_back(rank / plan.per_host);
      parts.local = hosts_[host].ranks.get();
      parts.share.memory = net::ControlMemory::map(file.get(), plan.hosts, rank_count).value();
      parts.share.bell.reset(::dup(bell.get()));
      parts.share.sockets.resize(plan.hosts);
      for (const uint32_t other : overlay_.neighbours(host)) {
        parts.share.sockets[other].reset(::dup(sockets[host][other].get()));
        REQUIRE(parts.share.sockets[other].valid());
      }
      if (host != 0) parts.clock_measured = [this, host](const ClockOffset &offset) { clocks_[host] = offset; };
      parts.mesh_max = plan.mesh_max;
      hosts_[host].controls.push_back(std::make_unique<net::Control>(std::move(parts)));
    }
  }
}

void HostRing::step() {
  now_ns_ += ring_step_ns;
  std::vector<uint32_t> order(plan_.hosts);
  for (uint32_t host = 0; host < plan_.hosts; ++host) order[host] = host;
  std::shuffle(order.begin(), order.end(), random_);
  for (const uint32_t host : order)
    if (running(host))
      for (const auto &control : hosts_[host].controls) control->step(now_ns_);
  for (Line &line : lines_)
    for (const uint32_t side : {0u, 1u}) {
      take_in(line, side);
      hand_out(line, 1 - side);
    }
}

/// Takes in what the host of this side has sent.
void HostRing::take_in(Line &line, uint32_t side) {
  Way &way = line.ways[side];
  Bytes cell(net::cell_bytes);
  while (line.ends[side].valid() && way.cells.size() < under_way_max) {
    const ssize_t got = ::recv(line.ends[side].get(), cell.data(), cell.size(), 0);
    line.closed[side] |= got == 0;
    if (got != static_cast<ssize_t>(cell.size())) return;
    if (way.cut || drops(line.host[side], cell)) continue;
    count(line.host[side], line.host[1 - side], cell);
    const uint64_t earliest_ns = way.cells.empty() ? now_ns_ : way.cells.back().first;
    const uint64_t arrives_ns = std::max(earliest_ns, now_ns_ + random_() % 3 * ring_step_ns);
    for (uint32_t copy = 0; copy < (plan_.defect == RingDefect::all_twice ? 2 : 1); ++copy)
      way.cells.emplace_back(arrives_ns, cell);
  }
}

/// Hands out what has arrived for the host of this side, and the end of the connection.
void HostRing::hand_out(Line &line, uint32_t side) {
  Way &way = line.ways[1 - side];
  FileDescriptor &end = line.ends[side];
  while (end.valid() && !way.cells.empty() && way.cells.front().first <= now_ns_) {
    const Bytes &cell = way.cells.front().second;
    if (::send(end.get(), cell.data(), cell.size(), MSG_NOSIGNAL) < 0) break;  // full, or nobody is there
    way.cells.pop_front();
  }
  const bool told = line.ends_ns[side] != 0 && now_ns_ >= line.ends_ns[side];
  if (told || (line.closed[1 - side] && way.cells.empty() && !way.cut)) end.reset();
}

void HostRing::count(uint32_t from, uint32_t to, const Bytes &cell) {
  ++carried_[{from, to}];
  ByteReader reader(cell);
  for (int skipped = 0; skipped < 2; ++skipped) static_cast<void>(reader.number<uint32_t>());
  if (kind_of(cell) == net::CellKind::down) {
    const uint64_t host = reader.number<uint32_t>(), ends = reader.number<uint32_t>();
    ++told_[{from, to, {UINT64_MAX, host, ends}}];
  }
  if (kind_of(cell) == net::CellKind::ask) ++questions_;
  if (kind_of(cell) != net::CellKind::status) return;
  const auto ranks = reader.number<uint32_t>();
  for (uint32_t each = 0; each < ranks; ++each) {
    const uint64_t rank = reader.number<uint32_t>(), state = reader.number<uint32_t>();
    const auto entered = reader.number<uint64_t>(), completed = reader.number<uint64_t>();
    if (rank / plan_.per_host == from) continue;  // heartbeats
    ++told_[{from, to, {rank, state, entered, completed}}];
    ++passed_on_;
  }
}

bool HostRing::drops(uint32_t from, const Bytes &cell) const {
  if (plan_.defect == RingDefect::no_downs) return kind_of(cell) == net::CellKind::down;
  if (plan_.defect != RingDefect::no_passing_on || kind_of(cell) != net::CellKind::status) return false;
  ByteReader reader(cell);
  for (int skipped = 0; skipped < 3; ++skipped) static_cast<void>(reader.number<uint32_t>());
  return reader.number<uint32_t>() / plan_.per_host != from;
}

bool HostRing::all_met() {
  for (uint32_t rank = 0; rank < plan_.hosts * plan_.per_host; ++rank)
    for (uint32_t peer = 0; peer < plan_.hosts * plan_.per_host; ++peer)
      if (peer / plan_.per_host != rank / plan_.per_host && control(rank).status(peer).state != RankState::alive)
        return false;
  return true;
}

void HostRing::kill(uint32_t host) { hosts_[host].controls.clear(); }

void HostRing::leave(uint32_t host) {
  std::ranges::fill(hosts_[host].ranks->states, RankState::left);
  for (const auto &control : hosts_[host].controls) control->tell_leaving();
  hosts_[host].controls.clear();
}

HostRing::Line &HostRing::line_between(uint32_t one, uint32_t other, uint32_t &side) {
  const auto found = std::ranges::find_if(lines_, [&](const Line &line) {
    return line.host == std::array{one, other} || line.host == std::array{other, one};
  });
  REQUIRE(found != lines_.end());
  side = found->host[0] == one ? 0 : 1;
  return *found;
}

void HostRing::cut(uint32_t from, uint32_t to) {
  uint32_t side = 0;
  Line &line = line_between(from, to, side);
  line.ways[side].cut = true;
  line.ways[side].cells.clear();
  for (uint64_t &ends_ns : line.ends_ns)
    if (ends_ns == 0) ends_ns = now_ns_ + silence_ns + random_() % silence_more_ns;
}

void HostRing::cut_in_two(const std::vector<bool> &part, bool one_way) {
  for (uint32_t one = 0; one < plan_.hosts; ++one)
    for (const uint32_t other : overlay_.neighbours(one))
      if (part[one] != part[other] && (!one_way || part[one])) cut(one, other);
}

void HostRing::say(uint32_t neighbour, uint32_t host, const net::Cell &cell) {
  uint32_t side = 0;
  Line &line = line_between(neighbour, host, side);
  line.ways[side].cells.emplace_back(now_ns_, Bytes(cell.bytes().begin(), cell.bytes().end()));
}

std::optional<std::vector<uint32_t>> HostRing::dead_to(const std::vector<bool> &part) {
  std::optional<std::vector<uint32_t>> common;
  for (uint32_t host = 0; host < plan_.hosts; ++host) {
    if (!part[host] || !running(host)) continue;
    for (const auto &control : hosts_[host].controls) {
      std::vector<uint32_t> dead;
      control->add_dead(dead);
      if (common && *common != dead) return std::nullopt;
      common = dead;
    }
  }
  return common;
}

uint32_t HostRing::most_carried_to(uint32_t host) const {
  uint32_t most = 0;
  for (const auto &[ends, count] : carried_)
    if (ends.second == host) most = std::max(most, count);
  return most;
}

uint32_t HostRing::most_repeated() const {
  uint32_t most = 0;
  for (const auto &[what, count] : told_) most = std::max(most, count);
  return most;
}

}  // namespace rondo::net_test
