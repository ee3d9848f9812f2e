// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/ucx_network.h"

#include <errno.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "src/base/clock.h"
#include "src/base/unique_handle.h"
#include "src/bootstrap/store/store.h"
#include "transports/ucx/receiver.h"
#include "transports/ucx/worker.h"

namespace rondo::ucx {
namespace {

constexpr int progress_rounds_max = 16;
constexpr uint64_t close_patience_ns = 1'000'000'000;
/// If no more sent bytes than this lack the peer's credit, all of them have left UCX. The smallest buffer of a socket
/// holds this number of bytes, so the kernel or a device has them.
constexpr uint64_t surely_left_bytes = 4096;
constexpr const char *advice =
    "; check the firewalls between the hosts, UCX_TLS, UCX_NET_DEVICES and the MTU of these devices, or set "
    "RONDO_NETWORK=tcp";

/// Says whether everything sent to the peer leaves without further calls.
bool has_left(const Peer &peer) {
  if (peer.lost) return true;
  return peer.outstanding == 0 && (peer.flushed == peer.sent || peer.uncredited_bytes <= surely_left_bytes);
}

class UcxNetwork final : public net::Network {
 public:
  UcxNetwork(std::unique_ptr<Worker> worker, const std::vector<net::NearLink> &links,
             std::vector<Introduction> introductions, const JoinRequest &request);
  ~UcxNetwork() override;
  Result<void> connect(const JoinRequest &request, Store &store);
  void progress();

  const char *name() const override { return "ucx"; }
  bool put(uint32_t link, const net::Message &message) override;
  bool credit(uint32_t link, uint64_t consumed) override;
  uint32_t poll(std::span<net::Event> events) override;
  bool flushed() const override;
  void watch(std::vector<pollfd> &descriptors) const override;
  Error why_lost(uint32_t peer) const override;
  Result<void> takes_device_memory() const override { return takes_device_memory_; }

 private:
  void settle_device_memory(const JoinRequest &request);
  [[nodiscard]] static const char *advice_of_slots(const Peer &peer);
  void greet(Peer &peer, uint32_t own_rank);
  /// Handles the return value of a UCX function that starts an operation. The value is null if the operation has ended.
  /// Otherwise it is an error, or a request that will call back.
  void begun(Operation &operation, ucs_status_ptr_t said, const char *what);
  void send(Operation &operation, const Header &header, const std::byte *payload, ucs_memory_type_t type);
  void send_credits();
  void start_flushes();
  void close(Peer &peer);

  static void on_sent(void *, ucs_status_t status, void *operation);
  static void on_flushed(void *, ucs_status_t status, void *operation);
  static void on_failure(void *peer, ucp_ep_h, ucs_status_t status);

  std::unique_ptr<Worker> worker_;
  const Api &api_;
  std::vector<RequestBlock> requests_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Link> links_;
  Receiver receiver_{*worker_, peers_};
  FileDescriptor ready_;     ///< always readable, for a caller that must not sleep
  Result<void> takes_device_memory_;
  bool more_ = false;        ///< poll() had no room for all events
  mutable bool flush_wanted_ = false;
};

UcxNetwork::UcxNetwork(std::unique_ptr<Worker> worker, const std::vector<net::NearLink> &links,
                       std::vector<Introduction> introductions, const JoinRequest &request)
    : worker_(std::move(worker)), api_(worker_->api()), links_(links.size()), ready_(::eventfd(1, EFD_CLOEXEC)) {
  for (Introduction &each : introductions) {
    auto peer = std::make_unique<Peer>();
    peer->name = request.names[each.rank];
    peer->known = std::move(each);
    peers_.push_back(std::move(peer));
  }
  join_links(links_, links, peers_);
  settle_device_memory(request);
  requests_ = lend_requests(links_, peers_, worker_->request_bytes());
}

/// Puts the slots of all links into device memory, or of none.
void UcxNetwork::settle_device_memory(const JoinRequest &request) {
  takes_device_memory_ = worker_->check_device_memory(request.rdma_memory);
  const bool is_host = request.rdma_memory != nullptr && request.rdma_memory->is_in_reach_of_host();
  for (Link &link : links_) {
    if (is_host) link.device_type = UCS_MEMORY_TYPE_HOST;
    if (!takes_device_memory_.ok()) link.ends.device_outgoing = link.ends.device_incoming = nullptr;
  }
}

const char *UcxNetwork::advice_of_slots(const Peer &peer) {
  const Link *const link = first_link(peer);
  const bool own_in_device = link != nullptr && link->ends.device_outgoing != nullptr;
  return own_in_device || peer.known.in_device ? net::device_slots_advice : "";
}

UcxNetwork::~UcxNetwork() {
  for (const auto &peer : peers_) close(*peer);
  const uint64_t deadline_ns = now_ns() + close_patience_ns;
  for (const auto &peer : peers_) {
    while (peer->closing != nullptr && api_.ucp_request_check_status(peer->closing) == UCS_INPROGRESS &&
           now_ns() < deadline_ns)
      worker_->progress();
    if (peer->closing != nullptr) api_.ucp_request_free(peer->closing);
  }
  worker_.reset();  // the worker may still call back here
}

void UcxNetwork::close(Peer &peer) {
  if (peer.endpoint == nullptr) return;
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_EP_CLOSE_FLAG_FORCE;  // everything that had to leave was flushed before
  const ucs_status_ptr_t said = api_.ucp_ep_close_nbx(peer.endpoint, &how);
  peer.endpoint = nullptr;
  peer.closing = UCS_PTR_IS_PTR(said) ? said : nullptr;
}

Result<void> UcxNetwork::connect(const JoinRequest &request, Store &store) {
  if (!ready_.valid()) return system_error("eventfd", errno);
  const auto refused = [&](const Peer &peer, rondo_status_t status, const std::string &what) {
    Error error{status, request.names[request.rank] + " cannot reach " + peer.name + " over UCX: " + what + advice +
                            advice_of_slots(peer)};
    error.peer = static_cast<int32_t>(peer.known.rank);
    return error;
  };
  RONDO_TRY(receiver_.listen());
  for (const auto &each : peers_) {
    Peer &peer = *each;
    auto endpoint = worker_->connect(peer.known.address, on_failure, &peer);
    if (!endpoint.ok()) return refused(peer, RONDO_ERROR_REMOTE, endpoint.error().message);
    peer.endpoint = endpoint.value();
    greet(peer, request.rank);
  }
  StoreWatch watch(store);
  for (;;) {
    const bool moved = worker_->progress();
    const Peer *missing = nullptr;
    for (const auto &peer : peers_) {
      if (peer->lost) return refused(*peer, RONDO_ERROR_REMOTE, peer->why.message);
      if (!peer->proved) missing = peer.get();
    }
    if (missing == nullptr && flushed()) return {};
    RONDO_TRY(watch.look());
    start_flushes();
    if (now_ns() >= request.deadline_ns)
      return refused(missing != nullptr ? *missing : *peers_.front(), RONDO_ERROR_TIMEOUT, "no answer arrived in time");
    if (!moved) yield_core();
  }
}

/// Sends the greeting: a whole slot, from the memory that has the link's slots.
void UcxNetwork::greet(Peer &peer, uint32_t own_rank) {
  peer.hello = {own_rank, peer.known.own_proof};
  const Link *const link = first_link(peer);
  ucp_request_param_t how = request_of(peer.greeting, &peer.greeting);
  how.cb.send = on_sent;
  how.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  how.memory_type = link != nullptr ? link->outgoing_type() : UCS_MEMORY_TYPE_HOST;
  ++peer.sent;
  const std::byte *const slot = link != nullptr ? link->ends.outgoing_payload(0) : nullptr;
  const size_t bytes = link != nullptr ? link->ends.outgoing.geometry.slot_bytes : 0;
  begun(peer.greeting,
        api_.ucp_am_send_nbx(peer.endpoint, hello_id, &peer.hello, sizeof(PeerProof), slot, bytes, &how), "a message");
}

void UcxNetwork::begun(Operation &operation, ucs_status_ptr_t said, const char *what) {
  operation.busy = UCS_PTR_IS_PTR(said);
  if (operation.busy) ++operation.peer->outstanding;
  if (UCS_PTR_IS_ERR(said))
    lose(*operation.peer, std::string("UCX refuses ") + what + ": " + api_.ucs_status_string(UCS_PTR_STATUS(said)));
}

void UcxNetwork::send(Operation &operation, const Header &header, const std::byte *payload, ucs_memory_type_t type) {
  operation.header = header;
  ucp_request_param_t how = request_of(operation, &operation);
  how.cb.send = on_sent;
  how.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  how.memory_type = type;
  Peer &peer = *operation.peer;
  ++peer.sent;
  begun(operation,
        api_.ucp_am_send_nbx(peer.endpoint, slot_id, &operation.header, sizeof(Header), payload, header.bytes, &how),
        "a message");
}

bool UcxNetwork::put(uint32_t index, const net::Message &message) {
  Link &link = links_[index];
  Peer &peer = *link.peer;
  if (peer.lost) return true;
  Operation &operation = link.sends[message.counter % link.sends.size()];
  if (operation.busy) return false;  // the slot's credit arrived before UCX reported the end of the send
  const Header header{peer.known.own_tag,
                      peer.hello.rank,
                      static_cast<uint16_t>(MessageKind::slot),
                      static_cast<uint16_t>(link.ends.channel),
                      message.signature,
                      message.bytes,
                      message.counter,
                      message.consumed};
  peer.uncredited_bytes += wire_bytes(header);
  link.sent = message.counter + 1;
  send(operation, header, message.payload, link.outgoing_type());
  return true;
}

bool UcxNetwork::credit(uint32_t index, uint64_t consumed) {
  links_[index].credit_wanted = consumed;
  send_credits();
  return true;
}

/// Sends the credits. If a link's credit waits for an earlier one to leave, only the latest value is sent.
void UcxNetwork::send_credits() {
  for (Link &link : links_) {
    Peer &peer = *link.peer;
    if (link.credit_wanted == link.credit_sent || link.credit.busy || peer.lost) continue;
    link.credit_sent = link.credit_wanted;
    send(link.credit,
         {peer.known.own_tag, peer.hello.rank, static_cast<uint16_t>(MessageKind::credit),
          static_cast<uint16_t>(link.ends.channel), 0, 0, 0, link.credit_sent},
         nullptr, UCS_MEMORY_TYPE_HOST);
  }
}

void UcxNetwork::progress() {
  for (int round = 0; round < progress_rounds_max && worker_->progress(); ++round) {
  }
}

uint32_t UcxNetwork::poll(std::span<net::Event> events) {
  progress();
  for (const auto &peer : peers_)
    if (peer->lost) close(*peer);
  send_credits();
  if (flush_wanted_) start_flushes();
  return tell(links_, peers_, events, more_);
}

/// Flushes endpoints, because UCX may hold messages in its own buffers. The flush of an endpoint ends when they have
/// left, or over TCP when the peer has answered.
void UcxNetwork::start_flushes() {
  flush_wanted_ = false;
  for (const auto &each : peers_) {
    Peer &peer = *each;
    if (has_left(peer)) continue;
    flush_wanted_ = true;
    if (peer.outstanding != 0) continue;  // a flush may be among them, and it must end before the next one
    peer.flushing = peer.sent;
    ucp_request_param_t how = request_of(peer.flush, &peer.flush);
    how.cb.send = on_flushed;
    const ucs_status_ptr_t said = api_.ucp_ep_flush_nbx(peer.endpoint, &how);
    begun(peer.flush, said, "to flush");
    if (said == nullptr) peer.flushed = peer.flushing;
  }
}

bool UcxNetwork::flushed() const {
  const bool all = std::all_of(peers_.begin(), peers_.end(), [](const auto &peer) { return has_left(*peer); });
  if (!all) flush_wanted_ = true;
  return all;
}

void UcxNetwork::watch(std::vector<pollfd> &descriptors) const {
  const bool flush_waits = flush_wanted_ && std::any_of(peers_.begin(), peers_.end(), [](const auto &peer) {
                             return peer->outstanding == 0 && !has_left(*peer);
                           });
  const bool busy = more_ || flush_waits || !worker_->arm();
  descriptors.push_back({busy ? ready_.get() : worker_->event_descriptor(), POLLIN, 0});
}

Error UcxNetwork::why_lost(uint32_t rank) const {
  for (const auto &peer : peers_) {
    if (peer->known.rank != rank || !peer->lost) continue;
    Error why = peer->why;
    why.message += advice_of_slots(*peer);
    return why;
  }
  return {RONDO_ERROR_INTERNAL, "the connection is not lost"};
}

// UCX calls these functions from progress(), on the polling thread.

void UcxNetwork::on_sent(void *, ucs_status_t status, void *argument) {
  auto &operation = *static_cast<Operation *>(argument);
  operation.busy = false;
  --operation.peer->outstanding;
  if (status != UCS_OK) lose(*operation.peer, "sending failed");
}

void UcxNetwork::on_flushed(void *, ucs_status_t status, void *argument) {
  auto &operation = *static_cast<Operation *>(argument);
  on_sent(nullptr, status, argument);
  if (status == UCS_OK) operation.peer->flushed = operation.peer->flushing;
}

void UcxNetwork::on_failure(void *argument, ucp_ep_h, ucs_status_t status) {
  const auto api = load_api();
  lose(*static_cast<Peer *>(argument), api.ok() ? api.value()->ucs_status_string(status) : "the connection failed");
}

}  // namespace

Result<std::unique_ptr<net::Network>> make_network(const std::vector<net::NearLink> &links,
                                                   const JoinRequest &request, Store &store) {
  auto worker = Worker::open();
  const Result<Bytes> address = worker.ok() ? worker.value()->address() : Result<Bytes>(worker.error());
  const bool in_device = worker.ok() && request.rdma_memory != nullptr &&
                         worker.value()->check_device_memory(request.rdma_memory).ok();
  RONDO_TRY_ASSIGN(auto introductions, exchange_addresses(request, address, in_device, store));
  auto network = std::make_unique<UcxNetwork>(std::move(worker).value(), links, std::move(introductions), request);
  // All ranks wait here, because a rank that stops using the store earlier would seem to have failed.
  Result<void> met = network->connect(request, store);
  if (!met.ok())
    if (auto why = StoreWatch(store).hear_why(); !why.ok()) met = std::move(why);
  // A peer that is not yet connected to all of its peers may still wait for data that UCX holds here, or for an answer.
  const IdleWork work(store, [&network] { network->progress(); });
  RONDO_TRY(check_outcomes(store, request.key_prefix + "/ucx/met", request.rank, request.rank_count, met,
                           request.deadline_ns));
  return std::unique_ptr<net::Network>(std::move(network));
}

}  // namespace rondo::ucx
