// SPDX-License-Identifier: Apache-2.0
// Fuzzes the store's client. A server sends any bytes, with or without the secret, and any reply with a correct tag.
#include "src/bootstrap/store/client_session.h"
#include "tests/fuzz/fuzz_input.h"

using namespace rondo;

namespace {

Bytes server_hello(const Secret &secret) {
  Bytes hello;
  append_bytes(hello, wire::magic_of(wire::Role::server));
  append_bytes(hello, wire::Challenge{});
  append_bytes(hello, wire::prove(secret, wire::Role::server, wire::Challenge{}, wire::Challenge{}));
  return hello;
}

/// Checks that a failed session sends nothing more, and that an answered session has the reply to its request.
void check(StoreClientSession &client) {
  if (client.failure()) fuzz::require(client.output().empty() && !client.in_flight(), "a failed session is silent");
  const auto reply = client.take_reply();
  if (!reply) return;
  fuzz::require(reply->kind != Reply::Kind::parts || reply->first + reply->parts.size() <= reply->total,
                "a page lies within its gather");
  fuzz::require(reply->value.size() <= value_bytes_max, "values are bounded");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz::Input input(data, bytes);
  Secret secret;
  secret.bytes.fill(std::byte{42});
  StoreClientSession client(secret, wire::Challenge{}, "fuzz");
  const bool knows_secret = input.byte() % 4 != 0;
  if (knows_secret) client.receive(server_hello(secret));
  wire::FrameSealer sealer(wire::frame_key(secret, wire::Role::server, wire::Challenge{}, wire::Challenge{}));
  uint64_t now_ns = 1;
  while (!input.empty()) {  // ends: each turn takes a byte
    const uint8_t action = input.byte();
    if (client.open() && !client.in_flight()) {
      Request request;
      request.key = "key";
      client.begin(request, now_ns + action);
    } else if (action % 4 == 0) {
      now_ns += uint64_t{input.byte()} * 50'000'000;
      client.on_time(now_ns);
    } else if (action % 4 == 1 || !knows_secret) {
      client.receive(input.take(input.byte()));
    } else {
      Bytes frame;
      sealer.seal(input.take(input.byte()), frame);
      const size_t split = std::min<size_t>(input.byte(), frame.size());
      client.receive(ByteView(frame).first(split));
      client.receive(ByteView(frame).subspan(split));
    }
    if (!knows_secret) fuzz::require(!client.open(), "a server without the secret is never trusted");
    if (action % 4 == 2) client.sent(client.output().size());
    check(client);
  }
  if (const auto reply = decode_reply(std::as_bytes(std::span(data, bytes))))  // must survive encoding
    fuzz::require(decode_reply(encode(*reply)).has_value(), "a reply survives a round trip");
  return 0;
}
