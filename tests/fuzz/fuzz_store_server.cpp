// SPDX-License-Identifier: Apache-2.0
// Fuzzes the store's server. Strangers send any bytes. Members, which know the secret, send any message. Bytes are
// divided anywhere and arrive at any time. The bounds must hold, and no stranger may become a member.
#include "src/bootstrap/store/hub.h"
#include "tests/fuzz/fuzz_input.h"

using namespace rondo;

namespace {

constexpr size_t connections_max = 6;

struct Peer {
  uint64_t connection = 0;
  bool member = false;
  bool proved = false;
  uint64_t next_id = 1;
  std::optional<wire::FrameSealer> sealer;
};

/// Does the handshake as a client that knows the secret.
void prove(StoreHub &hub, Peer &peer, const Secret &secret, const wire::Challenge &server, uint64_t now_ns) {
  const wire::Challenge client{};
  Bytes hello;
  append_bytes(hello, wire::magic_of(wire::Role::client));
  append_bytes(hello, client);
  append_bytes(hello, wire::prove(secret, wire::Role::client, client, server));
  hub.receive(peer.connection, hello, now_ns);
  peer.sealer.emplace(wire::frame_key(secret, wire::Role::client, client, server));
  peer.proved = true;
}

/// Sends a frame with a correct tag. Its body is a well-formed request of a few keys and ranks, or any bytes.
void speak(StoreHub &hub, Peer &peer, fuzz::Input &input, uint64_t now_ns) {
  const uint8_t kind = input.byte();
  Bytes body;
  if (kind % 8 < 6) {
    Request request;
    request.kind = static_cast<Request::Kind>(1 + kind / 8 % 8);
    request.id = request.kind == Request::Kind::cancel ? peer.next_id - 1 : peer.next_id++;
    const bool nameless = request.kind == Request::Kind::cancel || request.kind == Request::Kind::leave;
    if (!nameless) request.key = std::string(1, static_cast<char>('a' + input.byte() % 3));
    request.count = 1 + input.byte() % 4;
    request.rank = input.byte() % 4;
    request.first = request.kind == Request::Kind::collect ? input.byte() % 4 : 0;
    const ByteView value = input.take(input.byte());
    request.value.assign(value.begin(), value.end());
    if (request.kind == Request::Kind::leave) request.error = {value.empty() ? RONDO_OK : RONDO_ERROR_SYSTEM, "why"};
    body = encode(request);
  } else {
    append_bytes(body, input.take(input.byte()));
  }
  Bytes frame;
  peer.sealer->seal(body, frame);
  const size_t split = std::min<size_t>(input.byte(), frame.size());
  hub.receive(peer.connection, ByteView(frame).first(split), now_ns);
  hub.receive(peer.connection, ByteView(frame).subspan(split), now_ns);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz::Input input(data, bytes);
  Secret secret;
  secret.bytes.fill(std::byte{42});
  const HubLimits limits{.member_count = 5, .silent_count = 3, .greeted_count = 2,
                         .store = {.key_count = 4, .total_bytes = 1'000}};
  StoreHub hub(secret, limits);
  std::vector<Peer> peers;
  uint64_t now_ns = 1;
  while (!input.empty()) {  // ends: each turn takes a byte
    const uint8_t action = input.byte();
    if (peers.size() < connections_max && action % 8 == 0 && hub.can_accept()) {
      peers.push_back({});
      peers.back().connection = hub.accept(wire::Challenge{}, now_ns);
      peers.back().member = (action & 64) != 0;
    } else if (action == 0xff) {
      (void)hub.make_room(now_ns);
    } else if (action == 0xfe) {
      hub.rank_ended(input.byte() % 4, now_ns);
    } else if (action % 8 == 1) {
      now_ns += uint64_t{input.byte()} * 100'000'000;
      hub.on_time(now_ns);
    } else if (!peers.empty()) {
      Peer &peer = peers[action / 8 % peers.size()];
      if (action % 8 == 2) {
        hub.closed(peer.connection, now_ns);
      } else if (action % 8 == 3) {
        hub.sent(peer.connection, input.byte(), now_ns);
      } else if (!peer.member) {
        hub.receive(peer.connection, input.take(input.byte()), now_ns);
      } else if (!peer.proved) {
        prove(hub, peer, secret, wire::Challenge{}, now_ns);
      } else {
        speak(hub, peer, input, now_ns);
      }
    }
    for (const StoreHub::Cut &cut : hub.take_cut())
      for (const Peer &peer : peers)
        fuzz::require(peer.connection != cut.connection || peer.member || !cut.authenticated,
                      "no stranger is a member");
    (void)hub.take_ready();
    fuzz::require(hub.connection_count() <= limits.member_count + limits.silent_count + limits.greeted_count,
                  "members are bounded");
    fuzz::require(hub.stranger_count() <= limits.silent_count + limits.greeted_count, "strangers are bounded");
    fuzz::require(hub.core().key_count() <= limits.store.key_count, "keys are bounded");
    fuzz::require(hub.core().used_bytes() <= limits.store.total_bytes, "bytes are bounded");
    fuzz::require(hub.core().waiting_count() <= hub.connection_count(), "each connection waits for one thing at most");
  }
  return 0;
}
