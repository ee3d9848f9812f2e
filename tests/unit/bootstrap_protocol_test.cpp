// SPDX-License-Identifier: Apache-2.0
// These tests run the store's protocol as state machines, without sockets or sleeping: handshake, frames, attackers.
#include <algorithm>

#include "tests/unit/bootstrap_world.h"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("store handshake: splitting the bytes anywhere changes nothing") {
  for (size_t cut = 0; cut <= wire::client_hello_bytes + wire::proof_bytes; ++cut) {
    CAPTURE(cut);
    Pair pair;
    Bytes sent;
    const auto deliver = [&](const Bytes &bytes) {
      for (const std::byte byte : bytes) {
        if (sent.size() == cut) pair.to_server({});
        sent.push_back(byte);
        pair.to_server(ByteView(&byte, 1));
      }
    };
    if (cut % 2 == 0) {  // byte by byte
      deliver(pair.take_client());
      for (const std::byte byte : pair.take_server()) pair.client.receive(ByteView(&byte, 1));
      deliver(pair.take_client());
    } else {  // each message in two pieces, divided at `cut`
      const Bytes hello = pair.take_client();
      const size_t first = std::min(cut, hello.size());
      pair.to_server(ByteView(hello).first(first));
      pair.to_server(ByteView(hello).subspan(first));
      const Bytes answer = pair.take_server();
      const size_t middle = std::min(cut, answer.size());
      pair.client.receive(ByteView(answer).first(middle));
      pair.client.receive(ByteView(answer).subspan(middle));
      REQUIRE(pair.client.open());
      pair.client.begin(make_request(Request::Kind::put, "k", "v"), no_deadline);
      pair.to_server(pair.take_client());
      REQUIRE(pair.requests.size() == 1);
    }
    CHECK(pair.server.authenticated());
    CHECK(pair.client.open());
  }
}

TEST_CASE("store requests: frames survive any split, by seed") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  World world(seed);
  StoreClientSession client(world.secret, challenge_of(1), "test");
  const uint64_t connection = world.connect();
  for (int turn = 0; turn < 1000 && !client.open(); ++turn) world.carry(connection, client);
  REQUIRE(client.open());
  for (int round = 0; round < 20; ++round) {
    const std::string value(world.between(0, 5000), static_cast<char>('a' + round));
    const std::string key = "key " + std::to_string(round);
    std::optional<Reply> reply;
    for (const Request::Kind kind : {Request::Kind::put, Request::Kind::get}) {
      client.begin(make_request(kind, key, kind == Request::Kind::put ? value : ""), no_deadline);
      for (int turn = 0; turn < 20'000 && client.in_flight(); ++turn) world.carry(connection, client);
      reply = client.take_reply();
      REQUIRE(reply);
    }
    CHECK(text_of(reply->value) == value);
  }
  CHECK(world.hub.take_cut().empty());
}

TEST_CASE("store handshake: a stranger without the secret is cut at its proof, and learns nothing from it") {
  Pair pair;
  StoreClientSession stranger(secret_of(8), challenge_of(5), "test");
  pair.to_server(stranger.output());
  const Bytes answer = pair.take_server();
  stranger.receive(answer);
  REQUIRE(stranger.failure());  // the stranger does not accept the right server, either
  CHECK(stranger.failure()->status == RONDO_ERROR_AUTHENTICATION);
  const Bytes guess(wire::proof_bytes - 1, std::byte{1});
  pair.to_server(guess);
  CHECK_FALSE(pair.server.cut());
  pair.to_server(ByteView(guess).first(1));
  CHECK(pair.server.cut());
  CHECK(pair.server.output().empty());
}

TEST_CASE("store handshake: a server without the secret is refused, and gets nothing but a random number") {
  const Secret other = secret_of(9);
  StoreSession impostor(other, challenge_of(1), 0);
  StoreClientSession client(secret_of(7), challenge_of(2), "test");
  std::vector<Request> requests;
  impostor.receive(client.output(), 0, requests);
  client.sent(client.output().size());
  client.receive(impostor.output());
  REQUIRE(client.failure());
  CHECK(client.failure()->status == RONDO_ERROR_AUTHENTICATION);
  CHECK(client.output().empty());
}

TEST_CASE("store handshake: a recorded connection played back is cut at its proof") {
  Pair first(1);
  Bytes recorded = first.take_client();
  first.to_server(recorded);
  first.client.receive(first.take_server());
  const Bytes proof = first.take_client();
  first.to_server(proof);
  REQUIRE(first.server.authenticated());
  Pair second(2);  // the server's fresh challenge differs
  second.to_server(recorded);
  CHECK_FALSE(second.server.cut());
  second.to_server(proof);
  CHECK(second.server.cut());
  CHECK(second.requests.empty());
}

TEST_CASE("store handshake: bytes sent back to where they came from are refused on both sides") {
  Pair pair;
  const Bytes hello = pair.take_client();
  StoreClientSession echoed(pair.secret, challenge_of(3), "test");
  echoed.receive(copy_of(echoed.output()));
  REQUIRE(echoed.failure());
  CHECK(echoed.failure()->status == RONDO_ERROR_AUTHENTICATION);

  pair.to_server(hello);
  const Bytes answer = pair.take_server();
  Pair reflected(2);
  reflected.to_server(answer);
  CHECK(reflected.server.cut());
  // The client sends back the server's own proof.
  pair.to_server(ByteView(answer).last(wire::proof_bytes));
  CHECK(pair.server.cut());
}

TEST_CASE("store handshake: garbage is cut at the first byte that shows it") {
  const auto magic = wire::magic_of(wire::Role::client);
  for (size_t at = 0; at < wire::magic_bytes; ++at) {
    if (at == 5) continue;  // the version
    CAPTURE(at);
    Pair pair;
    pair.to_server(ByteView(magic).first(at));
    CHECK_FALSE(pair.server.cut());
    const std::byte wrong = magic[at] ^ std::byte{0x20};
    pair.to_server(ByteView(&wrong, 1));
    CHECK(pair.server.cut());
  }
  StoreClientSession client(secret_of(7), challenge_of(2), "test");
  client.receive(bytes_of("HTTP/1.1 400 Bad Request"));
  CHECK(client.failure()->message.find("not a Rondo store") != std::string::npos);
}

TEST_CASE("store handshake: another protocol version is told apart from a wrong secret") {
  StoreClientSession client(secret_of(7), challenge_of(2), "test");
  client.receive(wire::magic_of(wire::Role::server, wire::protocol_version + 1));
  REQUIRE(client.failure());
  CHECK(client.failure()->status == RONDO_ERROR_MISMATCH);
  Pair pair;
  Bytes newer = copy_of(wire::magic_of(wire::Role::client, wire::protocol_version + 1));
  newer.resize(wire::client_hello_bytes);
  pair.to_server(newer);
  CHECK(wire::match_magic(pair.server.output(), wire::Role::server) == wire::MagicMatch::equal);
}

TEST_CASE("store frames: a frame that is changed, repeated, left out or moved is cut, on both sides") {
  const auto frames = [](Pair &pair) {  // two requests in a row, the second after the first's reply
    std::vector<Bytes> taken;
    for (const char *key : {"a", "b"}) {
      pair.client.begin(make_request(Request::Kind::put, key, "value"), no_deadline);
      taken.push_back(pair.take_client());
      wire::FrameSealer sealer(wire::frame_key(pair.secret, wire::Role::server, challenge_of(1001), challenge_of(1)));
      Bytes replies;
      for (uint64_t id = 1; id <= taken.size(); ++id) {  // keeps the last one; a sealer counts from the first
        Reply reply;
        reply.id = id;
        replies.clear();
        sealer.seal(encode(reply), replies);
      }
      pair.client.receive(replies);
      REQUIRE_FALSE(pair.client.failure());
    }
    return taken;
  };
  Bytes frame;
  {
    Pair pair;
    pair.shake_hands();
    frame = frames(pair)[0];
  }
  for (size_t at = 0; at < frame.size(); ++at) {  // each turn flips one bit of another byte
    CAPTURE(at);
    Pair pair;
    pair.shake_hands();
    Bytes changed = frames(pair)[0];
    changed[at] ^= std::byte{1};
    pair.to_server(changed);
    pair.to_server(Bytes(2'000, std::byte{0}));  // the session waits for a longer body, and then refuses it
    if (!pair.server.cut()) {
      pair.now += stall_timeout_ns;
      pair.server.on_time(pair.now);
    }
    CHECK(pair.server.cut());
    CHECK(pair.requests.empty());
  }
  for (const std::vector<size_t> &order : std::vector<std::vector<size_t>>{{0, 0}, {1}, {1, 0}}) {
    Pair pair;
    pair.shake_hands();
    const auto sent = frames(pair);
    for (const size_t at : order) pair.to_server(sent[at]);
    CHECK(pair.server.cut());
  }
  Pair pair;
  pair.shake_hands();
  pair.client.begin(make_request(Request::Kind::get, "a"), no_deadline);
  pair.to_server(pair.take_client());
  Reply reply;
  reply.id = 1;
  pair.server.reply(reply, pair.now);
  Bytes answer = pair.take_server();
  answer.back() ^= std::byte{1};
  pair.client.receive(answer);
  CHECK(pair.client.failure()->status == RONDO_ERROR_AUTHENTICATION);
}

TEST_CASE("store session: a half-open or slow handshake lives until its deadline, not a nanosecond longer") {
  for (const bool slow : {false, true}) {
    Pair pair;
    const Bytes hello = pair.take_client();
    const uint64_t start_ns = pair.now;
    for (size_t at = 0; slow && at < 4; ++at) {  // one byte a second
      pair.now = start_ns + at * second_ns;
      pair.to_server(ByteView(hello).subspan(at, 1));
    }
    REQUIRE(pair.server.deadline_ns() == start_ns + handshake_timeout_ns);
    pair.server.on_time(start_ns + handshake_timeout_ns - 1);
    CHECK_FALSE(pair.server.cut());
    CHECK(pair.server.buffered_bytes() <= wire::client_hello_bytes);
    pair.now = start_ns + handshake_timeout_ns;
    pair.to_server(ByteView(hello).subspan(slow ? 4 : 0));  // the rest arrives too late
    CHECK(pair.server.cut());
  }
}

TEST_CASE("store session: a begun frame and an untaken reply have deadlines of their own") {
  Pair pair;
  pair.shake_hands();
  CHECK(pair.server.deadline_ns() == no_deadline);
  pair.client.begin(make_request(Request::Kind::get, "key"), no_deadline);
  const Bytes frame = pair.take_client();
  pair.to_server(ByteView(frame).first(frame.size() - 1));
  const uint64_t begun_ns = pair.now;
  pair.server.on_time(begun_ns + stall_timeout_ns - 1);
  CHECK_FALSE(pair.server.cut());
  SECTION("the frame is finished in time, the reply not taken") {
    pair.now = begun_ns + stall_timeout_ns - 1;
    pair.to_server(ByteView(frame).last(1));
    REQUIRE(pair.requests.size() == 1);
    CHECK(pair.server.deadline_ns() == no_deadline);
    Reply reply;
    reply.id = 1;
    reply.kind = Reply::Kind::value;
    pair.server.reply(reply, pair.now);
    pair.server.on_time(pair.now + stall_timeout_ns - 1);
    CHECK_FALSE(pair.server.cut());
    pair.server.sent(1, pair.now + stall_timeout_ns - 1);  // progress
    pair.server.on_time(pair.now + stall_timeout_ns);
    CHECK_FALSE(pair.server.cut());
    pair.server.on_time(pair.now + 2 * stall_timeout_ns);
    CHECK(pair.server.cut());
  }
  SECTION("the frame is not finished") {
    pair.server.on_time(begun_ns + stall_timeout_ns);
    CHECK(pair.server.cut());
  }
}

TEST_CASE("store client: it cancels at its deadline and gives up after the grace, neither sooner") {
  Pair pair;
  pair.shake_hands();
  pair.client.begin(make_request(Request::Kind::get, "key"), 100 * second_ns);
  (void)pair.take_client();
  pair.client.on_time(100 * second_ns - 1);
  CHECK(pair.client.output().empty());
  pair.client.on_time(100 * second_ns);
  CHECK_FALSE(pair.client.output().empty());
  pair.client.on_time(100 * second_ns + cancel_grace_ns - 1);
  CHECK_FALSE(pair.client.failure());
  pair.client.on_time(100 * second_ns + cancel_grace_ns);
  REQUIRE(pair.client.failure());
  CHECK(pair.client.failure()->status == RONDO_ERROR_TIMEOUT);
}

TEST_CASE("store session: a client that talks out of turn is cut") {
  const auto send = [](Pair &pair, const std::vector<Request> &all) {
    wire::FrameSealer sealer(wire::frame_key(pair.secret, wire::Role::client, challenge_of(1001), challenge_of(1)));
    for (const Request &request : all) {
      Bytes frame;
      sealer.seal(encode(request), frame);
      pair.to_server(frame);
    }
    return pair.server.cut();
  };
  const auto with_id = [](Request request, uint64_t id) {
    request.id = id;
    return request;
  };
  const Request get = make_request(Request::Kind::get, "k");
  const Request cancel = make_request(Request::Kind::cancel, "");
  struct Case {
    std::vector<Request> requests;
    bool cut;
  };
  for (const Case &each : {Case{{with_id(get, 1)}, false}, Case{{with_id(get, 1), with_id(cancel, 1)}, false},
                           Case{{with_id(get, 1), with_id(get, 2)}, true}, Case{{with_id(get, 2)}, true},
                           Case{{with_id(cancel, 0)}, true}, Case{{with_id(cancel, 1)}, true},
                           Case{{with_id(get, 1), with_id(cancel, 1), with_id(cancel, 1)}, true}}) {
    Pair pair;
    pair.shake_hands();
    CHECK(send(pair, each.requests) == each.cut);
  }
}

TEST_CASE("store messages: each decodes to itself, and a shortened or lengthened one is refused") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    Request request = make_gather("key", static_cast<uint32_t>(random() % 8), 8, std::string(random() % 100, 'x'));
    request.kind = static_cast<Request::Kind>(1 + random() % 8);
    request.id = random();
    request.error = {random() % 2 == 0 ? RONDO_OK : RONDO_ERROR_SYSTEM, ""};
    if (request.kind == Request::Kind::cancel || request.kind == Request::Kind::leave) request.key.clear();
    if (request.kind == Request::Kind::collect) request.first = static_cast<uint32_t>(random() % 8);
    const Bytes body = encode(request);
    const auto decoded = decode_request(body);
    REQUIRE(decoded);
    CHECK(encode(*decoded) == body);
    CHECK(decoded->id == request.id);
    const bool has_value = request.kind == Request::Kind::put || request.kind == Request::Kind::gather;
    const size_t fixed_bytes = body.size() - (has_value ? request.value.size() : 0);
    for (size_t bytes = 0; bytes < fixed_bytes; ++bytes) CHECK_FALSE(decode_request(ByteView(body).first(bytes)));

    Reply reply;
    reply.kind = static_cast<Reply::Kind>(1 + random() % 5);
    reply.id = reply.kind == Reply::Kind::notice ? 0 : random();
    reply.total = 9;
    reply.parts.assign(1 + random() % 9, bytes_from(std::string(random() % 9, 'y')));
    reply.error = {RONDO_ERROR_TIMEOUT, "late"};
    const Bytes answer = encode(reply);
    const auto back = decode_reply(answer);
    REQUIRE(back);
    CHECK(encode(*back) == answer);
    if (reply.kind == Reply::Kind::parts) {
      CHECK_FALSE(decode_reply(ByteView(answer).first(answer.size() - 1)));
      Bytes longer = answer;
      longer.push_back(std::byte{0});
      CHECK_FALSE(decode_reply(longer));
    }
  }
}
