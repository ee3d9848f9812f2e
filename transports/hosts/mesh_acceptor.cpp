// SPDX-License-Identifier: Apache-2.0
// This file accepts the connections of ranks on other hosts. Strangers may connect, too, and are cut.
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <new>

#include "src/base/clock.h"
#include "src/base/start_thread.h"
#include "src/bootstrap/bytes.h"
#include "src/bootstrap/endpoint.h"
#include "transports/hosts/mesh_parts.h"

namespace rondo::hosts {
namespace {

constexpr uint64_t stranger_patience_ns = 5'000'000'000;
constexpr size_t strangers_max = 256;  // most unproven connections, besides the ranks that are still missing
constexpr uint64_t exchange_ns = 500'000'000;  // time for a visitor to prove itself, if no descriptor is left

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

}  // namespace

Acceptor::Acceptor(const MeshRequest &request, std::vector<FileDescriptor> listeners, const Mesh &mesh)
    : request_(request), listeners_(std::move(listeners)), purpose_count_(purpose_count(request)) {
  mesh_.endpoints = mesh.endpoints;
}

Acceptor::~Acceptor() {
  stopped_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

Result<void> Acceptor::start() {
  RONDO_TRY_ASSIGN(thread_, start_thread("accepting ranks of other hosts", [this] {
                     Result<void> result;
                     try {
                       result = run();
                     } catch (const std::bad_alloc &) {
                       result = Error{RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"};  // so short: no allocation
                     }
                     const std::lock_guard lock(mutex_);
                     result_ = std::move(result);
                     ended_.notify_one();
                   }));
  return {};
}

Result<void> Acceptor::finish(Mesh &mesh, Store &store) {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, std::chrono::nanoseconds(retry_ns), [this] { return result_.has_value(); }))
    RONDO_TRY(store.check());  // run() ends at its deadline
  RONDO_TRY(*result_);
  std::ranges::move(mesh_.data, std::back_inserter(mesh.data));
  std::ranges::move(mesh_.control, std::back_inserter(mesh.control));
  return {};
}

Result<void> Acceptor::run() {
  for (uint32_t peer = request_.rank + 1; peer < request_.rank_count; ++peer)
    for (uint32_t purpose = 0; purpose < purpose_count_; ++purpose) missing_ += request_.has(peer, purpose) ? 1 : 0;
  came_.resize(size_t{request_.rank_count} * purpose_count_);
  while (missing_ != 0) {
    if (stopped_.load(std::memory_order_relaxed)) return {};
    if (now_ns() >= request_.deadline_ns) return name_missing();
    wait();
    for (const FileDescriptor &listener : listeners_) RONDO_TRY(accept_all(listener));
    for (Visitor &visitor : visitors_) {
      const VisitOutcome outcome = now_ns() - visitor.came_ns > stranger_patience_ns ? VisitOutcome::stranger
                                                                                     : advance(visitor, request_);
      if (outcome == VisitOutcome::member && admit(visitor)) --missing_;
      if (outcome != VisitOutcome::pending) visitor.socket.reset();
    }
    std::erase_if(visitors_, [](const Visitor &visitor) { return !visitor.socket.valid(); });
  }
  return {};
}

void Acceptor::wait() {
  std::vector<pollfd> descriptors;
  const bool paused = now_ns() < accept_again_ns_;
  for (const FileDescriptor &listener : listeners_) descriptors.push_back({paused ? -1 : listener.get(), POLLIN, 0});
  for (const Visitor &visitor : visitors_) descriptors.push_back({visitor.socket.get(), POLLIN, 0});
  ::poll(descriptors.data(), descriptors.size(), poll_timeout_ms(paused ? accept_again_ns_ : request_.deadline_ns));
}

/// Accepts visitors. Without a free descriptor, closes the oldest visitor after exchange_ns, or fails if none is left.
Result<void> Acceptor::accept_all(const FileDescriptor &listener) {
  for (size_t count = 0; count < strangers_max; ++count) {
    FileDescriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const int why = socket.valid() ? 0 : errno;
    pollfd waiting{listener.get(), POLLIN, 0};  // without a free descriptor accept() fails even if nobody waits
    if (why != 0 && (!ran_out(why) || ::poll(&waiting, 1, 0) <= 0)) return {};
    if (why != 0 && visitors_.empty()) return system_error("accept of a rank of another host", why);
    const bool waits = why != 0 && now_ns() - visitors_.front().came_ns < exchange_ns;
    if (waits) accept_again_ns_ = now_ns() + retry_ns;
    if (waits) return {};
    if (why != 0 || visitors_.size() >= missing_ + strangers_max) visitors_.erase(visitors_.begin());
    if (why != 0) continue;
    visitors_.emplace_back();
    visitors_.back().socket = std::move(socket);
    visitors_.back().came_ns = now_ns();
  }
  return {};
}

/// Adds the visitor to the mesh. Returns false if its rank does not exist, or is connected already.
bool Acceptor::admit(Visitor &visitor) {
  const auto rank = number_at<uint32_t>(visitor.theirs.data() + claim_offset);
  const auto purpose = number_at<uint32_t>(visitor.theirs.data() + claim_offset + 4);
  if (rank <= request_.rank || rank >= request_.rank_count || !request_.has(rank, purpose)) return false;
  if (came_[size_t{rank} * purpose_count_ + purpose]) return false;
  came_[size_t{rank} * purpose_count_ + purpose] = true;
  add_socket(request_, mesh_, rank, purpose, std::move(visitor.socket),
             frame_keys(request_, wire::Role::server, visitor.theirs, visitor.own));
  return true;
}

Error Acceptor::name_missing() const {
  Error error{RONDO_ERROR_TIMEOUT, ""};
  std::string here;
  for (uint32_t peer = request_.rank + 1; peer < request_.rank_count; ++peer) {
    uint32_t purpose = 0;
    const auto came = [&] { return came_[size_t{peer} * purpose_count_ + purpose]; };
    while (purpose < purpose_count_ && (!request_.has(peer, purpose) || came())) ++purpose;
    if (purpose == purpose_count_) continue;
    if (error.peer < 0) {
      error.peer = static_cast<int32_t>(peer);
      here = format_endpoint(mesh_.endpoints[request_.rank][rail_of(request_, purpose)]);
    }
    error.message += (error.message.empty() ? "" : ", ") + request_.group.infos[peer].describe(peer);
  }
  error.message = "no connection arrived in time at " + here + " from " + error.message +
                  "; check the firewalls between the hosts, or choose the network with RONDO_INTERFACE";
  return error;
}

}  // namespace rondo::hosts
